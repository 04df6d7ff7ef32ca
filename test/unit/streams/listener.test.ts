import { describe, expect, it } from 'vitest';
import type { ScriptedReply } from '../../../src/testing/index.js';
import { GET, gets, listening, startStreams, tell } from '../../wire/streams.js';
import { echo, user } from '../../wire/support.js';

const page = (status: number): ScriptedReply => ({
  status,
  headers: { 'content-type': 'text/html' },
  body: '<html>elsewhere</html>',
});
const refusal = (status: number, message: string, code = -32000): ScriptedReply => ({
  status,
  body: { jsonrpc: '2.0', id: null, error: { code, message } },
});

describe('a first GET that is refused', () => {
  it.each([
    ['404 with a page, from a server without such a route', page(404)],
    ['404 with JSON that is no MCP', { status: 404, body: { detail: 'Not Found' } } as ScriptedReply],
    ['404 method not found', refusal(404, 'Method not found', -32601)],
    ['403', refusal(403, 'Forbidden')],
  ])('%s: no stream here, and no reason to doubt the session', async (_name, reply) => {
    const scene = await startStreams();
    const { server, clock } = scene;
    server.reply(GET, reply);
    const { client, events } = await listening(scene);
    await clock.advance(600_000);
    await echo(client, 'a');
    expect(server.counts).toMatchObject({ listens: 1, initializes: 1, pings: 0, executionsById: { a: 1 } });
    expect(events).toMatchObject([{ type: 'stream-unavailable', final: true }]);
  });

  it('404 in words of MCP: the session is lost, another one opened', async () => {
    const scene = await startStreams();
    const { server, clock } = scene;
    server.replyOnce(GET, refusal(404, 'Session not found', -32001));
    const { client } = await listening(scene);
    await clock.advance(1_000);
    expect(server.counts).toMatchObject({ initializes: 2, streamsOpen: 1 });
    await echo(client, 'a');
    expect(server.counts.executionsById).toEqual({ a: 1 });
  });

  it('503 for long is told, and so is the return', async () => {
    const scene = await startStreams();
    const { server, clock } = scene;
    const scripted = server.reply(GET, page(503));
    const { events } = await listening(scene);
    await clock.advance(600_000);
    expect(events).toMatchObject([{ type: 'stream-unavailable', final: false }]);
    // Two requests a minute, not more.
    expect(server.counts.listens).toBeLessThan(60);
    expect(server.counts.listens).toBeGreaterThan(20);
    scripted.dispose();
    await clock.advance(31_000);
    expect(events.map(({ type }) => type)).toEqual(['stream-unavailable', 'stream-reopened', 'stream-gap']);
  });
});

describe('a GET that is refused after a cut', () => {
  async function cut(reply: ScriptedReply, times?: number) {
    const scene = await startStreams();
    const listener = await listening(scene);
    await scene.clock.advance(10_000);
    scene.server.reset();
    const scripted = scene.server.reply(GET, reply, { times });
    scene.server.cutStreams();
    return { scene, scripted, ...listener };
  }

  it.each([
    ['200 with a page: a gateway under maintenance', page(200)],
    ['200 with JSON', { status: 200, body: { ok: true } } as ScriptedReply],
    ['403 with a page', page(403)],
    ['400 without words', { status: 400 } as ScriptedReply],
    ['504', page(504)],
  ])('%s: asked again until it is over; said once', async (_name, reply) => {
    const { scene, scripted, client, events, heard } = await cut(reply);
    const { server, clock } = scene;
    await clock.advance(120_000);
    scripted.dispose();
    await clock.advance(31_000);
    tell(scene, 'heard');
    await echo(client, 'a');
    expect(heard).toEqual(['heard']);
    expect(events.filter(({ type }) => type === 'stream-unavailable')).toMatchObject([{ final: false }]);
    expect(server.counts).toMatchObject({
      initializes: 0,
      pings: 0,
      streamsOpen: 1,
      executionsById: { a: 1 },
    });
  });

  it.each([405, 501])('%d: the server gives none any more, and is not asked again', async (status) => {
    const { scene, events } = await cut({ status });
    await scene.clock.advance(600_000);
    expect(scene.server.counts.listens).toBe(1);
    expect(events.at(-1)).toMatchObject({ type: 'stream-unavailable', final: true });
  });

  it('404 in words of MCP: one new session, its own stream, no ping', async () => {
    const { scene, client, heard } = await cut(refusal(404, 'Session not found', -32001), 1);
    const { server, clock } = scene;
    await clock.advance(2_000);
    expect(server.counts).toMatchObject({ initializes: 1, pings: 0, listens: 2, streamsOpen: 1 });
    tell(scene, 'heard');
    await echo(client, 'a');
    expect(heard).toEqual(['heard']);
  });

  it('404 with a page while a deploy goes on: the session is kept where no new one is to be had', async () => {
    const { scene, client, heard } = await cut(page(404), 3);
    const { server, clock } = scene;
    server.reply({ method: 'initialize' }, page(404));
    await clock.advance(60_000);
    tell(scene, 'heard');
    await echo(client, 'a');
    expect(heard).toEqual(['heard']);
    expect(server.counts).toMatchObject({ streamsOpen: 1, executionsById: { a: 1 } });
    expect(gets(scene).at(-1)).toMatchObject({ status: 200, sessionLabel: 'session#1' });
  });

  it('400 that speaks of the session: one ping decides, for the session or against it', async () => {
    const alive = await cut(refusal(400, 'Bad Request: No valid session ID provided'), 5);
    await alive.scene.clock.advance(120_000);
    expect(alive.scene.server.counts).toMatchObject({ pings: 1, initializes: 0, streamsOpen: 1 });

    const dead = await cut(refusal(400, 'Bad Request: No valid session ID provided'), 1);
    dead.scene.server.set({ sessionLostStatus: 400 });
    dead.scene.server.dropSessions();
    await dead.scene.clock.advance(5_000);
    expect(dead.scene.server.counts).toMatchObject({ pings: 1, initializes: 1, streamsOpen: 1 });
  });

  it('429: nobody asks for so long, calls included', async () => {
    const { scene, client } = await cut({ status: 429, headers: { 'retry-after': '20' } }, 1);
    const { server, clock } = scene;
    await clock.advance(100);
    const call = echo(client, 'a');
    await clock.advance(19_000);
    expect(server.counts.requests).toBe(1);
    await clock.advance(10_000);
    await call;
    expect(server.counts).toMatchObject({ streamsOpen: 1, listens: 2, executionsById: { a: 1 } });
  });
});

