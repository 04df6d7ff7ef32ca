// Client CPU and wall time per call: every contender in a process of its own, in alternating rounds against one server.
import { startProgram } from '../kit/processes.mjs';
import { median } from '../kit/statistics.mjs';
import { CONTENDERS } from './contenders.mjs';
import { installPeers } from './peers.mjs';

/** `slow` is the number of calls for a contender that is a process more. */
export const ANSWERS = {
  small: { tool: 'echo', characters: 100, calls: 3_000, slow: 300, warmUp: 6_000 },
  large: { tool: 'large', characters: 1_000_000, calls: 48, slow: 24, warmUp: 64 },
};
const CONCURRENCIES = [1, 64, 512];

/**
 * One row per cell: `{ kind, size, concurrency, cpu, wall, ratio }`, by contender. `cpu` and `wall` are medians in microseconds a
 * call; `ratio` is the median of the rounds' own ratios to the baseline, so that what the machine does meanwhile falls on both.
 */
export async function measureCpu(port, { rounds, calls: share, names, cells, baseline, say }) {
  const peers = names.some((name) => CONTENDERS[name].isPeer) ? await installPeers(say) : undefined;
  const origin = `http://127.0.0.1:${port}`;
  const rows = [];
  for (const kind of ['json', 'sse']) {
    for (const size of Object.keys(ANSWERS)) {
      const wanted = CONCURRENCIES.filter((concurrency) => cells(kind, size, concurrency));
      if (wanted.length === 0) continue;
      const { tool, characters } = ANSWERS[size];
      const options = { url: `${origin}/${kind}`, origin, tool, characters, baseline, peers };
      const started = new Map();
      try {
        for (const name of names)
          started.set(name, await startProgram('cpu/contender.mjs', { name, ...options }));
        for (const concurrency of wanted) {
          const cell = `${kind}, ${size}, ${concurrency} at once`;
          rows.push({
            kind,
            size,
            concurrency,
            ...(await measureCell(started, { size, concurrency, rounds, share, say, cell })),
          });
        }
      } finally {
        for (const program of started.values()) await program.close();
      }
    }
  }
  return rows;
}

async function measureCell(started, { size, concurrency, rounds, share, say, cell }) {
  const { calls, slow, warmUp } = ANSWERS[size];
  const seen = Object.fromEntries([...started.keys()].map((name) => [name, []]));
  for (let turn = -1; turn < rounds; turn += 1) {
    const order = [...started.keys()];
    if (turn % 2 !== 0) order.reverse();
    for (const name of order) {
      if (isBeyond(name, size, concurrency)) continue;
      const usual = Math.ceil((CONTENDERS[name].isSlow ? slow : calls) * share);
      const count = Math.max(usual, concurrency);
      // The first round is for the JIT: the first thousands of calls cost three times as much, for each contender.
      const before = turn < 0 ? Math.ceil((warmUp * usual) / calls) : 0;
      const figures = await started.get(name).ask({ count, concurrency, warmUp: before });
      if (turn >= 0) seen[name].push(figures);
    }
    say(turn < 0 ? `${cell}: warm` : `${cell}: round ${turn + 1} of ${rounds}`);
  }
  const each = (figure) =>
    Object.fromEntries(Object.entries(seen).map(([name, all]) => [name, median(figure(all, name))]));
  return {
    cpu: each((all) => all.map(({ cpuUs }) => cpuUs)),
    wall: each((all) => all.map(({ wallUs }) => wallUs)),
    ratio: each((all) => all.map(({ cpuUs }, turn) => cpuUs / (seen.baseline?.[turn].cpuUs ?? Number.NaN))),
  };
}

/** Half a gigabyte through the pipe of a process more, round after round, would say nothing new. */
function isBeyond(name, size, concurrency) {
  return CONTENDERS[name].isSlow === true && size === 'large' && concurrency > 64;
}
