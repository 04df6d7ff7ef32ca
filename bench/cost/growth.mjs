// How costs grow with sessions, tools and calls in flight: CPU at three sizes each, every point in a process of its own.
import { runProgram } from '../kit/processes.mjs';
import { growthExponent, median } from '../kit/statistics.mjs';

const AXES = {
  sessions: { sizes: [1, 30, 1_000], unit: 'session opened and used' },
  tools: { sizes: [10, 1_000, 10_000], unit: 'tool compared with the pin' },
  'in-flight': { sizes: [10, 1_000, 10_000], unit: 'call among so many' },
};
const REPEATS = 3;

/**
 * Per axis `{ axis, unit, points: [{ size, unitUs, callUs, failed }], exponent }`: `unitUs` is CPU per unit of that axis, `callUs`
 * that of an ordinary call beside so many; the exponent is that of the axis' whole cost beyond its smallest size.
 */
export async function measureGrowth(port, { quick, say }) {
  const origin = `http://127.0.0.1:${port}`;
  const rows = [];
  for (const [axis, { sizes, unit }] of Object.entries(AXES)) {
    const seen = new Map(sizes.map((size) => [size, []]));
    for (let turn = 0; turn < (quick ? 1 : REPEATS); turn += 1) {
      for (const size of sizes) {
        say(`growth, ${axis}: ${size} (${turn + 1})`);
        seen.get(size).push(await runProgram('cost/growth-program.mjs', { axis, size, origin }));
      }
    }
    const points = sizes.map((size) => ({
      size,
      unitUs: median(seen.get(size).map(({ unitUs }) => unitUs)),
      callUs: median(seen.get(size).map(({ callUs }) => callUs)),
      failed: seen.get(size).reduce((sum, { failed = 0 }) => sum + failed, 0),
    }));
    rows.push({ axis, unit, points, exponent: exponentOf(points) });
  }
  return rows;
}

/** Of the whole cost, from the middle size to the largest: at the smallest, what is paid once hides the rest. */
function exponentOf(points) {
  return growthExponent(points.slice(1).map(({ size, unitUs }) => [size, size * unitUs]));
}
