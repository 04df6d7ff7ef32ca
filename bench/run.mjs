// npm run bench: figures of this machine, as ratios of one run, written to bench/RESULTS.md with their plots.
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { cellFilter, readArguments } from './arguments.mjs';
import { bundleBaseline } from './cpu/bundle.mjs';
import { CONTENDERS } from './cpu/contenders.mjs';
import { peerVersions } from './cpu/peers.mjs';
import { table } from './kit/markdown.mjs';
import { startServer } from './kit/processes.mjs';
import { SECTIONS } from './sections.mjs';

const NAMES = SECTIONS.map(({ name }) => name);
const HELP = `npm run bench -- [--only NAMES] [--quick] [--json] [--no-write] [--rounds N] [--calls N]
                 [--contenders NAMES] [--answers NAMES] [--concurrency NAMES]

What a call costs beside the SDKs, other clients and undici.request by hand; what a loss, a refresh, a session, a tool and a
limit cost; and where the CPU goes. Names are separated by commas.

  --only NAMES         these sections: ${NAMES.join(', ')}
  --quick              fewer rounds and calls, nothing written
  --json               the figures as JSON on standard output, instead of the page
  --no-write           nothing written; nor is it where not all was measured
  --rounds N           alternating rounds (7)
  --calls N            times the usual number of calls in a round (1)
  --contenders NAMES   of the section cpu: ${Object.keys(CONTENDERS).join(', ')}
  --answers NAMES      of the section cpu: json, sse, small, large
  --concurrency NAMES  of the section cpu: 1, 64, 512
  --help               this text

Some fifteen minutes on a machine with nothing else to do. The first run fetches 25 MB of packages into .tmp/bench.
Exit status: 0, or 2 for a usage error.`;

const given = readGiven();
if (given.help) {
  process.stdout.write(`${HELP}\n`);
  process.exit(0);
}
const isWhole = [given.only, given.contenders, given.answers, given.concurrency].every(
  (each) => each.length === 0,
);
const wanted = SECTIONS.filter(({ name }) => given.only.length === 0 || given.only.includes(name));
const startedMs = performance.now();
const options = {
  rounds: given.rounds,
  calls: given.calls,
  quick: given.quick === true,
  names: given.contenders.length > 0 ? given.contenders : Object.keys(CONTENDERS),
  cells: cellFilter(given),
  baseline: await bundleBaseline(),
  say: (line) =>
    process.stderr.write(
      `${String(Math.round((performance.now() - startedMs) / 1_000)).padStart(5)} s  ${line}\n`,
    ),
};

const server = await startServer();
const found = {};
try {
  for (const { name, measure } of wanted) found[name] = await measure(server.port, options);
} finally {
  await server.close();
}

const measured = wanted.filter(({ name }) => found[name] !== undefined);
const targets = measured.flatMap(({ name, targets: of }) => of?.(found[name]) ?? []);
const plots = Object.assign({}, ...measured.map(({ name, plots: of }) => of?.(found[name]) ?? {}));
const facts = {
  date: new Date().toISOString().slice(0, 10),
  machine: `${cpus().length} x ${cpus()[0]?.model.trim() ?? 'unknown processor'}, ${process.platform}`,
  versions: versions(),
};
const text = page();
if (isWhole && !given.noWrite) {
  writeFileSync(new URL('RESULTS.md', import.meta.url), text);
  for (const [file, svg] of Object.entries(plots)) writeFileSync(new URL(file, import.meta.url), svg);
  options.say('bench/RESULTS.md is written');
}
process.stdout.write(given.json ? `${JSON.stringify({ ...facts, targets, ...found }, null, 2)}\n` : text);

function page() {
  const said = facts.versions.map(([name, version]) => `${name} ${version}`).join(', ');
  const promises = targets.map(({ text: promise, found: value, holds }) => [
    promise,
    value,
    holds ? 'yes' : 'no',
  ]);
  const parts = measured.map(({ name, title, page: of }) => `## ${title}\n\n${of(found[name], options)}`);
  return `# Figures

${facts.date}, ${facts.machine}. ${said}. Written by \`npm run bench\`. The machine is shared: read
ratios, not microseconds.

${promises.length === 0 ? '' : `## Promises\n\n${table(['promise', 'found', 'kept'], promises)}\n\n`}${parts.join('\n\n')}
`;
}

function versions() {
  const installed = ['@modelcontextprotocol/sdk', '@modelcontextprotocol/client', 'undici'].map((name) => [
    name,
    JSON.parse(readFileSync(new URL(`../node_modules/${name}/package.json`, import.meta.url), 'utf8'))
      .version,
  ]);
  return [['Node', process.versions.node], ...installed, ...peerVersions()];
}

function readGiven() {
  try {
    return readArguments(process.argv.slice(2), { only: NAMES, contenders: Object.keys(CONTENDERS) });
  } catch (error) {
    process.stderr.write(`${error.message}\n\n${HELP}\n`);
    process.exit(2);
  }
}
