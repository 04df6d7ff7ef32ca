import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, it, vi } from 'vitest';
import { HostedMcpError, HostedTransport, type HostedTransportOptions } from '../../src/index.js';
import type { ToolCallContext, ToolDefinition } from '../../src/testing/index.js';
import { closeLater, failureOf, machine, type Scene, startServer } from '../wire/support.js';

const CAPABILITIES = { elicitation: {}, sampling: {}, roots: {} };

interface Face {
  readonly client: Client;
  readonly transport: HostedTransport;
  readonly errors: Error[];
}

async function connect(scene: Scene, options: HostedTransportOptions = {}): Promise<Face> {
  const transport = new HostedTransport(scene.server.url, {
    clock: scene.clock,
    ...(options.authProvider === undefined &&
      options.requestInit === undefined && { credentials: machine(scene) }),
    ...options,
  });
  const client = new Client({ name: 'v1', version: '1.0.0' }, { capabilities: CAPABILITIES });
  const errors: Error[] = [];
  client.onerror = (error) => errors.push(error);
  closeLater(() => client.close());
  await client.connect(transport);
  return { client, transport, errors };
}

const echo = (client: Client, callId: string, options?: Parameters<Client['request']>[2]) =>
  client.callTool(
    { name: 'echo', arguments: { text: callId }, _meta: { 'mcp-holdfast/callId': callId } },
    undefined,
    options,
  );
const slow = (client: Client, ms: number, options?: Parameters<Client['request']>[2]) =>
  client.callTool({ name: 'slow', arguments: { ms } }, undefined, options);

/** A tool that waits for the test to let it go. */
function gated(name = 'gated') {
  let open!: () => void;
  let started!: (call: ToolCallContext) => void;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  const running = new Promise<ToolCallContext>((resolve) => {
    started = resolve;
  });
  const tool: ToolDefinition = {
    name,
    handler: async (_args, call) => {
      started(call);
      await opened;
      return 'done';
    },
  };
  return { tool, running, open };
}

const methods = (scene: Scene) => scene.server.log.map((entry) => entry.rpcMethod ?? entry.http);

