import { inspect } from 'node:util';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { afterEach, describe, expect, it } from 'vitest';
import { HostedClient, type HostedClientOptions } from '../../src/client.js';
import {
  type Connection,
  type ConnectionEvents,
  type CredentialProvider,
  clientCredentialsGrant,
  HostedMcpError,
  type HostedMcpErrorCode,
  HostedTransport,
  headerCredential,
  type LogEntry,
  memoryCredentialStore,
  refreshTokenGrant,
} from '../../src/index.js';
import type { ScriptedReply, ScriptedRequest } from '../../src/testing/index.js';
import { stockClient } from './stock.js';
import { closeLater, echo, type Scene, startServer } from './support.js';

const CALL = { http: 'POST', method: 'tools/call' } as const;
const HEADER = 'canary-header+value/with=signs';
const TWO_WORDS = 'canary-first-word canary-second-word';
const COOKIE = 'canary-cookie-value';
const CALLBACK = 'canary-callback-token';
const ELICITED = 'canary-elicited-id';

const EVENTS = Object.keys({
  state: 1,
  'session-established': 1,
  'session-suspect': 1,
  'session-lost': 1,
  'session-replaced': 1,
  'credential-refreshed': 1,
  'credential-adopted': 1,
  'credential-failed': 1,
  'credential-scope-widened': 1,
  'credential-server-changed': 1,
  'call-chain': 1,
  'stream-cut': 1,
  'stream-reopened': 1,
  'stream-gap': 1,
  'stream-unavailable': 1,
  'idle-limit-learned': 1,
  'idle-risk': 1,
  'rate-wait': 1,
  'rate-paused': 1,
  'rate-degraded': 1,
  'rate-restored': 1,
  'contract-changed': 1,
  'contract-unreadable': 1,
  call: 1,
  exchange: 1,
} satisfies Record<keyof ConnectionEvents, 1>) as (keyof ConnectionEvents)[];

/** Everything that anybody outside could print, and which events and error codes there were. */
class Witness {
  readonly secrets = new Set<string>([HEADER, COOKIE, CALLBACK, ELICITED, ...TWO_WORDS.split(' ')]);
  readonly events = new Set<string>();
  readonly codes = new Set<HostedMcpErrorCode>();
  readonly #said: string[] = [];

  see(value: unknown): void {
    this.#said.push(
      inspect(value, { depth: Number.POSITIVE_INFINITY, showHidden: true, maxArrayLength: null }),
    );
    try {
      this.#said.push(JSON.stringify(value) ?? '');
    } catch {
      // A circle: then nobody prints it so.
    }
    for (let at = value, depth = 0; typeof at === 'object' && at !== null && depth < 5; depth++) {
      const { message, stack, serverText, reason, requiredScope, cause } = at as Record<string, unknown>;
      this.#said.push([message, stack, serverText, reason, requiredScope].map(String).join('\n'));
      at = cause;
    }
    if (HostedMcpError.isInstance(value)) {
      this.codes.add(value.code);
      this.see(value.toToolResult());
    }
  }

  async failure(promise: Promise<unknown>): Promise<void> {
    const outcome = await promise.then(
      (value) => ({ value }),
      (error: unknown) => ({ error }),
    );
    expect(outcome).toHaveProperty('error');
    this.see((outcome as { error: unknown }).error);
  }

  listen(connection: Connection): void {
    for (const event of EVENTS) {
      connection.on(event, (payload) => {
        this.events.add(event);
        this.see(payload);
      });
    }
  }

  readonly logger = (entry: LogEntry): void => this.see(entry);

  expectNothing(): void {
    expect(this.secrets.size).toBeGreaterThan(5);
    const all = this.#said.join('\n');
    for (const secret of this.secrets) {
      expect(secret.length).toBeGreaterThan(5);
      const encoded = Buffer.from(secret).toString('base64').replace(/=+$/, '');
      for (const spelling of [secret, encodeURIComponent(secret), encoded])
        if (all.includes(spelling)) {
          const at = all.indexOf(spelling);
          expect.fail(`a secret shows: ${all.slice(Math.max(0, at - 300), at + spelling.length + 50)}`);
        }
    }
  }
}

let witness = new Witness();
afterEach(() => {
  witness = new Witness();
});

