import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CallToolResultSchema, McpError } from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, it } from 'vitest';
import { HostedClient, type HostedClientOptions } from '../../src/client.js';
import { HostedTransport } from '../../src/index.js';
import type { ToolDefinition } from '../../src/testing/index.js';
import { closeLater, connect, echo, failureOf, type Scene, startServer } from '../wire/support.js';

const INFO = { name: 'test', version: '1.0.0' };

/** Not connected. */
function newClient(scene: Scene, options: Partial<HostedClientOptions> = {}): HostedClient {
  const { url } = scene.server;
  const client = new HostedClient(INFO, {
    url,
    clock: scene.clock,
    credentials: scene.server.issueToken({ lifetimeMs: 3_600_000 }),
    ...options,
  });
  closeLater(() => client.close());
  return client;
}

const methods = (scene: Scene) => scene.server.log.map((entry) => entry.rpcMethod ?? entry.http);
const count = (scene: Scene, method: string) => methods(scene).filter((each) => each === method).length;
const hanging: ToolDefinition = { name: 'hanging', handler: (_args, call) => call.wait(3_600_000) };
const manyTools = (length: number): ToolDefinition[] =>
  Array.from({ length }, (_, at) => ({ name: `tool-${at}`, handler: () => 'ok' }));

/** A session may still be given out: it is listened for a second, to be deleted. */
async function closed({ clock }: Scene, client: HostedClient) {
  const closing = client.close();
  await clock.advance(1_000);
  await expect(closing).resolves.toBeUndefined();
}

describe('connect', () => {
  it('opens the url', async () => {
    const scene = await startServer();
    const client = newClient(scene);

    await client.connect();

    expect(await echo(client, 'a')).toMatchObject({ content: [{ text: 'a' }] });
    expect(scene.server.counts.initializes).toBe(1);
  });

  it('takes options and is done once, however often it is called', async () => {
    const scene = await startServer();
    const client = newClient(scene);

    await Promise.all([client.connect({ timeout: 5_000 }), client.connect()]);
    await client.connect();

    expect(scene.server.counts.initializes).toBe(1);
  });

  it('takes a HostedTransport', async () => {
    const scene = await startServer();
    const client = new HostedClient(INFO, { clock: scene.clock });
    closeLater(() => client.close());
    expect(() => client.connection).toThrow(TypeError);
    const transport = new HostedTransport(scene.server.url, {
      credentials: scene.server.issueToken(),
      clock: scene.clock,
    });

    await client.connect(transport, { timeout: 5_000 });

    expect(client.connection).toBe(transport.connection);
    await echo(client, 'a');
    expect(scene.server.counts).toMatchObject({ initializes: 1, executionsById: { a: 1 } });
  });

  it('refuses a foreign transport, and nothing at all, with a TypeError', async () => {
    const scene = await startServer();
    const foreign = new StreamableHTTPClientTransport(new URL(scene.server.url));

    await expect(newClient(scene).connect(foreign as never)).rejects.toThrow(TypeError);
    await expect(new HostedClient(INFO, {}).connect()).rejects.toThrow(
      new TypeError('connect() needs a url in the options, or a transport'),
    );
    expect(scene.server.counts.requests).toBe(0);
  });

  it('an option that cannot be used is refused by the constructor', () => {
    expect(() => new HostedClient(INFO, { url: 'ftp://x' })).toThrow(TypeError);
    expect(() => new HostedClient(INFO, { url: 'https://x', session: { graceMs: -1 } })).toThrow(
      'session.graceMs',
    );
    expect(() => new HostedClient(INFO, { url: 'https://x', retry: { maxAttempts: 0 } })).toThrow(
      'retry.maxAttempts',
    );
  });

  it('is possible again after it failed, with the same listeners', async () => {
    const scene = await startServer();
    const client = newClient(scene);
    const states: string[] = [];
    client.connection.on('state', ({ current }) => states.push(current));
    const down = scene.server.reply({ method: 'initialize' }, { status: 503 });

    const failed = failureOf(client.connect());
    await scene.clock.advance(60_000);
    expect(await failed).toMatchObject({
      code: 'ERR_HTTP_STATUS',
      executed: false,
      retryable: true,
      status: 503,
    });
    expect(await failureOf(echo(client, 'too early'))).toMatchObject({
      code: 'ERR_NOT_SENT',
      executed: false,
    });
    const tries = scene.server.counts.initializes;
    expect(tries).toBe(3);

    down.dispose();
    await client.connect();

    await echo(client, 'a');
    expect(scene.server.counts).toMatchObject({ initializes: tries + 1, executionsById: { a: 1 } });
    expect(states).toEqual(['connecting', 'idle', 'connecting', 'ready']);
  });

  it('a handshake that is never answered does not stand in the way of the next one', async () => {
    const scene = await startServer();
    const client = newClient(scene);
    scene.server.replyOnce({ method: 'initialize' }, { silence: true });

    const failed = failureOf(client.connect({ timeout: 5_000 }));
    await scene.clock.advance(5_000);
    expect(await failed).toMatchObject({ code: 'ERR_TIMEOUT', executed: false, retryable: true });
    const again = client.connect();
    await scene.clock.advance(20_000);

    await again;
    await echo(client, 'a');
    expect(scene.server.counts).toMatchObject({ initializes: 2, executionsById: { a: 1 } });
    await scene.clock.settle();
    expect(scene.clock.pendingTimers).toBe(0);
  });

  it('a refused token blocks; another one opens', async () => {
    const scene = await startServer();
    let token = 'wrong';
    const client = newClient(scene, { credentials: () => token });

    expect(await failureOf(client.connect())).toMatchObject({
      code: 'ERR_CREDENTIAL_REJECTED',
      executed: false,
    });
    expect(client.connection.health()).toMatchObject({
      ok: false,
      state: 'blocked',
      code: 'ERR_CREDENTIAL_REJECTED',
    });
    await scene.clock.advance(60_000);
    token = scene.server.issueToken();

    await client.connect();

    expect(client.connection.health()).toMatchObject({ ok: true, state: 'ready' });
  });

  it('a server’s own refusal of the handshake reaches the caller as it is', async () => {
    const scene = await startServer();
    const client = newClient(scene);
    scene.server.replyOnce(
      { method: 'initialize' },
      {
        status: 200,
        body: ({ message }) => ({
          jsonrpc: '2.0',
          id: message?.id,
          error: { code: -32602, message: 'too old' },
        }),
      },
    );

    await expect(client.connect()).rejects.toBeInstanceOf(McpError);
  });
});

