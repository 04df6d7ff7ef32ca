// Calls in a storm of every fault that the simulator knows, on every face, each held against the server's ledger. The
// figures are kept in bench/storm.md.
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus, getPriority } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { openRedis, redisVersion, toolsMissing } from './fleet/redis.mjs';
import { inLanes } from './storm/lanes.mjs';
import { BUILT } from './storm/library.mjs';
import { FACES, KINDS, makePlan } from './storm/plan.mjs';
import { isTooStrong, median, stormPage } from './storm/report.mjs';
import { runStorm } from './storm/run.mjs';
import { shrink, withFaults } from './storm/shrink.mjs';

const FULL = { seeds: 50, calls: 2_000 };
const HELP = `npm run storm -- [--seeds N] [--calls N] [--face NAMES] [--seed N] [--faults KINDS] [--lanes N] [--minutes N]
                    [--shrink] [--write] [--json]

Storms: ${FULL.calls} tagged calls of 16 callers on each face, under the faults that the seed draws. Every call's outcome is held
against the server's ledger.

  --seeds N       seeds 1 to N (default ${FULL.seeds}), or these: 3,5,8
  --calls N       calls on each face (default ${FULL.calls})
  --face NAMES    some of ${FACES.join(',')} (default: all)
  --seed N        this seed alone
  --lanes N       so many processes side by side, each with its share of the seeds: a storm mostly waits (default 1)
  --faults KINDS  these kinds alone, with a comma between them; each may be cut short ("cut in,Redis")
  --minutes N     no further seed after so many
  --shrink        looks for the shortest list of faults with which a storm that went wrong still does
  --write         writes bench/storm.md although not all was run
  --json          the figures as JSON on standard output
  --help          this text

Progress is on standard error. A run with the defaults writes bench/storm.md. Exit status: 0 when nothing was wrong, 1 when
something was, 2 for a usage error, 3 where redis-server is missing.

Kinds of faults: ${KINDS.join(' · ')}.`;

const ROOT = new URL('../', import.meta.url);
/** A storm leaves no more than this behind, on the median: what the process itself still gathers. */
const HEAP_KB = 200;
/** Of each face, in each process: they warm it up. */
const STORMS_TO_WARM_UP = 3;
/** Enough storms for a median. */
const STORMS_FOR_HEAP = 5;

const given = readArguments(process.argv.slice(2));
const missing = toolsMissing('redis-server');
if (missing !== undefined) {
  process.stderr.write(`Nothing was run. ${missing}\n`);
  process.exit(3);
}
setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc');
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1));

const startedAt = performance.now();
const minutesGone = () => (performance.now() - startedAt) / 60_000;
const storms = given.lanes > 1 ? await inLanes(given) : await alone();
const wrong = storms.filter(({ violations }) => violations.length > 0);
const growing = heapsThatGrow();
for (const line of growing) say(line);
const result = {
  date: new Date().toISOString().slice(0, 10),
  machine: machine(),
  versions: versions(),
  seeds: new Set(storms.map(({ seed }) => seed)).size,
  calls: given.calls,
  seconds: (performance.now() - startedAt) / 1000,
  storms,
};
if (given.json) {
  const shown = storms.map((each) => ({ ...each, rows: Object.fromEntries(each.rows) }));
  process.stdout.write(`${JSON.stringify({ ...result, storms: shown }, null, 2)}\n`);
}
if (given.isFull || given.write) {
  writeFileSync(new URL('bench/storm.md', ROOT), stormPage(result));
  say('bench/storm.md is written.');
}
const isWrong = wrong.length + growing.length > 0;
say(isWrong ? `${wrong.length} of ${storms.length} storms went wrong.` : 'No violation.');
process.exitCode = isWrong ? 1 : 0;

/** All seeds in this process, one storm after the other. */
async function alone() {
  const redis = await openRedis();
  const ran = [];
  for (const seed of given.seeds) {
    if (minutesGone() >= given.minutes) break;
    for (const face of given.faces) {
      const isWarm = ran.filter((each) => each.face === face).length >= STORMS_TO_WARM_UP;
      ran.push(await storm(face, seed, { redis, isWarm }));
    }
  }
  for (const each of ran) {
    if (given.shrink && each.violations.length > 0) each.shrunk = await shrunk(each, redis);
  }
  await redis.close();
  return ran;
}

async function storm(face, seed, { redis, isWarm }) {
  const plan = makePlan({ seed, face, calls: given.calls, kinds: given.kinds });
  const before = heapKb();
  const ran = await over(plan, redis);
  const { figures, violations, durationMs } = ran;
  const strong = isTooStrong(ran) ? ', too strong to show much' : '';
  say(
    `${minutesGone().toFixed(1).padStart(5)} min  seed ${seed}, ${face}: ${figures.calls} calls, ${figures.answered} answered, ` +
      `${figures.unknown} unknown (${figures.notRun} not run), ${violations.length} violations, ${(durationMs / 1000).toFixed(1)} s${strong}`,
  );
  for (const text of violations.slice(0, 10)) say(`       ${text}`);
  return { face, seed, ...ran, ...(isWarm && { heapKb: heapKb() - before }) };
}

