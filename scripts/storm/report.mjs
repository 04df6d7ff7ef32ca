// What storms have shown, as a page.
import { addUp } from './judge.mjs';
import { CALLERS } from './plan.mjs';
import { SPEED } from './time.mjs';

/** Below it a storm was so strong that it shows little. */
export const LEAST_ANSWERED = 0.3;

/** Figures of many storms, by face: `storms` are `{ face, seed, ... }` as `runStorm` gives them. */
export function summary(storms) {
  const faces = new Map();
  const kinds = new Map();
  for (const { face, figures, rows, violations, healMs, heapKb } of storms) {
    const sum = faces.get(face) ?? { storms: 0, violations: 0, healsMs: [], heapsKb: [], figures: new Map() };
    faces.set(face, sum);
    sum.storms += 1;
    sum.violations += violations.length;
    sum.healsMs.push(healMs * SPEED);
    if (heapKb !== undefined) sum.heapsKb.push(heapKb);
    addUp(sum.figures, [['all', figures]]);
    addUp(kinds, rows);
  }
  return { faces, kinds };
}

export function stormPage({ date, machine, versions, seeds, calls, storms, seconds }) {
  const { faces, kinds } = summary(storms);
  const violations = storms.reduce((sum, each) => sum + each.violations.length, 0);
  const all = storms.reduce((sum, { figures }) => sum + figures.calls, 0);
  return `# The storm

${date}: ${machine}. ${storms.length} storms, ${all} calls, ${violations} violations; ${Math.round(seconds / 60)} minutes. \`npm run storm\` makes this page.

${versions.map(([name, version]) => `${name} ${version}`).join(' · ')}

${seeds} seeds, ${calls} calls each on each face. ${CALLERS} callers, each with one tagged call after the other, while the faults of the
seed meet them: some are laid on one call, the others befall everybody. The seed fixes tags, faults and jitter; the
interleaving of the real sockets is not fixed. The library's time and the simulator's run ${SPEED} times as fast as the world's.
In the end every call is held against the server's ledger: answered, it ran once, and the answer is its own; \`false\`, it
did not run; \`'unknown'\`, once or not at all; \`true\`, once; never twice; none pending past its time; no two handshakes of a client side
by side. Then every caller is served again, and when all is closed no timer, socket or listener is left.

## By face

${table(
  [
    'face',
    'storms',
    'calls',
    'answered',
    'false',
    'unknown',
    'of these not run',
    'true',
    'served again after',
    'heap',
    'violations',
  ],
  [...faces].map(([face, { storms: count, violations: wrong, healsMs, heapsKb, figures }]) => {
    const row = figures.get('all');
    return [
      face,
      count,
      row.calls,
      share(row.answered, row.calls),
      share(row.false, row.calls),
      share(row.unknown, row.calls),
      share(row.notRun, row.unknown),
      share(row.true, row.calls),
      `${(median(healsMs) / 1000).toFixed(1)} s, at most ${(Math.max(...healsMs) / 1000).toFixed(1)} s`,
      heapsKb.length === 0 ? '' : `${Math.round(median(heapsKb))} kB a storm`,
      wrong,
    ];
  }),
)}

"Served again after": from the end of the last fault until each of the callers has an answer, in the library's time. "Heap": what a storm
leaves behind when all is closed, the median of those storms that find the process warm.

## By kind of fault

A call counts for the fault that was laid on it, or else for each that was in the world in its time. The last column is what honesty costs: the
caller is told that the call may have run, and it had not.

${table(
  ['fault', 'calls', 'answered', 'false', 'unknown', 'true', 'unknown that had not run'],
  [...kinds]
    .sort(([, one], [, other]) => other.notRun - one.notRun || other.calls - one.calls)
    .map(([kind, row]) => [
      kind,
      row.calls,
      row.answered,
      row.false,
      row.unknown,
      row.true,
      row.unknown === 0 ? '-' : `${row.notRun} (${share(row.notRun, row.unknown)})`,
    ]),
)}
${violations === 0 ? '' : `\n## Violations\n\n${violationList(storms)}\n`}`;
}

function violationList(storms) {
  const lines = storms.flatMap(({ face, seed, violations, shrunk }) => [
    ...violations.slice(0, 10).map((text) => `- ${face}, seed ${seed}: ${oneLine(text)}`),
    ...(shrunk === undefined ? [] : [`- ${face}, seed ${seed}, shrunk: \`${JSON.stringify(shrunk)}\``]),
  ]);
  return lines.join('\n');
}

/** Whether a storm shows anything: where nearly nothing was answered, little can go wrong. */
export function isTooStrong({ figures }) {
  return figures.answered / figures.calls < LEAST_ANSWERED;
}

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}

function share(part, whole) {
  return whole === 0 ? '-' : `${((100 * part) / whole).toFixed(1)} %`;
}

function table(head, rows) {
  return [head, head.map(() => '---'), ...rows]
    .map((cells) => `| ${cells.map(oneLine).join(' | ')} |`)
    .join('\n');
}

function oneLine(text) {
  return String(text).replace(/\s+/g, ' ').replaceAll('|', '\\|');
}
