// The examples under examples/, each with its framework's real package, through expiries, a redeploy and lost answers;
// beside each the framework's stock wiring on the same script. The table is kept in examples/frameworks.md.
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { packProject } from './frameworks/install.mjs';
import { playRow } from './frameworks/play.mjs';
import { frameworksPage, summaryOf } from './frameworks/report.mjs';
import { ROWS } from './frameworks/rows.mjs';

const HELP = `npm run test:frameworks -- [--only NAME]... [--write] [--json]

Installs each framework in a folder of its own with this project's tarball, runs its example against a simulated
hosted server, and its stock wiring beside it. Counts at the server.

  --only NAME   this row, or the rows of this folder under examples/, only; may be given again
  --write       writes examples/frameworks.md although not all rows were run
  --json        the figures as JSON on standard output
  --help        this text

Rows: ${ROWS.map(({ name }) => name).join(', ')}.

The first run fetches some 700 MB of packages into .tmp/frameworks; they are kept there for the next. A run of all rows
writes examples/frameworks.md. Exit status: 0 when every promise was kept, 1 when one was broken, 2 for a usage error.`;

const ROOT = fileURLToPath(new URL('../', import.meta.url));
const CACHE = join(ROOT, '.tmp/frameworks');

const given = readArguments(process.argv.slice(2));
const chosen = ROWS.filter((row) => given.only.length === 0 || given.only.some((name) => isNamed(row, name)));
const tarball = await packProject(ROOT, CACHE);

const rows = [];
for (const [index, row] of chosen.entries()) {
  say(`${index + 1}/${chosen.length} ${row.name}`);
  const played = await attempt(row);
  rows.push(played);
  for (const { text, holds, found } of played.claims)
    say(`    ${holds ? 'holds' : 'BROKEN'}  ${text} (${found})`);
  if (!played.holds && played.said) say(`    its last words:\n${played.said.replace(/^/gm, '        ')}`);
}
for (const line of summaryOf(rows)) say(line);

const result = {
  date: new Date().toISOString().slice(0, 10),
  machine: `${cpus().length} cores, ${process.platform} ${process.arch}`,
  versions: [
    ['Node', process.versions.node],
    ['mcp-holdfast', JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).version],
  ],
  rows: rows.map(({ said, ...row }) => row),
};
if (given.json) process.stdout.write(`${JSON.stringify(result, null, 2)}\n`);
if (given.only.length === 0 || given.write) {
  writeFileSync(join(ROOT, 'examples/frameworks.md'), frameworksPage(result));
  say('examples/frameworks.md is written.');
}
const broken = rows.filter(({ holds }) => !holds).length;
say(broken === 0 ? 'Every promise was kept.' : `${broken} of ${rows.length} rows broke a promise.`);
process.exit(broken === 0 ? 0 : 1);

async function attempt(row) {
  try {
    return await playRow(row, { root: ROOT, cache: CACHE, tarball, say });
  } catch (error) {
    const { name, packageName, way } = row;
    const claims = [{ text: 'it could be run', holds: false, found: String(error?.message ?? error) }];
    return { name, packageName, version: '', way, holds: false, claims, own: {}, stock: {} };
  }
}

function isNamed({ name, folder }, wanted) {
  return name === wanted || folder === wanted;
}

function say(line) {
  process.stderr.write(`${line}\n`);
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
    else if (name === '--only' && ROWS.some((row) => isNamed(row, value))) {
      read.only.push(value);
      at += 1;
    } else {
      process.stderr.write(`Not understood: ${name} ${value ?? ''}\n\n${HELP}\n`);
      process.exit(2);
    }
  }
  return read;
}
