/**
 * Calls on sockets that a real proxy closes when they were idle for too long.
 *
 * A gap never fails a call. At the very limit, where the proxy's FIN and the request meet, a call may fail with
 * the truth but never runs twice.
 */
import { describe, expect, it } from 'vitest';
import { HostedMcpError } from '../../src/index.js';
import { proxiesMissing } from './proxy.js';
import { LIMIT_MS, openCell, PROXIES, silent } from './scene.js';

/** A long way to the proxy: what leaves in the last 80 ms before the FIN is here meets a closed socket. */
const ONE_WAY_MS = 40;
/** Gaps around the limit; each is one client. */
const AROUND_MS = [-105, -90, -75, -65, -55, -45, -35, -25, -10, 10];
const ROUNDS = 2;

type Outcome = { callId: string; executed: 'answered' | HostedMcpError['executed'] };

describe.skipIf(proxiesMissing !== undefined).each(PROXIES)('a pool behind %s', (name) => {
  for (const limits of [1.3, 2.5]) {
    it.concurrent(`calls after gaps of ${limits} limits: on the same session, each run once`, async ({
      onTestFinished,
    }) => {
      const { server, connect, wait } = await openCell(name, onTestFinished);
      const client = await connect();
      for (const callId of ['one', 'two', 'three']) {
        await silent(client, callId, 0);
        await wait(limits * LIMIT_MS);
      }
      await Promise.all(['four', 'five'].map((callId) => silent(client, callId, 0)));

      expect(server.counts.executionsById).toEqual({ one: 1, two: 1, three: 1, four: 1, five: 1 });
      expect(server.counts).toMatchObject({ initializes: 1, pings: 0 });
    });
  }

  it.concurrent('calls right at the limit: never run twice, and what failed says so truthfully', async ({
    onTestFinished,
  }) => {
    const { server, connect, wait } = await openCell(name, onTestFinished, { oneWayMs: ONE_WAY_MS });
    const outcomes = await racing(AROUND_MS, connect, wait);

    for (const { callId, executed } of outcomes) {
      const times = server.counts.executionsById[callId] ?? 0;
      expect([callId, executed, times]).toSatisfy(() =>
        executed === 'answered' ? times === 1 : executed === false ? times === 0 : times <= 1,
      );
    }
    expect(outcomes).toHaveLength(AROUND_MS.length * ROUNDS);
    expect(server.counts.initializes).toBe(AROUND_MS.length);
  });

  it.concurrent('sockets given up before the limit: no call at the limit fails', async ({
    onTestFinished,
  }) => {
    const { server, connect, wait } = await openCell(name, onTestFinished, { oneWayMs: ONE_WAY_MS });
    const early = { http: { keepAliveTimeoutMs: LIMIT_MS / 2 } };
    const outcomes = await racing(AROUND_MS, () => connect(early), wait);

    expect(outcomes.filter(({ executed }) => executed !== 'answered')).toEqual([]);
    expect(Object.values(server.counts.executionsById)).toEqual(outcomes.map(() => 1));
  });
});

async function racing(
  aroundMs: readonly number[],
  connect: () => Promise<Parameters<typeof silent>[0]>,
  wait: (ms: number) => Promise<void>,
): Promise<Outcome[]> {
  await wait(0);
  const each = aroundMs.map(async (offMs) => {
    const client = await connect();
    const outcomes: Outcome[] = [];
    for (let round = 1; round <= ROUNDS; round += 1) {
      await wait(LIMIT_MS + offMs);
      const callId = `${offMs} ms, ${round}`;
      const executed = await silent(client, callId, 0).then(
        () => 'answered' as const,
        (error: unknown) => {
          if (!HostedMcpError.isInstance(error)) throw error;
          return error.executed;
        },
      );
      outcomes.push({ callId, executed });
    }
    return outcomes;
  });
  return (await Promise.all(each)).flat();
}
