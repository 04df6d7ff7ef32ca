// Where the CPU of a call through HostedClient goes: self time by module and by function, as the sampling profiler saw it.
import { runProgram } from '../kit/processes.mjs';

const LINES = 25;
const CELLS = [
  { kind: 'json', concurrency: 1 },
  { kind: 'json', concurrency: 64 },
  { kind: 'sse', concurrency: 64 },
];

/** Per cell `{ kind, concurrency, calls, usPerCall, modules: [{ name, share }], lines: [{ name, module, share }] }`; shares of busy time. */
export async function measureProfile(port, { quick, baseline, say }) {
  const origin = `http://127.0.0.1:${port}`;
  const rows = [];
  for (const { kind, concurrency } of CELLS) {
    say(`profile: ${kind}, ${concurrency} at once`);
    const options = {
      url: `${origin}/${kind}`,
      origin,
      concurrency,
      baseline,
      lines: LINES,
      calls: quick ? 4_000 : 20_000,
    };
    const found = await runProgram('profile/profiled-client.mjs', options, {
      // So that chunks of the build are told by the files of the source.
      execArgv: ['--enable-source-maps'],
    });
    rows.push({ kind, concurrency, ...found });
  }
  return rows;
}
