import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { inspect } from 'node:util';
import { ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { beforeEach, describe, expect, it } from 'vitest';
import { EVENT_NAMES } from '../../src/connection/log.js';
import { disposer } from '../../src/disposer.js';
import { chainAlarm } from '../../src/gates/index.js';
import {
  bearerToken,
  type CredentialEvent,
  type CredentialProvider,
  HostedTransport,
  type LogEntry,
  memoryCredentialStore,
  memoryRateLimitStore,
  type RateLimitStore,
  refreshTokenGrant,
} from '../../src/index.js';
import type { ScriptedRequest } from '../../src/testing/index.js';
import { closeLater, connect, echo, failureOf, type Scene, startServer, user } from './support.js';

const CALL = { http: 'POST', method: 'tools/call' } as const;

interface Heard {
  readonly event: string;
  readonly message: Record<string, unknown>;
}

/** All channels, until the test is over. */
function listen(only: (message: Record<string, unknown>) => boolean = () => true): Heard[] {
  const heard: Heard[] = [];
  for (const event of EVENT_NAMES) {
    const name = `mcp-holdfast:${event}`;
    const listener = (message: unknown) => {
      const record = message as Record<string, unknown>;
      if (only(record)) heard.push({ event, message: record });
    };
    subscribe(name, listener);
    closeLater(async () => void unsubscribe(name, listener));
  }
  return heard;
}

describe('diagnostics channels', () => {
  it('whoever subscribes while a connection lives hears what the connection tells, with its server', async () => {
    const scene = await startServer();
    const { server } = scene;
    const transport = new HostedTransport(`${server.url}?key=canary-query`, {
      clock: scene.clock,
      credentials: () => server.issueToken(),
      streams: { listen: false },
    });
    closeLater(() => transport.close());
    const client = await connect(scene);
    await echo(client, 'unheard');

    const heard = listen();
    const told: unknown[] = [];
    for (const event of EVENT_NAMES)
      client.connection.on(event, (payload) => told.push([event, { ...payload, server: server.url }]));
    server.dropSessions();
    await failureOf(echo(client, 'lost'));
    await echo(client, 'after');

    expect(heard.map(({ event, message }) => [event, message])).toEqual(told);
    expect(heard.map(({ event }) => event)).toEqual(
      expect.arrayContaining(['session-lost', 'session-replaced', 'call', 'exchange']),
    );
    expect(inspect(heard)).not.toContain('unheard');

    await transport.start();
    await transport.send({
      jsonrpc: '2.0',
      id: 'x',
      method: 'initialize',
      params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'x', version: '1' } },
    });
    expect(heard.at(-1)).toMatchObject({ event: 'call', message: { requestId: 'x', server: server.url } });
    expect(inspect(heard, { depth: 9 })).not.toContain('canary-query');
  });

  it('two connections are told apart by their server', async () => {
    const [one, two] = [await startServer(), await startServer()];
    const heard = listen();
    for (const scene of [one, two]) await echo(await connect(scene), 'a');
    const calls = heard.filter(({ event, message }) => event === 'call' && message.method === 'tools/call');
    expect(calls.map(({ message }) => message.server)).toEqual([one.server.url, two.server.url]);
  });
});

/** What must never show: whatever identifies somebody, and what a caller has said. */
class Canaries {
  readonly secrets = new Set<string>();
  readonly seen = new Map<string, string[]>();

  see(event: string, value: unknown): void {
    const texts = this.seen.get(event) ?? [];
    this.seen.set(event, texts);
    texts.push(inspect(value, { depth: Number.POSITIVE_INFINITY, maxArrayLength: null, showHidden: true }));
    texts.push(JSON.stringify(value) ?? '');
  }

  /** All the secrets of a request, as a server could say them back. */
  echoed({ headers, sessionId }: ScriptedRequest): string {
    const { authorization = '', cookie = '', 'x-api-key': key = '' } = headers;
    const found = [authorization.replace('Bearer ', ''), key, sessionId ?? headers['mcp-session-id'] ?? ''];
    for (const pair of cookie.split('; ')) found.push(pair.slice(pair.indexOf('=') + 1));
    const secrets = found.filter((secret) => secret !== '');
    for (const secret of secrets) this.secrets.add(secret);
    return secrets.map((secret) => `${secret} ${Buffer.from(secret).toString('base64')}`).join(' ');
  }

