/** What the runs found, kept in `results.json` column by column, and the page that is made of it. */
import { existsSync, readFileSync } from 'node:fs';
import { COLUMNS, EARLIER, LATER, revisionFor } from './columns.mjs';

const ENDS_EARLIER = ' ¹';

/** A cell as it is kept: what passed is a number of checks, what failed has names. */
export function cellOf({ verdict, passed, failed }) {
  if (verdict === 'passed') return `passed ${passed}`;
  return verdict === 'skipped' ? 'skipped' : `failed: ${failed.join(', ')}`;
}

export function readResults(file) {
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : { columns: {} };
}

/** A new run replaces its columns and leaves the others as they were. */
export function withColumns(results, suite, found) {
  const columns = { ...(results.suite === suite ? results.columns : {}), ...found };
  const ordered = COLUMNS.flatMap(({ id }) => (columns[id] === undefined ? [] : [[id, columns[id]]]));
  return { suite, columns: Object.fromEntries(ordered) };
}

export function page({ suite, columns }, scenarios, scored) {
  const shown = COLUMNS.filter(({ id }) => columns[id] !== undefined);
  const lines = [
    '# The official conformance suite',
    '',
    `\`@modelcontextprotocol/conformance\` ${suite}, client scenarios. Written by \`npm run conformance\` (our columns)`,
    'and `npm run conformance:peers` (all of them); not edited by hand.',
    '',
    '| column | date | Node | what was driven | passed | failed | skipped |',
    '|---|---|---|---|---|---|---|',
    ...shown.map(({ id, title }) => {
      const { date, node, driven, cells } = columns[id];
      const count = (start) => Object.values(cells).filter((cell) => cell.startsWith(start)).length;
      return row([title, date, node, driven, count('passed'), count('failed'), count('skipped')]);
    }),
    '',
    'Each scenario is a run of its own, at most two at a time, `sse-retry` alone. *Passed* is the exit status 0, no check',
    'failed or warned of, and at least one passed; beside it the number of checks that did. Names are those of the checks',
    'that did not. Where a client has to refuse, the suite is content with any end of it; of ours the right error is asked.',
    '',
    `On the SDK v1 everything runs at ${EARLIER}, scenarios of ${LATER} too where they are about authorization`,
    '(`--force`); `n/a`: of the later protocol alone, which that SDK does not speak. Under the SDK v2 (version',
    `negotiation \`auto\`) everything runs at ${LATER};${ENDS_EARLIER} at ${EARLIER}, where the suite has no later form.`,
    '`not offered`: the SDK has nothing for it. An app that drives an SDK alone goes on after `UnauthorizedError` with',
    '`finishAuth` and tries each request three times at most.',
    '',
    row(['scenario', 'scored at', ...shown.map(({ title }) => title)]),
    `|${'---|'.repeat(shown.length + 2)}`,
    ...scenarios.map((scenario) =>
      row([
        `\`${scenario.name}\``,
        scoredText(scenario, scored),
        ...shown.map((column) => cellText(column, scenario, columns[column.id].cells[scenario.name])),
      ]),
    ),
    '',
  ];
  return lines.join('\n');
}

function scoredText({ name, revisions }, scored) {
  const at = Object.keys(scored).filter((revision) => scored[revision].has(name));
  if (at.length > 0) return at.join(', ');
  return revisions.length === 0 ? 'extension' : 'not scored';
}

function cellText(column, scenario, cell) {
  const revision = revisionFor(column, scenario);
  if (revision === undefined) return 'n/a';
  if (column.lacks?.includes(scenario.name)) return 'not offered';
  if (cell === undefined) return 'not run';
  const text = cell.startsWith('failed: ')
    ? `**failed**: ${cell
        .slice('failed: '.length)
        .split(', ')
        .map((id) => `\`${id}\``)
        .join(', ')}`
    : cell;
  return column.sdk === 'v2' && revision === EARLIER ? `${text}${ENDS_EARLIER}` : text;
}

function row(cells) {
  return `| ${cells.join(' | ')} |`;
}
