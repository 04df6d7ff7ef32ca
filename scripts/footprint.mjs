// What an install costs: packages and megabytes of mcp-holdfast and of what people use today, each in an app of its own;
// and how long our entries take to be imported. A run of all of them writes bench/footprint.md.
import { existsSync, lstatSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installApp, packProject, temporaryFolder } from './runtimes/app.mjs';
import { run } from './runtimes/programs.mjs';

const OURS = 'mcp-holdfast';
const SDK_V1 = '@modelcontextprotocol/sdk';
const PEERS = [
  ['@modelcontextprotocol/client', '2.4.0'],
  [SDK_V1, '1.32.2'],
  ['mcp-remote', '0.15.1'],
  ['@ai-sdk/mcp', '2.0.99'],
  ['@openai/agents', '0.20.0'],
  ['@langchain/mcp-adapters', '1.1.4'],
  ['@mastra/mcp', '2.0.0'],
];
const MOST_PACKAGES = 15;
const SAMPLES = 15;
/** In order: the first two are ours and always ready, the others are what an app brings. */
const IMPORTED = [OURS, `${OURS}/testing`, 'undici', 'openid-client'];
const WITH_SDK = [`${OURS}/client`, `${SDK_V1}/client/index.js`];

const HELP = `npm run footprint -- [--only NAME]... [--write] [--json]

Installs the packed project, and each package that it is compared with, in an empty app, and counts. Then times the
import of our entries, ${SAMPLES} processes each.

  --only NAME   this package only; may be given again
  --write       writes bench/footprint.md although not all packages were installed
  --json        the figures as JSON on standard output
  --help        this text

Packages: ${[OURS, ...PEERS.map(([name]) => name)].join(', ')}.

A run of all of them writes bench/footprint.md. Exit status: 0 when ours has fewer than ${MOST_PACKAGES} packages and brings
no SDK, 1 when not, 2 for a usage error.`;

const ROOT = new URL('../', import.meta.url);
const root = fileURLToPath(ROOT);
const given = readArguments(process.argv.slice(2));
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1));

const packages = [];
let imports = [];
for (const [name, version] of [[OURS, versionOf(root)], ...PEERS]) {
  if (given.only.length > 0 && !given.only.includes(name)) continue;
  say(`${name} ${version}`);
  const app = temporaryFolder('footprint');
  await installApp(app, [name === OURS ? await packProject(root, app) : `${name}@${version}`]);
  const found = { name, version, ...counted(app) };
  packages.push(found);
  say(`    ${found.packages} packages, ${megabytes(found.bytes)} MB`);
  if (name === OURS) imports = await importTimes(app);
  rmSync(app, { recursive: true, force: true });
}

const ours = packages.find(({ name }) => name === OURS);
const broken = ours === undefined ? [] : brokenPromises(ours);
for (const line of broken) say(`BROKEN  ${line}`);
const result = {
  date: new Date().toISOString().slice(0, 10),
  machine: `${cpus().length} cores, ${process.platform} ${process.arch}, Node ${process.versions.node}`,
  packages: packages.map(({ names, ...rest }) => rest),
  own: ours?.names ?? [],
  imports,
  broken,
};
process.stdout.write(given.json ? `${JSON.stringify(result, null, 2)}\n` : `${tables(result)}\n`);
if (given.only.length === 0 || given.write) {
  writeFileSync(new URL('bench/footprint.md', ROOT), page(result));
  say('bench/footprint.md is written.');
}
process.exit(broken.length === 0 ? 0 : 1);

function counted(app) {
  const lock = JSON.parse(readFileSync(join(app, 'package-lock.json'), 'utf8'));
  const paths = Object.keys(lock.packages).filter((path) => path !== '' && existsSync(join(app, path)));
  return {
    packages: paths.length,
    bytes: onDisk(join(app, 'node_modules')),
    names: paths.map((path) => path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)).sort(),
  };
}

/** As `du` counts: whole blocks. */
function onDisk(path) {
  const found = lstatSync(path);
  const own = found.blocks * 512;
  if (!found.isDirectory()) return own;
  return readdirSync(path).reduce((sum, name) => sum + onDisk(join(path, name)), own);
}

function brokenPromises({ packages: count, names }) {
  const promises = [
    [count < MOST_PACKAGES, `fewer than ${MOST_PACKAGES} packages (${count})`],
    [
      !names.some((name) => name.startsWith('@modelcontextprotocol/')),
      'no SDK is installed unless it is asked for',
    ],
    [!names.some((name) => name.startsWith('@opentelemetry/')), 'no telemetry is installed unless asked for'],
  ];
  return promises.filter(([holds]) => !holds).map(([, text]) => text);
}

