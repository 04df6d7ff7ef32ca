// The model check of the connection's states and the fuzz of everything that is read from outside, as long as a night
// allows. Each part runs in a process of its own, in batches whose seeds are told; the outcome is kept in
// test/fuzz/RESULTS.md.
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import fc from 'fast-check';

const HELP = `npm run nightly -- [--runs N] [--seed N] [--only PART] [--minutes N] [--write] [--json]

Checks the connection's states with sequences of events in fake time, and fuzzes what is read from outside.

  --runs N      sequences of events (default 100000); of fuzz, ten times as many inputs
  --seed N      where the seeds of the batches begin (default: by the date); the same seed, the same run
  --only PART   model, fuzz or growth
  --minutes N   no batch begins after so long (default 60)
  --write       writes test/fuzz/RESULTS.md although the run is not the full one
  --json        the outcome as JSON on standard output
  --help        this text

A full run writes test/fuzz/RESULTS.md. A failing case is told with what runs it again. Exit status: 0 when everything
held, 1 when something did not, 2 for a usage error.`;

const ROOT = new URL('../', import.meta.url);
const PARTS = ['model', 'fuzz', 'growth'];
const FULL = 100_000;
const FUZZ_FACTOR = 10;
const BATCH = { model: 1_000, fuzz: 5_000 };
/** A batch takes seconds: what says nothing for so long hangs. */
const SILENCE_MS = 5 * 60_000;
/** One input, waits included. */
const ONE_MS = 30_000;
const MAX_RSS_BYTES = 1024 ** 3;

const given = readArguments(process.argv.slice(2));
if (given.child === undefined) await parent();
else await child(given.child);

async function parent() {
  const parts = given.only === undefined ? PARTS : [given.only];
  const bundle = await bundled();
  const startedAt = performance.now();
  // Growth is measured in CPU time: nothing else of ours may run beside it.
  const together = parts.filter((part) => part !== 'growth');
  let rows;
  try {
    rows = await Promise.all(together.map((part) => inProcess(part, bundle)));
    if (parts.includes('growth')) rows.push(await inProcess('growth', bundle));
  } finally {
    rmSync(bundle, { force: true });
  }
  const result = {
    date: new Date().toISOString().slice(0, 10),
    seed: given.seed,
    minutes: (performance.now() - startedAt) / 60_000,
    machine: `${cpus().length} × ${cpus()[0]?.model.trim() ?? 'unknown'}`,
    versions: versions(),
    parts: rows,
  };
  const isGood = rows.every(({ failures }) => failures.length === 0);
  const isFull =
    given.only === undefined && given.runs >= FULL && rows.every(({ interrupted }) => !interrupted);
  if (isFull || given.write) {
    writeFileSync(new URL('test/fuzz/RESULTS.md', ROOT), page(result));
    say('test/fuzz/RESULTS.md is written.');
  }
  if (given.json) process.stdout.write(`${JSON.stringify(result, null, 2)}\n`);
  else process.stdout.write(`${summary(rows)}\n`);
  process.exitCode = isGood ? 0 : 1;
}

