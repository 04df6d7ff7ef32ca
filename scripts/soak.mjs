// Ten minutes of an agent that thinks longer than its proxies wait: nginx and HAProxy with their usual limit of
// 60 s, the SDK's stock client beside mcp-holdfast, everything at the same time. The figures are counted at the
// servers, and the table is kept in bench/soak.md.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { getPriority } from 'node:os';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { build } from 'esbuild';
import { KINDS, OURS, openLane, STOCK } from './soak/lane.mjs';
import { judge, page, table } from './soak/report.mjs';

const HELP = `npm run soak -- [--minutes N] [--limit-seconds N] [--write] [--json]

Runs agents with long pauses behind real nginx and HAProxy, with the SDK's stock client and with mcp-holdfast.

  --minutes N         how long (default 10)
  --limit-seconds N   the proxies' idle limit (default 60); everything else is scaled with it
  --write             writes bench/soak.md although the run is not the full one
  --json              only the figures, as JSON
  --help              this text

A run with the defaults writes bench/soak.md. Exit status: 0 when everything that it must show holds, 1 when
something does not, 2 for a usage error, 3 where nginx or HAProxy are missing.`;

const FULL = { minutes: 10, limitSeconds: 60 };
const REPORTS = 10;
const ROOT = new URL('../', import.meta.url);

const given = readArguments(process.argv.slice(2));
const limitMs = given.limitSeconds * 1000;
const durationMs = given.minutes * 60_000;
const isFull = given.minutes === FULL.minutes && given.limitSeconds === FULL.limitSeconds;
const say = given.json ? () => {} : (line) => process.stdout.write(`${line}\n`);

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc');

const proxies = await loadProxies();
if (proxies.proxiesMissing !== undefined) {
  process.stderr.write(`Nothing was run. ${proxies.proxiesMissing}\n`);
  process.exit(3);
}

const lanes = [];
for (const kind of KINDS) {
  for (const [proxyName, startProxy] of [
    ['nginx', proxies.startNginx],
    ['HAProxy', proxies.startHaproxy],
  ]) {
    for (const clientName of [STOCK, OURS])
      lanes.push(await openLane({ kind, proxyName, startProxy, clientName, limitMs, durationMs }));
  }
}

say(`${lanes.length} lanes, limits of ${given.limitSeconds} s, ${given.minutes} minutes.`);
const startedAt = performance.now();
const heap = [];
const progress = setInterval(report, durationMs / REPORTS);
await Promise.all(lanes.map((lane) => lane.run()));
clearInterval(progress);
report();
const rows = lanes.map((lane) => lane.figures());
await Promise.all(lanes.map((lane) => lane.close()));

const claims = judge(rows, { limitMs, durationMs });
const result = {
  date: new Date().toISOString().slice(0, 10),
  options: { limitMs, durationMs },
  versions: versions(),
  priority: getPriority(),
  memory: `${heap[0]} MB after ${(durationMs / REPORTS / 60_000).toFixed(1)} min, ${heap.at(-1)} MB at the end`,
  rows,
  claims,
};
if (given.json) process.stdout.write(`${JSON.stringify(result, null, 2)}\n`);
say(`\n${table(rows)}\n`);
for (const { text, holds, found } of claims) say(`${holds ? 'holds' : 'FAILS'}  ${text} (${found})`);
if (isFull || given.write) {
  writeFileSync(new URL('bench/soak.md', ROOT), page(result));
  say('\nbench/soak.md is written.');
}
process.exit(claims.every(({ holds }) => holds) ? 0 : 1);

/** One line on how it stands. */
function report() {
  collect();
  heap.push(Math.round(process.memoryUsage().heapUsed / 1e6));
  const minutes = (performance.now() - startedAt) / 60_000;
  const all = lanes.map((lane) => lane.figures());
  const parts = [STOCK, OURS].map((client) => {
    const sum = (figure) =>
      all.filter((row) => row.client === client).reduce((total, row) => total + figure(row), 0);
    const calls = `${sum((row) => row.failed)}/${sum((row) => row.calls)} calls failed`;
    const heard = `${sum((row) => row.received)}/${sum((row) => row.sent)} notifications`;
    return `${client}: ${calls}, ${heard}, ${sum((row) => row.gets)} GETs`;
  });
  say(`${minutes.toFixed(1).padStart(5)} min   ${parts.join('   ')}   heap ${heap.at(-1)} MB`);
  for (const { proxy, server, client, problem } of all)
    if (problem !== undefined && heap.length === 1) say(`    ${proxy}, ${server}, ${client}: ${problem}`);
}

/** The tests' own proxies, which are TypeScript. */
async function loadProxies() {
  const folder = new URL('test/proxies/', ROOT);
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL('proxy.ts', folder))],
    bundle: true,
    platform: 'node',
    format: 'esm',
    write: false,
    define: { 'import.meta.url': JSON.stringify(new URL('tools.ts', folder).href) },
  });
  // What is missing after that is said by the module itself.
  spawnSync('sh', [fileURLToPath(new URL('scripts/ensure-tools.sh', ROOT)), 'nginx', 'haproxy']);
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString('base64')}`);
}

function versions() {
  const said = (program, ...args) => {
    const { stdout, stderr } = spawnSync(program, args, {
      encoding: 'utf8',
      env: { ...process.env, PATH: `${process.env.PATH ?? ''}:/usr/local/sbin:/usr/sbin:/sbin` },
    });
    return /\d+\.\d+\.\d+/.exec(`${stdout}${stderr}`)?.[0] ?? 'unknown';
  };
  const ofPackage = (path) => JSON.parse(readFileSync(new URL(path, ROOT), 'utf8')).version;
  return [
    ['nginx', said('nginx', '-v')],
    ['HAProxy', said('haproxy', '-v')],
    ['Node', process.versions.node],
    ['@modelcontextprotocol/sdk', ofPackage('node_modules/@modelcontextprotocol/sdk/package.json')],
    ['mcp-holdfast', ofPackage('package.json')],
  ];
}

function readArguments(args) {
  const read = { minutes: FULL.minutes, limitSeconds: FULL.limitSeconds, write: false, json: false };
  for (let at = 0; at < args.length; at += 1) {
    const name = args[at];
    const value = Number(args[at + 1]);
    if (name === '--help') {
      process.stdout.write(`${HELP}\n`);
      process.exit(0);
    } else if (name === '--json') read.json = true;
    else if (name === '--write') read.write = true;
    else if (name === '--minutes' && value > 0 && value <= 120) {
      read.minutes = value;
      at += 1;
    } else if (name === '--limit-seconds' && value >= 1 && value <= 600) {
      read.limitSeconds = value;
      at += 1;
    } else {
      process.stderr.write(`Not understood: ${name}\n\n${HELP}\n`);
      process.exit(2);
    }
  }
  return read;
}
