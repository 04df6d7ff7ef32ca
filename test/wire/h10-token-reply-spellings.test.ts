import { describe, expect, it } from 'vitest';
import { connectFace, FACES } from './faces.js';
import { startServer, user } from './support.js';

const HOUR_MS = 3_600_000;

/** The reply, and after how long a renewal must have been made. */
const SPELLINGS: readonly (readonly [string, Record<string, unknown>, number])[] = [
  ['lower case type, a string', { token_type: 'bearer', expires_in: '3600' }, HOUR_MS],
  ['upper case type, a fraction', { token_type: 'BEARER', expires_in: '3600.5' }, HOUR_MS + 500],
  ['no type, a float', { expires_in: 3600.25 }, HOUR_MS + 250],
  ['blanks around both', { token_type: ' Bearer ', expires_in: ' 3600 ' }, HOUR_MS],
  ['no lifetime', { token_type: 'Bearer' }, 300_000],
  ['a lifetime of 0', { token_type: 'bearer', expires_in: 0 }, 300_000],
  ['a negative lifetime', { token_type: 'bearer', expires_in: '-1' }, 300_000],
  ['a lifetime in words', { token_type: 'bearer', expires_in: 'one hour' }, 300_000],
  ['null', { token_type: null, expires_in: null, scope: null }, 300_000],
];

describe('H10 token replies in odd spellings', () => {
  SPELLINGS.forEach(([name, fields, lifetimeMs], index) => {
    const face = FACES[index % FACES.length] ?? 'v1';
    it(`${name}, ${face}: used as Bearer, renewed in its lifetime, no error`, async () => {
      const scene = await startServer();
      const { server, clock } = scene;
      const token = server.issueToken({ lifetimeMs: 2 * HOUR_MS });
      server.failTokenEndpoint({ status: 200, body: { access_token: token, ...fields } }, { times: 1 });
      const startedAt = clock.now();
      const caller = await connectFace(face, scene, { credentials: user(scene), streams: { listen: false } });
      const failures: unknown[] = [];
      caller.connection.on('credential-failed', (event) => failures.push(event));

      await caller.echo('a');

      const call = server.log.find(({ rpcMethod }) => rpcMethod === 'tools/call');
      expect(call?.headers.authorization).toMatch(/^Bearer token#\d+$/);
      expect(server.counts.tokenRequests).toBe(1);

      // In the agent's think-time, before the end, and not long before it.
      await clock.advance(lifetimeMs - 1);
      const renewals = server.log.filter(({ path }) => path === '/token').slice(1);
      expect(renewals.length).toBeGreaterThan(0);
      const afterMs = (renewals[0]?.at ?? 0) - startedAt;
      expect(afterMs).toBeLessThan(lifetimeMs);
      expect(afterMs).toBeGreaterThan(lifetimeMs / 2);
      await caller.echo('b');
      expect(failures).toEqual([]);
      expect(server.counts.executionsById).toEqual({ a: 1, b: 1 });
    });
  });
});