/** Runs one part in a process of its own, which is ended where it hangs. */
function inProcess(part, bundle) {
  const task = JSON.stringify({ part, bundle, runs: given.runs, seed: given.seed, minutes: given.minutes });
  return new Promise((resolve, reject) => {
    const running = spawn(process.execPath, [fileURLToPath(import.meta.url), '--child', task], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let out = '';
    let last = 'nothing yet';
    let watchdog;
    const heard = () => {
      clearTimeout(watchdog);
      watchdog = setTimeout(() => running.kill('SIGKILL'), SILENCE_MS);
    };
    heard();
    running.stdout.on('data', (chunk) => {
      out += chunk;
    });
    running.stderr.setEncoding('utf8').on('data', (chunk) => {
      heard();
      last = chunk.trimEnd().split('\n').at(-1);
      process.stderr.write(chunk);
    });
    running.on('error', reject);
    running.on('close', (code, signal) => {
      clearTimeout(watchdog);
      if (code === 0) return resolve(JSON.parse(out));
      const how =
        signal === 'SIGKILL'
          ? `said nothing for ${SILENCE_MS / 60_000} min: a hang`
          : `ended with ${code ?? signal}`;
      resolve({
        part,
        rows: [],
        failures: [{ name: part, what: `The process ${how}. Last heard: ${last}` }],
      });
    });
  });
}

async function child({ part, bundle, runs, seed, minutes }) {
  const { FUZZ, GROWTH, MOST, connectionModel, growthOf, runsFor } = await import(pathToFileURL(bundle).href);
  const untilMs = performance.now() + minutes * 60_000;
  const outcome = { part, rows: [], failures: [], interrupted: false };
  if (part === 'model') {
    const model = {
      name: 'the states of a connection',
      property: () => connectionModel(),
      file: 'test/model',
    };
    await inBatches(model, runs, BATCH.model);
  } else if (part === 'fuzz') {
    for (const fuzz of FUZZ) {
      await inBatches(
        { ...fuzz, file: 'test/fuzz/fuzz.test.ts' },
        runsFor(fuzz, FUZZ, runs * FUZZ_FACTOR),
        BATCH.fuzz,
      );
    }
  } else {
    for (const growth of GROWTH) {
      const factor = growthOf(growth);
      say(`growth: ${growth.name}: ×${factor.toFixed(1)}`);
      outcome.rows.push({ name: growth.name, factor });
      if (factor >= MOST)
        outcome.failures.push({
          name: growth.name,
          what: `four times the input costs ×${factor.toFixed(1)}`,
        });
    }
  }
  outcome.maxRssBytes = process.resourceUsage().maxRSS * 1024;
  if (outcome.maxRssBytes > MAX_RSS_BYTES)
    outcome.failures.push({ name: part, what: `it took ${Math.round(outcome.maxRssBytes / 1e6)} MB` });
  process.stdout.write(JSON.stringify(outcome));

  async function inBatches({ name, property, file }, count, size) {
    const startedAt = performance.now();
    const row = { name, runs: 0, seeds: [seed, seed], seconds: 0 };
    outcome.rows.push(row);
    for (let batch = 0; row.runs < count; batch += 1) {
      if (performance.now() > untilMs) {
        outcome.interrupted = true;
        break;
      }
      const details = await fc.check(property(), {
        seed: seed + batch,
        numRuns: Math.min(size, count - row.runs),
        timeout: ONE_MS,
        endOnFailure: false,
      });
      row.runs += details.numRuns;
      row.seeds[1] = seed + batch;
      row.seconds = (performance.now() - startedAt) / 1000;
      say(`${part}: ${name}: ${row.runs}/${count}, seed ${seed + batch}`);
      if (!details.failed) continue;
      const failure = {
        name,
        seed: details.seed,
        path: details.counterexamplePath,
        what: `${fc.defaultReportMessage(details)}\n${details.errorInstance?.message ?? ''}`,
      };
      failure.again = again(failure, file);
      outcome.failures.push(failure);
      say(`FAILS ${name}\n${failure.what}\n${failure.again}`);
      // One of a kind is enough: the others would be the same.
      break;
    }
  }
}

/** The command that runs a failing case again. */
function again({ seed, path, what, name }, file) {
  const replayPath = /replayPath="([^"]+)"/.exec(what)?.[1];
  const variables = [`HOLDFAST_SEED=${seed}`, `HOLDFAST_PATH=${path}`];
  if (replayPath !== undefined) variables.push(`HOLDFAST_REPLAY_PATH='${replayPath}'`);
  return `${variables.join(' ')} npx vitest run ${file} -t '${name.replaceAll("'", '.')}'`;
}

/** The tests' own modules, which are TypeScript. */
async function bundled() {
  const folder = new URL('.tmp/', ROOT);
  mkdirSync(folder, { recursive: true });
  const outfile = fileURLToPath(new URL(`nightly-${process.pid}.mjs`, folder));
  await build({
    stdin: {
      contents: `export * from './test/fuzz/all.ts';
        export * from './test/fuzz/growth.ts';
        export { runsFor } from './test/fuzz/kit.ts';
        export { connectionModel } from './test/model/property.ts';`,
      resolveDir: fileURLToPath(ROOT),
      loader: 'ts',
    },
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    packages: 'external',
    logLevel: 'error',
  });
  return outfile;
}

