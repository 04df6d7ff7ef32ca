import { describe, expect, it } from 'vitest';
import type { ScriptedReply } from '../../src/testing/index.js';
import { connectFace, FACES } from './faces.js';
import { startServer } from './support.js';

const INITIALIZED = { http: 'POST', method: 'notifications/initialized' } as const;
const JSON_TYPE = { 'content-type': 'application/json' };

/** All of them say "taken". */
const ACCEPTED: readonly (readonly [string, ScriptedReply])[] = [
  ['204', { status: 204 }],
  ['200 null', { status: 200, headers: JSON_TYPE, body: 'null' }],
  ['200 without a body', { status: 200 }],
  ['200 with an empty JSON body', { status: 200, headers: JSON_TYPE, body: '' }],
  ['200 {}', { status: 200, body: {} }],
  ['200 with a result for nobody', { status: 200, body: { jsonrpc: '2.0', id: null, result: {} } }],
  ['200 with text', { status: 200, headers: { 'content-type': 'text/plain' }, body: 'OK' }],
  ['200 with broken JSON', { status: 200, headers: JSON_TYPE, body: '{' }],
  ['202 with a body', { status: 202, headers: JSON_TYPE, body: '"Accepted"' }],
  ['an empty event stream', { chunks: [] }],
  ['an event stream with a comment', { chunks: [': taken\n\n'] }],
  ['an event stream that stays open', { chunks: [': taken\n\n', { pauseMs: 86_400_000 }] }],
];

describe('H17 odd answers to notifications/initialized', () => {
  ACCEPTED.forEach(([name, reply], index) => {
    const face = FACES[index % FACES.length] ?? 'v1';
    it(`${name}, ${face}: the handshake is done, and the stream is listened to all the same`, async () => {
      const scene = await startServer();
      const { server, clock } = scene;
      server.reply(INITIALIZED, reply);

      const caller = await connectFace(face, scene, { streams: { listen: true } });
      await caller.echo('a');
      await clock.settle();

      expect(caller.connection.state).toBe('ready');
      expect(server.counts).toMatchObject({ initializes: 1, listens: 1, executionsById: { a: 1 } });
      expect(server.log.filter(({ rpcMethod }) => rpcMethod === INITIALIZED.method)).toHaveLength(1);
      const listen = server.log.find(({ http, path }) => http === 'GET' && path === '/mcp');
      expect(listen).toMatchObject({ status: 200, sessionLabel: 'session#1' });
    });
  });

  it.each([204, 200] as const)('as the simulator does it with %i', async (handshakeStatus) => {
    const scene = await startServer({ handshakeStatus });
    const { server, clock } = scene;
    const caller = await connectFace('v2', scene);
    await caller.echo('a');
    await clock.settle();
    expect(server.counts).toMatchObject({ initializes: 1, listens: 1, executionsById: { a: 1 } });
  });

  it('a refusal is none of them: no session, typed, and nothing else is sent on it', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    server.reply(INITIALIZED, { status: 422, body: { error: 'no' } });
    const connecting = connectFace('HostedClient', scene).catch((error: unknown) => error);
    await clock.advance(60_000);
    expect(await connecting).toMatchObject({ code: 'ERR_HTTP_STATUS', executed: false, status: 422 });
    expect(server.counts.listens).toBe(0);
    expect(server.counts.executions).toEqual({});
  });
});
