// What the run has shown, as a page.
import { CUTS, FORGOTTEN, HERD } from './scenario.mjs';

export function frameworksPage({ date, machine, versions, rows }) {
  const broken = rows.filter(({ holds }) => !holds).length;
  return `# Frameworks

${date}: ${machine}. ${broken === 0 ? 'Every promise was kept.' : `${broken} of ${rows.length} rows broke a promise.`}
\`npm run test:frameworks\` makes this page, with the frameworks' own packages as the lockfiles in these folders have them.

${versions.map(([name, version]) => `${name} ${version}`).join(' · ')}

${table(
  [
    'framework',
    'version',
    'way in',
    'answered',
    'failed',
    'ran twice',
    'token requests',
    'answers lost: runs',
    'result',
    'stock: answered',
    'stock: ran twice',
    'stock: token requests',
    'stock: answers lost: runs',
  ],
  rows.map((row) => [
    row.packageName,
    row.version,
    row.way,
    ...ownCells(row.own),
    row.holds ? 'held' : 'BROKEN',
    ...stockCells(row.stock),
  ]),
)}

The script: an agent calls a tool that must not run twice, at a simulated hosted server whose sessions are bound to their
token. Two expiries, one that the token's lifetime announces and one that comes early; then a redeploy that finds a call
at work and forgets all sessions, after which the agent thinks for a second. After each, ${HERD} calls at once, then one more.
Where sessions are unbound, both expiries are announced and there is no redeploy. \`answered\` is of calls asked; runs and token
requests are counted at the server.

\`answers lost: runs\` is a play of its own: the tool runs, and then ${CUTS.map(({ name, what }) => `${what} (${name})`).join(', or the answer is ')}. Or the
server forgets the session of a call at work (${FORGOTTEN}; not played with the stock wiring, which waits for its own time to
be up). How often it ran for one call, as the server counts, the framework's own retries being on. After each the same
connection is asked once more.

The stock wiring is the framework's own transport, with its own or the SDK's grant of client credentials; where it has none,
with a fetch that brings a token which has not expired (scripts/frameworks/stock/). A server of 2026-07-28 has no
sessions.

Several of these packages ask for Node 22 and run here on ${process.versions.node}: an engine claim of theirs, not a promise of ours.

${rows.map(section).join('\n\n')}
`;
}

/** For a terminal: the same, without the words. */
export function summaryOf(rows) {
  return rows.map(
    ({ name, version, holds, own, stock }) =>
      `${holds ? 'held  ' : 'BROKEN'}  ${name} ${version}: ${ownCells(own).join(', ')} | stock: ${stockCells(stock).join(', ')}`,
  );
}

function ownCells(own) {
  if (own.run === undefined) return ['not run', '', '', '', ''];
  return [
    `${own.run.answered} of ${own.run.asked}`,
    own.failures.length === 0 ? 'none' : own.failures.join('; '),
    own.run.ranTwice,
    own.run.tokenRequests,
    runsOf(own.cuts),
  ];
}

function stockCells(stock) {
  if (stock.run === undefined) return ['not run', '', '', ''];
  const { answered, asked, ranTwice, tokenRequests } = stock.run;
  return [`${answered} of ${asked}`, ranTwice, tokenRequests, runsOf(stock.cuts)];
}

function runsOf(cuts) {
  if (cuts === undefined) return 'not played';
  return cuts.map(({ name, runs }) => `${name} ${runs}`).join(', ');
}

function section({ name, claims, stock }) {
  const lines = claims.map(
    ({ text, holds, found }) => `- ${holds ? 'holds' : 'BROKEN'}: ${text} (${oneLine(found)})`,
  );
  const beside = (stock.cuts ?? []).map(
    ({ name: cut, runs, outcome }) => `${cut}: runs: ${runs}; ${outcome}`,
  );
  if (beside.length > 0) lines.push(`- stock, answers lost: ${oneLine(beside.join('. '))}`);
  if (stock.error !== undefined) lines.push(`- stock: ${oneLine(stock.error)}`);
  return `## ${name}\n\n${lines.join('\n')}`;
}

function table(head, rows) {
  const lines = [head, head.map(() => '---'), ...rows];
  return lines.map((cells) => `| ${cells.map(oneLine).join(' | ')} |`).join('\n');
}

function oneLine(text) {
  return String(text).replace(/\s+/g, ' ').replaceAll('|', '\\|');
}