describe('HostedTransport under the SDK v1 Client', () => {
  it.each(['json', 'sse'] as const)('connects, lists and calls (answers as %s)', async (answer) => {
    const scene = await startServer({ answer });
    const { client, transport, errors } = await connect(scene);

    expect((await client.listTools()).tools.map((tool) => tool.name)).toContain('echo');
    expect(await echo(client, 'a')).toMatchObject({ content: [{ type: 'text', text: 'a' }] });

    expect(client.getServerVersion()).toMatchObject({ name: 'mcp-holdfast-simulator' });
    expect(transport.sessionId).toMatch(/^[\x21-\x7e]+$/);
    expect(transport.protocolVersion).toBe('2025-11-25');
    expect(scene.server.counts).toMatchObject({ initializes: 1, executionsById: { a: 1 } });
    expect(errors).toEqual([]);
  });

  it('the server’s own errors stay the SDK’s', async () => {
    const scene = await startServer();
    const { client } = await connect(scene);

    const error = await client.callTool({ name: 'none' }).catch((thrown: unknown) => thrown);

    expect(HostedMcpError.isInstance(error)).toBe(false);
    expect(error).toMatchObject({ code: -32602 });
  });

  it('a loss reaches the caller as our own object, and the next call goes out on a new session', async () => {
    const scene = await startServer();
    const { client, transport } = await connect(scene);
    const before = transport.sessionId;
    await scene.clock.settle();
    scene.server.dropSessions();

    const failure = await failureOf(echo(client, 'lost'));

    expect(failure).toBeInstanceOf(HostedMcpError);
    expect(failure).toMatchObject({
      code: 'ERR_SESSION_LOST',
      executed: false,
      retryable: true,
      tool: 'echo',
    });
    await echo(client, 'after');
    expect(transport.sessionId).not.toBe(before);
    expect(scene.server.counts).toMatchObject({ initializes: 2, executionsById: { after: 1 } });
  });

  it('progress arrives for the caller who asked', async () => {
    const scene = await startServer();
    const { client, errors } = await connect(scene);
    const seen: number[] = [];
    const done = slow(client, 100, { onprogress: ({ progress }) => seen.push(progress) });

    await scene.clock.advance(100);
    await done;

    expect(seen).toEqual([0, 50, 100]);
    expect(errors).toEqual([]);
  });

  it.each([
    ['on the call’s own stream', undefined],
    ['on the listen stream', 'json'],
  ] as const)('answers the server’s questions %s', async (_name, answer) => {
    const answers: unknown[] = [];
    const scene = await startServer({
      answer,
      tools: [
        {
          name: 'ask',
          handler: async (_args, call) => {
            const message = { role: 'user', content: { type: 'text', text: 'hm?' } };
            answers.push(
              await call.request('elicitation/create', {
                message: 'Sure?',
                requestedSchema: { type: 'object', properties: {} },
              }),
              await call.request('sampling/createMessage', { messages: [message], maxTokens: 5 }),
              await call.request('roots/list'),
            );
            return 'asked';
          },
        },
      ],
    });
    const { client, transport } = await connect(scene);
    client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'accept', content: {} }));
    client.setRequestHandler(CreateMessageRequestSchema, () => ({
      model: 'm',
      role: 'assistant',
      content: { type: 'text', text: 'ok' },
    }));
    client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: [{ uri: 'file:///a' }] }));
    await scene.clock.settle();

    await client.callTool({ name: 'ask' });

    expect(answers).toMatchObject([{ action: 'accept' }, { model: 'm' }, { roots: [{ uri: 'file:///a' }] }]);
    expect(transport.connection.state).toBe('ready');
  });

  it('notifications of the server arrive', async () => {
    const scene = await startServer();
    const { client } = await connect(scene);
    const heard = vi.fn();
    client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => heard(params.data));
    await scene.clock.settle();

    scene.server.notify('notifications/message', { level: 'info', data: 'hello' });
    await scene.clock.settle();

    expect(heard).toHaveBeenCalledExactlyOnceWith('hello');
    expect(scene.server.counts.listens).toBe(1);
  });

  describe('a call that its caller takes back', () => {
    it('was queued: neither it nor its cancellation reaches the wire', async () => {
      const scene = await startServer();
      const { client, errors } = await connect(scene);
      await echo(client, 'before');
      scene.server.throttle(5_000);
      // The one that meets the limit; all others wait in line.
      const first = echo(client, 'first');
      await scene.clock.settle();
      const caller = new AbortController();
      const queued = echo(client, 'queued', { signal: caller.signal }).catch((error: unknown) => error);
      await scene.clock.settle();
      const { requests } = scene.server.counts;

      caller.abort();
      expect(await queued).toBeInstanceOf(Error);
      await scene.clock.settle();
      expect(scene.server.counts.requests).toBe(requests);

      await scene.clock.advance(6_000);
      await first;
      expect(scene.server.counts.executionsById).toEqual({ before: 1, first: 1 });
      expect(methods(scene)).not.toContain('notifications/cancelled');
      expect(errors).toEqual([]);
    });

    it('was sent: cancelled once at the server, and its stream is closed', async () => {
      const { tool, running, open } = gated();
      const scene = await startServer({ tools: [tool], answer: 'sse' });
      const { client, transport, errors } = await connect(scene);
      const done: unknown[] = [];
      transport.connection.on('exchange', (exchange) => {
        if (exchange.method === 'tools/call') done.push(exchange.status);
      });
      const caller = new AbortController();
      const sent = client.callTool({ name: 'gated' }, undefined, { signal: caller.signal }).catch(() => {});
      const call = await running;
      await scene.clock.settle();

      caller.abort();
      await sent;
      await scene.clock.settle();

      expect(call.signal.aborted).toBe(true);
      expect(methods(scene).filter((method) => method === 'notifications/cancelled')).toHaveLength(1);
      expect(done).toEqual([200]);
      open();
      await scene.clock.settle();
      expect(errors).toEqual([]);
      expect(transport.connection.stats.calls.failed).toEqual({ ERR_ABORTED: 1 });
    });
  });

  describe('resumption', () => {
    it('tells the event ids of a call’s stream', async () => {
      const scene = await startServer({ eventStore: true, answer: 'sse' });
      const { client } = await connect(scene);
      const tokens: string[] = [];

      await echo(client, 'a', { onresumptiontoken: (token) => tokens.push(token) });

      expect(tokens).toHaveLength(2);
    });

    it('takes up the answer of a call of before a restart: the tool runs once', async () => {
      const { tool, running, open } = gated();
      const scene = await startServer({ tools: [tool], eventStore: true, answer: 'sse' });
      const first = await connect(scene);
      const { sessionId = '' } = first.transport;
      const tokens: string[] = [];
      const lost = first.client
        .callTool({ name: 'gated' }, undefined, { onresumptiontoken: (token) => tokens.push(token) })
        .catch((error: unknown) => error);
      await running;
      await scene.clock.settle();
      await first.client.close();
      expect(await lost).toMatchObject({ code: 'ERR_CLOSED', executed: 'unknown' });

      const { client } = await connect(scene, { sessionId });
      const resumed = client.callTool({ name: 'gated' }, undefined, { resumptionToken: tokens[0] ?? '' });
      await scene.clock.advance(1_000);
      open();

      expect(await resumed).toMatchObject({ content: [{ text: 'done' }] });
      expect(scene.server.counts).toMatchObject({ executions: { gated: 1 }, initializes: 1 });
    });

    it('resumeStream: the answer comes in under the id it is asked for', async () => {
      const scene = await startServer({ eventStore: true, answer: 'sse' });
      const { client, transport } = await connect(scene);
      const tokens: string[] = [];
      await echo(client, 'a', { onresumptiontoken: (token) => tokens.push(token) });
      const id = scene.server.log.find((entry) => entry.rpcMethod === 'tools/call')?.rpcId ?? '';
      const inner = transport.onmessage;
      const heard: unknown[] = [];
      transport.onmessage = (message) => heard.push(message);

      const resumed = transport.resumeStream(tokens[0] ?? '', { replayMessageId: id });
      await scene.clock.advance(1_000);
      await resumed;
      transport.onmessage = inner as never;

      expect(heard).toMatchObject([{ id, result: { content: [{ text: 'a' }] } }]);
      expect(scene.server.counts.executionsById).toEqual({ a: 1 });
      await expect(transport.resumeStream('x')).rejects.toMatchObject({ code: 'ERR_PROTOCOL' });
    });

    it('takes up a session after a restart without a handshake, and heals it when it is gone', async () => {
      const scene = await startServer();
      const first = await connect(scene);
      const { sessionId, protocolVersion } = first.transport;
      if (sessionId === undefined || protocolVersion === undefined) throw new Error('no session');
      await first.client.close();
      expect(scene.server.counts.deletes).toBe(0);
      scene.server.reset();

      const { client, transport } = await connect(scene, { sessionId, protocolVersion });
      await echo(client, 'resumed');
      await scene.clock.settle();

      expect(scene.server.counts).toMatchObject({ initializes: 0, executionsById: { resumed: 1 } });
      const call = scene.server.log.find((entry) => entry.tool === 'echo');
      expect(call?.headers['mcp-protocol-version']).toBe('2025-11-25');
      expect(call?.sessionLabel).toBe('session#1');

      scene.server.dropSessions();
      expect(await failureOf(echo(client, 'lost'))).toMatchObject({
        code: 'ERR_SESSION_LOST',
        executed: false,
      });
      await echo(client, 'after');
      expect(scene.server.counts).toMatchObject({ initializes: 1, executionsById: { resumed: 1, after: 1 } });
      expect(transport.sessionId).not.toBe(sessionId);
    });
  });

  it('terminateSession deletes the session; the next call opens another', async () => {
    const scene = await startServer();
    const { client, transport } = await connect(scene);

    await transport.terminateSession();
    expect([scene.server.counts.deletes, transport.sessionId, transport.connection.state]).toEqual([
      1,
      undefined,
      'idle',
    ]);

    await echo(client, 'after');
    expect(scene.server.counts).toMatchObject({ initializes: 2, executionsById: { after: 1 } });
    expect(transport.sessionId).toBeDefined();
  });

  it.each([404, 405, 500])('terminateSession takes %i for an answer', async (status) => {
    const scene = await startServer();
    const { client, transport } = await connect(scene);
    scene.server.replyOnce({ http: 'DELETE' }, { status });

    await transport.terminateSession();

    await echo(client, 'after');
    expect(scene.server.counts.initializes).toBe(2);
  });

  describe('stock options', () => {
    it.each([
      ['a plain object', (pairs: [string, string][]) => Object.fromEntries(pairs)],
      ['pairs', (pairs: [string, string][]) => pairs],
      ['Headers', (pairs: [string, string][]) => new Headers(pairs)],
    ])('requestInit.headers as %s go with every request', async (_name, form) => {
      const scene = await startServer();
      const headers = form([
        ['Authorization', `Bearer ${scene.server.issueToken()}`],
        ['X-Tenant', 'blue'],
      ]);
      const { client } = await connect(scene, { requestInit: { headers } });
      await echo(client, 'a');
      await scene.clock.settle();

      expect(scene.server.log.length).toBeGreaterThanOrEqual(4);
      for (const entry of scene.server.log)
        expect(entry.headers).toMatchObject({
          'x-tenant': 'blue',
          authorization: expect.stringMatching(/^Bearer token#/),
        });
    });

    it('fetch carries every request', async () => {
      const scene = await startServer();
      const used: string[] = [];
      const { client } = await connect(scene, {
        fetch: (url, init) => {
          used.push(init.method);
          return fetch(url, init);
        },
      });

      await echo(client, 'a');

      expect(used.length).toBe(scene.server.counts.requests);
      expect(used).toContain('GET');
    });

    it('an authProvider’s token is read for each use', async () => {
      const scene = await startServer();
      let token = scene.server.issueToken();
      const tokens = vi.fn(() => ({ access_token: token, token_type: 'Bearer' }));
      const { client } = await connect(scene, { authProvider: oauthProvider(tokens) });
      await echo(client, 'a');
      const before = tokens.mock.calls.length;
      token = scene.server.issueToken();

      await echo(client, 'b');

      expect(tokens.mock.calls.length).toBeGreaterThan(before);
      const calls = scene.server.log.filter((entry) => entry.tool === 'echo');
      expect(calls.map((entry) => entry.tokenLabel)).toEqual(['token#1', 'token#2']);
      expect(scene.server.counts.tokenRequests).toBe(0);
    });

    it('an authProvider whose token is refused sends nobody anywhere: the error says who has to act', async () => {
      const scene = await startServer();
      const redirected = vi.fn();
      const provider = {
        ...oauthProvider(() => ({ access_token: scene.server.issueToken(), token_type: 'Bearer' })),
        redirectToAuthorization: redirected,
      };
      const { client } = await connect(scene, { authProvider: provider });
      provider.tokens = () => ({ access_token: 'expired', token_type: 'Bearer' });

      expect(await failureOf(echo(client, 'a'))).toMatchObject({
        code: 'ERR_REAUTHORIZATION_REQUIRED',
        executed: false,
      });
      expect(redirected).not.toHaveBeenCalled();
      expect(scene.server.counts.executionsById).toEqual({});
    });

    const provider = { token: async () => 'x' };
    it.each<[string, HostedTransportOptions]>([
      ['redirectPolicy', { redirectPolicy: 'follow' }],
      ['redirectPolicy', { redirectPolicy: 'never' as never }],
      ['authProvider', { authProvider: provider, credentials: 'token' }],
      ['fetch', { fetch, http: { fetch } }],
      ['sessionId', { sessionId: '' }],
      ['protocolVersion', { sessionId: 'x', protocolVersion: 7 as never }],
      ['requestInit', { requestInit: { headers: 'x' } }],
      [
        'reconnectionOptions.maxReconnectionDelay',
        { reconnectionOptions: { maxReconnectionDelay: -1 } as never },
      ],
      ['maxRetries', { maxRetries: 1 } as never],
    ])('refuses %s that cannot be used with a TypeError', (name, options) => {
      expect(() => new HostedTransport('http://127.0.0.1:1/mcp', options)).toThrow(TypeError);
      expect(() => new HostedTransport('http://127.0.0.1:1/mcp', options)).toThrow(name);
    });

    it('takes the stock policy and reconnection options', async () => {
      const scene = await startServer();
      const { client } = await connect(scene, {
        redirectPolicy: 'same-origin',
        reconnectionOptions: {
          maxReconnectionDelay: 30_000,
          initialReconnectionDelay: 1_000,
          reconnectionDelayGrowFactor: 1.5,
          maxRetries: 2,
        },
      });

      await echo(client, 'a');
    });
  });

  it('a hundred rejected calls leave nothing behind in the Client', async () => {
    const scene = await startServer();
    const { client, errors } = await connect(scene, {
      gates: [{ name: 'policy', before: () => ({ deny: 'no' }) }],
    });

    const failures = await Promise.all(
      Array.from({ length: 100 }, (_, call) => failureOf(echo(client, `${call}`))),
    );
    await scene.clock.settle();

    expect(new Set(failures.map(({ code }) => code))).toEqual(new Set(['ERR_DENIED']));
    const inner = client as unknown as Record<string, Map<unknown, unknown>>;
    expect(inner._responseHandlers?.size).toBe(0);
    expect(inner._timeoutInfo?.size).toBe(0);
    expect(errors).toEqual([]);
  });

  it('close never rejects; calls that wait end as ERR_CLOSED with what is known of them', async () => {
    const { tool, running } = gated();
    const scene = await startServer({ tools: [tool] });
    const { client, transport } = await connect(scene, { credentials: scene.server.issueToken() });
    const sent = failureOf(client.callTool({ name: 'gated' }));
    await running;
    scene.server.throttle(20_000);
    const refused = failureOf(client.callTool({ name: 'gated' }));
    await scene.clock.settle();
    const queued = failureOf(client.listTools());
    await scene.clock.settle();

    await expect(client.close()).resolves.toBeUndefined();
    await expect(transport.close()).resolves.toBeUndefined();

    const failures = await Promise.all([sent, refused, queued]);
    expect(failures.map(({ code, executed }) => [code, executed])).toEqual([
      ['ERR_CLOSED', 'unknown'],
      ['ERR_CLOSED', false],
      ['ERR_CLOSED', false],
    ]);
    for (const { message } of failures) expect(message).not.toMatch(/connection closed/i);
    expect(scene.clock.pendingTimers).toBe(0);
    expect(transport.connection.state).toBe('closed');
  });

  it('finishAuth without credentials that a user authorizes is a TypeError', async () => {
    const transport = new HostedTransport('http://127.0.0.1:1/mcp');

    await expect(transport.finishAuth('code')).rejects.toThrow(TypeError);
    await transport.close();
  });

  it('a server that is away: connect fails typed, and nobody’s rejection goes unheard', async () => {
    const scene = await startServer();
    await scene.server.close();
    const connecting = connect(scene, { credentials: 'a-token' }).then(
      () => undefined,
      (error: unknown) => error,
    );

    await scene.clock.advance(60_000);

    expect(await connecting).toMatchObject({ code: 'ERR_NOT_SENT', executed: false, retryable: true });
  });
});

function oauthProvider(tokens: () => { access_token: string; token_type: string }) {
  return {
    redirectUrl: undefined,
    clientMetadata: { redirect_uris: [] },
    tokens,
    saveTokens() {},
    clientInformation: () => ({ client_id: 'x' }),
    redirectToAuthorization() {},
    saveCodeVerifier() {},
    codeVerifier: () => '',
  };
}
