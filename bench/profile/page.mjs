// The profile's top lines.
import { figure, percent, table } from '../kit/markdown.mjs';

const MODULES = 12;

export function profilePage(rows) {
  const cells = rows.map(({ kind, concurrency, usPerCall, modules, lines }) => {
    const some = modules
      .slice(0, MODULES)
      .map(({ name, share, us }) => [name, percent(share, 1), us.toFixed(1)]);
    const top = lines.map(({ name, file, share, us }) => [
      `\`${name}\``,
      file,
      percent(share, 1),
      us.toFixed(1),
    ]);
    return `### ${kind.toUpperCase()}, ${concurrency} at once

Under the profiler ${figure(usPerCall)} µs of a call.

${table(['belongs to', 'self time', 'µs a call'], some)}

${table(['function', 'in', 'self time', 'µs a call'], top)}`;
  });
  return `Self time of calls through HostedClient, everything on, by Node's sampling profiler; waiting is left out. \`writev\` is the
system call that sends a request; "V8" are functions that are built in. Garbage collection is the profiler's own line, whoever made
the garbage.

${cells.join('\n\n')}`;
}
