import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { HostedClient } from '../../src/client.js';
import {
  HostedMcpError,
  type HostedOptions,
  HostedTransport,
  type HostedTransportOptions,
  type HttpFetch,
} from '../../src/index.js';
import { type HostedServer, type ScriptedReply, startHostedServer } from '../../src/testing/index.js';
import { connectFace, FACES } from './faces.js';
import { connect, echo, failureOf, startServer } from './support.js';

const CALL = { http: 'POST', method: 'tools/call' } as const;

const unhandled: unknown[] = [];
const onUnhandled = (reason: unknown) => unhandled.push(reason);
beforeAll(() => {
  process.on('unhandledRejection', onUnhandled);
});
afterAll(async () => {
  await new Promise((resolve) => setImmediate(resolve));
  process.off('unhandledRejection', onUnhandled);
  expect(unhandled).toEqual([]);
});

const gate = { name: 'g' };
const oauth = {
  token: async () => 'x',
};
const reconnect = {
  initialReconnectionDelay: 1,
  reconnectionDelayGrowFactor: 1,
  maxRetries: 1,
};

/** Option path and an unusable value; the path is what the error must name. */
const OPTIONS: readonly (readonly [string, unknown])[] = [
  ['credentials', 5],
  ['credentials', {}],
  ['credentials', null],
  ['credentials', { id: '', acquire: async () => {} }],
  ['contract', 'pinned'],
  ['contract.pinned', {}],
  ['contract.pinned', 'contract.json'],
  ['contract.onChange', 'explode'],
  ['contract.tools', 'read'],
  ['contract.ignore', [1]],
  ['contract.recheckMs', 0],
  ['contract.watch', 'yes'],
  ['contract.nonsense', 1],
  ['session', 5],
  ['session', []],
  ['session.onEstablished', 'yes'],
  ['session.setupTimeoutMs', -1],
  ['session.probe', 'pong'],
  ['session.boundToToken', 'yes'],
  ['session.queuedCalls', 'drop'],
  ['session.graceMs', Number.NaN],
  ['session.idleTimeoutMs', 0],
  ['session.isLost', true],
  ['session.restore', 1],
  ['session.nonsense', 1],
  ['streams', 'auto'],
  ['streams.listen', 'always'],
  ['streams.reopenMaxDelayMs', 0],
  ['streams.nonsense', 1],
  ['rateLimit', 60],
  ['rateLimit.limit', 0],
  ['rateLimit.limit', -60],
  ['rateLimit.limit', 1.5],
  ['rateLimit.limit', '60'],
  ['rateLimit.intervalMs', 0],
  ['rateLimit.rules', []],
  ['rateLimit.rules', [{ limit: 0, intervalMs: 1 }]],
  ['rateLimit.rules', [{ limit: 1, intervalMs: Number.NaN }]],
  ['rateLimit.rules', { limit: 1, intervalMs: 1 }],
  ['rateLimit.key', ''],
  ['rateLimit.store', {}],
  ['rateLimit.replicas', 0],
  ['rateLimit.onStoreDown', 'ignore'],
  ['rateLimit.maxWaitMs', -1],
  ['rateLimit.maxPauseMs', Number.POSITIVE_INFINITY],
  ['rateLimit.respectServer', 'yes'],
  ['rateLimit.nonsense', 1],
  ['retry', null],
  ['retry.maxAttempts', 0],
  ['retry.maxAttempts', 1.5],
  ['retry.maxElapsedMs', Number.POSITIVE_INFINITY],
  ['retry.resendOn401', 'always'],
  ['retry.resendOn429', true],
  ['retry.safeTools', 'echo'],
  ['retry.safeTools', [1]],
  ['retry.nonsense', 1],
  ['http', 1],
  ['http.fetch', 'fetch'],
  ['http.dispatcher', {}],
  ['http.headers', 'x: y'],
  ['http.headers', { 'x-y': 'a\r\nb' }],
  ['http.headers', { 'x y': 'a' }],
  ['http.headers', { host: 'example.com' }],
  ['http.headers', { 'Mcp-Session-Id': 'one' }],
  ['http.headers', { 'last-event-id': 'one' }],
  ['http.proxy', 'socks5://localhost'],
  ['http.tls', 'ca'],
  ['http.tls.ca', 5],
  ['http.tls.cert', 'only a certificate'],
  ['http.tls.key', 'only a key'],
  ['http.tls.servername', ''],
  ['http.tls.nonsense', 1],
  ['http.affinityCookies', 'no'],
  ['http.connectTimeoutMs', '10s'],
  ['http.headersTimeoutMs', -5],
  ['http.keepAliveTimeoutMs', Number.NaN],
  ['http.maxMessageBytes', 0],
  ['http.allowInsecure', 'yes'],
  ['http.nonsense', 1],
  ['gates', gate],
  ['gates', [{}]],
  ['gates', [{ ...gate, timeoutMs: 0 }]],
  ['gates', [{ ...gate, before: 'deny' }]],
  ['gates', [{ ...gate, after: 1 }]],
  ['gates', [null]],
  ['clock', {}],
  ['clock', null],
  ['lazyConnect', 'yes'],
  ['logger', console],
];

