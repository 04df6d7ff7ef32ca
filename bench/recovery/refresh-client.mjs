// Its client: a steady stream of calls under a token that is refreshed every few seconds.
import { clientCredentialsGrant, HostedClient } from 'mcp-holdfast/client';
import { serve } from '../kit/processes.mjs';
import { quantile } from '../kit/statistics.mjs';

const CALLERS = 8;
/** Between two calls of one caller: what is looked for is what a refresh adds, not what a full machine does. */
const PAUSE_MS = 8;
const AFTER_MS = 1_000;
const WARM_UP_MS = 2_000;

await serve(async ({ url, tokenEndpoint, runMs }) => {
  const credentials = clientCredentialsGrant({
    tokenEndpoint,
    clientId: 'bench',
    clientSecret: 'bench-secret',
  });
  const client = new HostedClient({ name: 'bench', version: '1.0.0' }, { url, credentials });
  await client.connect();
  const refreshedMs = [];
  client.connection.on('credential-refreshed', () => refreshedMs.push(performance.now()));
  const startedMs = performance.now();
  const calls = [];
  const caller = async () => {
    for (;;) {
      const fromMs = performance.now();
      if (fromMs - startedMs > runMs) return;
      await client.callTool({ name: 'echo', arguments: { text: 'hello' } });
      calls.push({ fromMs, tookMs: performance.now() - fromMs });
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
  await client.close();
  const counted = calls.filter(({ fromMs }) => fromMs - startedMs > WARM_UP_MS);
  const isAfter = ({ fromMs }) => refreshedMs.some((at) => fromMs >= at && fromMs < at + AFTER_MS);
  const [after, rest] = [counted.filter(isAfter), counted.filter((call) => !isAfter(call))];
  const figures = (some) => {
    const took = some.map(({ tookMs }) => tookMs);
    return { calls: took.length, p50Ms: quantile(took, 0.5), p99Ms: quantile(took, 0.99) };
  };
  return { first: { refreshes: refreshedMs.length, after: figures(after), rest: figures(rest) } };
});