describe('the credential of a listen stream', () => {
  const challenge = { 'www-authenticate': 'Bearer error="invalid_token"' };

  it('is read anew for each attempt', async () => {
    const scene = await startStreams({ tokenLifetimeMs: 60_000 });
    const { server, clock } = scene;
    const { client } = await listening(scene);
    await clock.advance(50_000);
    await echo(client, 'a');
    await clock.settle();
    server.cutStreams();
    await clock.advance(100);
    const [first, second] = gets(scene).map(({ tokenLabel }) => tokenLabel);
    expect(second).not.toBe(first);
    expect(server.counts.streamsOpen).toBe(1);
  });

  it('that is refused is renewed once, and tried again at once', async () => {
    const scene = await startStreams();
    const { server, clock } = scene;
    const { events } = await listening(scene);
    await clock.advance(10_000);
    server.reset();
    server.replyOnce(GET, { status: 401, headers: challenge });
    server.cutStreams();
    await clock.advance(200);
    expect(server.counts).toMatchObject({ tokenRequests: 1, listens: 2, streamsOpen: 1, initializes: 0 });
    expect(events.at(-1)).toMatchObject({ type: 'stream-gap' });
  });

  it('that is refused for ever costs one renewal, and the gaps grow', async () => {
    const scene = await startStreams();
    const { server, clock } = scene;
    const { client, events } = await listening(scene, { credentials: user(scene) });
    await clock.advance(10_000);
    server.reset();
    server.reply(GET, { status: 401, headers: challenge });
    server.cutStreams();
    await clock.advance(600_000);
    expect(server.counts).toMatchObject({ tokenRequests: 1, initializes: 0 });
    expect(server.counts.listens).toBeLessThan(60);
    expect(events.filter(({ type }) => type === 'stream-unavailable')).toMatchObject([{ final: false }]);
    await echo(client, 'a');
    expect(server.counts.executionsById).toEqual({ a: 1 });
  });

  it('newer than a session bound to the old one: the session is replaced, no token spent for it', async () => {
    const scene = await startStreams({ tokenLifetimeMs: 60_000, bindSession: 'token', challenge: 'none' });
    const { server, clock } = scene;
    const { client } = await listening(scene);
    await clock.advance(50_000);
    await echo(client, 'a');
    server.cutStreams();
    await clock.advance(5_000);
    await echo(client, 'b');
    expect(server.counts.tokenRequests).toBeLessThanOrEqual(2);
    expect(server.counts).toMatchObject({ streamsOpen: 1, executionsById: { a: 1, b: 1 } });
  });
});

it('a server that is gone is sought for ever, and found', async () => {
  const scene = await startStreams();
  const { server, clock } = scene;
  const { heard, events } = await listening(scene);
  await clock.advance(10_000);
  const scripted = server.reply(GET, { cut: 'reset' });
  server.cutStreams('reset');
  await clock.advance(3_600_000);
  scripted.dispose();
  await clock.advance(31_000);
  tell(scene, 'heard');
  await clock.settle();
  expect(heard).toEqual(['heard']);
  expect(events.map(({ type }) => type)).toEqual([
    'stream-cut',
    'stream-unavailable',
    'stream-reopened',
    'stream-gap',
  ]);
  expect(server.counts).toMatchObject({ initializes: 1, streamsOpen: 1 });
});