/** Those of the stock transport, and of HostedTransport alone. */
const STOCK: readonly (readonly [string, unknown])[] = [
  ['authProvider', 5],
  ['authProvider', null],
  ['authProvider', {}],
  ['requestInit', 5],
  ['requestInit.headers', 5],
  ['requestInit.headers', { 'x-y': 'a\nb' }],
  ['fetch', {}],
  ['reconnectionOptions', 5],
  ['reconnectionOptions.maxReconnectionDelay', { ...reconnect, maxReconnectionDelay: Number.NaN }],
  ['reconnectionOptions.maxReconnectionDelay', reconnect],
  ['redirectPolicy', 'follow'],
  ['redirectPolicy', 'never'],
  ['sessionId', ''],
  ['sessionId', 5],
  ['sessionId', 'zwei Wörter'],
  ['protocolVersion', ''],
  ['protocolVersion', 20251125],
  ['nonsense', 1],
];

/** `a.b.c` and a value as nested options; where the value is the group itself it stands as it is. */
function nested(path: string, value: unknown): Record<string, unknown> {
  const [first = '', ...rest] = path.split('.');
  if (rest.length === 0) return { [first]: value };
  const isWhole = first === 'reconnectionOptions';
  return { [first]: isWhole ? value : nested(rest.join('.'), value) };
}

function thrownBy(make: () => unknown): unknown {
  try {
    make();
  } catch (error) {
    return error;
  }
  return undefined;
}

