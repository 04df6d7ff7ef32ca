/**
 * A session that the server has given is never left there for want of a word: it stands, or it is deleted, or the
 * server has said itself that it is gone.
 */
import { describe, expect, it } from 'vitest';
import { HostedClient, type HostedClientOptions } from '../../src/client.js';
import { type CredentialProvider, HostedTransport } from '../../src/index.js';
import type { HostedServer, RequestMatch, ScriptedReply, ScriptedRequest } from '../../src/testing/index.js';
import { call, connectStock, SDKS, type StockClient, stockClient } from './stock.js';
import { closeLater, connect, echo, failureOf, machine, type Scene, startServer } from './support.js';

const INITIALIZE: RequestMatch = { http: 'POST', method: 'initialize' };
const INITIALIZED: RequestMatch = { http: 'POST', method: 'notifications/initialized' };
const DELETE: RequestMatch = { http: 'DELETE' };
const SILENCE = { silence: true } as const;
const QUIET = { streams: { listen: false } } as const;

/** A fixed token: no timer of a renewal is among those that are counted. */
function fixed({ server }: Scene): CredentialProvider {
  const token = server.issueToken();
  return {
    id: 'fixed',
    acquire: async () => ({ generation: 1, headers: () => ({ authorization: `Bearer ${token}` }) }),
  };
}

function unconnected(scene: Scene, options: Partial<HostedClientOptions> = {}): HostedClient {
  const client = new HostedClient(
    { name: 'test', version: '1.0.0' },
    { url: scene.server.url, credentials: fixed(scene), clock: scene.clock, ...QUIET, ...options },
  );
  closeLater(() => client.close());
  return client;
}

const deletesAt = ({ log }: HostedServer) => log.filter(({ http }) => http === 'DELETE');

/** The sessions that the server holds: given out, and not deleted with success. */
function heldAt(server: HostedServer): (string | undefined)[] {
  const given = server.log.filter((entry) => entry.rpcMethod === 'initialize' && entry.sessionLabel);
  const gone = deletesAt(server).filter(({ status }) => status === 200);
  const goneLabels = new Set(gone.map(({ sessionLabel }) => sessionLabel));
  return given.map(({ sessionLabel }) => sessionLabel).filter((label) => !goneLabels.has(label));
}

/** Each DELETE went out once, and under the token that its session was opened with. */
function expectHonestDeletes(server: HostedServer): void {
  const opened = new Map(
    server.log
      .filter(({ rpcMethod }) => rpcMethod === 'initialize')
      .map(({ sessionLabel, tokenLabel }) => [sessionLabel, tokenLabel]),
  );
  const deletes = deletesAt(server);
  for (const { sessionLabel, tokenLabel } of deletes) expect(tokenLabel).toBe(opened.get(sessionLabel));
  expect(new Set(deletes.map(({ sessionLabel }) => sessionLabel)).size).toBe(deletes.length);
}

/** When a promise has settled, on the clock; undefined while it has not. */
function watched({ clock }: Scene, promise: Promise<unknown>): { atMs: number | undefined } {
  const watch: { atMs: number | undefined } = { atMs: undefined };
  const done = () => {
    watch.atMs = clock.monotonic();
  };
  promise.then(done, done);
  return watch;
}

