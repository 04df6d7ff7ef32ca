/**
 * Servers of the 2024-11-05 transport (HTTP+SSE) behind real proxies: kept alive, and healed where that
 * fails.
 *
 * The simulator answers nothing on a session without a handshake, so a call that is answered had one.
 */
import { describe, expect, it } from 'vitest';
import type { HostedServer } from '../../src/testing/index.js';
import { failureOf } from '../wire/support.js';
import { proxiesMissing } from './proxy.js';
import { arrived, EARLY_MS, LIMIT_MS, openCell, PROXIES, silent, tell } from './scene.js';

const LEGACY = { transport: 'legacy-sse' } as const;
const KEPT_ALIVE = { streams: { legacyPingIntervalMs: LIMIT_MS / 3 } };
const LEFT_ALONE = { streams: { legacyPingIntervalMs: 0 } };

describe.skipIf(proxiesMissing !== undefined).each(PROXIES)('a legacy server behind %s', (name) => {
  it.concurrent('kept alive: calls after gaps, one stream, one session', async ({ onTestFinished }) => {
    const { server, connect, wait } = await openCell(name, onTestFinished, LEGACY);
    const heard: unknown[] = [];
    const client = await connect({ ...KEPT_ALIVE, onLog: (data) => heard.push(data) });
    for (const callId of ['one', 'two', 'three']) {
      await silent(client, callId, 0);
      await wait(1.5 * LIMIT_MS);
      tell(server, callId);
    }
    await silent(client, 'four', 0);
    await arrived(heard, 3);

    expect(server.counts.executionsById).toEqual({ one: 1, two: 1, three: 1, four: 1 });
    expect(handshakes(server)).toBe(1);
    expect(server.counts.gets).toBe(1);
    expect(server.counts.pings).toBeGreaterThan(6);
  });

  it.concurrent('not kept alive: calls after cuts work, on a session with a handshake', async ({
    onTestFinished,
  }) => {
    const { server, connect, wait } = await openCell(name, onTestFinished, LEGACY);
    const client = await connect(LEFT_ALONE);
    for (const callId of ['one', 'two', 'three']) {
      await silent(client, callId, 0);
      await wait(1.5 * LIMIT_MS);
    }
    await silent(client, 'four', 0);

    expect(server.counts.executionsById).toEqual({ one: 1, two: 1, three: 1, four: 1 });
    expect(handshakes(server)).toBeGreaterThan(1);
  });

  it.concurrent('a call in flight over a cut is unknown at once, and the next one runs', async ({
    onTestFinished,
  }) => {
    const { server, connect } = await openCell(name, onTestFinished, LEGACY);
    const client = await connect(LEFT_ALONE);
    const since = performance.now();

    const failure = await failureOf(silent(client, 'long', 3 * LIMIT_MS));

    const tookMs = performance.now() - since;
    expect(failure).toMatchObject({ code: 'ERR_OUTCOME_UNKNOWN', executed: 'unknown', retryable: false });
    expect(tookMs).toBeGreaterThan(LIMIT_MS - EARLY_MS);
    expect(tookMs).toBeLessThan(LIMIT_MS + 1_000);
    await Promise.all([silent(client, 'next', 0), silent(client, 'and another', 0)]);
    expect(server.counts.executionsById).toEqual({ long: 1, next: 1, 'and another': 1 });
    expect(handshakes(server)).toBe(2);
  });
});

/** Without the one that is refused, by which the transport is found out. */
function handshakes({ log }: HostedServer): number {
  return log.filter(({ rpcMethod, path }) => rpcMethod === 'initialize' && path === '/messages').length;
}