describe('options that cannot be used', () => {
  let server: HostedServer;
  beforeAll(async () => {
    server = await startHostedServer();
  });
  afterAll(async () => {
    expect(server.log).toEqual([]);
    await server.close();
  });

  function expectRefused(path: string, make: () => unknown): void {
    const error = thrownBy(make);
    expect(error).toBeInstanceOf(TypeError);
    expect((error as TypeError).message).toContain(path);
    expect(server.log).toEqual([]);
  }

  it.each(OPTIONS.map(([path, value], row) => [row, path, value] as const))(
    '%i %s: a TypeError that names it, before any request',
    (_row, path, value) => {
      const options = nested(path, value);
      expectRefused(path, () => new HostedTransport(server.url, options as HostedTransportOptions));
      expectRefused(
        path,
        () =>
          new HostedClient({ name: 't', version: '1' }, { url: server.url, ...(options as HostedOptions) }),
      );
    },
  );

  it.each(STOCK.map(([path, value], row) => [row, path, value] as const))(
    '%i %s of the stock transport: the same',
    (_row, path, value) => {
      const options = nested(path, value) as HostedTransportOptions;
      expectRefused(path, () => new HostedTransport(server.url, options));
    },
  );

  it('two options that exclude each other', () => {
    const credentials = 'a-token';
    const fetch = globalThis.fetch as never;
    expectRefused(
      'authProvider',
      () => new HostedTransport(server.url, { credentials, authProvider: oauth }),
    );
    expectRefused('fetch', () => new HostedTransport(server.url, { fetch, http: { fetch } }));
    const http = { headers: { Authorization: 'Bearer other' } };
    expectRefused('http.headers', () => new HostedTransport(server.url, { credentials, http }));
    expectRefused('http.proxy', () => new HostedTransport(server.url, { http: { fetch, proxy: false } }));
    const dispatcher = { dispatch: () => true };
    expectRefused('http.dispatcher', () => new HostedTransport(server.url, { http: { fetch, dispatcher } }));
  });

  it.each([
    ['not an address', 'address'],
    ['/mcp', 'address'],
    ['ftp://127.0.0.1/mcp', 'https://'],
    ['https://user:canary@example.com/mcp', 'user name'],
    ['http://mcp.example.com/mcp', 'http.allowInsecure'],
    ['http://127.0.0.1.example.com/mcp', 'http.allowInsecure'],
    ['http://10.0.0.1/mcp', 'http.allowInsecure'],
  ])('the address %s', (url, word) => {
    const make = () => new HostedTransport(url, {});
    expectRefused(word, make);
    expect(String(thrownBy(make))).not.toContain('canary');
    expectRefused(word, () => new HostedClient({ name: 't', version: '1' }, { url }));
  });

  it('plain http off loopback with allowInsecure is the word of the app', () => {
    expect(
      thrownBy(() => new HostedTransport('http://mcp.example.com/mcp', { http: { allowInsecure: true } })),
    ).toBe(undefined);
  });

  it('usable options are not refused, nor changed', () => {
    const options: HostedTransportOptions = {
      credentials: 'a-token',
      requestInit: { headers: new Headers({ 'X-Key': 'k', 'Content-Type': 'application/json' }) },
      reconnectionOptions: { ...reconnect, maxReconnectionDelay: 10 },
      redirectPolicy: 'same-origin',
      session: { graceMs: 0 },
      http: { headersTimeoutMs: 0 },
    };
    const before = structuredClone({ session: options.session, http: options.http });
    expect(thrownBy(() => new HostedTransport(server.url, Object.freeze(options)))).toBe(undefined);
    expect({ session: options.session, http: options.http }).toEqual(before);
  });
});

const HTML = { 'content-type': 'text/html' };
const JSON_TYPE = { 'content-type': 'application/json' };
const SSE_TYPE = { 'content-type': 'text/event-stream' };
const PAGE = '<!doctype html><html><body>Sign in</body></html>';
const answered = (change: (answer: Record<string, unknown>) => unknown): ScriptedReply => ({
  tool: 'run',
  status: 200,
  headers: JSON_TYPE,
  body: (request) => change({ ...request.answer }) as object,
});
const streamed = (change: (answer: Record<string, unknown>) => string, pause = false): ScriptedReply => ({
  tool: 'run',
  chunks: (request) => [
    change({ ...request.answer }),
    // A stream that stays open must not hold the call, either.
    ...(pause ? [{ pauseMs: 86_400_000 }] : []),
  ],
});

