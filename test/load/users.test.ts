import { describe, expect, it, vi } from 'vitest';
import { HostedClient } from '../../src/client.js';
import { memoryCredentialStore, refreshTokenGrant } from '../../src/index.js';
import { closeLater, echo, type Scene, startServer } from '../wire/support.js';

const USERS = 500;
const MINUTE = 60_000;

/** What tokens each session was spoken to with, and what sessions each token was used on. */
function pairings({ server }: Scene) {
  const tokens = new Map<string, Set<string>>();
  const sessions = new Map<string, Set<string>>();
  for (const { sessionLabel, tokenLabel, path } of server.log) {
    if (path !== '/mcp' || sessionLabel === undefined || tokenLabel === undefined) continue;
    tokens.set(sessionLabel, (tokens.get(sessionLabel) ?? new Set()).add(tokenLabel));
    sessions.set(tokenLabel, (sessions.get(tokenLabel) ?? new Set()).add(sessionLabel));
  }
  return { tokens, sessions };
}

const sizes = (map: Map<string, Set<string>>) =>
  [...new Set([...map.values()].map(({ size }) => size))].sort();

describe('five hundred users of one host', () => {
  it('each has its own token and session; idle ones cost nothing and come back', async () => {
    const scene = await startServer({ tokenLifetimeMs: 10 * MINUTE, rotateRefreshTokens: true });
    const { server, clock } = scene;
    const store = memoryCredentialStore();
    const users = Array.from({ length: USERS }, (_, user) => {
      const credentials = refreshTokenGrant({
        issuer: server.issuer,
        clientId: server.client.id,
        clientSecret: server.client.secret,
        refreshToken: server.issueRefreshToken(),
        subject: `user-${user}`,
        store,
        clock,
      });
      const session = { idleTimeoutMs: 2 * MINUTE };
      return new HostedClient(
        { name: 'host', version: '1.0.0' },
        { url: server.url, credentials, clock, session },
      );
    });
    closeLater(() => Promise.all(users.map((client) => client.close())));

    await Promise.all(users.map((client) => client.connect()));
    const answers = await Promise.all(users.map((client, user) => echo(client, `user-${user}`)));

    expect(answers.map(({ content }) => (content as { text: string }[])[0]?.text)).toEqual(
      users.map((_, user) => `user-${user}`),
    );
    expect(server.counts).toMatchObject({
      tokenRequests: USERS,
      initializes: USERS,
      executions: { echo: USERS },
    });
    const before = pairings(scene);
    expect([before.tokens.size, sizes(before.tokens)]).toEqual([USERS, [1]]);
    expect([before.sessions.size, sizes(before.sessions)]).toEqual([USERS, [1]]);

    await clock.advance(3 * MINUTE);
    expect(server.counts).toMatchObject({ deletes: USERS, tokenRequests: USERS });
    expect(new Set(users.map((client) => client.connection.state))).toEqual(new Set(['idle']));
    await vi.waitFor(() => expect(openSockets(server.url)).toBe(0));

    // Long after the tokens have ended: no user was refreshed for nothing, and those who come back are served.
    await clock.advance(60 * MINUTE);
    const spent = server.counts.tokenRequests;
    expect(spent).toBeLessThanOrEqual(2 * USERS);
    expect(clock.pendingTimers).toBe(0);
    const back = users.slice(0, 20);
    await Promise.all(back.map((client, user) => echo(client, `back-${user}`)));

    expect(server.counts.tokenRequests).toBe(spent + back.length);
    const after = pairings(scene);
    expect(after.sessions.size).toBe(after.tokens.size);
    expect([sizes(after.tokens), sizes(after.sessions)]).toEqual([[1], [1]]);
    const runs = Object.values(server.counts.executionsById);
    expect([runs.length, Math.max(...runs)]).toEqual([USERS + back.length, 1]);
  }, 60_000);
});

/** Sockets of this process that lead to the server. */
function openSockets(url: string): number {
  const port = Number(new URL(url).port);
  const { _getActiveHandles } = process as unknown as {
    _getActiveHandles(): { remotePort?: number; destroyed?: boolean }[];
  };
  return _getActiveHandles
    .call(process)
    .filter(({ remotePort, destroyed }) => remotePort === port && destroyed !== true).length;
}
