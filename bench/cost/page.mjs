// What sessions hold and how costs grow, as tables, a plot and promises.
import { figure, table } from '../kit/markdown.mjs';
import { logLines } from '../kit/svg.mjs';

const MOST_HEAP = 60_000;
const MOST_TIMERS = 2;
/** The slope of cost over size on logarithmic scales: 1 is linear; what is above it here is the noise of a shared machine. */
const LINEAR = 1.1;

export function memoryPage({ sessions, ours, bare, timers, inFlight }) {
  const kb = (bytes) => `${figure(bytes / 1_000)} kB`;
  const row = (title, { heap, external, rss }) => [title, kb(heap), kb(external), kb(rss)];
  const places = timers.places.map(([name, count]) => `${figure(count)} by \`${name}\``).join(', ');
  return `${figure(sessions)} idle sessions in one process after a garbage collection, a share each: a credential of its own, a rate limit in
memory, a pinned contract. "Sockets" is a bare undici Agent for each, with one open socket; "at rest" is 14 s later: undici's own
timers hold for ten seconds what it has closed.

${table(
  ['for each', 'heap', 'outside the heap', 'resident'],
  [
    row('sessions, socket open', ours.open),
    row('sockets alone', bare.open),
    [
      'beyond their sockets',
      kb(ours.open.heap - bare.open.heap),
      kb(ours.open.external - bare.open.external),
      kb(ours.open.rss - bare.open.rss),
    ],
    row('at rest, sockets given up', ours.idle),
    row('undici Agents alone, at rest', bare.idle),
    row('at rest, beyond their Agent', {
      heap: ours.idle.heap - bare.idle.heap,
      external: ours.idle.external - bare.idle.external,
      rss: ours.idle.rss - bare.idle.rss,
    }),
  ],
)}

Timers for each idle session, whether or not they keep the process alive, Node's own included: ${timers.perSession.toFixed(2)} (set ${places});
${timers.keepingAlive} in the whole process keep it alive.

${figure(inFlight.calls)} calls in flight on one connection, none answered before the last had arrived: ${figure(inFlight.answered)} answered, ${inFlight.warnings.length}
warnings, ${figure(inFlight.ms)} ms.${said([...inFlight.failures, ...inFlight.warnings])}`;
}

export function memoryTargets({ ours, bare, timers, inFlight }) {
  const heap = beyond(ours, bare);
  return [
    {
      text: `at most ${MOST_HEAP / 1_000} kB of heap for an idle session beyond its socket, at 1,000 of them`,
      found: `${figure(heap / 1_000)} kB`,
      holds: heap <= MOST_HEAP,
    },
    {
      text: `at most ${MOST_TIMERS} timers for an idle session`,
      found: timers.perSession.toFixed(2),
      holds: timers.perSession <= MOST_TIMERS + 0.01,
    },
    {
      text: `${figure(inFlight.calls)} calls in flight on one connection without a warning`,
      found: `${figure(inFlight.answered)} answered, ${inFlight.warnings.length} warnings`,
      holds: inFlight.answered === inFlight.calls && inFlight.warnings.length === 0,
    },
  ];
}

export function growthPage(rows) {
  return `CPU at three sizes, each in a process of its own. The exponent is the slope of the whole cost over the size, from the middle size to
the largest: 1 is linear. Each call in flight has a socket of its own: of ten thousand, nearly half of the CPU is \`connect\` in the
system, and a quarter undici's Pool, which looks through its sockets for a free one at every request.

${table(
  ['of', 'size', 'µs a unit', 'whole, ms', 'µs for an ordinary call beside it', 'exponent'],
  rows.flatMap(({ axis, unit, points, exponent }) =>
    points.map(({ size, unitUs, callUs, failed }, at) => [
      at === 0 ? `${axis}: ${unit}` : '',
      `${figure(size)}${failed > 0 ? ` (${figure(failed)} failed)` : ''}`,
      figure(unitUs),
      figure((unitUs * size) / 1_000),
      figure(callUs),
      at === points.length - 1 ? exponent.toFixed(2) : '',
    ]),
  ),
)}

![Cost against size](growth.svg)`;
}

export function growthPlots(rows) {
  return {
    'growth.svg': logLines({
      title: 'Client CPU against size; dashed: linear growth from the middle point',
      xLabel: 'sessions, tools, calls in flight',
      yLabel: 'CPU, ms',
      series: rows.map(({ axis, points }) => ({
        name: axis,
        points: points.map(({ size, unitUs }) => [size, Math.max(0.001, (unitUs * size) / 1_000)]),
      })),
      guideAt: 1,
      format: (value) => value.toLocaleString('en-GB', { maximumSignificantDigits: 3 }),
    }),
  };
}

export function growthTargets(rows) {
  return rows.map(({ axis, points, exponent }) => {
    const failed = points.reduce((sum, point) => sum + point.failed, 0);
    return {
      text: `cost of ${axis}: linear or better`,
      found: `exponent ${exponent.toFixed(2)}${failed > 0 ? `, ${figure(failed)} failed` : ''}`,
      holds: exponent <= LINEAR && failed === 0,
    };
  });
}

function beyond(ours, bare) {
  return ours.idle.heap - bare.idle.heap;
}

function said(lines) {
  return lines.length === 0 ? '' : `\n\n${lines.map((line) => `* ${line}`).join('\n')}`;
}