/** What an honest request may get as an answer. All ran the tool: we cannot know, so it is `'unknown'`. */
const ANSWERS: readonly (readonly [string, string, ScriptedReply])[] = [
  [
    'malformed JSON',
    'ERR_PROTOCOL',
    { tool: 'run', status: 200, headers: JSON_TYPE, body: '{"jsonrpc": oops' },
  ],
  ['truncated JSON', 'ERR_PROTOCOL', answered((answer) => JSON.stringify(answer).slice(0, -5))],
  ['JSON of a wrong type', 'ERR_PROTOCOL', { tool: 'run', status: 200, headers: HTML, body: PAGE }],
  ['no type at all', 'ERR_PROTOCOL', { tool: 'run', status: 200, body: 'hello' }],
  ['a foreign id', 'ERR_PROTOCOL', answered((answer) => ({ ...answer, id: 987_654 }))],
  ['the id as text', 'ERR_PROTOCOL', answered((answer) => ({ ...answer, id: String(answer.id) }))],
  ['no id', 'ERR_PROTOCOL', answered(({ id: _, ...answer }) => answer)],
  ['no result', 'ERR_PROTOCOL', answered(({ result: _, ...answer }) => answer)],
  ['a result that is null', 'ERR_PROTOCOL', answered((answer) => ({ ...answer, result: null }))],
  ['an error that is text', 'ERR_PROTOCOL', answered(({ id }) => ({ jsonrpc: '2.0', id, error: 'no' }))],
  ['202', 'ERR_PROTOCOL', { tool: 'run', status: 202 }],
  ['202 with null', 'ERR_PROTOCOL', { tool: 'run', status: 202, headers: JSON_TYPE, body: 'null' }],
  ['204', 'ERR_PROTOCOL', { tool: 'run', status: 204 }],
  ['an empty body', 'ERR_PROTOCOL', { tool: 'run', status: 200, headers: JSON_TYPE, body: '' }],
  ['blanks', 'ERR_PROTOCOL', { tool: 'run', status: 200, headers: JSON_TYPE, body: ' \n ' }],
  ['JSON that is no JSON-RPC', 'ERR_PROTOCOL', { tool: 'run', status: 200, body: { ok: true } }],
  ['a number', 'ERR_PROTOCOL', { tool: 'run', status: 200, headers: JSON_TYPE, body: '42' }],
  ['an empty array', 'ERR_PROTOCOL', { tool: 'run', status: 200, headers: JSON_TYPE, body: '[]' }],
  ['a page under 200', 'ERR_PROTOCOL', { tool: 'run', status: 200, headers: HTML, body: PAGE }],
  ['a page under 502', 'ERR_HTTP_STATUS', { tool: 'run', status: 502, headers: HTML, body: PAGE }],
  ['a page under 418', 'ERR_HTTP_STATUS', { tool: 'run', status: 418, headers: HTML, body: PAGE }],
  ['a status of no class', 'ERR_HTTP_STATUS', { tool: 'run', status: 599, headers: JSON_TYPE, body: '{}' }],
  ['too much', 'ERR_MESSAGE_TOO_LARGE', answered((answer) => ({ ...answer, padding: 'x'.repeat(20_000) }))],
  [
    'too much in a page',
    'ERR_MESSAGE_TOO_LARGE',
    { tool: 'run', status: 200, headers: HTML, body: 'x'.repeat(20_000) },
  ],
  ['stream: malformed JSON', 'ERR_PROTOCOL', streamed(() => 'data: {"jsonrpc": oops\n\n', true)],
  ['stream: result null', 'ERR_PROTOCOL', streamed(({ id }) => `data: {"id":${id},"result":null}\n\n`, true)],
  ['stream: too much', 'ERR_MESSAGE_TOO_LARGE', streamed(() => `data: ${'x'.repeat(20_000)}`, true)],
  [
    'stream: too much in many lines',
    'ERR_MESSAGE_TOO_LARGE',
    streamed(() => `data: ${'x'.repeat(900)}\n`.repeat(20), true),
  ],
  ['stream: a comment without end', 'ERR_MESSAGE_TOO_LARGE', streamed(() => `:${'x'.repeat(20_000)}`, true)],
  ['stream: a page', 'ERR_OUTCOME_UNKNOWN', { tool: 'run', status: 200, headers: SSE_TYPE, body: PAGE }],
  ['stream: plain JSON', 'ERR_OUTCOME_UNKNOWN', streamed((answer) => JSON.stringify(answer))],
];

/** By these, HTTP says that nothing was processed. */
const REFUSED = [405, 406, 411, 413, 415, 421, 501];

