import { describe, expect, it } from 'vitest';
import type { HostedClientOptions } from '../../src/client.js';
import type { ServerLogEntry } from '../../src/testing/index.js';
import { connect, echo, startServer } from '../wire/support.js';

const CALLERS = 1_000;

interface Expected {
  readonly name: string;
  readonly bindSession: 'none' | 'token';
  readonly boundToToken?: boolean;
  readonly pings: number;
  readonly initializes: number;
}

const isAbout = (session: string, token: string) => (entry: ServerLogEntry) =>
  entry.sessionLabel === session && entry.tokenLabel === token;

const CASES: readonly Expected[] = [
  { name: 'a session bound to its token', bindSession: 'token', pings: 1, initializes: 1 },
  {
    name: 'a session bound to its token, known beforehand',
    bindSession: 'token',
    boundToToken: true,
    pings: 0,
    initializes: 1,
  },
  { name: 'a session that outlives its token', bindSession: 'none', pings: 1, initializes: 0 },
  { name: 'one known to outlive it', bindSession: 'none', boundToToken: false, pings: 0, initializes: 0 },
];

describe('a thousand callers at once when the token has expired', () => {
  it.each(CASES)('$name', async ({ bindSession, boundToToken, pings, initializes }) => {
    const scene = await startServer({ tokenLifetimeMs: 60_000, bindSession });
    const { server, clock } = scene;
    const options: Partial<HostedClientOptions> =
      boundToToken === undefined ? {} : { session: { boundToToken } };
    const client = await connect(scene, options);
    await echo(client, 'before');
    await clock.settle();
    // Known to the server alone: each caller would meet the refusal.
    server.set({ tokenDelayMs: 40 });
    server.expireTokens();
    server.reset();

    const calls = Array.from({ length: CALLERS }, (_, call) => echo(client, `call-${call}`));
    const answers = Promise.all(calls);
    answers.catch(() => {});
    await clock.advance(2_000);

    const texts = (await answers).map((result) => (result.content as { text: string }[])[0]?.text);
    expect(texts).toEqual(calls.map((_, call) => `call-${call}`));
    const runs = Object.values(server.counts.executionsById);
    expect([runs.length, Math.max(...runs)]).toEqual([CALLERS, 1]);
    expect(server.counts).toMatchObject({ tokenRequests: 1, initializes });
    // One question for all callers, about the session that stood, under the new token.
    const asked = server.log.filter((entry) => entry.rpcMethod === 'ping');
    expect(asked).toHaveLength(pings);
    expect(asked.filter(isAbout('session#1', 'token#2'))).toHaveLength(pings);
    await client.close();
    expect(clock.pendingTimers).toBeLessThanOrEqual(1);
  });

  it('the token’s own end, known beforehand: nobody is refused at all', async () => {
    const scene = await startServer({ tokenLifetimeMs: 60_000, bindSession: 'token' });
    const { server, clock } = scene;
    const client = await connect(scene);
    await echo(client, 'before');
    server.reset();
    server.set({ tokenDelayMs: 40 });
    await clock.advance(61_000);

    const answers = Promise.all(Array.from({ length: CALLERS }, (_, call) => echo(client, `call-${call}`)));
    answers.catch(() => {});
    await clock.advance(2_000);
    await answers;

    expect(Object.keys(server.counts.executionsById)).toHaveLength(CALLERS);
    expect(server.counts).toMatchObject({ tokenRequests: 1, initializes: 1 });
    expect(server.log.filter((entry) => entry.rpcMethod === 'tools/call' && entry.status !== 200)).toEqual(
      [],
    );
  });
});
