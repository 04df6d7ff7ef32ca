// Self time of a CPU profile, by function and by what the function belongs to.
import { findSourceMap } from 'node:module';
import { fileURLToPath } from 'node:url';

/** Not work: waiting for the server, and the profiler's own. */
const NOT_BUSY = new Set(['(idle)', '(root)']);
/** The inspector's own entry, in which the profiler is started and stopped. */
const INSPECTOR = 'dispatch';

/** Shares of the busy time, the largest first. `usPerCall` is busy time under the profiler, which adds some of its own. */
export function selfTimes(profile, { lines, calls }) {
  const places = new Map(profile.nodes.map(({ id, callFrame }) => [id, placeOf(callFrame)]));
  const functions = new Map();
  const modules = new Map();
  let busyUs = 0;
  for (const [at, id] of profile.samples.entries()) {
    const place = places.get(id);
    const us = profile.timeDeltas[at];
    if (NOT_BUSY.has(place.name) || (place.name === INSPECTOR && place.file === '')) continue;
    busyUs += us;
    add(functions, `${place.name}\n${place.file}`, us);
    add(modules, place.module, us);
  }
  const shares = (times) =>
    [...times]
      .sort(([, a], [, b]) => b - a)
      .map(([key, us]) => ({ key, share: us / busyUs, us: us / calls }));
  return {
    usPerCall: busyUs / calls,
    modules: shares(modules).map(({ key, share, us }) => ({ name: key, share, us })),
    lines: shares(functions)
      .slice(0, lines)
      .map(({ key, share, us }) => {
        const [name, file] = key.split('\n');
        return { name, file, share, us };
      }),
  };
}

function placeOf({ functionName, url, lineNumber, columnNumber }) {
  const name = functionName === '' ? '(anonymous)' : functionName;
  if (url === '') return { name, file: '', module: name.startsWith('(') ? name : 'V8' };
  if (url.startsWith('node:')) return { name, file: url, module: 'Node' };
  const packaged = /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\/(.*)$/.exec(url);
  if (packaged !== null) return { name, file: `${packaged[1]}/${packaged[2]}`, module: packaged[1] };
  const source = sourceOf(url, lineNumber, columnNumber);
  if (source === undefined)
    return { name, file: url.slice(url.lastIndexOf('/') + 1), module: 'the benchmark' };
  return { name, file: source, module: `mcp-holdfast ${source.split('/').slice(0, 2).join('/')}` };
}

/** In the source that the build was made of. */
function sourceOf(url, line, column) {
  const path = url.startsWith('file:') ? fileURLToPath(url) : url;
  const entry = findSourceMap(path)?.findEntry(line, column);
  const at = entry?.originalSource?.lastIndexOf('/src/') ?? -1;
  return at < 0 ? undefined : entry.originalSource.slice(at + 1);
}

function add(sums, key, value) {
  sums.set(key, (sums.get(key) ?? 0) + value);
}
