import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import {
  CallToolRequestSchema,
  ElicitRequestSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, it } from 'vitest';
import { HostedClient } from '../../src/client.js';
import type { HostedServer } from '../../src/testing/index.js';
import { connectFace, FACES } from './faces.js';
import { ASKING, CALL, HANDSHAKE, legacy, listening, requestsAt } from './legacy.js';
import { connectOver, stockClient } from './stock.js';
import { closeLater, connect, echo, failureOf, startServer } from './support.js';

describe('a server of protocol 2024-11-05 is found by the refusal of the first POST', () => {
  for (const legacyRefusalStatus of [400, 404, 405] as const) {
    for (const face of FACES) {
      it(`${legacyRefusalStatus}, ${face}: one GET, and calls run`, async () => {
        const scene = await legacy({ legacyRefusalStatus });
        const { server } = scene;
        const caller = await connectFace(face, scene, { streams: { listen: 'auto' } });

        await Promise.all(['a', 'b', 'c'].map((id) => caller.echo(id)));

        expect(server.counts.executionsById).toEqual({ a: 1, b: 1, c: 1 });
        expect(requestsAt(server).slice(0, 4)).toEqual(['POST /sse initialize', ...HANDSHAKE]);
        // The stream is the listen stream, too.
        expect(server.counts).toMatchObject({ gets: 1, streamsOpen: 1, pings: 0 });
      });
    }
  }

  it('is not looked for where the refusal is an answer to our own request', async () => {
    const scene = await startServer();
    const { server } = scene;
    for (const status of [400, 404]) {
      server.replyOnce(
        { http: 'POST', method: 'initialize' },
        {
          status,
          body: ({ message }) => ({
            jsonrpc: '2.0',
            id: message?.id,
            error: { code: -32602, message: 'no' },
          }),
        },
      );
      await expect(connect(scene)).rejects.toMatchObject({ code: -32602 });
    }
    expect(server.counts.gets).toBe(0);
  });

  it.each([401, 403, 406, 429, 500, 503])('is not looked for after %d', async (status) => {
    const scene = await startServer();
    const { server, clock } = scene;
    server.reply({ http: 'POST', method: 'initialize' }, { status });
    const failed = failureOf(connect(scene));
    await clock.advance(60_000);
    expect((await failed).executed).toBe(false);
    expect(server.counts.gets).toBe(0);
  });

  it('is never looked for at a server of Streamable HTTP', async () => {
    const scene = await startServer();
    const { server } = scene;
    const client = await connect(scene, { streams: { listen: false } });
    await echo(client, 'a');
    server.dropSessions();
    await echo(client, 'b').catch(() => {});
    await echo(client, 'c');
    expect(server.counts).toMatchObject({ gets: 0, initializes: 2 });
  });

  for (const [name, set] of [
    ['refused as well', (server: HostedServer) => server.reply({ http: 'GET' }, { status: 405 })],
    ['no event stream', (server: HostedServer) => server.reply({ http: 'GET' }, { status: 200, body: 'hi' })],
    [
      'a stream of another kind',
      (server: HostedServer) =>
        server.reply({ http: 'GET' }, { chunks: ['data: {}\n\nevent: endpoint\ndata: /messages\n\n'] }),
    ],
    ['a stream that ends', (server: HostedServer) => server.reply({ http: 'GET' }, { chunks: [': hi\n\n'] })],
  ] as const) {
    it(`the GET is ${name}: the refusal of the POST is the error, and says that both were tried`, async () => {
      const scene = await legacy();
      const { server } = scene;
      set(server);

      const failure = await failureOf(connect(scene));

      expect(failure).toMatchObject({ code: 'ERR_HTTP_STATUS', status: 404, executed: false });
      expect(failure.message).toMatch(/neither by Streamable HTTP nor by HTTP\+SSE/);
      expect(requestsAt(server)).toEqual(['POST /sse initialize', 'GET /sse']);
    });
  }

  for (const [name, reply] of [
    ['a stream without an endpoint', { chunks: [': hi\n\n', { pauseMs: 1e9 }] }],
    ['silence', { silence: true }],
  ] as const) {
    it(`the GET brings ${name}: an error within 15 s`, async () => {
      const scene = await legacy();
      const { server, clock } = scene;
      server.reply({ http: 'GET' }, reply);

      const failed = failureOf(connect(scene));
      await clock.advance(9_900);
      const early = await Promise.race([failed, 'nothing yet']);
      await clock.advance(100);

      expect(early).toBe('nothing yet');
      expect(await failed).toMatchObject({ code: 'ERR_HTTP_STATUS', status: 404 });
      expect(server.counts.gets).toBe(1);
    });
  }

  it('the server is briefly away between the POST and the GET: the handshake is made again', async () => {
    const scene = await legacy();
    const { server, clock } = scene;
    server.replyOnce({ http: 'GET' }, { status: 503 });
    const connecting = connect(scene);
    await clock.advance(2_000);
    await echo(await connecting, 'a');
    expect(server.counts).toMatchObject({ gets: 2, executionsById: { a: 1 } });
  });

  it('once found, it is not asked by POST again', async () => {
    const scene = await legacy();
    const { server } = scene;
    const client = await connect(scene);
    await echo(client, 'a');
    for (const id of ['b', 'c']) {
      server.reset();
      const lost = client.connection.once('session-lost');
      server.cutStreams();
      await lost;
      await echo(client, id);

      expect(requestsAt(server)).toEqual([...HANDSHAKE, 'POST /messages tools/call']);
    }
  });

  it('a server that has moved on to Streamable HTTP meanwhile is found again', async () => {
    const scene = await legacy();
    const { server } = scene;
    const client = await connect(scene);
    await echo(client, 'a');
    const result = {
      protocolVersion: '2025-06-18',
      capabilities: {},
      serverInfo: { name: 'x', version: '1' },
    };
    server.reply({ http: 'GET' }, { status: 405 });
    server.reply(
      { http: 'POST', method: 'initialize' },
      { status: 200, body: ({ message }) => ({ jsonrpc: '2.0', id: message?.id, result }) },
    );
    server.reply({ http: 'POST', method: 'notifications/initialized' }, { status: 202 });
    server.reset();

    const established = client.connection.once('session-established');
    server.cutStreams();

    expect((await established).session.protocolVersion).toBe('2025-06-18');
    expect(requestsAt(server).slice(0, 2)).toEqual(['GET /sse', 'POST /sse initialize']);
  });
});