/** All that the request brought, in several spellings, at the very beginning of what is kept of a text. */
function echoed({ headers }: ScriptedRequest): string {
  const { authorization = '', cookie = '', 'x-api-key': key = '', 'mcp-session-id': id = '' } = headers;
  for (const secret of [authorization.replace('Bearer ', ''), id])
    if (secret !== '') witness.secrets.add(secret);
  const parts = [authorization, key, id, cookie].filter((part) => part !== '');
  const bare = parts.map((part) => part.replace('Bearer ', ''));
  const spelled = bare.flatMap((part) => [encodeURIComponent(part), Buffer.from(part).toString('base64')]);
  return [...parts, ...spelled].join(' ');
}

const rpcError = (request: ScriptedRequest, id: unknown) => ({
  jsonrpc: '2.0',
  id,
  error: { code: -32000, message: echoed(request), data: { [echoed(request)]: [echoed(request)] } },
});
const challenge = (request: ScriptedRequest, scheme: string) => ({
  'www-authenticate': `Bearer ${scheme}, scope="${echoed(request).replace(/[^\x21-\x7e ]|["\\]/g, '')}"`,
});

/** Answers that bring back what was sent, each with the error it becomes. */
const ECHOES: readonly (readonly [HostedMcpErrorCode | 'json-rpc', ScriptedReply])[] = [
  ['ERR_HTTP_STATUS', { status: 502, body: echoed }],
  ['ERR_HTTP_STATUS', { status: 500, body: (request) => ({ error: echoed(request) }) }],
  ['ERR_PROTOCOL', { status: 200, headers: { 'content-type': 'text/html' }, body: echoed }],
  ['ERR_PROTOCOL', { status: 200, body: (request) => rpcError(request, null) }],
  ['ERR_PROTOCOL', { chunks: (request) => [`data: ${JSON.stringify(rpcError(request, null))}\n\n`] }],
  ['ERR_OUTCOME_UNKNOWN', { chunks: (request) => [`: ${echoed(request)}\n\n`] }],
  ['ERR_RATE_LIMITED', { status: 429, headers: { 'retry-after': '0' }, body: echoed }],
  [
    'ERR_INSUFFICIENT_SCOPE',
    { status: 403, headers: (r) => challenge(r, 'error="insufficient_scope"'), body: echoed },
  ],
  [
    'ERR_REDIRECT',
    { status: 302, headers: (r) => ({ location: `https://x.test/?${encodeURIComponent(echoed(r))}` }) },
  ],
  ['ERR_MESSAGE_TOO_LARGE', { status: 200, body: (request) => echoed(request).padEnd(70_000, 'x') }],
  ['json-rpc', { status: 200, body: (request) => rpcError(request, request.message?.id) }],
  ['json-rpc', { status: 400, body: (request) => rpcError(request, request.message?.id) }],
  [
    'ERR_CREDENTIAL_REJECTED',
    { status: 401, headers: (r) => challenge(r, 'error="invalid_token"'), body: echoed },
  ],
  ['ERR_SESSION_LOST', { status: 404, body: echoed }],
];

/** The handshake sets the cookie and says all it was told, as a debugging server does. */
function tellAll({ server }: Scene): void {
  server.reply(
    { http: 'POST', method: 'initialize' },
    {
      tool: 'run',
      status: 200,
      headers: ({ sessionId = '' }) => {
        witness.secrets.add(sessionId);
        return {
          'content-type': 'application/json',
          'set-cookie': `node=${COOKIE}; Path=/`,
          'mcp-session-id': sessionId,
        };
      },
      body: (request) => {
        const answer = request.answer as { result: { serverInfo: object; capabilities: object } };
        const told = `${echoed(request)} ${request.sessionId} ${COOKIE}`;
        const { serverInfo, capabilities } = answer.result;
        const result = {
          ...answer.result,
          serverInfo: { ...serverInfo, title: told },
          capabilities: { ...capabilities, experimental: { [told]: { told } } },
          instructions: told,
        };
        return { ...answer, result };
      },
    },
  );
}

const SCENE = { auth: false, tokenLifetimeMs: 3_600_000 } as const;
const http = { headers: { 'X-Api-Key': HEADER, 'x-two': TWO_WORDS }, maxMessageBytes: 60_000 };

