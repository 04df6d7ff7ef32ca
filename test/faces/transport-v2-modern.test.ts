/** Protocol 2026-07-28: negotiation, headers and calls, judged at the server. */
import { Client, ProtocolError, SdkError, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { describe, expect, it, vi } from 'vitest';
import { HostedClient } from '../../src/client.js';
import { HostedMcpError } from '../../src/index.js';
import type { ScriptedRequest, ToolCallContext } from '../../src/testing/index.js';
import { closeLater, failureOf, machine, startServer } from '../wire/support.js';
import {
  AUTO,
  atEndpoint,
  connect,
  count,
  echo,
  expectModernOnly,
  INFO,
  methods,
  modern,
  PIN,
  prepare,
  VERSION,
} from './modern.js';

describe.each([
  ['auto', AUTO],
  ['pin', PIN],
])('negotiated (%s)', (_name, client) => {
  it.each(['json', 'sse'] as const)('discovers, lists and calls (answers as %s)', async (answer) => {
    const scene = await modern({ answer });
    const { connection, transport, errors, ...rest } = await connect(scene, { client });

    expect(connection.state).toBe('ready');
    expect(connection.session).toMatchObject({
      number: 1,
      era: 'stateless',
      protocolVersion: VERSION,
      serverInfo: { name: 'mcp-holdfast-simulator' },
      capabilities: { tools: { listChanged: true } },
    });
    expect((await rest.client.listTools()).tools.map(({ name }) => name)).toContain('echo');
    expect(await echo(rest.client, 'a')).toMatchObject({ content: [{ type: 'text', text: 'a' }] });
    expect(rest.client.getNegotiatedProtocolVersion()).toBe(VERSION);
    expect(transport.sessionId).toBeUndefined();
    expect(transport.protocolVersion).toBe(VERSION);
    await rest.client.close();
    await scene.clock.settle();

    expect(methods(scene)).toEqual(['server/discover', 'tools/list', 'tools/call']);
    expectModernOnly(scene);
    expect(scene.server.counts).toMatchObject({ tokenRequests: 1, executionsById: { a: 1 } });
    expect(errors).toEqual([]);
  });
});

describe('negotiation', () => {
  it('is silent where the Client knows the server already', async () => {
    const scene = await modern();
    const first = await connect(scene);
    const discover = first.client.getDiscoverResult();
    if (discover === undefined) throw new Error('nothing discovered');
    scene.server.reset();

    const { client, connection } = await connect(scene, { connect: { prior: { kind: 'modern', discover } } });
    expect(connection.state).toBe('ready');
    await echo(client, 'a');

    expect(methods(scene)).toEqual(['tools/call']);
    expectModernOnly(scene);
  });

  it('a challenge goes the way of the credential first', async () => {
    const scene = await modern();
    scene.server.replyOnce(
      { method: 'server/discover' },
      { status: 401, headers: { 'www-authenticate': 'Bearer' } },
    );

    const { connection } = await connect(scene);

    expect(connection.session?.era).toBe('stateless');
    expect(count(scene, 'server/discover')).toBe(2);
    expect(scene.server.counts).toMatchObject({ tokenRequests: 2, initializes: 0 });
  });

  it('a refused credential reaches connect() as our own error; nothing is downgraded', async () => {
    const scene = await modern();
    scene.server.reply(
      { method: 'server/discover' },
      { status: 401, headers: { 'www-authenticate': 'Bearer' } },
    );
    const { client, transport } = prepare(scene);

    const failure = await failureOf(client.connect(transport));

    expect(failure).toMatchObject({ code: 'ERR_CREDENTIAL_REJECTED', executed: false });
    expect(count(scene, 'server/discover')).toBe(2);
    expect(scene.server.counts.initializes).toBe(0);
  });

  it.each([500, 502, 503, 403, 302])('status %d is no evidence: typed, not downgraded', async (status) => {
    const scene = await modern();
    const headers = { location: 'https://elsewhere.example/mcp', 'content-type': 'text/html' };
    scene.server.reply({ method: 'server/discover' }, { status, headers, body: '<html>' });
    const { client, transport } = prepare(scene);
    const connecting = client.connect(transport).catch((error: unknown) => error);
    await scene.clock.advance(10_000);

    const failure = await connecting;

    expect(failure).toBeInstanceOf(SdkError);
    const { cause } = failure as SdkError;
    expect(HostedMcpError.isInstance(cause) && cause.code).toBe(
      status === 302 ? 'ERR_REDIRECT' : 'ERR_HTTP_STATUS',
    );
    expect(methods(scene).every((method) => method === 'server/discover')).toBe(true);
  });

  it('a server that cannot be reached: typed', async () => {
    const scene = await modern({ auth: false });
    await scene.server.close();
    const { client, transport } = prepare(scene, { transport: { authProvider: { token: async () => 't' } } });
    const connecting = client.connect(transport).catch((error: unknown) => error);
    await scene.clock.advance(10_000);

    expect((await connecting) as SdkError).toMatchObject({ cause: { code: 'ERR_NOT_SENT' } });
  });

  it('a limit is waited for, not taken for an earlier server', async () => {
    const scene = await modern();
    scene.server.throttle(2_000);
    const { client, transport, connection } = prepare(scene);
    const connecting = client.connect(transport);
    await scene.clock.advance(2_500);

    await connecting;

    expect(connection.session?.era).toBe('stateless');
    expect(scene.server.counts).toMatchObject({ rejectedByLimit: 1, initializes: 0 });
  });

  it('a server of before is opened with initialize', async () => {
    const scene = await startServer();
    const { client, transport, connection, errors } = await connect(scene);

    await echo(client, 'a');

    expect(client.getNegotiatedProtocolVersion()).toBe('2025-11-25');
    expect(connection.session).toMatchObject({ number: 1, era: 'initialize' });
    expect(transport.sessionId).toBeDefined();
    expect(methods(scene).slice(0, 3)).toEqual([
      'server/discover',
      'initialize',
      'notifications/initialized',
    ]);
    expect(scene.server.counts).toMatchObject({ initializes: 1, tokenRequests: 1, executionsById: { a: 1 } });
    const later = atEndpoint(scene).slice(1);
    expect(later.every(({ headers }) => headers['mcp-method'] === undefined)).toBe(true);
    expect(errors).toEqual([]);
  });

  it.each([
    [400, 'Bad Request'],
    [404, '<html>Not Found</html>'],
    [405, ''],
    [400, { jsonrpc: '2.0', id: null, error: { code: -32000, message: 'Server not initialized' } }],
    [404, { jsonrpc: '2.0', id: null, error: { code: -32001, message: 'Session not found' } }],
    [200, { jsonrpc: '2.0', id: null, error: { code: -32600, message: 'Invalid Request' } }],
  ])('so is one that answers %d and %j', async (status, body) => {
    const scene = await startServer();
    scene.server.replyOnce({ method: 'server/discover' }, { status, body });

    const { client } = await connect(scene);

    expect(client.getNegotiatedProtocolVersion()).toBe('2025-11-25');
    expect(scene.server.counts.initializes).toBe(1);
  });

  it('a pinned Client is told by name that the server is one of before', async () => {
    const scene = await startServer();
    const { client, transport } = prepare(scene, { client: PIN });

    await expect(client.connect(transport)).rejects.toThrow(VERSION);

    expect(scene.server.counts.initializes).toBe(0);
  });

  it('a discovery that offers no version we asked for leaves the era open', async () => {
    const scene = await startServer();
    const body = ({ message }: ScriptedRequest) => ({
      jsonrpc: '2.0',
      id: message?.id,
      result: { resultType: 'complete', supportedVersions: ['2031-01-01'], capabilities: {} },
    });
    scene.server.replyOnce({ method: 'server/discover' }, { status: 200, body });

    const { connection } = await connect(scene);

    expect(connection.session).toMatchObject({ number: 1, era: 'initialize' });
  });

  it('a discovery that the Client does not understand is taken back by its initialize', async () => {
    const scene = await startServer();
    const body = ({ message }: ScriptedRequest) => ({
      jsonrpc: '2.0',
      id: message?.id,
      result: { resultType: 'complete', supportedVersions: [VERSION], capabilities: { tools: 'yes' } },
    });
    scene.server.replyOnce({ method: 'server/discover' }, { status: 200, body });

    const { client, connection } = await connect(scene);
    await echo(client, 'a');

    expect(connection.session?.era).toBe('initialize');
    expect(connection.state).toBe('ready');
    expect(scene.server.counts).toMatchObject({ initializes: 1, executionsById: { a: 1 } });
  });

  it('HostedClient (SDK v1) says by name what it met', async () => {
    const scene = await modern();
    const client = new HostedClient(INFO, {
      url: scene.server.url,
      credentials: machine(scene),
      clock: scene.clock,
    });
    closeLater(() => client.close());

    const failure = await failureOf(client.connect());

    expect(failure.code).toBe('ERR_PROTOCOL');
    expect(failure.message).toContain('protocol 2026-07-28 or later only');
    expect(scene.server.counts.gets).toBe(0);
  });
});

describe('headers', () => {
  const OF_THE_HTTP_LIBRARY = new Set([
    'host',
    'connection',
    'content-length',
    'accept-encoding',
    'accept-language',
    'sec-fetch-mode',
    'user-agent',
  ]);
  const inputSchema = {
    type: 'object',
    properties: { region: { type: 'string', 'x-mcp-header': 'Region' }, size: { type: 'integer' } },
  };
  const tools = ['plain', 'größe', 'two words', ' padded ', '=?base64?x?='].map((name) => ({
    name,
    inputSchema,
    handler: () => 'ok',
  }));

  it('are those of the stock transport, for every name and parameter', async () => {
    const scene = await modern({ tools });
    const token = scene.server.issueToken();
    const authProvider = { token: async () => token };
    const stock = new Client(INFO, AUTO);
    closeLater(() => stock.close());
    await stock.connect(new StreamableHTTPClientTransport(new URL(scene.server.url), { authProvider }));
    const { client: ours } = await connect(scene, { transport: { authProvider } });

    const seenWith = async (client: Client) => {
      scene.server.reset();
      await client.listTools(undefined, { cacheMode: 'refresh' });
      for (const { name } of tools) await client.callTool({ name, arguments: { region: 'Zürich', size: 3 } });
      await client.readResource({ uri: 'memo://welcome' });
      return atEndpoint(scene).map(({ headers }) =>
        Object.fromEntries(Object.entries(headers).filter(([name]) => !OF_THE_HTTP_LIBRARY.has(name))),
      );
    };
    const expected = await seenWith(stock);
    const seen = await seenWith(ours);

    expect(seen).toEqual(expected);
    expect(seen[2]).toMatchObject({
      'mcp-method': 'tools/call',
      'mcp-name': `=?base64?${Buffer.from('größe').toString('base64')}?=`,
      'mcp-param-region': `=?base64?${Buffer.from('Zürich').toString('base64')}?=`,
    });
  });

  it('what the engine answers for cannot be set by a caller', async () => {
    const scene = await modern();
    const { transport } = await connect(scene);
    const headers = {
      Authorization: 'Bearer mine',
      'Mcp-Session-Id': 'mine',
      'MCP-Protocol-Version': '1999-01-01',
      'Mcp-Param-Region': 'eu',
    };
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': VERSION,
      'io.modelcontextprotocol/clientInfo': INFO,
      'io.modelcontextprotocol/clientCapabilities': {},
    };
    const params = { name: 'echo', arguments: { text: 'a' }, _meta };
    transport.onmessage = () => {};
    await transport.send({ jsonrpc: '2.0', id: 99, method: 'tools/call', params }, { headers });

    expectModernOnly(scene);
    const sent = atEndpoint(scene).at(-1)?.headers;
    expect(sent).toMatchObject({ authorization: 'Bearer token#1', 'mcp-param-region': 'eu' });
  });
});