describe('what a legacy session carries', () => {
  it('notifications, questions and their answers', async () => {
    const scene = await legacy({ tools: ASKING });
    const { client, heard } = await listening(scene);

    const result = await client.callTool({ name: 'ask', arguments: {} });
    scene.server.notify('notifications/tools/list_changed');
    await scene.clock.settle();

    expect(result.content).toEqual([{ type: 'text', text: '{"action":"decline"}' }]);
    expect(heard).toEqual({ changes: 1, questions: 1 });
    expect(scene.server.counts.gets).toBe(1);
  });

  it.each(['v1', 'v2'] as const)('the same under the stock Client %s', async (sdk) => {
    const scene = await legacy({ tools: ASKING });
    const client = stockClient(sdk as 'v1', { elicitation: {} });
    const questions: unknown[] = [];
    const answer = (request: unknown) => {
      questions.push(request);
      return { action: 'decline' as const };
    };
    if (sdk === 'v1') client.setRequestHandler(ElicitRequestSchema, answer);
    else client.setRequestHandler('elicitation/create' as never, answer as never);
    const transport = await connectOver(scene, client);

    const result = await client.callTool({ name: 'ask', arguments: {} });

    expect(result.content).toEqual([{ type: 'text', text: '{"action":"decline"}' }]);
    expect(questions).toHaveLength(1);
    expect(transport.sessionId).toBeUndefined();
  });

  it('an answer in the body of the POST counts, too', async () => {
    const scene = await legacy();
    const client = await connect(scene);
    scene.server.replyOnce(CALL, {
      status: 200,
      body: ({ message }) => ({
        jsonrpc: '2.0',
        id: message?.id,
        result: { content: [{ type: 'text', text: 'direct' }] },
      }),
    });
    expect((await echo(client, 'a')).content).toEqual([{ type: 'text', text: 'direct' }]);
  });

  it('a POST that is refused is told with its status', async () => {
    const scene = await legacy();
    const { server } = scene;
    const client = await connect(scene);
    server.replyOnce(CALL, { status: 413, body: 'too much' });
    expect(await failureOf(echo(client, 'a'))).toMatchObject({
      code: 'ERR_HTTP_STATUS',
      status: 413,
      executed: false,
    });
    server.throttle(1_000);
    const limited = echo(client, 'b');
    await scene.clock.advance(2_000);
    await limited;
    expect(server.counts).toMatchObject({ executionsById: { b: 1 }, initializes: 2, gets: 1 });
  });

  it('a POST that is cut off: unknown at once', async () => {
    const scene = await legacy();
    const client = await connect(scene);
    scene.server.replyOnce(CALL, { cut: 'reset' });
    const failure = await failureOf(echo(client, 'a'));
    expect(failure).toMatchObject({ code: 'ERR_OUTCOME_UNKNOWN', executed: 'unknown' });
    await echo(client, 'b');
    expect(scene.server.counts).toMatchObject({ executionsById: { b: 1 }, gets: 1 });
  });

  it('a call that is given up is cancelled at the server, and its late answer harms nobody', async () => {
    const scene = await legacy();
    const { server, clock } = scene;
    const client = await connect(scene);
    const given = new AbortController();
    const failed = failureOf(
      client.callTool({ name: 'slow', arguments: { ms: 5_000 } }, undefined, { signal: given.signal }),
    );
    await clock.settle();
    given.abort();
    expect(await failed).toMatchObject({ code: 'ERR_ABORTED', executed: 'unknown' });
    await clock.advance(6_000);
    await echo(client, 'a');
    expect(requestsAt(server)).toContain('POST /messages notifications/cancelled');
    expect(server.counts).toMatchObject({ gets: 1, executions: { slow: 1, echo: 1 } });
  });

  it('its secret address is in no error', async () => {
    const scene = await legacy();
    const client = await connect(scene);
    let secret = '';
    scene.server.replyOnce(CALL, {
      tool: 'run',
      status: 422,
      headers: ({ sessionId = '' }) => {
        secret = sessionId;
        return { 'content-type': 'text/plain' };
      },
      body: ({ sessionId }) => `no tool for ${sessionId}`,
    });
    const failure = await failureOf(echo(client, 'a'));
    expect(secret).toMatch(/^[0-9a-f-]{36}$/);
    expect(failure.serverText).toBe('no tool for [redacted]');
  });
});

