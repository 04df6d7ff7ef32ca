import { ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, it } from 'vitest';
import { HostedClient } from '../../src/client.js';
import type { ScriptedReply } from '../../src/testing/index.js';
import { connectFace } from './faces.js';
import { closeLater, echo, machine, startServer } from './support.js';

const GET = { http: 'GET' } as const;
const RPC = { jsonrpc: '2.0', error: { code: -32000, message: 'Method not allowed.' }, id: null };

/** However it is said: there is no listen stream here, and asking again will not bring one. */
const REFUSALS: readonly (readonly [string, ScriptedReply])[] = [
  ['405 with JSON-RPC', { status: 405, body: RPC }],
  ['405 with a page', { status: 405, headers: { 'content-type': 'text/html' }, body: '<html>no</html>' }],
  ['405 with Allow and no body', { status: 405, headers: { allow: 'POST, DELETE' } }],
  ['501', { status: 501, body: 'Not Implemented' }],
  ['406', { status: 406, body: RPC }],
  ['400', { status: 400, body: RPC }],
  ['200 with JSON', { status: 200, body: { ok: true } }],
  ['204', { status: 204 }],
  ['a redirect to another place', { status: 302, headers: { location: 'https://example.com/login' } }],
];

const HOUR_MS = 3_600_000;

describe('H13 a server without a listen stream', () => {
  for (const [name, reply] of REFUSALS) {
    it(`${name}: exactly one GET, said once, no error`, async () => {
      const scene = await startServer({ listen: false, tokenLifetimeMs: 24 * HOUR_MS });
      const { server, clock } = scene;
      server.reply(GET, reply);
      const client = new HostedClient(
        { name: 'test', version: '1.0.0' },
        { url: server.url, credentials: machine(scene), clock },
      );
      closeLater(() => client.close());
      const errors: Error[] = [];
      client.onerror = (error) => errors.push(error);
      client.setNotificationHandler(ToolListChangedNotificationSchema, () => {});
      const said: unknown[] = [];
      client.connection.on('stream-unavailable', (event) => said.push(event));
      await client.connect();

      await echo(client, 'a');
      await clock.advance(HOUR_MS);
      await echo(client, 'b');

      expect(server.counts.listens).toBe(1);
      expect(server.counts.initializes).toBe(1);
      expect(server.counts.executionsById).toEqual({ a: 1, b: 1 });
      expect(said).toMatchObject([{ final: true, session: 1 }]);
      expect(errors).toEqual([]);
    });
  }

  it.each(['v1', 'v2'] as const)('%s: one GET a session, also for the session after a loss', async (face) => {
    const scene = await startServer({ listen: false, tokenLifetimeMs: 24 * HOUR_MS });
    const { server, clock } = scene;
    const caller = await connectFace(face, scene);
    await caller.echo('a');
    await clock.settle();
    expect(server.counts.listens).toBe(1);
    server.dropSessions();
    const replaced = caller.connection.once('session-established');
    await caller.echo('lost').catch(() => {});
    await replaced;

    await caller.echo('b');
    await clock.advance(HOUR_MS);

    expect(server.counts.listens).toBe(2);
    expect(server.counts.initializes).toBe(2);
    expect(server.counts.executionsById).toEqual({ a: 1, b: 1 });
  });

  it('503 is no such word: asked again, with gaps', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    server.reply(GET, { status: 503, body: 'starting' }, { times: 2 });
    const caller = await connectFace('v1', scene);
    await clock.advance(60_000);
    expect(server.counts.listens).toBe(3);
    expect(server.log.filter(({ http }) => http === 'GET').at(-1)?.status).toBe(200);
    await caller.echo('a');
    expect(server.counts.executionsById).toEqual({ a: 1 });
  });
});