function summary(parts) {
  return parts
    .map(({ part, rows, failures, interrupted, maxRssBytes = 0 }) => {
      const inputs = rows.reduce((sum, { runs = 1 }) => sum + runs, 0);
      const seconds = rows.reduce((sum, row) => sum + (row.seconds ?? 0), 0);
      const what = { model: 'sequences of events', fuzz: 'inputs', growth: 'costs' }[part];
      const state =
        failures.length > 0 ? `FAILS (${failures.length})` : interrupted ? 'holds, cut short' : 'holds';
      const lines = failures.map(
        ({ name, what: words, again: command = '' }) => `  ${name}\n    ${words}\n    ${command}`,
      );
      return [
        `${state.padEnd(8)} ${part}: ${inputs.toLocaleString('en')} ${what}, ${seconds.toFixed(0)} s, ${Math.round(maxRssBytes / 1e6)} MB`,
        ...lines,
      ].join('\n');
    })
    .join('\n');
}

function page({ date, seed, minutes, machine, versions: list, parts }) {
  const lines = [
    '# Model check and fuzz',
    '',
    `\`npm run nightly\`, ${date}, ${minutes.toFixed(1)} min, seed ${seed}, ${machine}.`,
    '',
    ...list.map(([name, version]) => `* ${name} ${version}`),
    '',
  ];
  for (const { part, rows, failures, interrupted, maxRssBytes = 0 } of parts) {
    const memory = `At most ${Math.round(maxRssBytes / 1e6)} MB in its process.`;
    lines.push(`## ${{ model: 'Model check', fuzz: 'Fuzz', growth: 'Growth of costs' }[part]}`, '');
    if (part === 'growth') {
      lines.push(
        'What four times the input costs, in CPU time, as a multiple. The bound is 10; the square of it is 16.',
        '',
      );
      lines.push(
        '| what is read | ×4 costs |',
        '|---|---|',
        ...rows.map(({ name, factor }) => `| ${name} | ×${factor.toFixed(1)} |`),
      );
    } else {
      lines.push(`${failures.length} failures${interrupted ? ', cut short by the time' : ''}. ${memory}`, '');
      lines.push('| what | runs | seeds | seconds |', '|---|---|---|---|');
      for (const { name, runs, seeds, seconds } of rows)
        lines.push(
          `| ${name} | ${runs.toLocaleString('en')} | ${seeds[0]} to ${seeds[1]} | ${seconds.toFixed(0)} |`,
        );
      const total = rows.reduce((sum, { runs }) => sum + runs, 0);
      if (rows.length > 1) lines.push(`| together | ${total.toLocaleString('en')} | | |`);
    }
    for (const failure of failures)
      lines.push('', `FAILS: ${failure.name}`, '', '```', failure.what, failure.again ?? '', '```');
    lines.push('');
  }
  return lines.join('\n');
}

function versions() {
  const ofPackage = (path) => JSON.parse(readFileSync(new URL(path, ROOT), 'utf8')).version;
  return [
    ['mcp-holdfast', ofPackage('package.json')],
    ['Node', process.versions.node],
    ['fast-check', ofPackage('node_modules/fast-check/package.json')],
  ];
}

function say(line) {
  process.stderr.write(`${line}\n`);
}

function readArguments(args) {
  const read = {
    runs: FULL,
    // A day of its own: each night looks elsewhere.
    seed: Math.floor(Date.now() / 86_400_000) * 1_000,
    only: undefined,
    minutes: 60,
    write: false,
    json: false,
    child: undefined,
  };
  for (let at = 0; at < args.length; at += 1) {
    const name = args[at];
    const value = args[at + 1];
    const number = Number(value);
    if (name === '--help') {
      process.stdout.write(`${HELP}\n`);
      process.exit(0);
    } else if (name === '--json') read.json = true;
    else if (name === '--write') read.write = true;
    else if (name === '--child' && value !== undefined) {
      read.child = JSON.parse(value);
      at += 1;
    } else if (name === '--runs' && Number.isInteger(number) && number >= 1) {
      read.runs = number;
      at += 1;
    } else if (name === '--seed' && Number.isInteger(number)) {
      read.seed = number;
      at += 1;
    } else if (name === '--minutes' && number > 0 && number <= 600) {
      read.minutes = number;
      at += 1;
    } else if (name === '--only' && PARTS.includes(value)) {
      read.only = value;
      at += 1;
    } else {
      process.stderr.write(`Not understood: ${name}\n\n${HELP}\n`);
      process.exit(2);
    }
  }
  return read;
}