describe('lazyConnect', () => {
  it('needs no connect() at all', async () => {
    const scene = await startServer();
    const client = newClient(scene, { lazyConnect: true });

    await echo(client, 'a');

    expect(scene.server.counts).toMatchObject({ initializes: 1, executionsById: { a: 1 } });
  });

  it('sends nothing until the first call; calls at once share one handshake', async () => {
    const scene = await startServer();
    const client = newClient(scene, { lazyConnect: true });
    await client.connect();
    await scene.clock.settle();
    expect(scene.server.counts.requests).toBe(0);

    await Promise.all([echo(client, 'a'), echo(client, 'b'), client.listTools()]);

    expect(scene.server.counts).toMatchObject({ initializes: 1, executionsById: { a: 1, b: 1 } });
  });

  it('a first call waits no longer than its own time; the opening goes on for the others', async () => {
    const scene = await startServer();
    const client = newClient(scene, { lazyConnect: true });
    scene.server.replyOnce(
      { method: 'initialize' },
      {
        tool: 'run',
        chunks: ({ answer }) => [{ pauseMs: 5_000 }, `data: ${JSON.stringify(answer)}\n\n`],
        headers: ({ sessionId }) => ({ 'mcp-session-id': sessionId ?? '' }),
      },
    );
    const caller = new AbortController();
    const impatient = failureOf(echo(client, 'impatient', { timeout: 1_000 }));
    const aborted = failureOf(echo(client, 'aborted', { signal: caller.signal }));
    const patient = echo(client, 'patient');
    await scene.clock.settle();

    caller.abort();
    expect(await aborted).toMatchObject({ code: 'ERR_ABORTED', executed: false });
    await scene.clock.advance(1_000);
    expect(await impatient).toMatchObject({ code: 'ERR_TIMEOUT', executed: false });
    await scene.clock.advance(4_000);

    await patient;
    expect(scene.server.counts).toMatchObject({ initializes: 1, executionsById: { patient: 1 } });
  });
});

