// Changes the modules on which the promises rest, one small change at a time, and asks the tests whether they notice.
// Each change is made in a private copy of the tree; the outcome of a full run is kept in test/mutants/RESULTS.md.
import { fork } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ACCEPTED } from './mutants/accepted.mjs';
import { mutantsOf } from './mutants/generate.mjs';
import { MODULES } from './mutants/list.mjs';

const HELP = `npm run mutants -- [--only FILE] [--match TEXT] [--again FILES] [--quick] [--all] [--lanes N] [--write] [--json]

Makes mutants of the modules of classification, ledger, recovery and refresh, and says which of them no test notices.

  --only FILE   mutants of this file alone (its path, or the end of it: ledger.ts)
  --match TEXT  mutants whose name contains the text alone
  --again FILES takes over what was killed in the outcomes that --json wrote into these files (a list with commas), where
                the module is the same; judges the others
  --quick       every tenth mutant
  --lanes N     so many at a time (default 2, at most 8)
  --all         the accepted ones as well: where a test notices one, its reason is none
  --write       writes test/mutants/RESULTS.md although the run is not the full one
  --json        the outcome as JSON on standard output
  --list        says which mutants there are, and runs nothing
  --help        this text

A full run writes test/mutants/RESULTS.md. Exit status: 0 when each mutant was noticed or is accepted with its reason in
scripts/mutants/accepted.mjs, 1 when one was not, or a test fails without any change, 2 for a usage error.`;

const ROOT = fileURLToPath(new URL('../', import.meta.url));
const LANE = fileURLToPath(new URL('mutants/lane.mjs', import.meta.url));
/** What the tests read; the packages are only pointed to. */
const COPIED = ['src', 'test', 'examples', 'docs', 'scripts', 'package.json', 'tsconfig.json'];
const QUICK = 10;
/** A lane that says nothing for so long is ended; it says itself how long each of its test files may take. */
const SILENCE_MS = 60_000;

const given = readArguments(process.argv.slice(2));
const before = (given.again ?? '')
  .split(',')
  .filter((path) => path !== '')
  .map((path) => JSON.parse(readFileSync(path, 'utf8')));
const modules = MODULES.filter(({ file }) => given.only === undefined || file.endsWith(given.only));
if (modules.length === 0) misuse('--only', given.only);
const mutants = modules.flatMap(chosen);
if (given.list) {
  for (const { file, line, key } of mutants) process.stdout.write(`${file}:${line} ${key}\n`);
  process.exit(0);
}

const kept = new Map(MODULES.map(({ file, tests }) => [file, tests.map((name) => ({ name, kills: 0 }))]));
const startedAt = performance.now();
const folder = mkdtempSync(join(tmpdir(), 'mutants-'));
const children = new Set();
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
});
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(130));

const lanes = await Promise.all(Array.from({ length: given.lanes }, (_, index) => openLane(index)));
const broken = await withoutChange(lanes);
if (broken.length > 0) {
  for (const { by, test, words } of broken)
    say(`fails without any change: ${by} ${test ?? ''} ${words ?? ''}`);
  process.exit(1);
}
const results = await all(mutants, lanes);
for (const lane of lanes) lane.end();
report(results);

function chosen({ file }) {
  const text = readFileSync(join(ROOT, file), 'utf8');
  return mutantsOf(file, text)
    .map((mutant) => ({ ...mutant, original: text, before: earlier(mutant, text) }))
    .filter(({ key }) => given.match === undefined || key.includes(given.match))
    .filter((_, index) => !given.quick || index % QUICK === 0);
}

/** What an earlier run of the same text found out of a mutant, where a test noticed it. */
function earlier({ file, key }, text) {
  return before
    .filter(({ digests }) => digests[file] === digest(text))
    .flatMap(({ mutants: list }) => list)
    .find((each) => each.file === file && each.key === key && ['killed', 'timed out'].includes(each.outcome));
}

function digest(text) {
  return createHash('sha256').update(text).digest('hex');
}