/** Medians, each sample in a process of its own, one module after the other so that a busy minute meets them all. */
async function importTimes(app) {
  say('import times');
  const times = new Map(IMPORTED.map((specifier) => [specifier, []]));
  await takeSamples(app, times);
  await installApp(app, [join(app, tarballOf(app)), `${SDK_V1}@${Object.fromEntries(PEERS)[SDK_V1]}`]);
  const withSdk = new Map(WITH_SDK.map((specifier) => [specifier, []]));
  await takeSamples(app, withSdk);
  return [...times, ...withSdk].map(([specifier, samples]) => ({ specifier, ...medians(samples) }));
}

async function takeSamples(app, times) {
  for (let round = 0; round < SAMPLES; round += 1) {
    for (const [specifier, samples] of times) samples.push(await importOnce(app, specifier));
  }
}

async function importOnce(app, specifier) {
  const name = JSON.stringify(specifier);
  const code = `
    const from = performance.now();
    const cpuFrom = process.cpuUsage();
    await import(${name});
    const { user, system } = process.cpuUsage(cpuFrom);
    process.stdout.write(JSON.stringify({ ms: performance.now() - from, cpuMs: (user + system) / 1000 }));`;
  const { ok, stdout, stderr } = await run(
    process.execPath,
    ['--no-warnings', '--input-type=module', '--eval', code],
    { cwd: app },
  );
  if (!ok) throw new Error(`${specifier} could not be imported: ${stderr}`);
  return JSON.parse(stdout);
}

function tarballOf(app) {
  return readdirSync(app).find((file) => file.endsWith('.tgz'));
}

function medians(samples) {
  const median = (key) => samples.map((sample) => sample[key]).sort((a, b) => a - b)[samples.length >> 1];
  return { ms: median('ms'), cpuMs: median('cpuMs') };
}

function page(figures) {
  const { date, machine, own, broken: promises } = figures;
  return `# Footprint

${date}: ${machine}. ${promises.length === 0 ? 'Every promise was kept.' : `Broken: ${promises.join('; ')}.`}
\`npm run footprint\` makes this page.

Each package alone in an empty app: \`npm install --ignore-scripts\`, npm's automatic peers included. Packages are the
entries of the lock file that were installed, megabytes what \`node_modules\` takes on disk.

${tables(figures)}

Import times are medians of ${SAMPLES} processes; the CPU's share is given beside the time on the clock, which other
programs lengthen. undici and openid-client are loaded at the first request that needs them, not with the entry
(test/package/imports.test.ts).

What \`npm install mcp-holdfast\` brings: ${own.join(', ')}.
`;
}

function tables({ packages: rows, imports: times }) {
  const own = rows.find(({ name }) => name === OURS);
  const installs = rows.map(({ name, version, packages: count, bytes }) => [
    name,
    version,
    String(count),
    megabytes(bytes),
    own === undefined || name === OURS ? '' : `${(bytes / own.bytes).toFixed(1)} ×`,
  ]);
  const parts = [table(['package', 'version', 'packages', 'MB', 'of ours'], installs)];
  if (times.length > 0) {
    const lines = times.map(({ specifier, ms, cpuMs }) => [specifier, ms.toFixed(0), cpuMs.toFixed(0)]);
    parts.push(table(['import', 'ms', 'CPU ms'], lines));
  }
  return parts.join('\n\n');
}

function table(head, rows) {
  const lines = [head, head.map(() => '---'), ...rows];
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

function megabytes(bytes) {
  const value = bytes / 1024 / 1024;
  return value < 10 ? value.toFixed(1) : value.toFixed(0);
}

function versionOf(folder) {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')).version;
}

function say(line) {
  process.stderr.write(`${line}\n`);
}

function readArguments(args) {
  const read = { only: [], write: false, json: false };
  const names = [OURS, ...PEERS.map(([name]) => name)];
  for (let at = 0; at < args.length; at += 1) {
    const name = args[at];
    const value = args[at + 1];
    if (name === '--help') {
      process.stdout.write(`${HELP}\n`);
      process.exit(0);
    } else if (name === '--write') read.write = true;
    else if (name === '--json') read.json = true;
    else if (name === '--only' && names.includes(value)) {
      read.only.push(value);
      at += 1;
    } else {
      process.stderr.write(`Not understood: ${args.slice(at).join(' ')}\n\n${HELP}\n`);
      process.exit(2);
    }
  }
  return read;
}