describe('answers that cannot be used', () => {
  ANSWERS.forEach(([name, code, reply], index) => {
    const face = FACES[index % FACES.length] ?? 'v1';
    it.each([
      ['undici', {}],
      ['fetch', { fetch: globalThis.fetch as HttpFetch }],
    ])(`${name}, ${face} over %s: ${code} at once, the session goes on`, async (_road, road) => {
      const scene = await startServer();
      const { server } = scene;
      const options = { http: { maxMessageBytes: 10_000, ...road }, streams: { listen: false } };
      const caller = await connectFace(face, scene, options);
      const told: unknown[] = [];
      caller.connection.on('call', (done) => told.push([done.method, done.executed, done.code]));
      server.replyOnce(CALL, reply);

      const failure = await failureOf(caller.echo('bad'));

      expect(failure).toMatchObject({ code, executed: 'unknown', retryable: false, tool: 'echo' });
      expect(told).toEqual([['tools/call', 'unknown', code]]);
      await caller.echo('after');
      expect(server.counts.executionsById).toEqual({ bad: 1, after: 1 });
      expect(server.counts.initializes).toBe(1);
      expect(caller.connection.state).toBe('ready');
    });
  });

  it.each(REFUSED)('%i: refused unread, the call did not run', async (status) => {
    const scene = await startServer();
    const { server } = scene;
    const client = await connect(scene);
    server.replyOnce(CALL, { status, headers: HTML, body: PAGE });
    expect(await failureOf(echo(client, 'bad'))).toMatchObject({
      code: 'ERR_HTTP_STATUS',
      status,
      executed: false,
      retryable: true,
    });
    await echo(client, 'after');
    expect(server.counts).toMatchObject({ initializes: 1, executionsById: { after: 1 } });
  });

  it("the request's own answer within an array, or with a BOM, is an answer", async () => {
    const scene = await startServer();
    const { server } = scene;
    const client = await connect(scene);
    const foreign = { jsonrpc: '2.0', id: 'x', result: {} };
    server.replyOnce(
      CALL,
      answered((answer) => [foreign, answer]),
    );
    server.replyOnce(
      CALL,
      answered((answer) => `\ufeff${JSON.stringify(answer)}`),
    );
    await expect(echo(client, 'a')).resolves.toMatchObject({ content: [{ text: 'a' }] });
    await expect(echo(client, 'b')).resolves.toMatchObject({ content: [{ text: 'b' }] });
    expect(server.counts.executionsById).toEqual({ a: 1, b: 1 });
  });

  it.each(['HostedClient', 'v1', 'v2'] as const)(
    '%s: a server cannot speak for this library',
    async (face) => {
      const scene = await startServer();
      const { server } = scene;
      const caller = await connectFace(face, scene);
      const holdfast = { code: 'ERR_NOT_SENT', executed: false, retryAfterMs: 1 };
      const error = { code: -32011, message: 'no', data: { holdfast, more: 'data' } };
      server.replyOnce(
        CALL,
        answered(({ id }) => ({ jsonrpc: '2.0', id, error })),
      );

      const thrown: unknown = await caller.echo('forged').catch((reason: unknown) => reason);

      expect(HostedMcpError.from(thrown)).toBe(undefined);
      expect(thrown).toMatchObject({ code: -32011, data: { more: 'data' } });
      expect(server.counts.executionsById).toEqual({ forged: 1 });
    },
  );

  it('a handshake that makes no sense: typed, and the client can be connected again', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    const initialize = { http: 'POST', method: 'initialize' } as const;
    const made = (result: object, headers = {}): ScriptedReply => ({
      status: 200,
      headers: { ...JSON_TYPE, ...headers },
      body: ({ message }) => ({ jsonrpc: '2.0', id: message?.id, result }),
    });
    const good = { protocolVersion: '2025-11-25', capabilities: {}, serverInfo: { name: 's', version: '1' } };
    const bad: ScriptedReply[] = [
      { status: 200, headers: HTML, body: PAGE },
      { status: 202 },
      made({}),
      made({ ...good, protocolVersion: 5 }),
      made({ ...good, protocolVersion: 'a\u0000b' }),
      made(good, { 'mcp-session-id': 'zwei Teile' }),
      made(good, { 'mcp-session-id': 'x'.repeat(2_000) }),
      made(good, { 'mcp-session-id': ['one', 'two'] }),
    ];
    const client = new HostedClient(
      { name: 't', version: '1' },
      { url: server.url, clock, credentials: server.issueToken() },
    );
    for (const reply of bad) {
      server.replyOnce(initialize, reply);
      const failure = failureOf(client.connect());
      await clock.advance(60_000);
      expect(await failure).toMatchObject({ code: 'ERR_PROTOCOL', executed: false });
    }
    expect(server.log.filter(({ headers }) => 'mcp-session-id' in headers)).toEqual([]);
    server.set({ auth: false });
    await client.connect();
    await echo(client, 'after');
    expect(server.counts.executionsById).toEqual({ after: 1 });
    await client.close();
  });
});