describe('the caller’s time', () => {
  it('is up while the call is queued: nothing reaches the wire', async () => {
    const scene = await startServer();
    const client = await connect(scene);
    scene.server.throttle(10_000);
    const first = echo(client, 'first');
    await scene.clock.settle();
    const { requests } = scene.server.counts;

    const failing = failureOf(echo(client, 'late', { timeout: 3_000 }));
    await scene.clock.advance(3_000);

    expect(await failing).toMatchObject({ executed: false, retryable: true, tool: 'echo' });
    expect((await failing).code).toMatch(/^ERR_(TIMEOUT|RATE_LIMITED)$/);
    expect(scene.server.counts.requests).toBe(requests);
    await scene.clock.advance(10_000);
    await first;
    expect(scene.server.counts.executionsById).toEqual({ first: 1 });
    expect(methods(scene)).not.toContain('notifications/cancelled');
  });

  it('is up while the session is being opened', async () => {
    const scene = await startServer();
    const client = await connect(scene);
    await scene.clock.settle();
    scene.server.dropSessions();
    await failureOf(echo(client, 'lost'));
    await scene.clock.settle();
    scene.server.dropSessions();
    scene.server.replyOnce({ method: 'initialize' }, { silence: true });
    await failureOf(echo(client, 'lost again'));

    const failing = failureOf(echo(client, 'late', { timeout: 3_000 }));
    await scene.clock.advance(3_000);

    expect(await failing).toMatchObject({ code: 'ERR_TIMEOUT', executed: false, retryable: true });
    expect(scene.server.counts.executionsById).toEqual({});
    await closed(scene, client);
  });

  it('is up after the call was sent: unknown, and cancelled at the server', async () => {
    const scene = await startServer({ tools: [hanging] });
    const client = await connect(scene);

    const failing = failureOf(client.callTool({ name: 'hanging' }, { timeout: 3_000 }));
    await scene.clock.advance(3_000);

    expect(await failing).toMatchObject({
      code: 'ERR_TIMEOUT',
      executed: 'unknown',
      retryable: false,
      tool: 'hanging',
    });
    await scene.clock.settle();
    const cancelled = scene.server.log.filter((entry) => entry.rpcMethod === 'notifications/cancelled');
    expect(cancelled).toMatchObject([{ status: 202, sessionLabel: 'session#1' }]);
  });

  it('a signal takes a call back, queued or sent', async () => {
    const scene = await startServer({ tools: [hanging] });
    const client = await connect(scene);
    const caller = new AbortController();
    const sent = failureOf(client.callTool({ name: 'hanging' }, { signal: caller.signal }));
    await scene.clock.settle();
    scene.server.throttle(5_000);
    client.listTools().catch(() => {});
    await scene.clock.settle();
    const queued = failureOf(client.callTool({ name: 'hanging' }, { signal: caller.signal }));
    await scene.clock.settle();

    caller.abort();

    expect(await sent).toMatchObject({ code: 'ERR_ABORTED', executed: 'unknown' });
    expect(await queued).toMatchObject({ code: 'ERR_ABORTED', executed: false });
    await scene.clock.advance(6_000);
    expect(count(scene, 'tools/call')).toBe(1);
    expect(count(scene, 'notifications/cancelled')).toBe(1);
  });

  it('a signal that has ended before sends nothing', async () => {
    const scene = await startServer();
    const client = await connect(scene);
    const { requests } = scene.server.counts;

    const failure = await failureOf(echo(client, 'a', { signal: AbortSignal.abort() }));

    expect(failure).toMatchObject({ code: 'ERR_ABORTED', executed: false });
    await scene.clock.settle();
    expect(scene.server.counts.requests).toBe(requests);
  });

  it('begins again with progress where that is asked for, up to maxTotalTimeout', async () => {
    const scene = await startServer();
    const client = await connect(scene);
    const call = (ms: number, maxTotalTimeout?: number) =>
      client.callTool(
        { name: 'slow', arguments: { ms } },
        {
          timeout: 1_500,
          onprogress() {},
          resetTimeoutOnProgress: true,
          ...(maxTotalTimeout && { maxTotalTimeout }),
        },
      );

    const patient = call(2_000);
    await scene.clock.advance(2_000);
    expect(await patient).toMatchObject({ content: [{ text: 'waited 2000 ms' }] });

    const bounded = failureOf(call(2_000, 1_800));
    await scene.clock.advance(1_800);
    expect(await bounded).toMatchObject({ code: 'ERR_TIMEOUT', executed: 'unknown' });

    const unasked = failureOf(
      client.callTool({ name: 'slow', arguments: { ms: 2_000 } }, { timeout: 1_500, onprogress() {} }),
    );
    await scene.clock.advance(1_500);
    expect(await unasked).toMatchObject({ code: 'ERR_TIMEOUT' });
  });

  it('leaves no timer behind', async () => {
    const scene = await startServer();
    const client = newClient(scene);
    await client.connect();
    await echo(client, 'a');
    await failureOf(echo(client, 'b', { signal: AbortSignal.abort() }));

    expect(scene.clock.pendingTimers).toBe(0);
  });
});