describe('a session whose handshake comes to nothing is deleted', () => {
  // Where it may have met another node it is said up to five times.
  const REFUSALS: [string, ScriptedReply, number?][] = [
    ['400, a page', { status: 400, headers: { 'content-type': 'text/html' }, body: '<p>no</p>' }, 5],
    ['401 with a challenge', { status: 401, headers: { 'www-authenticate': 'Bearer' } }],
    ['401 without', { status: 401 }, 5],
    ['403', { status: 403, body: 'Forbidden' }, 5],
    ['404, a page', { status: 404, body: 'Not Found' }, 5],
    ['405', { status: 405 }],
    ['429 with a pause', { status: 429, headers: { 'retry-after': '3' } }],
    ['500', { status: 500 }, 5],
    ['502', { status: 502, headers: { 'content-type': 'text/html' }, body: '<h1>502</h1>' }],
    ['503 with a pause', { status: 503, headers: { 'retry-after': '1' } }, 5],
    ['a redirect to another place', { status: 302, headers: { location: 'https://elsewhere.example/' } }],
    ['cut before its head', { cut: 'fin' }],
    ['reset', { cut: 'reset' }],
    ['no answer at all', SILENCE],
    ['never an answer', SILENCE, 100],
    ['always reset', { cut: 'reset' }, 100],
  ];
  it.each(REFUSALS)('`initialized`: %s', async (_name, reply, times = 1) => {
    const scene = await startServer({ tokenLifetimeMs: 3_600_000 });
    const { server, clock } = scene;
    server.reply(INITIALIZED, reply, { times });
    const client = unconnected(scene);

    const connecting = client.connect().then(
      () => 1,
      () => 0,
    );
    await clock.advance(120_000);
    const standing = await connecting;

    const { initializes, deletes } = server.counts;
    expect(deletes).toBe(initializes - standing);
    expect(deletes).toBeGreaterThan(0);
    expect(heldAt(server)).toEqual(standing === 1 ? [`session#${initializes}`] : []);
    expectHonestDeletes(server);
    await client.close();
    expect(heldAt(server)).toEqual([]);
    expect(server.counts).toMatchObject({ initializes, deletes: initializes });
    expect(clock.pendingTimers).toBe(0);
  });

  it('`initialized` at a replacement: the old session stays in service, the new one is not left', async () => {
    const scene = await startServer({ bindSession: 'token', sessionLostStatus: 401, challenge: 'none' });
    const { server, clock } = scene;
    const client = await connect(scene, QUIET);
    await echo(client, 'before');
    server.reply(INITIALIZED, { status: 405 });
    await clock.advance(45_500);

    expect(server.counts.initializes).toBeGreaterThan(1);
    expect(server.counts.deletes).toBe(server.counts.initializes - 1);
    expect(heldAt(server)).toEqual(['session#1']);
    expectHonestDeletes(server);
  });

  const ID = (request: ScriptedRequest) => ({
    'content-type': 'application/json',
    'mcp-session-id': request.sessionId ?? '',
  });
  const BROKEN: [string, ScriptedReply][] = [
    [
      'without a protocol version',
      { tool: 'run', status: 200, body: ({ message }) => ({ jsonrpc: '2.0', id: message?.id, result: {} }) },
    ],
    [
      'as an error',
      {
        tool: 'run',
        status: 200,
        body: ({ message }) => ({ jsonrpc: '2.0', id: message?.id, error: { code: -32603, message: 'no' } }),
      },
    ],
    ['that is no JSON', { tool: 'run', status: 200, headers: ID, body: '{"jsonrpc":' }],
    ['cut after its head', { tool: 'run', cut: 'fin', afterBytes: 4 }],
    ['that never ends', { tool: 'run', headers: ID, chunks: ['{', { pauseMs: 3_600_000 }] }],
  ];
  it.each(BROKEN)('`initialize` answered with an id, %s', async (_name, reply) => {
    const scene = await startServer();
    const { server, clock } = scene;
    server.replyOnce(INITIALIZE, reply);
    const client = unconnected(scene);

    const connecting = client.connect().catch(() => {});
    await clock.advance(40_000);
    await connecting;

    expect(deletesAt(server).map(({ sessionLabel, status }) => [sessionLabel, status])).toEqual([
      ['session#1', 200],
    ]);
    expectHonestDeletes(server);
  });

  it('the server itself says that it does not know it: nothing is left to delete', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    const unknown = { jsonrpc: '2.0', id: null, error: { code: -32001, message: 'Session not found' } };
    server.reply(INITIALIZED, { status: 404, body: unknown }, { times: 5 });
    const client = unconnected(scene);

    const connecting = client.connect().catch(() => {});
    await clock.advance(40_000);
    await connecting;

    expect(deletesAt(server).filter(({ sessionLabel }) => sessionLabel === 'session#1')).toEqual([]);
  });

  it('a DELETE that is refused, cut or led elsewhere is not sent again, nor anywhere else', async () => {
    const elsewhere = await startServer();
    for (const reply of [
      { status: 503, headers: { 'retry-after': '1' } },
      { status: 401, headers: { 'www-authenticate': 'Bearer error="invalid_token"' } },
      { cut: 'reset' },
      { status: 307, headers: { location: elsewhere.server.url } },
    ] as ScriptedReply[]) {
      const scene = await startServer();
      const { server, clock } = scene;
      server.reply(INITIALIZED, { status: 405 });
      server.reply(DELETE, reply);
      await failureOf(unconnected(scene).connect());
      await clock.advance(120_000);
      expect(deletesAt(server)).toHaveLength(1);
      expectHonestDeletes(server);
    }
    expect(elsewhere.server.log).toEqual([]);
  });

  it('an `initialize` that is given up before it has left never leaves', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    const headers = { authorization: `Bearer ${server.issueToken()}` };
    let come = () => {};
    const late = new Promise<typeof headers>((resolve) => {
      come = () => resolve(headers);
    });
    let asked = 0;
    const credentials: CredentialProvider = {
      id: 'late once',
      acquire: async () => ({ generation: 1, headers: () => (++asked === 1 ? late : headers) }),
    };
    const connecting = unconnected(scene, { credentials }).connect();
    await clock.advance(20_000);
    await connecting;

    come();
    await clock.settle();

    expect(asked).toBeGreaterThan(1);
    expect(server.counts).toMatchObject({ initializes: 1, deletes: 0 });
    expect(heldAt(server)).toEqual(['session#1']);
  });

  it('HTTP+SSE: the stream that carries it ends, and nothing is deleted', async () => {
    for (const reply of [{ status: 403 }, { status: 500 }, { cut: 'reset' }, SILENCE] as ScriptedReply[]) {
      const scene = await startServer({ transport: 'legacy-sse', tokenLifetimeMs: 3_600_000 });
      const { server, clock } = scene;
      server.reply(INITIALIZED, reply);
      const connecting = failureOf(unconnected(scene).connect());
      await clock.advance(60_000);
      await connecting;
      await clock.settle();
      expect(server.counts).toMatchObject({ streamsOpen: 0, deletes: 0 });
    }
  });
});

