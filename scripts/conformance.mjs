// The official conformance suite, scenario by scenario, with mcp-holdfast on both SDKs, and for comparison with the
// SDKs alone.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SCENARIOS } from '../test/conformance/scenarios.mjs';
import { COLUMNS, EARLIER, isQuick, LATER, plan, runsAlone } from './conformance/columns.mjs';
import { cellOf, page, readResults, withColumns } from './conformance/report.mjs';
import { clientScenarios, ROOT, runScenario, scoredAt, suiteVersion } from './conformance/suite.mjs';

const HELP = `npm run conformance -- [--peers] [--quick] [--only PATTERN] [--column ID] [--json]

Runs the client scenarios of the official suite (pinned in package.json) with HostedClient on the SDK v1 and with
HostedTransport under the SDK v2's Client.

  --peers          the SDKs alone as well, for comparison (npm run conformance:peers); their failures are only shown
  --quick          all that is not about authorization, and one of each kind that is: what npm test runs
  --only PATTERN   scenarios whose name matches this regular expression
  --column ID      one column only: ${COLUMNS.map(({ id }) => id).join(', ')}
  --json           the results as JSON on stdout, and no table
  --help           this text

A run of all scenarios writes test/conformance/RESULTS.md. What the suite recorded of each scenario stays in
test/conformance/results. Progress is on stderr. Exit status: 0 when ours all passed (a skipped one is no failure),
1 when one did not, 2 for a usage error.`;

const FOLDER = join(ROOT, 'test/conformance');
const RECORD = join(FOLDER, 'results.json');
const PAGE = join(FOLDER, 'RESULTS.md');
const AT_ONCE = 2;

const given = readArguments(process.argv.slice(2));
const all = await clientScenarios();
const scored = { [EARLIER]: await scoredAt(EARLIER), [LATER]: await scoredAt(LATER) };
for (const name of Object.keys(SCENARIOS))
  if (!all.some((scenario) => scenario.name === name)) refuse(`The suite has no scenario ${name} any more`);

const scenarios = all.filter(
  ({ name }) => (!given.quick || isQuick(name)) && (given.only === undefined || given.only.test(name)),
);
if (scenarios.length === 0) refuse('No scenario has such a name');
const columns = COLUMNS.filter(({ id, isOurs }) =>
  given.column === undefined ? isOurs || given.peers : id === given.column,
);
const planned = plan(columns, scenarios);
const startedAt = performance.now();
const outcomes = [];
await runAll(planned);

const found = Object.fromEntries(columns.map((column) => [column.id, columnOf(column)]));
const results = withColumns(readResults(RECORD), suiteVersion(), found);
if (scenarios.length === all.length) {
  writeFileSync(RECORD, `${JSON.stringify(results, null, 2)}\n`);
  writeFileSync(PAGE, page(results, all, scored));
  tell('test/conformance/RESULTS.md is written.');
}
if (given.json)
  process.stdout.write(`${JSON.stringify({ suite: suiteVersion(), columns: found }, null, 2)}\n`);
else process.stdout.write(`${summary()}\n`);
process.exit(outcomes.some(({ column, verdict }) => column.isOurs && verdict === 'failed') ? 1 : 0);

/** At most two at a time; what measures times first, and by itself. */
async function runAll(runs) {
  for (const run of runs.filter(({ scenario }) => runsAlone(scenario))) await runOne(run);
  const waiting = runs.filter(({ scenario }) => !runsAlone(scenario));
  const worker = async () => {
    for (let run = waiting.shift(); run !== undefined; run = waiting.shift()) await runOne(run);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

async function runOne({ column, scenario, revision, judged, refusal }) {
  const folder = join(FOLDER, 'results', column.id, scenario.replaceAll('/', '-'));
  const outcome = { column, revision, ...(await runScenario({ scenario, judged, folder, refusal })) };
  outcomes.push(outcome);
  tell(
    `${String(outcomes.length).padStart(3)}/${planned.length} ${column.id} ${revision} ${scenario}: ${cellOf(outcome)}`,
  );
}

function columnOf(column) {
  const cells = {};
  for (const { name } of scenarios) {
    const outcome = outcomes.find((each) => each.column === column && each.scenario === name);
    if (outcome !== undefined) cells[name] = cellOf(outcome);
  }
  return {
    date: new Date().toISOString().slice(0, 10),
    node: process.versions.node,
    driven: driven(column),
    cells,
  };
}

function driven({ sdk, isOurs }) {
  const of = (path) => JSON.parse(readFileSync(join(ROOT, path, 'package.json'), 'utf8')).version;
  const name = sdk === 'v1' ? '@modelcontextprotocol/sdk' : '@modelcontextprotocol/client';
  const its = `${name} ${of(`node_modules/${name}`)}`;
  return isOurs ? `mcp-holdfast ${of('.')} on ${its}` : its;
}

function summary() {
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(0);
  const lines = columns.map((column) => {
    const own = outcomes.filter((each) => each.column === column);
    const count = (verdict) => own.filter((each) => each.verdict === verdict).length;
    return `${column.title}: ${count('passed')} passed, ${count('failed')} failed, ${count('skipped')} skipped`;
  });
  return [`${suiteVersion()}, ${seconds} s`, ...lines].join('\n');
}

function tell(line) {
  process.stderr.write(`${line}\n`);
}

function refuse(problem) {
  tell(problem);
  process.exit(2);
}

function readArguments(args) {
  const read = { peers: false, quick: false, json: false, only: undefined, column: undefined };
  for (let at = 0; at < args.length; at += 1) {
    const name = args[at];
    const value = args[at + 1];
    if (name === '--help') {
      process.stdout.write(`${HELP}\n`);
      process.exit(0);
    } else if (name === '--peers' || name === '--quick' || name === '--json') read[name.slice(2)] = true;
    else if (name === '--only' && value !== undefined && isPattern(value)) {
      read.only = new RegExp(value);
      at += 1;
    } else if (name === '--column' && COLUMNS.some(({ id }) => id === value)) {
      read.column = value;
      at += 1;
    } else refuse(`Not understood: ${name}\n\n${HELP}`);
  }
  return read;
}

function isPattern(text) {
  try {
    new RegExp(text);
    return true;
  } catch {
    return false;
  }
}