describe("the SDK's own legacy server", () => {
  async function realServer() {
    const transports = new Map<string, SSEServerTransport>();
    const counts = { gets: 0, calls: 0, initialized: 0 };
    const cut = () => {
      for (const transport of transports.values()) void transport.close();
    };
    const http = createServer(async (request, response) => {
      const url = new URL(request.url ?? '', 'http://localhost');
      if (request.method === 'GET' && url.pathname === '/sse') {
        counts.gets += 1;
        const transport = new SSEServerTransport('/messages', response);
        transports.set(transport.sessionId, transport);
        const server = new Server({ name: 'real', version: '1' }, { capabilities: { tools: {} } });
        server.oninitialized = () => {
          counts.initialized += 1;
        };
        server.setRequestHandler(CallToolRequestSchema, async ({ params }) => {
          counts.calls += 1;
          if (params.name === 'hang') await new Promise(() => {});
          if (params.name === 'ask') {
            const { action } = await server.elicitInput({
              message: 'sure?',
              requestedSchema: { type: 'object', properties: {} },
            });
            return { content: [{ type: 'text', text: action }] };
          }
          await server.sendToolListChanged();
          return { content: [{ type: 'text', text: 'done' }] };
        });
        transport.onclose = () => transports.delete(transport.sessionId);
        await server.connect(transport);
        return;
      }
      const transport = transports.get(url.searchParams.get('sessionId') ?? '');
      if (request.method !== 'POST' || url.pathname !== '/messages' || transport === undefined) {
        response.writeHead(404).end('no session');
        return;
      }
      await transport.handlePostMessage(request, response);
    });
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    closeLater(() => new Promise((resolve) => http.close(resolve)));
    const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/sse`;
    const client = new HostedClient(
      { name: 'test', version: '1.0.0' },
      { url, capabilities: { elicitation: {}, tools: {} } as never },
    );
    closeLater(() => client.close());
    client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'decline' }));
    let changes = 0;
    client.setNotificationHandler(ToolListChangedNotificationSchema, () => {
      changes += 1;
    });
    await client.connect();
    return { client, counts, cut, transports, changes: () => changes };
  }

  it('is spoken to: calls, notifications, questions, a cut under a call, the end', async () => {
    const { client, counts, cut, transports, changes } = await realServer();
    expect((await client.callTool({ name: 'x', arguments: {} })).content).toEqual([
      { type: 'text', text: 'done' },
    ]);
    expect((await client.callTool({ name: 'ask', arguments: {} })).content).toEqual([
      { type: 'text', text: 'decline' },
    ]);
    expect(changes()).toBe(1);

    const failed = failureOf(client.callTool({ name: 'hang', arguments: {} }));
    await expect.poll(() => counts.calls).toBe(3);
    cut();
    expect(await failed).toMatchObject({ code: 'ERR_OUTCOME_UNKNOWN', executed: 'unknown' });
    await client.callTool({ name: 'x', arguments: {} });
    expect(counts).toEqual({ gets: 2, calls: 4, initialized: 2 });

    await client.close();
    await expect.poll(() => transports.size).toBe(0);
  });
});