/** A process with a copy of the tree of its own. */
async function openLane(index) {
  const root = join(folder, String(index));
  for (const name of COPIED) cpSync(join(ROOT, name), join(root, name), { recursive: true });
  symlinkSync(join(ROOT, 'node_modules'), join(root, 'node_modules'));
  let child;
  let heard = () => {};
  let count = 0;

  const start = () =>
    new Promise((resolve) => {
      child = fork(LANE, [JSON.stringify({ root })], {
        cwd: root,
        stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
        execArgv: ['--no-warnings'],
      });
      children.add(child);
      child.on('message', (message) => (message.ready === true ? resolve() : heard(message)));
      child.on('exit', () => heard({ outcome: 'ended' }));
    });

  const judge = async (mutant, groups) => {
    count += 1;
    const id = count;
    const { file, original, text } = mutant;
    const answer = await new Promise((resolve) => {
      const late = () => heard({ id, outcome: 'timed out', by: 'the whole run' });
      let timer = setTimeout(late, SILENCE_MS);
      heard = (message) => {
        if (message.silenceMs !== undefined) {
          clearTimeout(timer);
          timer = setTimeout(late, message.silenceMs);
          return;
        }
        if (message.id !== undefined && message.id !== id) return;
        clearTimeout(timer);
        heard = () => {};
        resolve(message);
      };
      child.send({ id, file, original, text, groups });
    });
    if (answer.by === 'the whole run' || answer.outcome === 'ended') {
      await again();
      writeFileSync(join(root, file), original);
    }
    // What ends the process of the tests is noticed as surely as by a failing one.
    return answer.outcome === 'ended' ? { outcome: 'killed', by: 'the end of the process' } : answer;
  };

  const again = async () => {
    child.kill('SIGKILL');
    await start();
  };

  await start();
  return { judge, end: () => child.kill('SIGKILL') };
}

/** The tests themselves, before anything is changed. */
async function withoutChange(crew) {
  const names = [...new Set(modules.flatMap(({ tests }) => tests))];
  const [{ file, original }] = mutants.length > 0 ? mutants : [{}];
  if (file === undefined) return [];
  say(`${names.length} test files without any change ...`);
  const found = [];
  await Promise.all(
    crew.map(async (lane) => {
      for (let name = names.shift(); name !== undefined; name = names.shift()) {
        const answer = await lane.judge({ file, original, text: original }, [[name]]);
        if (answer.outcome !== 'survived') found.push({ ...answer, by: name });
      }
    }),
  );
  return found;
}

async function all(list, crew) {
  const found = new Array(list.length);
  let next = 0;
  let done = 0;
  let unnoticed = 0;
  await Promise.all(
    crew.map(async (lane) => {
      while (next < list.length) {
        const at = next;
        next += 1;
        const mutant = list[at];
        const result = await one(mutant, lane);
        found[at] = result;
        done += 1;
        const isNew = result.outcome === 'survived' && result.reason === undefined;
        if (isNew) {
          unnoticed += 1;
          say(`SURVIVED ${mutant.file}:${mutant.line} ${mutant.key}`);
        }
        if (done % 25 === 0 || done === list.length) {
          const minutes = (performance.now() - startedAt) / 60_000;
          say(`${done}/${list.length}, ${unnoticed} unnoticed, ${minutes.toFixed(1)} min`);
        }
      }
    }),
  );
  return found;
}

async function one(mutant, lane) {
  const tests = kept.get(mutant.file);
  // The files that noticed most so far come first.
  const order = [...tests].sort((a, b) => b.kills - a.kills);
  const { file, line, rule, key } = mutant;
  const reason = ACCEPTED[file]?.[key];
  if (reason !== undefined && !given.all)
    return { file, line, rule, key, outcome: 'accepted', reason, ms: 0 };
  if (mutant.before !== undefined) return mutant.before;
  const began = performance.now();
  const { outcome, by, test, words } = await lane.judge(
    mutant,
    order.map(({ name }) => [name]),
  );
  const killer = tests.find(({ name }) => name === by);
  if (killer !== undefined) killer.kills += 1;
  return {
    file,
    line,
    rule,
    key,
    outcome,
    by,
    test,
    words,
    reason,
    ms: Math.round(performance.now() - began),
  };
}

function report(list) {
  const rows = modules.map(({ file }) => countsOf(file, list));
  const unnoticed = list.filter(({ outcome, reason }) => outcome === 'survived' && reason === undefined);
  const damaged = list.filter(({ outcome }) => outcome === 'broken');
  const isPart = given.match !== undefined || given.quick;
  const isFull = given.only === undefined && !isPart;
  const result = {
    date: new Date().toISOString().slice(0, 10),
    minutes: (performance.now() - startedAt) / 60_000,
    lanes: given.lanes,
    machine: `${cpus().length} × ${cpus()[0]?.model.trim() ?? 'unknown'}`,
    versions: versions(),
    files: rows,
    takenOver: mutants.filter((each) => each.before !== undefined).length,
    digests: Object.fromEntries(mutants.map(({ file, original }) => [file, digest(original)])),
    outdated: isPart ? [] : outdated(list),
  };
  if (isFull || given.write) {
    writeFileSync(join(ROOT, 'test/mutants/RESULTS.md'), page(result, list));
    say('test/mutants/RESULTS.md is written.');
  }
  for (const key of result.outdated)
    say(`accepted, but there is no such mutant, or a test notices it: ${key}`);
  for (const { file, line, key, by } of damaged) say(`could not be judged: ${file}:${line} ${key}: ${by}`);
  if (given.json) process.stdout.write(`${JSON.stringify({ ...result, mutants: list }, null, 2)}\n`);
  else process.stdout.write(`${table(rows)}\n`);
  process.exitCode = unnoticed.length + damaged.length > 0 ? 1 : 0;
}

