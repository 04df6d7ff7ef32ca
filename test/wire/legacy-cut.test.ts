import { describe, expect, it } from 'vitest';
import { connectFace, FACES } from './faces.js';
import { HANDSHAKE, legacy, listening, requestsAt } from './legacy.js';
import { connect, echo, failureOf } from './support.js';

describe('a cut', () => {
  for (const shape of ['fin', 'eof', 'reset'] as const) {
    for (const face of FACES) {
      it(`${shape} under a call, ${face}: unknown at once, run once, the next call on a new session`, async () => {
        const started: (() => void)[] = [];
        const running = new Promise<void>((resolve) => started.push(resolve));
        const scene = await legacy({
          tools: [
            {
              name: 'echo',
              handler: async (args, call) => {
                if (args.text !== 'lost') return String(args.text);
                started[0]?.();
                await call.wait(74_000);
                return 'late';
              },
            },
          ],
        });
        const { server } = scene;
        const caller = await connectFace(face, scene);
        await caller.echo('before');
        server.reset();

        const failed = failureOf(caller.echo('lost'));
        await running;
        server.cutStreams(shape);

        // No clock is moved: nothing but the end of the stream may end the call.
        expect(await failed).toMatchObject({
          code: 'ERR_OUTCOME_UNKNOWN',
          executed: 'unknown',
          retryable: false,
          tool: 'echo',
        });
        await caller.echo('after');
        expect(server.counts.executionsById).toEqual({ lost: 1, after: 1 });
        expect(requestsAt(server)).toEqual([
          'POST /messages tools/call',
          ...HANDSHAKE,
          'POST /messages tools/call',
        ]);
        expect(server.counts.streamsOpen).toBe(1);
      });
    }
  }

  it('in think-time: the next session stands before the next call, and the events say what happened', async () => {
    const scene = await legacy();
    const { server, clock } = scene;
    const { client, heard } = await listening(scene);
    await echo(client, 'a');
    server.reset();
    const events: string[] = [];
    for (const name of ['stream-cut', 'session-lost', 'stream-reopened', 'stream-gap'] as const)
      client.connection.on(name, () => events.push(name));

    server.cutStreams();
    await clock.settle();

    expect(requestsAt(server)).toEqual(HANDSHAKE);
    expect(events).toEqual(['stream-cut', 'session-lost', 'stream-reopened', 'stream-gap']);
    server.notify('notifications/tools/list_changed');
    await clock.settle();
    expect(heard.changes).toBe(1);
    expect(client.connection.session?.number).toBe(2);
  });

  it('a read in flight is asked again on the new session, once', async () => {
    const scene = await legacy();
    const { server, clock } = scene;
    const client = await connect(scene);
    await echo(client, 'a');
    server.replyOnce({ http: 'POST', method: 'tools/list' }, { status: 202 });
    const listed = client.listTools();
    await clock.settle();
    server.cutStreams();
    await clock.advance(3_000);
    expect((await listed).tools).toHaveLength(4);
    expect(requestsAt(server).filter((line) => line.endsWith('tools/list'))).toHaveLength(2);
  });

  it('streams cut every minute do not make the connection unstable', async () => {
    const scene = await legacy();
    const { server, clock } = scene;
    const client = await connect(scene, { streams: { legacyPingIntervalMs: 0 } });
    for (let i = 0; i < 12; i += 1) {
      await clock.advance(60_000);
      server.cutStreams();
      await clock.settle();
    }
    expect(client.connection.state).toBe('ready');
    await echo(client, 'a');
    expect(server.counts).toMatchObject({ executionsById: { a: 1 }, streamsOpen: 1, gets: 13 });
  });

  it('a server that ends every stream at once is not asked for ever, and is told of where calls are lost', async () => {
    const scene = await legacy({ tools: [{ name: 'echo', handler: (_, call) => call.wait(74_000) }] });
    const { server, clock } = scene;
    const client = await connect(scene);
    for (let i = 0; i < 5; i += 1) {
      server.cutStreams();
      await clock.advance(1_000);
    }
    expect(server.counts.gets).toBe(1);
    expect(client.connection.state).toBe('idle');

    for (let i = 0; i < 3; i += 1) {
      const failed = failureOf(echo(client, `c${i}`));
      await clock.settle();
      server.cutStreams();
      expect((await failed).executed).toBe('unknown');
    }
    expect(client.connection.state).toBe('unstable');
    expect(await failureOf(echo(client, 'refused'))).toMatchObject({
      code: 'ERR_SESSION_UNSTABLE',
      executed: false,
    });
    expect(server.counts.executionsById).toEqual({ c0: 1, c1: 1, c2: 1 });
  });

  it('such a server, where somebody listens: asked again and again, but ever more slowly', async () => {
    const scene = await legacy();
    const { server, clock } = scene;
    const { client, heard } = await listening(scene);
    const gets: number[] = [];
    for (let i = 0; i < 80; i += 1) {
      if (server.counts.streamsOpen > 0) gets.push(i);
      server.cutStreams();
      await clock.advance(1_000);
    }
    // 50 ms, 500 ms, 2 s, 5 s, 15 s, 30 s.
    expect(server.counts.gets).toBe(7);
    expect(gets.length).toBeGreaterThan(4);
    expect(server.counts.streamsOpen).toBe(0);
    await clock.advance(30_000);
    server.notify('notifications/tools/list_changed');
    await clock.settle();
    expect(heard.changes).toBe(1);
    await client.close();
    await clock.advance(60_000);
    expect(server.counts).toMatchObject({ gets: 8, streamsOpen: 0 });
  });

  it('its timer ends with the client', async () => {
    const scene = await legacy();
    const { server, clock } = scene;
    const client = await connect(scene, {
      credentials: server.issueToken(),
      streams: { listen: true },
    });
    server.cutStreams();
    await client.connection.once('session-lost');
    expect(client.connection.state).toBe('idle');
    await client.close();
    expect(clock.pendingTimers).toBe(0);
    expect(server.counts.gets).toBe(1);
  });

  it('the stream and the POSTs reach different nodes: the handshake is made again, then it is said', async () => {
    const scene = await legacy();
    const { server, clock } = scene;
    const client = await connect(scene);
    await echo(client, 'a');
    const script = server.reply(
      { http: 'POST', method: 'initialize' },
      { status: 404, body: 'no session' },
      { times: 1 },
    );
    server.cutStreams();
    await client.connection.once('session-lost');
    await clock.advance(2_000);
    await echo(client, 'b');
    expect(server.counts).toMatchObject({ gets: 3, streamsOpen: 1, executionsById: { a: 1, b: 1 } });

    script.dispose();
    server.reply({ http: 'POST', method: 'initialize' }, { status: 404, body: 'no session' });
    server.cutStreams();
    await client.connection.once('session-lost');
    const failed = failureOf(echo(client, 'c'));
    await clock.advance(60_000);
    expect(await failed).toMatchObject({ code: 'ERR_SESSION_LOST', executed: false });
    expect(server.counts.streamsOpen).toBe(0);
  });

  it('within the handshake: it is made again', async () => {
    const scene = await legacy();
    const { server, clock } = scene;
    server.replyOnce(
      { http: 'GET' },
      { chunks: ['event: endpoint\ndata: /messages?sessionId=0\n\n', { pauseMs: 100 }] },
    );
    server.replyOnce({ http: 'POST', method: 'initialize' }, { status: 404 });
    server.replyOnce({ http: 'POST', method: 'initialize' }, { status: 202 });
    const connecting = connect(scene);
    await clock.advance(3_000);
    await echo(await connecting, 'a');
    expect(server.counts).toMatchObject({ gets: 2, executionsById: { a: 1 } });
  });
});