describe('listTools', () => {
  it('gives all pages', async () => {
    const scene = await startServer({ tools: manyTools(7), pageSize: 3 });
    const client = await connect(scene);

    const { tools, ...rest } = await client.listTools();

    expect(tools.map(({ name }) => name)).toEqual(manyTools(7).map(({ name }) => name));
    expect(rest).toEqual({});
    expect(count(scene, 'tools/list')).toBe(3);
  });

  it('with a cursor: that page alone, and the checks of all tools stay', async () => {
    const strict = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] };
    const tools = [{ name: 'first', outputSchema: strict, handler: () => ({ n: 'x' }) }, ...manyTools(2)];
    const scene = await startServer({ tools, pageSize: 1 });
    const client = await connect(scene);
    await client.listTools();

    const page = await client.listTools({ cursor: 'page-after-1' });

    expect(page.tools.map(({ name }) => name)).toEqual(['tool-0']);
    expect(page.nextCursor).toBe('page-after-2');
    expect(await failureOf(client.callTool({ name: 'first' }))).toMatchObject({ code: 'ERR_RESULT_REFUSED' });
  });

  it.each([
    ['goes round in a circle', 5, 'page-after-1'],
    ['has more than a hundred pages', 101, undefined],
  ])('a list that %s is refused, in bounded requests', async (_name, length, circle) => {
    const scene = await startServer({ tools: manyTools(length), pageSize: 1 });
    const client = await connect(scene);
    if (circle !== undefined) {
      scene.server.reply(
        { method: 'tools/list' },
        {
          status: 200,
          body: ({ message }) => ({
            jsonrpc: '2.0',
            id: message?.id,
            result: { tools: [], nextCursor: circle },
          }),
        },
      );
    }

    expect(await failureOf(client.listTools())).toMatchObject({ code: 'ERR_PROTOCOL', retryable: false });
    expect(count(scene, 'tools/list')).toBe(circle === undefined ? 100 : 2);
  });

  it('one output schema that cannot be used costs nobody the list', async () => {
    const scene = await startServer({
      tools: [
        {
          name: 'broken',
          outputSchema: { type: 'object', properties: { a: { type: 'strnig' } } },
          handler: () => ({ a: 1 }),
        },
        {
          name: 'slow-pattern',
          outputSchema: { type: 'object', properties: { a: { pattern: '^(a+)+$' } } },
          handler: () => ({ a: `${'a'.repeat(40)}!` }),
        },
        ...manyTools(1),
      ],
    });
    const client = await connect(scene);
    const reported: string[] = [];
    client.onerror = ({ message }) => reported.push(message);

    expect((await client.listTools()).tools).toHaveLength(3);

    expect(await client.callTool({ name: 'broken' })).toMatchObject({ structuredContent: { a: 1 } });
    expect(await client.callTool({ name: 'slow-pattern' })).toHaveProperty('structuredContent');
    expect(reported).toHaveLength(2);
  });
});