async function open(scene: Scene, options: Partial<HostedClientOptions> = {}) {
  const client = new HostedClient(
    { name: 'test', version: '1.0.0' },
    {
      url: scene.server.url,
      clock: scene.clock,
      credentials: () => CALLBACK,
      http,
      logger: witness.logger,
      ...options,
    },
  );
  closeLater(() => client.close());
  client.onerror = (error) => witness.see(error);
  witness.listen(client.connection);
  await client.connect();
  return client;
}

/** A provider that is told no, and says so itself. */
const throwing =
  (what: () => never): CredentialProvider['acquire'] =>
  async () =>
    what();

describe('secrets stay inside', () => {
  it.each(['HostedClient', 'v1', 'v2'] as const)(
    '%s: a server that says back all it was told',
    async (face) => {
      const scene = await startServer(SCENE);
      const { server, clock } = scene;
      tellAll(scene);
      const retry = { resendOn429: 'never', resendOn401: 'never' } as const;
      let connection: Connection;
      let call: () => Promise<unknown>;
      let shown: unknown[];
      if (face === 'HostedClient') {
        const client = await open(scene, { retry });
        connection = client.connection;
        call = () => echo(client, 'a');
        shown = [client, client.getInstructions(), client.getServerVersion(), client.getServerCapabilities()];
      } else {
        const options = { clock, http, retry, logger: witness.logger, credentials: () => CALLBACK };
        const transport = new HostedTransport(server.url, options);
        const client = stockClient(face);
        closeLater(() => client.close());
        client.onerror = (error) => witness.see(error);
        connection = transport.connection;
        witness.listen(connection);
        // biome-ignore lint/suspicious/noExplicitAny: each SDK's Transport names its own message types.
        await client.connect(transport as any);
        call = () => client.callTool({ name: 'echo', arguments: { text: 'a' } });
        shown = [client, transport, client.getInstructions(), client.getServerVersion()];
        expect(transport.sessionId).toMatch(/-/);
      }
      server.reset();
      for (const [code, reply] of ECHOES) {
        server.replyOnce(CALL, reply);
        const seen = connection.once('call');
        await witness.failure(call());
        const { code: told } = await seen;
        expect([code, told]).toEqual([code, code === 'json-rpc' ? undefined : code]);
        // An honest answer in between: several refusals in a row would be a matter of the session.
        await call();
      }
      server.reset();
      const isError = { content: [{ type: 'text', text: '' }], isError: true };
      server.replyOnce(CALL, {
        status: 200,
        body: (request) => {
          const text = echoed(request);
          const result = {
            ...isError,
            content: [{ type: 'text', text }],
            structuredContent: { [text]: { text } },
          };
          return { jsonrpc: '2.0', id: request.message?.id, result };
        },
      });
      const result = await call();
      expect(result).toMatchObject({ isError: true });
      witness.see(result);
      for (const each of [...shown, connection, connection.session, connection.stats, connection.health()])
        witness.see(each);
      expect(server.counts.executions).toEqual({});
      witness.expectNothing();
    },
  );

  it('a handshake that is refused in the words of what it brought, each step of it', async () => {
    for (const method of ['initialize', 'notifications/initialized'] as const) {
      for (const reply of [
        { status: 403, body: echoed },
        { status: 400, body: (request) => rpcError(request, null) },
        { status: 200, body: (request) => rpcError(request, request.message?.id) },
      ] satisfies ScriptedReply[]) {
        const scene = await startServer(SCENE);
        if (method !== 'initialize') tellAll(scene);
        scene.server.reply({ http: 'POST', method }, reply);
        const failing = witness.failure(open(scene));
        await scene.clock.advance(60_000);
        await failing;
      }
    }
    witness.expectNothing();
  });

  it('every other code, with secrets wherever a foreign hand could put them', async () => {
    const scene = await startServer({ ...SCENE, answer: 'sse' });
    const { server, clock } = scene;
    tellAll(scene);
    const spoilt = (text: string): never => {
      throw Object.assign(new Error(text), { code: text, config: { text } });
    };
    let isBroken = false;
    const client = await open(scene, {
      credentials: () => (isBroken ? spoilt(CALLBACK) : CALLBACK),
      gates: [
        {
          name: 'door',
          before: ({ tool }) => (tool === 'add' ? spoilt(CALLBACK) : 'allow'),
          after: ({ tool }) => (tool === 'fail' ? spoilt(CALLBACK) : 'allow'),
        },
      ],
    });
    await witness.failure(client.callTool({ name: 'add', arguments: { a: 1, b: 2 } }));
    await witness.failure(client.callTool({ name: 'fail', arguments: {} }));

    server.replyOnce(CALL, { silence: true });
    const slow = witness.failure(echo(client, 'slow', { timeout: 1_000 }));
    await clock.advance(1_000);
    await slow;
    const controller = new AbortController();
    server.replyOnce(CALL, { silence: true });
    const aborted = witness.failure(echo(client, 'aborted', { signal: controller.signal }));
    await clock.settle();
    controller.abort(new Error(CALLBACK));
    await aborted;

    isBroken = true;
    await witness.failure(echo(client, 'source'));
    isBroken = false;
    server.cutStreams('reset');
    server.throttle(90_000);
    await witness.failure(echo(client, 'limited', { timeout: 10_000 }));
    await clock.advance(90_000);
    await client.close();
    await witness.failure(echo(client, 'closed'));
    witness.see(client);

    const late = await startServer(SCENE);
    await late.server.close();
    const unreachable = witness.failure(open(late));
    await late.clock.advance(60_000);
    await unreachable;

    const unstable = await startServer(SCENE);
    const setUp = witness.failure(open(unstable, { session: { onEstablished: () => spoilt(CALLBACK) } }));
    await unstable.clock.advance(60_000);
    await setUp;

    const acquire = throwing(() => spoilt(CALLBACK));
    const foreign = witness.failure(open(unstable, { credentials: { id: 'mine', acquire } }));
    await unstable.clock.advance(60_000);
    await foreign;

    for (const code of [
      'ERR_DENIED',
      'ERR_RESULT_REFUSED',
      'ERR_TIMEOUT',
      'ERR_ABORTED',
      'ERR_CREDENTIAL_SOURCE',
      'ERR_RATE_LIMITED',
      'ERR_CLOSED',
      'ERR_NOT_SENT',
      'ERR_SESSION_UNSTABLE',
    ] as const)
      expect(witness.codes).toContain(code);
    witness.expectNothing();
  });

  it('client secret, refresh token and access tokens, at a token endpoint that says them back', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    const { id, secret, refreshToken } = server.client;
    const basic = Buffer.from(`${id}:${secret}`).toString('base64');
    const access = server.issueToken({ lifetimeMs: 60_000 });
    for (const each of [secret, refreshToken, access, basic]) witness.secrets.add(each);
    const told = `${secret} ${refreshToken} Basic ${basic} ${encodeURIComponent(secret)}`;
    const store = memoryCredentialStore();
    const common = { issuer: server.issuer, clientId: id, clientSecret: secret, clock };
    const credentials = refreshTokenGrant({
      ...common,
      refreshToken,
      accessToken: access,
      expiresAtMs: clock.now() + 60_000,
      store,
      subject: 'user',
    });
    // Once honestly, so that all modules are loaded before the clock is moved.
    await clientCredentialsGrant(common).acquire(new URL(server.url));
    const client = await open(scene, { credentials });
    const bodies = [
      [503, told, 'ERR_TOKEN_ENDPOINT'],
      [500, { error: 'server_error', error_description: told }, 'ERR_TOKEN_ENDPOINT'],
      [200, { access_token: '', error_description: told }, 'ERR_TOKEN_ENDPOINT'],
      [400, { error: 'invalid_client', error_description: told }, 'ERR_CREDENTIAL_REJECTED'],
    ] as const;
    const machine = clientCredentialsGrant({ ...common, scope: 'mcp' });
    const other = await open(scene, { credentials: machine });
    // An endpoint can only say back what it was sent.
    for (const [each, sent] of [
      [client, told],
      [other, told.replace(refreshToken, '')],
    ] as const) {
      for (const [status, body, code] of bodies) {
        server.expireTokens();
        const said = JSON.parse(JSON.stringify(body).replaceAll(JSON.stringify(told), JSON.stringify(sent)));
        server.failTokenEndpoint({ status, body: said, headers: { 'retry-after': '90' } });
        const failing = witness.failure(echo(each, 'a', { timeout: 5_000 }));
        await clock.advance(5_000);
        await failing;
        expect(witness.codes).toContain(code);
        server.restoreTokenEndpoint();
        if (code !== 'ERR_TOKEN_ENDPOINT') continue;
        await clock.advance(100_000);
        await echo(each, 'b');
      }
    }
    server.failTokenEndpoint({ status: 400, body: { error: 'invalid_grant', error_description: told } });
    const gone = refreshTokenGrant({
      ...common,
      refreshToken,
      store: memoryCredentialStore(),
      subject: 'x',
    });
    const dead = witness.failure(gone.acquire(new URL(server.url)));
    await clock.advance(5_000);
    await dead;
    server.failTokenEndpoint({ status: 503, body: told });
    const broken = refreshTokenGrant({
      ...common,
      refreshToken,
      subject: 'y',
      store: {
        ...store,
        read: async () => {
          throw new Error(refreshToken);
        },
        compareAndSet: async () => false,
        lease: async () => {
          throw new Error(refreshToken);
        },
      },
    });
    const storeless = witness.failure(broken.acquire(new URL(server.url)));
    await clock.advance(30_000);
    await storeless;
    for (const each of [credentials, machine, gone, broken, client, client.connection]) witness.see(each);
    expect(witness.codes).toContain('ERR_REAUTHORIZATION_REQUIRED');
    expect(witness.codes).toContain('ERR_STORE_UNAVAILABLE');
    expect(witness.events).toContain('credential-failed');
    witness.expectNothing();
  });

  it('an API key of two words in a header of its own, said back by halves', async () => {
    const scene = await startServer(SCENE);
    const key = 'canary-scheme canary-api-key-value';
    for (const word of key.split(' ')) witness.secrets.add(word);
    const client = await open(scene, { credentials: headerCredential({ name: 'x-key', value: key }) });
    for (const body of [key, ...key.split(' '), TWO_WORDS, ...TWO_WORDS.split(' ')]) {
      scene.server.replyOnce(CALL, { status: 502, body: `you sent ${body}` });
      await witness.failure(echo(client, 'a'));
    }
    witness.expectNothing();
  });

  it('a value is not forgotten for the many tokens and cookies that come after it', async () => {
    const scene = await startServer(SCENE);
    const { server } = scene;
    tellAll(scene);
    let made = 0;
    const client = await open(scene, { credentials: () => `canary-token-number-${++made}` });
    server.reply(CALL, {
      tool: 'run',
      status: 200,
      headers: () => ({ 'content-type': 'application/json', 'set-cookie': `lb=canary-lb-${made}` }),
      body: (request) => request.answer,
    });
    for (let call = 0; call < 100; call++) await echo(client, 'a');
    server.replyOnce(CALL, { status: 502, body: echoed });
    await witness.failure(echo(client, 'b'));
    witness.secrets.add(`canary-lb-${made - 1}`);
    witness.expectNothing();
  });

  it('a token that stays is not forgotten for the many cookies that come after it', async () => {
    const scene = await startServer(SCENE);
    const { server } = scene;
    tellAll(scene);
    let made = 0;
    const token = 'canary-token-that-stays';
    witness.secrets.add(token);
    const client = await open(scene, { credentials: token, http: {} });
    server.reply(CALL, {
      status: 503,
      headers: () => ({ 'content-type': 'text/plain', 'set-cookie': `lb=canary-lb-${++made}` }),
      body: 'busy',
    });
    for (let call = 0; call < 100; call++) await witness.failure(echo(client, 'a'));
    server.replyOnce(CALL, { status: 502, body: echoed });
    await witness.failure(echo(client, 'b'));
    witness.expectNothing();
  });

  it('what a person typed for a server goes to that server alone', async () => {
    const schema = { type: 'object', properties: { id: { type: 'string' } } };
    let answer: unknown;
    const scene = await startServer({
      ...SCENE,
      tools: [
        {
          name: 'ask',
          handler: async (_args, call) => {
            answer = await call.request('elicitation/create', { message: 'Which?', requestedSchema: schema });
            return 'thank you';
          },
        },
      ],
    });
    const client = new HostedClient(
      { name: 'test', version: '1.0.0' },
      {
        url: scene.server.url,
        clock: scene.clock,
        credentials: () => CALLBACK,
        logger: witness.logger,
        capabilities: { elicitation: {} },
      },
    );
    closeLater(() => client.close());
    witness.listen(client.connection);
    client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'accept', content: { id: ELICITED } }));
    await client.connect();
    await client.callTool({ name: 'ask', arguments: {} });
    witness.see(client);
    witness.see(client.connection);
    expect(answer).toEqual({ action: 'accept', content: { id: ELICITED } });
    expect(scene.server.counts.executions).toEqual({ ask: 1 });
    witness.expectNothing();
  });
});