/** Clients that were brought to the middle of their handshake; what closes them, and what then is at the server. */
describe('close() while a session is being opened', () => {
  const MIDDLES: [string, (server: HostedServer) => void, Partial<HostedClientOptions>?][] = [
    ['between `initialize` and `initialized`', (server) => server.reply(INITIALIZED, SILENCE)],
    ['with `initialized` cut, before the next try', (server) => server.reply(INITIALIZED, { cut: 'reset' })],
    [
      'with only the head of the answer there',
      (server) => server.reply(INITIALIZE, { tool: 'run', chunks: [': \n\n', { pauseMs: 3_600_000 }] }),
    ],
    ['in `onEstablished`', () => {}, { session: { onEstablished: () => new Promise(() => {}) } }],
    [
      'in a call of `onEstablished`',
      () => {},
      { session: { onEstablished: async (setup) => void (await setup.request('ping')) } },
    ],
  ];
  /** The pause in the scripted answer is a timer as well. */
  const ofServer = (name: string) => (name.includes('only the head') ? 1 : 0);
  for (const [name, bring, options] of MIDDLES) {
    it(`${name}: it is deleted, once`, async () => {
      const scene = await startServer();
      const { server, clock } = scene;
      bring(server);
      server.reply({ method: 'ping' }, SILENCE);
      const client = unconnected(scene, options);
      const connecting = failureOf(client.connect());
      await clock.settle();

      const closing = client.close();
      expect((await connecting).code).toBe('ERR_CLOSED');
      await clock.advance(1_999);
      await closing;

      expect(server.counts).toMatchObject({ initializes: 1, deletes: 1 });
      expect(heldAt(server)).toEqual([]);
      expectHonestDeletes(server);
      expect(clock.pendingTimers).toBe(ofServer(name));
    });

    it(`${name}, in a recovery: the same`, async () => {
      const scene = await startServer();
      const { server, clock } = scene;
      const { session } = options ?? {};
      let recovers = false;
      const client = await connect(scene, {
        ...QUIET,
        session: {
          onEstablished: (setup) => (recovers ? session?.onEstablished?.(setup) : undefined),
        },
      });
      recovers = true;
      bring(server);
      server.reply({ method: 'ping' }, SILENCE);
      server.dropSessions();
      await failureOf(echo(client, 'lost'));
      const waiting = failureOf(echo(client, 'waiting'));
      await clock.settle();

      const closing = client.connection.close();
      await clock.advance(1_999);
      await closing;

      expect(await waiting).toMatchObject({ code: 'ERR_CLOSED', executed: false });
      expect(server.counts.initializes).toBe(2);
      // The first was lost by the server's own word.
      expect(deletesAt(server).map(({ sessionLabel }) => sessionLabel)).toEqual(['session#2']);
      expect(heldAt(server)).toEqual(['session#1']);
      expect(server.counts.executionsById).toEqual({});
    });

    it(`${name}, beside the old one: both are deleted, each under its own token`, async () => {
      const scene = await startServer({ bindSession: 'token', sessionLostStatus: 401, challenge: 'none' });
      const { server, clock } = scene;
      const { session } = options ?? {};
      let renews = false;
      const client = await connect(scene, {
        ...QUIET,
        session: {
          boundToToken: true,
          onEstablished: (setup) => (renews ? session?.onEstablished?.(setup) : undefined),
        },
      });
      await echo(client, 'before');
      renews = true;
      bring(server);
      server.reply({ method: 'ping' }, SILENCE);
      await clock.advance(45_500);
      expect(server.counts.initializes).toBeGreaterThan(1);

      const closing = client.close();
      await clock.advance(1_999);
      await closing;

      expect(server.counts.deletes).toBe(server.counts.initializes);
      expect(heldAt(server)).toEqual([]);
      expectHonestDeletes(server);
    });

    it(`${name}, and the server does not answer the DELETE either: close() has an end`, async () => {
      const scene = await startServer();
      const { server, clock } = scene;
      bring(server);
      server.reply({ method: 'ping' }, SILENCE);
      server.reply(DELETE, SILENCE);
      const client = unconnected(scene, options);
      const connecting = failureOf(client.connect());
      await clock.settle();

      const startedMs = clock.monotonic();
      const watch = watched(scene, client.close());
      await connecting;
      await clock.advance(1_999);
      expect(watch.atMs).toBeUndefined();
      await clock.advance(1);
      await clock.settle();

      expect(watch.atMs).toBe(startedMs + 2_000);
      expect(server.counts.deletes).toBe(1);
      await clock.advance(120_000);
      expect(server.counts).toMatchObject({ initializes: 1, deletes: 1 });
      expect(clock.pendingTimers).toBe(ofServer(name));
    });

    for (const sdk of SDKS) {
      it(`${name}: a HostedTransport under the stock ${sdk} Client gives back what nobody has the id of`, async () => {
        const scene = await startServer();
        const { server, clock } = scene;
        bring(server);
        server.reply({ method: 'ping' }, SILENCE);
        const transport = new HostedTransport(server.url, {
          credentials: machine(scene),
          clock,
          ...QUIET,
          ...options,
        });
        const client = stockClient(sdk);
        const giveUp = new AbortController();
        closeLater(() => client.close());
        const connecting = client.connect(transport as never, { signal: giveUp.signal } as never);
        const failed = connecting.then(
          () => false,
          () => true,
        );
        await clock.settle();

        // The caller gives up: the SDK's Client closes its transport then.
        giveUp.abort(new Error('enough'));
        expect(await failed).toBe(true);
        await transport.close();
        await clock.settle();

        expect(server.counts).toMatchObject({ initializes: 1, deletes: 1 });
        expect(heldAt(server)).toEqual([]);
      });
    }
  }

  it('the caller of connect() gives up: what is opened all the same serves the next connect(), or is deleted', async () => {
    for (const returns of [true, false]) {
      const scene = await startServer();
      const { server, clock } = scene;
      let goOn = () => {};
      const held = new Promise<void>((resolve) => {
        goOn = resolve;
      });
      const client = unconnected(scene, { session: { onEstablished: () => held } });
      const giveUp = new AbortController();
      const connecting = failureOf(client.connect({ signal: giveUp.signal }));
      await clock.settle();
      giveUp.abort();
      expect((await connecting).code).toBe('ERR_ABORTED');
      if (returns) {
        goOn();
        await client.connect();
        expect(server.counts).toMatchObject({ initializes: 1, deletes: 0 });
      }

      await client.close();

      expect(server.counts).toMatchObject({ initializes: 1, deletes: 1 });
      expect(heldAt(server)).toEqual([]);
    }
  });

  it('the answer to `initialize` is still on its way: it is listened for, and the session deleted', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    let arrive = () => {};
    const held = new Promise<void>((resolve) => {
      arrive = resolve;
    });
    const fetchHeld: NonNullable<NonNullable<HostedClientOptions['http']>['fetch']> = async (url, init) => {
      const answer = await fetch(url, init);
      if (init.body?.includes('"initialize"') === true) await held;
      return answer as never;
    };
    const client = unconnected(scene, { http: { fetch: fetchHeld } });
    const connecting = failureOf(client.connect());
    await clock.settle();
    expect(server.counts).toMatchObject({ initializes: 1, deletes: 0 });

    const closing = client.close();
    expect((await connecting).code).toBe('ERR_CLOSED');
    await clock.advance(999);
    arrive();
    await closing;

    expect(server.counts).toMatchObject({ initializes: 1, deletes: 1 });
    expect(heldAt(server)).toEqual([]);
  });

  /** Its headers do not come for a message that is being opened with; for a DELETE they do. */
  function stuckFor({ server }: Scene, isStuck: (posts: number) => boolean): CredentialProvider {
    const token = server.issueToken();
    let posts = 0;
    const headers = ({ method }: { method: string }) =>
      method === 'POST' && isStuck(++posts)
        ? new Promise<never>(() => {})
        : { authorization: `Bearer ${token}` };
    return { id: 'stuck', acquire: async () => ({ generation: 1, headers }) };
  }

  it('held up by the credential for `initialized`: the session is deleted all the same', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    const client = unconnected(scene, { credentials: stuckFor(scene, (posts) => posts === 2) });
    const connecting = failureOf(client.connect());
    await clock.settle();
    expect(server.counts).toMatchObject({ initializes: 1, requests: 1 });

    await Promise.all([client.close(), connecting]);

    expect(heldAt(server)).toEqual([]);
    expect(server.counts).toMatchObject({ deletes: 1, requests: 2 });
  });

  it('held up by the credential for what a new session is given back: the same', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    // The first session: its handshake, the level, and the call that meets the loss; then a handshake, and the level.
    const client = unconnected(scene, { credentials: stuckFor(scene, (posts) => posts === 7) });
    await client.connect();
    await client.setLoggingLevel('debug').catch(() => {});
    server.dropSessions();
    await failureOf(echo(client, 'lost'));
    await clock.settle();
    expect(server.counts.initializes).toBe(2);

    await client.close();

    expect(deletesAt(server).map(({ sessionLabel }) => sessionLabel)).toEqual(['session#2']);
  });

  it('no answer to `initialize` at all: nothing to delete, and close() has an end', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    server.reply(INITIALIZE, SILENCE);
    const client = unconnected(scene);
    const connecting = failureOf(client.connect());
    await clock.settle();

    const closing = client.close();
    await connecting;
    await clock.advance(2_000);
    await closing;

    expect(server.counts).toMatchObject({ initializes: 1, deletes: 0 });
    expect(clock.pendingTimers).toBe(0);
  });

  it('`initialize` has not left yet: close() waits for nothing', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    let come: (headers: Record<string, string>) => void = () => {};
    const late = new Promise<Record<string, string>>((resolve) => {
      come = resolve;
    });
    const credentials: CredentialProvider = {
      id: 'slow',
      acquire: async () => ({ generation: 1, headers: () => late }),
    };
    const client = unconnected(scene, { credentials });
    const connecting = failureOf(client.connect());
    await clock.settle();
    await Promise.all([client.close(), connecting]);
    come({ authorization: `Bearer ${server.issueToken()}` });
    await clock.advance(10_000);

    expect(server.counts).toMatchObject({ requests: 0 });
  });

  it('HTTP+SSE: its stream ends at once, and nothing is deleted', async () => {
    for (const silent of [INITIALIZE, INITIALIZED]) {
      const scene = await startServer({ transport: 'legacy-sse', tokenLifetimeMs: 3_600_000 });
      const { server, clock } = scene;
      server.replyOnce(INITIALIZE, { status: 404 });
      server.reply(silent, SILENCE);
      const client = unconnected(scene);
      const connecting = failureOf(client.connect());
      await clock.settle();
      expect(server.counts.streamsOpen).toBe(1);

      await Promise.all([client.close(), connecting]);
      await clock.settle();

      expect(server.counts).toMatchObject({ streamsOpen: 0, deletes: 0 });
    }
  });

  it('2026-07-28: there is none to delete', async () => {
    const scene = await startServer({ protocolVersion: '2026-07-28' });
    const { server, clock } = scene;
    const transport = new HostedTransport(server.url, { credentials: machine(scene), clock });
    const client = stockClient('v2');
    server.reply({ method: 'server/discover' }, SILENCE);
    const connecting = client.connect(transport as never).catch(() => {});
    await clock.settle();

    await Promise.all([transport.connection.close(), connecting, client.close()]);

    expect(server.counts.deletes).toBe(0);
  });

  it('revoke(): it is deleted before the token is taken back, within the second', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    server.reply(INITIALIZED, SILENCE);
    const token = server.issueToken();
    let deletesBefore = -1;
    const credentials: CredentialProvider = {
      id: 'own',
      acquire: async () => ({ generation: 1, headers: () => ({ authorization: `Bearer ${token}` }) }),
      revoke: async () => {
        deletesBefore = server.counts.deletes;
        server.revokeTokens();
        return 'revoked';
      },
    };
    const client = unconnected(scene, { credentials });
    const connecting = failureOf(client.connect());
    await clock.settle();

    const outcome = await client.connection.revoke('leaked');
    await connecting;

    expect(outcome).toEqual({ token: 'revoked', session: 'none' });
    expect(deletesBefore).toBe(1);
    expect(heldAt(server)).toEqual([]);
  });
});

