// The judge: the server, in a process of its own, with a stamp for every request to its endpoint.
//
// All stamps are of one clock, taken when a request was there as a whole. What the server itself would refuse does
// not matter: it refuses nothing, it counts.
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { startHostedServer } from 'mcp-holdfast/testing';
import { nowMs, serve } from './child.mjs';

let server;
const addressOf = ({ url, tokenEndpoint, client }) => ({ url, tokenEndpoint, client });
/** The simulator's monotonic clock begins with the process. */
const offsetMs = nowMs() - performance.now();
const lag = monitorEventLoopDelay({ resolution: 5 });

serve({
  async open(options) {
    server = await startHostedServer(options);
    lag.enable();
    return addressOf(server);
  },

  /** Another server, on which nothing is counted: replicas may do there what they have never done before. */
  async openOther() {
    return addressOf(await startHostedServer());
  },

  /**
   * Every request so far. `grantedAtMs`: when the library let it go, by the replica's stamp on the same clock;
   * `stalledMs`: for how long that process did not come to run in the second before.
   */
  report() {
    const atEndpoint = server.log.filter(({ path }) => path === '/mcp');
    const requests = atEndpoint.map(({ atMs, http, rpcMethod, status, headers }) => ({
      atMs: atMs + offsetMs,
      http,
      method: rpcMethod,
      status,
      replica: headers['x-replica'],
      client: headers['x-client'],
      grantedAtMs: Number(headers['x-granted-at']),
      stalledMs: Number(headers['x-stalled']),
    }));
    return { requests, counts: { ...server.counts }, lagMs: lag.max / 1e6, nowMs: nowMs() };
  },

  /** The next call of a tool is refused so. */
  refuseOnce({ retryAfterSeconds }) {
    server.replyOnce(
      { method: 'tools/call' },
      { status: 429, headers: { 'Retry-After': String(retryAfterSeconds) }, body: 'slow down' },
    );
  },

  refreshToken: () => server.issueRefreshToken(),
});