  expectNone(): void {
    expect([...this.seen.keys()].sort()).toEqual([...EVENT_NAMES].sort());
    expect(this.secrets.size).toBeGreaterThan(8);
    for (const [event, texts] of this.seen) {
      for (const secret of this.secrets) {
        expect(secret.length).toBeGreaterThan(5);
        const base64 = Buffer.from(secret).toString('base64').replace(/=+$/, '');
        for (const spelling of [secret, base64, encodeURIComponent(secret)]) {
          const found = texts.find((text) => text.includes(spelling));
          if (found !== undefined) expect.fail(`"${event}" shows a secret: ${found}`);
        }
      }
    }
  }
}

describe('neither the logger nor a channel sees a secret', () => {
  let canaries: Canaries;
  let lines: LogEntry[];
  let logger: (entry: LogEntry) => void;
  beforeEach(() => {
    canaries = new Canaries();
    lines = [];
    logger = (entry) => {
      lines.push(entry);
      canaries.see(entry.event, entry);
    };
  });

  /** The server says back all it was told, wherever it has a word. */
  function tellAll({ server }: Scene): void {
    server.reply(
      { http: 'POST', method: 'initialize' },
      {
        tool: 'run',
        status: 200,
        headers: ({ sessionId = '' }) => ({
          'content-type': 'application/json',
          'set-cookie': 'node=canary-cookie; Path=/',
          'mcp-session-id': sessionId,
        }),
        body: (request) => {
          const answer = request.answer as { result: { serverInfo: object; capabilities: object } };
          const told = `${canaries.echoed(request)} canary-cookie`;
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

  it('every entry there is, from servers and stores that say back all they know', async () => {
    canaries.secrets.add('canary-cookie').add('canary-argument').add('canary-header');
    const heard = listen();
    const http = { headers: { 'X-Api-Key': 'canary-header' } };
    const scene = await startServer({ tokenLifetimeMs: 60_000 });
    const { server, clock } = scene;
    const { id, secret, refreshToken } = server.client;
    canaries.secrets.add(secret).add(refreshToken);
    tellAll(scene);

    // ---- a store that two share: refreshed, adopted, failed ----
    const store = memoryCredentialStore();
    const shared = (): CredentialProvider =>
      refreshTokenGrant({
        ...{ issuer: server.issuer, clientId: id, clientSecret: secret, refreshToken, clock, store },
        subject: 'user',
      });
    const options = { http, logger, credentials: shared(), streams: { idleLimitMs: 9_000 }, contract: {} };
    const client = await connect(scene, options);
    client.setNotificationHandler(ToolListChangedNotificationSchema, () => {});
    const other = await connect(scene, { http, logger, credentials: shared() });
    for (let round = 0; round < 4; round++) {
      for (const each of [client, other]) {
        await each.callTool({ name: 'echo', arguments: { text: 'canary-argument' } });
        await clock.advance(20_000);
      }
    }

    // ---- what a provider has from a server that knows its token ----
    const token = server.issueToken();
    canaries.secrets.add(token);
    const inner = bearerToken(token);
    let tell: (event: CredentialEvent) => void = () => {};
    const words = await connect(scene, {
      ...{ http, logger },
      credentials: {
        id: 'mine',
        acquire: (...args) => inner.acquire(...args),
        onEvent: (listener) => {
          tell = listener;
          return disposer(() => {});
        },
      },
      gates: [chainAlarm({ repeats: 2 })],
    });
    tell({
      type: 'server-changed',
      id: 'mine',
      previous: 'https://a.test',
      current: `https://b.test/${token}`,
    });
    tell({ type: 'scope-widened', id: 'mine', scope: `mcp ${Buffer.from(token).toString('base64')}` });
    // ---- a chain of calls ----
    for (let round = 0; round < 2; round++)
      await words.callTool({ name: 'echo', arguments: { text: 'canary-argument' } });

    // ---- sessions: suspect, lost, replaced ----
    server.replyOnce(CALL, {
      status: 400,
      body: (request) => ({
        jsonrpc: '2.0',
        id: null,
        error: { code: -32000, message: `session ${canaries.echoed(request)}?` },
      }),
    });
    await failureOf(echo(client, 'canary-argument'));
    server.dropSessions();
    server.replyOnce(CALL, { status: 404, body: (request) => canaries.echoed(request) });
    await failureOf(echo(client, 'canary-argument'));
    await echo(client, 'canary-argument');

    // ---- streams: cut, reopened, gap, limits learned, none to be had ----
    server.set({ idleCutMs: 11_000 });
    await clock.advance(120_000);
    server.set({ idleCutMs: undefined, listen: false });
    server.cutStreams('reset');
    await clock.advance(60_000);

    // ---- the contract: another one, and one that cannot be read ----
    const told = server.reply(
      { http: 'POST', method: 'tools/list' },
      {
        tool: 'run',
        status: 200,
        headers: { 'content-type': 'application/json' },
        body: (request) => {
          const text = canaries.echoed(request);
          const tools = [{ name: 'echo', title: text, description: text, inputSchema: { type: 'object' } }];
          return { jsonrpc: '2.0', id: request.message?.id, result: { tools } };
        },
      },
    );
    server.dropSessions();
    await failureOf(echo(client, 'canary-argument'));
    await echo(client, 'canary-argument').catch(() => {});
    await clock.advance(1_000);
    told.dispose();
    const refused = server.reply(
      { http: 'POST', method: 'tools/list' },
      {
        status: 200,
        body: (request) => ({
          jsonrpc: '2.0',
          id: request.message?.id,
          error: { code: -32000, message: canaries.echoed(request) },
        }),
      },
    );
    server.dropSessions();
    await failureOf(echo(client, 'canary-argument'));
    await echo(client, 'canary-argument').catch(() => {});
    await clock.advance(1_000);
    refused.dispose();

    // ---- the rate limit: waits, a pause, a store that breaks and comes back ----
    let isBroken = false;
    const memory = memoryRateLimitStore({ clock });
    const spoilt: RateLimitStore = {
      take: async (...args) => {
        if (isBroken) throw new Error(`redis://canary-store@host ${secret}`);
        return memory.take(...args);
      },
      pause: (...args) => memory.pause(...args),
    };
    canaries.secrets.add('canary-store');
    const limited = await connect(scene, {
      ...{ http, logger, credentials: user(scene) },
      rateLimit: { limit: 4, intervalMs: 1_000, store: spoilt },
    });
    const crowd = Promise.all([1, 2, 3, 4, 5, 6].map(() => echo(limited, 'canary-argument')));
    await clock.advance(10_000);
    await crowd;
    isBroken = true;
    const alone = echo(limited, 'canary-argument');
    await clock.advance(10_000);
    await alone;
    isBroken = false;
    await clock.advance(60_000);
    const back = echo(limited, 'canary-argument');
    await clock.advance(10_000);
    await back;
    server.throttle(2_000);
    const paused = echo(limited, 'canary-argument');
    await clock.advance(10_000);
    await paused;

    // ---- a token endpoint that says it all back ----
    const basic = Buffer.from(`${id}:${secret}`).toString('base64');
    server.failTokenEndpoint({
      status: 400,
      body: { error: 'invalid_grant', error_description: `${secret} ${refreshToken} ${basic}` },
    });
    server.revokeTokens();
    await failureOf(echo(limited, 'canary-argument'));
    for (const each of [client, other, words, limited]) await each.close();

    for (const { event, message } of heard) canaries.see(event, message);
    canaries.expectNone();
    expect(new Set(lines.map(({ event }) => event))).toEqual(new Set(heard.map(({ event }) => event)));
    for (const { level, event, message } of lines) {
      expect(['debug', 'info', 'warn', 'error']).toContain(level);
      expect(EVENT_NAMES).toContain(event);
      expect(message).toMatch(/^[A-Z][^.]*\.$/);
    }
  });
});