describe('close() and the sessions that were replaced', () => {
  /** A call under way on a session bound to the old token, and a newer session beside it. */
  async function replaced(server: Partial<Parameters<typeof startServer>[0]> = {}) {
    const scene = await startServer({ bindSession: 'token', answer: 'sse', ...server });
    const client = await connect(scene, QUIET);
    await scene.clock.advance(43_000);
    const long = failureOf(call(client as StockClient, 'long', 'slow', { ms: 3_000 }));
    await scene.clock.advance(2_500);
    await echo(client, 'short');
    expect(heldAt(scene.server)).toEqual(['session#1', 'session#2']);
    return { ...scene, scene, client, long };
  }

  it('both are deleted, each under its own token', async () => {
    const { server, client, long } = await replaced();

    await client.close();

    expect((await long).code).toBe('ERR_CLOSED');
    expect(server.counts.deletes).toBe(2);
    expect(heldAt(server)).toEqual([]);
    expectHonestDeletes(server);
  });

  it('whose DELETE is already under way when it closes: it arrives', async () => {
    const { server, clock, client, long } = await replaced();
    server.reply(DELETE, SILENCE, { times: 1 });
    long.catch(() => {});
    await clock.advance(1_000);
    expect(server.counts.deletes).toBe(1);

    const closing = client.close();
    await clock.advance(2_000);
    await closing;

    expect(deletesAt(server).map(({ sessionLabel }) => sessionLabel)).toEqual(['session#1', 'session#2']);
  });

  it.each([
    ['the DELETEs hang', [SILENCE, SILENCE]],
    ['one of them hangs', [SILENCE]],
    ['one is refused', [{ status: 500 } as const]],
  ])('%s: close() has an end, and neither is sent again', async (_name, replies) => {
    const { server, clock, client, long } = await replaced();
    for (const reply of replies) server.replyOnce(DELETE, reply);

    const closing = client.close();
    await clock.advance(2_000);
    await Promise.all([closing, long]);
    await clock.advance(60_000);

    expect(server.counts.deletes).toBe(2);
    expectHonestDeletes(server);
  });

  it('revoke(): the same, before the token is taken back', async () => {
    const { server, client, long } = await replaced();

    await client.connection.revoke();
    await long;

    expect(heldAt(server)).toEqual([]);
    expectHonestDeletes(server);
  });

  for (const sdk of SDKS) {
    it(`a HostedTransport under the stock ${sdk} Client: the current one stays, as its id was shown`, async () => {
      const scene = await startServer({ bindSession: 'token', answer: 'sse' });
      const { server, clock } = scene;
      const { client, transport } = await connectStock(scene, sdk);
      await clock.advance(43_000);
      const long = call(client, 'long', 'slow', { ms: 3_000 }).catch(() => {});
      await clock.advance(2_500);
      await call(client, 'short');

      await transport.close();
      await long;

      expect(heldAt(server)).toEqual(['session#2']);
      expectHonestDeletes(server);
    });
  }

  it('one that the server has lost needs no DELETE, though a call is still waited for on it', async () => {
    const scene = await startServer({ answer: 'sse' });
    const { server, clock } = scene;
    const client = await connect(scene, QUIET);
    const long = failureOf(call(client as StockClient, 'long', 'slow', { ms: 60_000 }));
    await clock.settle();
    server.dropSessions();
    await failureOf(echo(client, 'lost'));
    await echo(client, 'after');

    await client.close();
    await long;

    expect(deletesAt(server).map(({ sessionLabel }) => sessionLabel)).toEqual(['session#2']);
  });
});

