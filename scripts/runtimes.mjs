// The packed package on every runtime that it is said to work on: a smoke test of both builds, and on Node the unit
// tests. Each runtime is fetched in the version that stands in runtimes/catalog.mjs.
import { copyFileSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installApp, packProject, temporaryFolder } from './runtimes/app.mjs';
import { fetchRuntime, RUNTIMES } from './runtimes/catalog.mjs';
import { lastLines, run } from './runtimes/programs.mjs';

const HELP = `npm run test:runtimes -- [--only NAME[,NAME]...] [--smoke] [--json]

Fetches each runtime into .runtimes/, packs the project, installs the tarball in an empty app, and runs there: a handshake
and a call of a tool on both sides of a token's expiry, under the SDK's client and with HostedClient, as ESM and as
CommonJS; and on Node the unit tests of this project.

  --only NAMES  these runtimes only; may be given again
  --smoke       no unit tests
  --json        the results as JSON on standard output
  --help        this text

Runtimes: ${RUNTIMES.map(({ name }) => name).join(', ')}.

Exit status: 0 when all passed, 1 when something failed, 2 for a usage error, 3 where a runtime could not be fetched.`;

const SDK = '@modelcontextprotocol/sdk@1.32.2';
const SMOKE_FILES = ['scenario.cjs', 'smoke.mjs', 'smoke.cjs'];
const root = fileURLToPath(new URL('..', import.meta.url));
const given = readArguments(process.argv.slice(2));
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1));

const app = temporaryFolder('runtimes');
say('packing, and installing the app');
await installApp(app, [await packProject(root, app), SDK]);
for (const file of SMOKE_FILES) {
  copyFileSync(new URL(`runtimes/${file}`, import.meta.url), join(app, file));
}

const results = [];
for (const runtime of RUNTIMES.filter(({ name }) => given.only.length === 0 || given.only.includes(name))) {
  results.push(await tryRuntime(runtime));
}
process.stdout.write(given.json ? `${JSON.stringify(results, null, 2)}\n` : table(results));
const isMissing = results.some(({ unavailable }) => unavailable !== undefined);
process.exit(results.some(hasFailed) ? 1 : isMissing ? 3 : 0);

async function tryRuntime(runtime) {
  const { name, version } = runtime;
  const way = runtime.fetchOnly ? 'http.fetch' : 'undici';
  say(`${name} ${version}`);
  let program;
  try {
    program = await fetchRuntime(runtime, join(root, '.runtimes'));
  } catch (error) {
    const unavailable = lastLines(error.message, 3);
    say(`    could not be fetched: ${unavailable}`);
    return { name, version, way, unavailable };
  }
  const result = { name, version, way, esm: await smoke(runtime, program, 'smoke.mjs') };
  result.commonJs = await smoke(runtime, program, 'smoke.cjs');
  if (runtime.unitTests && !given.smoke) result.unitTests = await unitTests(program);
  return result;
}

async function smoke(runtime, program, file) {
  const way = runtime.fetchOnly ? 'fetch' : 'undici';
  const { ok, stdout, stderr } = await run(program, [...runtime.run, file, way], { cwd: app });
  const found = ok ? parsed(stdout) : undefined;
  if (found === undefined) return failed(file, lastLines(`${stdout}\n${stderr}`));
  say(`    ${file}: passed`);
  return { ok: true, found };
}

async function unitTests(program) {
  const vitest = join(root, 'node_modules/vitest/vitest.mjs');
  const report = join(app, 'unit-tests.json');
  // A report of the runtime before must not pass for this one's.
  rmSync(report, { force: true });
  const reporters = ['--reporter=json', '--outputFile', report];
  const { ok, stdout, stderr } = await run(program, [vitest, 'run', 'test/unit', ...reporters], {
    cwd: root,
  });
  const counts = readReport(report);
  if (!ok || counts === undefined) {
    const names = counts?.failures.join('\n') ?? '';
    return { ...failed('unit tests', names === '' ? lastLines(`${stdout}\n${stderr}`) : names), ...counts };
  }
  say(`    unit tests: ${counts.passed} passed`);
  return { ok: true, ...counts };
}

function readReport(path) {
  try {
    const { numPassedTests, numFailedTests, testResults } = JSON.parse(readFileSync(path, 'utf8'));
    const failures = testResults
      .filter(({ status }) => status === 'failed')
      .map(({ name, message, assertionResults }) => {
        const broken = assertionResults.filter(({ status }) => status === 'failed');
        return `${name.replace(root, '')}: ${broken.map(({ fullName }) => fullName).join('; ') || message}`;
      });
    return { passed: numPassedTests, failed: numFailedTests, failures };
  } catch {
    return undefined;
  }
}

function failed(what, why) {
  say(`    ${what}: FAILED\n${why.replace(/^/gm, '        ')}`);
  return { ok: false, why };
}

function hasFailed({ esm, commonJs, unitTests }) {
  return [esm, commonJs, unitTests].some((part) => part?.ok === false);
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function table(rows) {
  const lines = [
    ['runtime', 'version', 'by', 'ESM', 'CommonJS', 'unit tests'],
    ...rows.map(({ name, version, way, esm, commonJs, unitTests, unavailable }) =>
      unavailable === undefined
        ? [name, version, way, word(esm), word(commonJs), unitTests === undefined ? '-' : words(unitTests)]
        : [name, version, way, 'not fetched', '', ''],
    ),
  ];
  const widths = lines[0].map((_, at) => Math.max(...lines.map((cells) => cells[at].length)));
  const padded = lines.map((cells) => cells.map((cell, at) => cell.padEnd(widths[at])).join('  '));
  return padded.map((line) => `${line.trimEnd()}\n`).join('');
}

function word({ ok }) {
  return ok ? 'passed' : 'FAILED';
}

function words({ ok, passed, failed: broken }) {
  return ok ? `${passed} passed` : `FAILED (${broken ?? 'not run'}), ${passed ?? 0} passed`;
}

function say(line) {
  process.stderr.write(`${line}\n`);
}

function readArguments(args) {
  const read = { only: [], smoke: false, json: false };
  const names = RUNTIMES.map(({ name }) => name);
  for (let at = 0; at < args.length; at += 1) {
    const name = args[at];
    const values = args[at + 1]?.split(',') ?? [];
    if (name === '--help') {
      process.stdout.write(`${HELP}\n`);
      process.exit(0);
    } else if (name === '--json') read.json = true;
    else if (name === '--smoke') read.smoke = true;
    else if (name === '--only' && values.length > 0 && values.every((value) => names.includes(value))) {
      read.only.push(...values);
      at += 1;
    } else {
      process.stderr.write(`Not understood: ${args.slice(at).join(' ')}\n\n${HELP}\n`);
      process.exit(2);
    }
  }
  return read;
}
