// Many replicas, one rate limit and one refresh token: real processes, a real Redis, judged at the server. The figures
// are kept in bench/fleet.md.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { redisVersion } from './fleet/redis.mjs';
import { fleetPage } from './fleet/report.mjs';
import { fleetToolsMissing, playScenario, SCENARIOS } from './fleet/scenarios.mjs';

const REFRESH = 'refresh';
const HELP = `npm run fleet -- [--only NAME]... [--write] [--json]

Runs replicas as processes of their own against a real Redis, one scenario after the other, and counts at the server.

  --only NAME   this scenario only; may be given again
  --write       writes bench/fleet.md although not all scenarios were run
  --json        the figures as JSON on standard output
  --help        this text

Scenarios: ${[...SCENARIOS.map(({ name }) => name), REFRESH].join(', ')}.

All of them take some 15 minutes, and are best run on a machine that has nothing else to do. A run of all of them
writes bench/fleet.md. Exit status: 0 when every promise was kept, 1 when one was broken, 2 for a usage error, 3 where
redis-server or faketime are missing.`;

const ROOT = new URL('../', import.meta.url);
const REFRESH_FLEET = new URL('fleet/refresh-fleet.mjs', import.meta.url);

const given = readArguments(process.argv.slice(2));
const missing = fleetToolsMissing();
if (missing !== undefined) {
  process.stderr.write(`Nothing was run. ${missing}\n`);
  process.exit(3);
}

for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1));

const names = [...SCENARIOS.map(({ name }) => name), ...(existsSync(REFRESH_FLEET) ? [REFRESH] : [])].filter(
  (name) => given.only.length === 0 || given.only.includes(name),
);
const rows = [];
for (const [index, name] of names.entries()) {
  say(`${index + 1}/${names.length} ${name}`);
  for (const row of await play(name)) {
    rows.push(row);
    for (const { text, holds, found, trace } of row.claims) {
      say(`    ${holds ? 'holds' : 'BROKEN'}  ${text} (${found})`);
      for (const line of trace ?? []) say(`        ${line}`);
    }
  }
}

const result = {
  date: new Date().toISOString().slice(0, 10),
  machine: machine(),
  versions: versions(),
  rows,
};
if (given.json) process.stdout.write(`${JSON.stringify(result, null, 2)}\n`);
if (given.only.length === 0 || given.write) {
  writeFileSync(new URL('bench/fleet.md', ROOT), fleetPage(result));
  say('bench/fleet.md is written.');
}
const broken = rows.flatMap(({ claims }) => claims).filter(({ holds }) => !holds).length;
say(broken === 0 ? 'Every promise was kept.' : `${broken} promises were broken.`);
process.exit(broken === 0 ? 0 : 1);

async function play(name) {
  try {
    if (name !== REFRESH) return [await playScenario(name, 'full')];
    const { runRefreshFleet } = await import(REFRESH_FLEET);
    return (await runRefreshFleet()).rows;
  } catch (error) {
    const found = String(error?.stack ?? error);
    return [
      { name, parameters: '', figures: {}, claims: [{ text: 'it could be run', holds: false, found }] },
    ];
  }
}

function say(line) {
  process.stderr.write(`${line}\n`);
}

function machine() {
  return `${cpus().length} cores, ${process.platform} ${process.arch}`;
}

function versions() {
  const ofPackage = (path) => JSON.parse(readFileSync(new URL(path, ROOT), 'utf8')).version;
  const installed = ['ioredis', 'ioredis6', 'redis', '@modelcontextprotocol/sdk', 'oidc-provider'];
  return [
    ['Node', process.versions.node],
    ['Redis', redisVersion()],
    ...installed.map((name) => [name.replace(/6$/, ''), ofPackage(`node_modules/${name}/package.json`)]),
    ['mcp-holdfast', ofPackage('package.json')],
  ];
}

function readArguments(args) {
  const read = { only: [], write: false, json: false };
  for (let at = 0; at < args.length; at += 1) {
    const name = args[at];
    const value = args[at + 1];
    if (name === '--help') {
      process.stdout.write(`${HELP}\n`);
      process.exit(0);
    } else if (name === '--write') read.write = true;
    else if (name === '--json') read.json = true;
    else if (name === '--only' && (value === REFRESH || SCENARIOS.some((each) => each.name === value))) {
      read.only.push(value);
      at += 1;
    } else {
      process.stderr.write(`Not understood: ${name} ${value ?? ''}\n\n${HELP}\n`);
      process.exit(2);
    }
  }
  return read;
}
