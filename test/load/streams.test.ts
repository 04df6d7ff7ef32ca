import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { HostedTransport } from '../../src/index.js';
import {
  type HostedServer,
  type ManualClock,
  manualClock,
  startHostedServer,
} from '../../src/testing/index.js';

const STREAMS = 1_000;
const GET = { http: 'GET' } as const;
const INITIALIZE = {
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'load', version: '1.0.0' } },
} as const;

describe('a thousand streams cut at the same instant', () => {
  let clock: ManualClock;
  let server: HostedServer;
  let transports: HostedTransport[];

  beforeAll(async () => {
    clock = manualClock();
    server = await startHostedServer({ clock, auth: false });
    transports = Array.from(
      { length: STREAMS },
      () => new HostedTransport(server.url, { clock, streams: { listen: true } }),
    );
    for (const transport of transports) {
      await transport.start();
      await transport.send(INITIALIZE);
    }
    await clock.settle();
    await clock.advance(30_000);
    expect(server.counts).toMatchObject({ streamsOpen: STREAMS, listens: STREAMS });
  });
  afterAll(async () => {
    await Promise.all(transports.map((transport) => transport.close()));
    await server.close();
  });

  /** Times of the GETs of each session, in milliseconds since `since`. */
  const triesOf = (since: number) => {
    const tries = new Map<string, number[]>();
    for (const { http, at, sessionLabel = '' } of server.log)
      if (http === 'GET') tries.set(sessionLabel, [...(tries.get(sessionLabel) ?? []), at - since]);
    return [...tries.values()];
  };

  it('all are back within 5 s, with one GET each, not all in one instant', async () => {
    server.reset();
    const since = clock.now();
    server.cutStreams();
    await clock.advance(5_000);

    expect(server.counts).toMatchObject({ streamsOpen: STREAMS, listens: STREAMS, initializes: 0 });
    const tries = triesOf(since);
    expect(tries).toHaveLength(STREAMS);
    expect(tries.every((times) => times.length === 1)).toBe(true);
    expect(Math.max(...tries.flat())).toBeLessThanOrEqual(20);
    expect(new Set(tries.flat().map(Math.floor)).size).toBeGreaterThan(15);
  });

  it('where the server answers 503 first, no 100 ms hold more than 30 % of the third tries; all come back', async () => {
    server.reset();
    const scripted = server.reply(GET, {
      status: 503,
      headers: { 'content-type': 'text/html' },
      body: 'away',
    });
    const since = clock.now();
    server.cutStreams();
    await clock.advance(5_000);
    scripted.dispose();
    await clock.advance(60_000);

    const third = triesOf(since)
      .map((times) => times[2] ?? Number.NaN)
      .toSorted((one, other) => one - other);
    expect(third).toHaveLength(STREAMS);
    expect(third.some(Number.isNaN)).toBe(false);
    const fullest = Math.max(
      ...third.map((from) => third.filter((at) => at >= from && at < from + 100).length),
    );
    expect(fullest / STREAMS).toBeLessThanOrEqual(0.3);
    expect(server.counts).toMatchObject({ streamsOpen: STREAMS, initializes: 0 });
  });

  it('nothing is left after close: no timer, no stream, though half of them were waiting to come back', async () => {
    const scripted = server.reply(GET, { status: 503 }, { times: STREAMS / 2 });
    server.cutStreams();
    await clock.advance(21);
    expect(server.counts.streamsOpen).toBe(STREAMS / 2);
    expect(clock.pendingTimers).toBeGreaterThanOrEqual(STREAMS / 2);
    scripted.dispose();
    await Promise.all(transports.map((transport) => transport.close()));
    await clock.settle();
    expect(server.counts.streamsOpen).toBe(0);
    expect(clock.pendingTimers).toBe(0);
  });
});