function countsOf(file, list) {
  const own = list.filter((each) => each.file === file);
  const count = (wanted) => own.filter(wanted).length;
  return {
    file,
    mutants: own.length,
    killed: count(({ outcome }) => outcome === 'killed'),
    timedOut: count(({ outcome }) => outcome === 'timed out'),
    accepted: count(isAccepted),
    unnoticed: count(({ outcome, reason }) => outcome === 'survived' && reason === undefined),
  };
}

function isAccepted({ outcome, reason }) {
  return outcome === 'accepted' || (outcome === 'survived' && reason !== undefined);
}

/** Reasons that explain nothing any more. */
function outdated(list) {
  return modules.flatMap(({ file }) =>
    Object.keys(ACCEPTED[file] ?? {})
      .filter((key) => !list.some((each) => each.file === file && each.key === key && isAccepted(each)))
      .map((key) => `${file} ${key}`),
  );
}

function table(rows) {
  const total = { file: 'together' };
  for (const name of ['mutants', 'killed', 'timedOut', 'accepted', 'unnoticed'])
    total[name] = rows.reduce((sum, row) => sum + row[name], 0);
  const lines = [...rows, ...(rows.length > 1 ? [total] : [])].map(
    (row) =>
      `| ${row.file} | ${row.mutants} | ${row.killed} | ${row.timedOut} | ${row.accepted} | ${row.unnoticed} |`,
  );
  return [
    '| file | mutants | killed | timed out | accepted | unnoticed |',
    '|---|---:|---:|---:|---:|---:|',
    ...lines,
  ].join('\n');
}

function page({ date, minutes, lanes: count, machine, versions: installed, files, takenOver }, list) {
  const lines = [
    '# Mutants',
    '',
    `\`npm run mutants\`, ${date}, ${minutes.toFixed(1)} min, ${count} at a time, ${machine}.`,
    '',
    ...installed.map(([name, version]) => `* ${name} ${version}`),
    '',
    'Each mutant is one small change: a condition turned round, `&&` for `||`, a boundary moved by one, a constant or a',
    'returned word changed, a statement or an early exit dropped. It is killed where a test fails, timed out where the',
    'tests that notice it do so by not coming to an end, and accepted where no caller could tell it from the code.',
    '',
    table(files),
  ];
  if (takenOver > 0)
    lines.push('', `Of these ${takenOver} were killed in an earlier run over the same text of their module.`);
  for (const { file } of files) {
    const left = list.filter((each) => each.file === file && ['accepted', 'survived'].includes(each.outcome));
    if (left.length === 0) continue;
    lines.push('', `## ${file}`, '', '| mutant | why no test tells |', '|---|---|');
    for (const { key, reason } of left) lines.push(`| ${code(key)} | ${reason ?? 'UNNOTICED'} |`);
  }
  return `${lines.join('\n')}\n`;
}

function code(text) {
  return `\`\` ${text.replaceAll('|', '\\|')} \`\``;
}

function versions() {
  const ofPackage = (path) => JSON.parse(readFileSync(join(ROOT, path), 'utf8')).version;
  return [
    ['mcp-holdfast', ofPackage('package.json')],
    ['Node', process.versions.node],
    ['Vitest', ofPackage('node_modules/vitest/package.json')],
    ['TypeScript', ofPackage('node_modules/typescript/package.json')],
  ];
}

function say(line) {
  process.stderr.write(`${line}\n`);
}

function readArguments(args) {
  const read = { lanes: 2, quick: false, all: false, write: false, json: false, list: false };
  const flags = ['quick', 'all', 'write', 'json', 'list'];
  for (let at = 0; at < args.length; at += 1) {
    const name = args[at].replace(/^--/, '');
    const value = args[at + 1];
    if (name === 'help') {
      process.stdout.write(`${HELP}\n`);
      process.exit(0);
    } else if (flags.includes(name)) read[name] = true;
    else if (['only', 'match', 'again'].includes(name) && value !== undefined) {
      read[name] = value;
      at += 1;
    } else if (name === 'lanes' && /^[1-8]$/.test(value ?? '')) {
      read.lanes = Number(value);
      at += 1;
    } else misuse(args[at], value);
  }
  return read;
}

function misuse(name, value) {
  process.stderr.write(`Not understood: ${name} ${value ?? ''}\n\n${HELP}\n`);
  process.exit(2);
}