describe('a session that is given up on less than the word of its server is deleted', () => {
  it.each([
    ['404 from a gateway', { status: 404, headers: { 'content-type': 'text/html' }, body: '<h1>404</h1>' }],
    ['404 without a word', { status: 404 }],
  ] as [string, ScriptedReply][])('%s, and a new session stands', async (_name, reply) => {
    const scene = await startServer();
    const { server, clock } = scene;
    const client = await connect(scene, QUIET);
    server.replyOnce({ method: 'tools/call' }, reply);

    await failureOf(echo(client, 'odd'));
    await echo(client, 'after');
    await clock.advance(10_000);

    expect(heldAt(server)).toEqual(['session#2']);
    expectHonestDeletes(server);
  });

  it.each([401, 403] as const)('%i three times, while pings are answered', async (status) => {
    const scene = await startServer();
    const { server, clock } = scene;
    const client = await connect(scene, QUIET);
    await echo(client, 'before');
    server.reply({ method: 'tools/call' }, { status, body: 'no' }, { times: 3 });

    for (const id of ['a', 'b', 'c']) await failureOf(echo(client, id));
    await clock.advance(10_000);
    await echo(client, 'after');
    await clock.settle();

    if (server.counts.initializes === 2) expect(heldAt(server)).toEqual(['session#2']);
    else expect(heldAt(server)).toEqual(['session#1']);
    expectHonestDeletes(server);
  });

  it('a retired one that drains while the server wants a pause: after the pause', async () => {
    const scene = await startServer({ bindSession: 'token', answer: 'sse' });
    const { server, clock } = scene;
    const client = await connect(scene, { ...QUIET, retry: { resendOn429: 'never' } });
    await clock.advance(43_000);
    const long = call(client as StockClient, 'long', 'slow', { ms: 3_000 });
    await clock.advance(2_500);
    server.throttle(5_000);
    await failureOf(echo(client, 'limited'));
    await clock.advance(1_000);
    await long;
    expect(server.counts.deletes).toBe(0);

    await clock.advance(10_000);

    expect(heldAt(server)).toEqual(['session#2']);
    expectHonestDeletes(server);
  });

  it('the Client goes on without sessions: the one it had is not left', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    const { transport } = await connectStock(scene, 'v1');

    transport.setProtocolVersion('2026-07-28');
    await clock.advance(10_000);

    expect(server.counts).toMatchObject({ initializes: 1, deletes: 1 });
    expect(heldAt(server)).toEqual([]);
  });

  it('at the end of an idle time, while the server wants a pause: after the pause', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    const client = await connect(scene, {
      ...QUIET,
      retry: { resendOn429: 'never' },
      session: { idleTimeoutMs: 2_000 },
    });
    server.throttle(5_000);
    await failureOf(echo(client, 'limited'));

    await clock.advance(3_000);
    expect(server.counts.deletes).toBe(0);
    await clock.advance(10_000);

    expect(server.counts.deletes).toBe(1);
    expect(heldAt(server)).toEqual([]);
  });

  it('close() while the server wants a pause waits for nothing', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    server.replyOnce(INITIALIZED, { status: 429, headers: { 'retry-after': '20' } });
    const client = unconnected(scene);
    const connecting = failureOf(client.connect());
    await clock.settle();

    await Promise.all([client.close(), connecting]);

    expect(server.counts.deletes).toBe(0);
    expect(clock.pendingTimers).toBe(0);
  });
});