describe('callTool', () => {
  const structured: ToolDefinition = {
    name: 'structured',
    outputSchema: { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] },
    handler: ({ n }) => ({ n }),
  };

  it('takes (params, options) and (params, schema, options)', async () => {
    const scene = await startServer();
    const client = await connect(scene);
    const params = { name: 'slow', arguments: { ms: 10 } };
    const seen: number[] = [];
    const options = { onprogress: ({ progress }: { progress: number }) => void seen.push(progress) };

    const calls = [
      client.callTool(params, options),
      client.callTool(params, CallToolResultSchema, options),
      client.callTool(params, undefined, options),
      client.callTool(params),
    ];
    await scene.clock.advance(10);

    for (const result of await Promise.all(calls))
      expect(result).toMatchObject({ content: [{ text: 'waited 10 ms' }] });
    expect(seen).toHaveLength(9);
  });

  it('a result that breaks its own schema is refused as one of a tool that ran', async () => {
    const scene = await startServer({ tools: [structured] });
    const client = await connect(scene);
    await client.listTools();

    expect(await client.callTool({ name: 'structured', arguments: { n: 1 } })).toMatchObject({
      structuredContent: { n: 1 },
    });
    const failure = await failureOf(client.callTool({ name: 'structured', arguments: { n: 'IGNORE ALL' } }));

    expect(failure).toMatchObject({
      code: 'ERR_RESULT_REFUSED',
      executed: true,
      retryable: false,
      tool: 'structured',
    });
    expect(failure.message).not.toContain('IGNORE');
    expect(scene.server.counts.executions).toEqual({ structured: 2 });
  });

  it('a result that is no tool result at all likewise', async () => {
    const scene = await startServer({
      tools: [{ name: 'odd', handler: () => ({ content: [{ type: 'text' }] }) }],
    });
    const client = await connect(scene);

    expect(await failureOf(client.callTool({ name: 'odd' }))).toMatchObject({
      code: 'ERR_RESULT_REFUSED',
      executed: true,
    });
  });

  it('an error of the server passes untouched', async () => {
    const scene = await startServer();
    const client = await connect(scene);

    await expect(client.callTool({ name: 'none' })).rejects.toBeInstanceOf(McpError);
    expect(await client.callTool({ name: 'fail' })).toMatchObject({ isError: true });
  });

  it('fifty calls at once with a token that is new at each use', async () => {
    const scene = await startServer();
    const client = newClient(scene, { credentials: () => scene.server.issueToken() });
    await client.connect();
    for (const warmUp of ['a', 'b', 'c']) await echo(client, warmUp);
    const { pings } = scene.server.counts;

    await Promise.all(Array.from({ length: 50 }, (_, call) => echo(client, `call-${call}`)));

    expect(scene.server.counts.executions).toEqual({ echo: 53 });
    expect(scene.server.counts.pings).toBe(pings);
  });
});

describe('close', () => {
  it('deletes the session once, is idempotent, and leaves nothing behind', async () => {
    const scene = await startServer();
    const client = newClient(scene);
    await client.connect();
    await scene.clock.settle();

    await Promise.all([client.close(), client.close()]);
    await client.close();

    expect(scene.server.counts.deletes).toBe(1);
    expect(scene.clock.pendingTimers).toBe(0);
    expect(client.connection.health()).toMatchObject({ ok: false, state: 'closed' });
    await expect(client.connect()).rejects.toMatchObject({ code: 'ERR_CLOSED' });
    await expect(echo(client, 'a')).rejects.toMatchObject({ code: 'ERR_CLOSED', executed: false });
  });

  it.each([404, 405, 500])('takes %i to the DELETE for an answer', async (status) => {
    const scene = await startServer();
    const client = await connect(scene);
    scene.server.replyOnce({ http: 'DELETE' }, { status });

    await expect(client.close()).resolves.toBeUndefined();
  });

  it('does not wait long for a DELETE that is not answered', async () => {
    const scene = await startServer();
    const client = await connect(scene);
    scene.server.replyOnce({ http: 'DELETE' }, { silence: true });
    const closed = client.close();

    await scene.clock.advance(2_000);

    await expect(closed).resolves.toBeUndefined();
  });

  it('a call under way ends as ERR_CLOSED', async () => {
    const scene = await startServer({ tools: [hanging] });
    const client = await connect(scene);
    const sent = failureOf(client.callTool({ name: 'hanging' }));
    await scene.clock.settle();

    await client.close();

    expect(await sent).toMatchObject({ code: 'ERR_CLOSED', executed: 'unknown' });
  });

  it('before and during a handshake that fails: nothing is left unhandled', async () => {
    const scene = await startServer();
    const unused = newClient(scene);
    await expect(unused.close()).resolves.toBeUndefined();
    const client = newClient(scene);
    scene.server.replyOnce({ method: 'initialize' }, { silence: true });
    const connecting = failureOf(client.connect());
    await scene.clock.settle();

    await closed(scene, client);

    expect(await connecting).toMatchObject({ code: 'ERR_CLOSED', executed: false });
    expect(client.connection.state).toBe('closed');
  });

  it('await using closes', async () => {
    const scene = await startServer();
    {
      await using client = newClient(scene);
      await client.connect();
    }
    expect(scene.server.counts.deletes).toBe(1);
  });
});