/** Redis runs on from storm to storm; one that does not use it need not have it. */
function over(plan, redis) {
  return runStorm({ lib: BUILT, plan, redis: plan.face === 'relay' ? undefined : redis });
}

async function shrunk({ face, seed }, redis) {
  const plan = makePlan({ seed, face, calls: given.calls, kinds: given.kinds });
  say(`Shrinking seed ${seed}, ${face}: ${plan.faults.length} faults.`);
  const goesWrong = async (faults) => (await over(withFaults(plan, faults), redis)).violations.length > 0;
  const { faults, runs } = await shrink(plan.faults, goesWrong, {
    onStep: (length) => say(`       ${length} faults`),
  });
  if (faults === undefined) say(`       it does not go wrong again in ${runs} runs`);
  else say(`       ${faults.length} faults after ${runs} runs: ${JSON.stringify(faults)}`);
  return faults;
}

function heapKb() {
  collect();
  return process.memoryUsage().heapUsed / 1024;
}

/** Of each face: what a storm leaves behind, on the median. */
function heapsThatGrow() {
  return given.faces.flatMap((face) => {
    const heaps = storms.filter((each) => each.face === face).flatMap(({ heapKb: left }) => left ?? []);
    if (heaps.length < STORMS_FOR_HEAP || median(heaps) <= HEAP_KB) return [];
    return [`${face}: a storm leaves ${Math.round(median(heaps))} kB of heap behind`];
  });
}

function say(line) {
  process.stderr.write(`${line}\n`);
}

function machine() {
  const priority = getPriority();
  return `${cpus().length} cores, ${process.platform} ${process.arch}${priority > 0 ? `, priority ${priority}` : ''}`;
}

function versions() {
  const ofPackage = (path) => JSON.parse(readFileSync(new URL(path, ROOT), 'utf8')).version;
  const installed = ['@modelcontextprotocol/sdk', '@modelcontextprotocol/client', 'undici', 'ioredis'];
  return [
    ['Node', process.versions.node],
    ['Redis', redisVersion()],
    ...installed.map((name) => [name, ofPackage(`node_modules/${name}/package.json`)]),
    ['mcp-holdfast', ofPackage('package.json')],
  ];
}

function readArguments(args) {
  const read = {
    ...FULL,
    faces: FACES,
    lanes: 1,
    minutes: Number.POSITIVE_INFINITY,
    shrink: false,
    write: false,
    json: false,
  };
  const flags = new Set(['shrink', 'write', 'json']);
  for (let at = 0; at < args.length; at += 1) {
    const name = args[at].replace(/^--/, '');
    const value = args[at + 1] ?? '';
    if (name === 'help') {
      process.stdout.write(`${HELP}\n`);
      process.exit(0);
    } else if (flags.has(name)) read[name] = true;
    else {
      if (!take(read, name, value)) misuse(args[at], value);
      at += 1;
    }
  }
  const { seed, seeds, listed, calls, faces, kinds } = read;
  const isFull =
    seed === undefined &&
    kinds === undefined &&
    seeds >= FULL.seeds &&
    calls >= FULL.calls &&
    faces === FACES;
  const counted = Array.from({ length: seeds }, (_, index) => index + 1);
  const numbers = seed === undefined ? (listed ?? counted) : [seed];
  return { ...read, seeds: numbers, isFull: isFull && read.minutes === Number.POSITIVE_INFINITY };
}

/** False where it is not understood. */
function take(read, name, value) {
  const list = value.split(',').filter((each) => each !== '');
  if (name === 'face') {
    read.faces = list;
    return list.length > 0 && list.every((face) => FACES.includes(face));
  }
  if (name === 'faults') {
    read.kinds = list.flatMap((start) => KINDS.filter((kind) => kind.startsWith(start)));
    return list.length > 0 && list.every((start) => KINDS.some((kind) => kind.startsWith(start)));
  }
  if (name === 'seeds' && value.includes(',')) {
    read.listed = list.map(Number);
    return read.listed.length > 0 && read.listed.every((seed) => Number.isInteger(seed) && seed > 0);
  }
  if (!['lanes', 'seeds', 'seed', 'calls', 'minutes'].includes(name)) return false;
  read[name] = Number(value);
  return value !== '' && read[name] > 0 && (name === 'minutes' || Number.isInteger(read[name]));
}

function misuse(name, value) {
  process.stderr.write(`Not understood: ${name} ${value}\n\n${HELP}\n`);
  process.exit(2);
}