describe('calls', () => {
  it('ten at the token’s expiry: one token request, no failed call, none twice', async () => {
    const scene = await modern();
    const { client, errors } = await connect(scene);
    scene.server.reset();
    scene.server.expireTokens();
    const ids = Array.from({ length: 10 }, (_, n) => `call-${n}`);

    await Promise.all(ids.map((id) => echo(client, id)));

    expect(scene.server.counts.tokenRequests).toBe(1);
    expect(scene.server.counts.executionsById).toEqual(Object.fromEntries(ids.map((id) => [id, 1])));
    expectModernOnly(scene);
    expect(errors).toEqual([]);
  });

  it('a refresh in think-time asks the server nothing', async () => {
    const scene = await modern();
    const { client, connection } = await connect(scene);
    await echo(client, 'a');
    const refreshed = connection.once('credential-refreshed');
    await scene.clock.advance(55_000);
    await refreshed;
    await echo(client, 'b');

    expect(methods(scene)).toEqual(['server/discover', 'tools/call', 'tools/call']);
    expectModernOnly(scene);
  });

  it.each(['fin', 'eof', 'reset'] as const)('cut (%s): unknown at once, run once', async (shape) => {
    const tools = [{ name: 'long', handler: (_: unknown, call: ToolCallContext) => call.wait(600_000) }];
    const scene = await modern({ answer: 'sse', tools });
    const { client } = await connect(scene);
    const calling = failureOf(client.callTool({ name: 'long' }));
    await scene.clock.settle();
    scene.server.cutStreams(shape);

    expect(await calling).toMatchObject({
      code: 'ERR_OUTCOME_UNKNOWN',
      executed: 'unknown',
      retryable: false,
    });
    expect(scene.server.counts.executions).toEqual({ long: 1 });
    expectModernOnly(scene);
  });

  it('cut although the stream carried event ids: not resumed either', async () => {
    const scene = await modern();
    const { client } = await connect(scene);
    const onresumptiontoken = vi.fn();
    scene.server.replyOnce(
      { tool: 'echo' },
      { tool: 'run', chunks: ['id: 7\ndata: \n\n', 'id: 8\ndata: {'] },
    );

    const failure = await failureOf(echo(client, 'a', { onresumptiontoken }));
    await scene.clock.advance(60_000);

    expect(failure).toMatchObject({ code: 'ERR_OUTCOME_UNKNOWN', executed: 'unknown' });
    expect(onresumptiontoken).not.toHaveBeenCalled();
    expect(scene.server.counts.executionsById).toEqual({ a: 1 });
    expectModernOnly(scene);
  });

  it('a resumption token of before is refused, and nothing is sent', async () => {
    const scene = await modern();
    const { client } = await connect(scene);

    const failure = await failureOf(echo(client, 'a', { resumptionToken: '7' }));

    expect(failure).toMatchObject({ code: 'ERR_OUTCOME_UNKNOWN', executed: 'unknown' });
    expect(methods(scene)).toEqual(['server/discover']);
  });

  it('a read whose answer was cut is asked again, under a new id', async () => {
    const scene = await modern();
    const { client, errors } = await connect(scene);
    scene.server.replyOnce({ method: 'tools/list' }, { tool: 'run', cut: 'fin' });
    const listing = client.listTools();
    await scene.clock.advance(1_000);

    expect((await listing).tools).not.toEqual([]);

    const ids = atEndpoint(scene).flatMap(({ rpcMethod, rpcId }) =>
      rpcMethod === 'tools/list' ? [rpcId] : [],
    );
    expect(new Set(ids).size).toBe(2);
    expectModernOnly(scene);
    expect(errors).toEqual([]);
  });

  it('429: waited for once, run once', async () => {
    const scene = await modern();
    const { client } = await connect(scene);
    scene.server.throttle(3_000);
    const calling = Promise.all([echo(client, 'a'), echo(client, 'b')]);
    await scene.clock.advance(4_000);

    await calling;

    expect(scene.server.counts.executionsById).toEqual({ a: 1, b: 1 });
    expectModernOnly(scene);
  });

  it('what the server says about a request stays the SDK’s, whatever its status', async () => {
    const scene = await modern();
    const { client, connection } = await connect(scene);

    await expect(client.callTool({ name: 'none' })).rejects.toBeInstanceOf(ProtocolError);
    scene.server.replyOnce(
      { tool: 'echo' },
      {
        status: 404,
        body: ({ message }) => ({
          jsonrpc: '2.0',
          id: message?.id,
          error: { code: -32601, message: 'Method not found; no session' },
        }),
      },
    );
    await expect(echo(client, 'a')).rejects.toMatchObject({ code: -32601 });
    for (const status of [400, 404, 500]) {
      scene.server.replyOnce({ tool: 'echo' }, { status, body: 'Session not found' });
      expect(await failureOf(echo(client, 'b'))).toMatchObject({ code: 'ERR_HTTP_STATUS', status });
    }

    expect(connection.session?.number).toBe(1);
    expect(connection.state).toBe('ready');
    expectModernOnly(scene);
  });

  it('cancelled: the stream is closed, and that is all', async () => {
    const aborted = vi.fn();
    const handler = async (_: unknown, call: ToolCallContext) => {
      call.signal.addEventListener('abort', aborted);
      await call.wait(60_000);
    };
    const scene = await modern({ answer: 'sse', tools: [{ name: 'long', handler }] });
    const { client, errors } = await connect(scene);
    const caller = new AbortController();
    const calling = client.callTool({ name: 'long' }, { signal: caller.signal }).catch(() => 'cancelled');
    await scene.clock.settle();

    caller.abort();
    expect(await calling).toBe('cancelled');
    await scene.clock.settle();

    await expect.poll(() => aborted.mock.calls.length).toBe(1);
    expect(methods(scene)).toEqual(['server/discover', 'tools/call']);
    expect(errors).toEqual([]);
  });

  it('cancelled while it waits: never sent', async () => {
    const scene = await modern();
    const { client } = await connect(scene);
    scene.server.throttle(3_000);
    const first = echo(client, 'first');
    await scene.clock.settle();
    const caller = new AbortController();
    const queued = echo(client, 'queued', { signal: caller.signal }).catch(() => 'cancelled');
    await scene.clock.settle();

    caller.abort();
    expect(await queued).toBe('cancelled');
    await scene.clock.advance(4_000);
    await first;

    expect(scene.server.counts.executionsById).toEqual({ first: 1 });
    expectModernOnly(scene);
  });

  it('gates see the era; resting keeps it', async () => {
    const before = vi.fn(() => 'allow' as const);
    const scene = await modern();
    const { client, transport, connection } = await connect(scene, {
      transport: { gates: [{ name: 'look', before }], session: { idleTimeoutMs: 1_000 } },
    });
    await echo(client, 'a');
    await scene.clock.advance(5_000);
    await transport.terminateSession();
    await echo(client, 'b');

    expect(before).toHaveBeenCalledWith(
      expect.objectContaining({ session: expect.objectContaining({ era: 'stateless' }) }),
      expect.anything(),
    );
    expect(connection.state).toBe('ready');
    expectModernOnly(scene);
  });
});
