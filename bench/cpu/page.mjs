// The figures per call as tables, plots and promises.
import { figure, ratio, table } from '../kit/markdown.mjs';
import { groupedBars } from '../kit/svg.mjs';
import { CONTENDERS } from './contenders.mjs';

/** No cell above it; where one is above 1.0, the profile says where the rest goes. */
const MOST_TO_BASELINE = 1.3;
const LEAST_TO_STOCK = 4.5;
/** The cells that the promise about the baseline is about. */
const isPromised = ({ size, concurrency }) => size === 'small' && concurrency <= 64;

export function cpuPage(rows, { rounds }) {
  const names = namesIn(rows);
  const titles = names.map((name) => CONTENDERS[name].title);
  return `Client CPU, µs a call: medians of ${rounds} alternating rounds, each contender in a process of its own against the same
server, warm. HostedClient and HostedTransport run with a refreshing client-credentials token, a rate limit in memory (out of
reach) and a pinned contract. The stock clients have a refreshing token; \`@ai-sdk/mcp\`, mcp-remote and the baseline a static
header. mcp-remote is its process and that of the SDK v1 Client before it. The baseline is
[\`baseline.ts\`](baseline.ts): \`undici.request\` and \`JSON.parse\` by hand.

${table(
  ['answer, calls at once', ...titles],
  rows.map((row) => [cellOf(row), ...names.map((name) => figure(row.cpu[name]))]),
)}

![CPU per call, answers of 100 characters](cpu-small.svg)

![CPU per call, answers of 1 MB](cpu-large.svg)

How many times the baseline HostedClient needs (the median of the rounds' own ratios), and how many times HostedClient the others do:

${table(
  [
    'answer, calls at once',
    'HostedClient : baseline',
    ...others(names).map((name) => `${CONTENDERS[name].title} : HostedClient`),
  ],
  rows.map((row) => [
    cellOf(row),
    ratio(row.ratio.client),
    ...others(names).map((name) => ratio(row.cpu[name] / row.cpu.client)),
  ]),
)}

Wall time, µs a call:

${table(
  ['answer, calls at once', ...titles],
  rows.map((row) => [cellOf(row), ...names.map((name) => figure(row.wall[name]))]),
)}`;
}

export function cpuPlots(rows) {
  const names = namesIn(rows);
  const plots = {};
  for (const [size, text, unit, by] of [
    ['small', '100 characters', 'µs', 1],
    ['large', '1 MB', 'ms', 1_000],
  ]) {
    const some = rows.filter((row) => row.size === size);
    if (some.length === 0) continue;
    const quick = names.filter((name) => !CONTENDERS[name].isSlow);
    plots[`cpu-${size}.svg`] = groupedBars({
      title: `Client CPU per call, answers of ${text}`,
      xLabel: 'form of the answer, calls at once',
      yLabel: `CPU per call, ${unit}`,
      series: names.map((name) => CONTENDERS[name].title),
      groups: some.map((row) => ({
        label: `${row.kind.toUpperCase()}, ${row.concurrency}`,
        values: Object.fromEntries(names.map((name) => [CONTENDERS[name].title, row.cpu[name] / by])),
      })),
      cap: Math.max(...some.flatMap((row) => quick.map((name) => row.cpu[name] / by))),
      format: figure,
    });
  }
  return plots;
}

export function cpuTargets(rows) {
  const names = namesIn(rows);
  if (!names.includes('client') || !names.includes('baseline')) return [];
  const small = rows.filter(isPromised);
  const of = (some, value) => some.map((row) => ({ cell: cellOf(row), value: value(row) }));
  const toBaseline = of(small, (row) => row.ratio.client);
  const targets = [];
  const worst = most(toBaseline);
  if (worst !== undefined) {
    targets.push(
      { text: 'CPU per call no more than the baseline', found: saidOf(worst), holds: worst.value <= 1 },
      {
        text: `in no cell above ${MOST_TO_BASELINE}x of it`,
        found: saidOf(worst),
        holds: worst.value <= MOST_TO_BASELINE,
      },
    );
  }
  const least = names.includes('v1') ? fewest(of(small, (row) => row.cpu.v1 / row.cpu.client)) : undefined;
  if (least !== undefined)
    targets.push({
      text: `CPU per call at least ${LEAST_TO_STOCK}x less than the stock SDK v1`,
      found: saidOf(least),
      holds: least.value >= LEAST_TO_STOCK,
    });
  const closest = fewest(
    rows.flatMap((row) =>
      others(names)
        .filter((name) => name !== 'transport' && Number.isFinite(row.cpu[name]))
        .map((name) => ({
          cell: `${CONTENDERS[name].title}, ${cellOf(row)}`,
          value: row.cpu[name] / row.cpu.client,
        })),
    ),
  );
  if (closest !== undefined)
    targets.push({
      text: 'ahead of every peer, in every cell',
      found: saidOf(closest),
      holds: closest.value > 1,
    });
  return targets;
}

function namesIn(rows) {
  return Object.keys(CONTENDERS).filter((name) => rows.some(({ cpu }) => cpu[name] !== undefined));
}

function others(names) {
  return names.filter((name) => name !== 'client' && name !== 'baseline');
}

function cellOf({ kind, size, concurrency }) {
  return `${kind.toUpperCase()} ${size === 'large' ? '1 MB' : '100 B'}, ${concurrency}`;
}

function saidOf({ cell, value }) {
  return `${ratio(value)} (${cell})`;
}

function most(found) {
  return found.toSorted((a, b) => b.value - a.value)[0];
}

function fewest(found) {
  return found.toSorted((a, b) => a.value - b.value)[0];
}
