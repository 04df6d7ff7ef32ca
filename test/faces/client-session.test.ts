import {
  ElicitRequestSchema,
  LoggingMessageNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, it, vi } from 'vitest';
import { HostedClient, type HostedClientOptions } from '../../src/client.js';
import type { HostedServerOptions, ScriptedReply, ToolDefinition } from '../../src/testing/index.js';
import { closeLater, connect, echo, failureOf, type Scene, startServer } from '../wire/support.js';

interface Set extends Scene {
  readonly client: HostedClient;
}

/** Connected, at rest, with a token that outlasts the test. */
async function set(
  options: Partial<HostedClientOptions> = {},
  serverOptions: HostedServerOptions = {},
): Promise<Set> {
  const scene = await startServer({ tokenLifetimeMs: 3_600_000, ...serverOptions });
  const client = await connect(scene, { credentials: scene.server.issueToken(), ...options });
  await scene.clock.settle();
  return { ...scene, client };
}

/** The server forgets its sessions, and a call finds out. */
async function lose({ server, client, clock }: Set): Promise<void> {
  server.dropSessions();
  await failureOf(echo(client, `lost-${server.counts.initializes}`));
  await clock.settle();
}

const count = ({ server }: Scene, method: string) =>
  server.log.filter((entry) => (entry.rpcMethod ?? entry.http) === method).length;
const states = (client: HostedClient) => {
  const seen: string[] = [];
  client.connection.on('state', ({ current }) => seen.push(current));
  return seen;
};
const pausing: ToolDefinition = {
  name: 'pausing',
  handler: async ({ ms }, call) => {
    await call.wait(Number(ms));
    return 'done';
  },
};

describe("streams.listen 'auto'", () => {
  it('opens no stream where nobody listens', async () => {
    const { server, client, clock } = await set();
    await echo(client, 'a');
    await clock.advance(10_000);

    expect(server.counts.listens).toBe(0);
  });

  it('opens it for a notification handler, and what the server tells arrives', async () => {
    const { server, client, clock } = await set();
    const heard = vi.fn();
    client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => heard(params.data));
    await clock.settle();
    expect(server.counts.listens).toBe(1);

    server.notify('notifications/message', { level: 'info', data: 'hello' });
    await clock.settle();

    expect(heard).toHaveBeenCalledExactlyOnceWith('hello');
  });

  it('opens it for a fallback handler', async () => {
    const scene = await startServer();
    const client = new HostedClient(
      { name: 'test', version: '1.0.0' },
      { url: scene.server.url, clock: scene.clock, credentials: scene.server.issueToken() },
    );
    closeLater(() => client.close());
    client.fallbackNotificationHandler = async () => {};

    await client.connect();
    await scene.clock.settle();

    expect(scene.server.counts.listens).toBe(1);
  });

  it('opens it for the listChanged option', async () => {
    const changed = vi.fn();
    const scene = await set({
      listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged: changed } },
    });
    expect(scene.server.counts.listens).toBe(1);

    scene.server.notify('notifications/tools/list_changed');
    await scene.clock.settle();

    expect(changed).toHaveBeenCalledOnce();
  });

  it('opens it for a capability by which servers ask', async () => {
    const { server, client, clock } = await set(
      { capabilities: { elicitation: {} } },
      {
        answer: 'json',
        tools: [
          {
            name: 'ask',
            handler: (_args, call) =>
              call.request('elicitation/create', {
                message: '?',
                requestedSchema: { type: 'object', properties: {} },
              }),
          },
        ],
      },
    );
    client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'decline' }));
    await clock.settle();
    expect(server.counts.listens).toBe(1);

    expect(await client.callTool({ name: 'ask' })).toMatchObject({
      content: [{ text: '{"action":"decline"}' }],
    });
  });

  it.each([
    [true, 1],
    [false, 0],
  ])('listen: %s has the last word', async (listen, listens) => {
    const { server, client, clock } = await set({ streams: { listen } });
    if (!listen) client.setNotificationHandler(ToolListChangedNotificationSchema, () => {});
    await clock.settle();

    expect(server.counts.listens).toBe(listens);
  });
});

describe('a new session', () => {
  it('gets the log level and the live subscriptions of the old one, before the next call', async () => {
    const scene = await set();
    const { server, client } = scene;
    await client.setLoggingLevel('warning');
    await client.subscribeResource({ uri: 'memo://welcome' });
    await client.subscribeResource({ uri: 'memo://gone' });
    await client.unsubscribeResource({ uri: 'memo://gone' });
    server.reset();

    await lose(scene);
    await echo(client, 'after');

    const second = server.log
      .filter((entry) => entry.sessionLabel === 'session#2')
      .map((entry) => entry.rpcMethod);
    expect(second).toEqual([
      'initialize',
      'notifications/initialized',
      'logging/setLevel',
      'resources/subscribe',
      'tools/call',
    ]);
    expect(server.counts.executionsById).toEqual({ after: 1 });
  });

  it('restore: false leaves that to the app, which has its own way to set it up', async () => {
    const made: string[] = [];
    const scene = await set({
      session: {
        restore: false,
        onEstablished: async ({ session, previous, callTool, request }) => {
          await callTool({
            name: 'echo',
            arguments: { text: 'x' },
            _meta: { 'mcp-holdfast/callId': `set-up-${session.number}` },
          });
          await request('logging/setLevel', { level: 'error' });
          made.push(`${previous?.number ?? 'none'} -> ${session.number}`);
        },
      },
    });
    await scene.client.setLoggingLevel('warning');

    await lose(scene);
    await echo(scene.client, 'after');

    expect(made).toEqual(['none -> 1', '1 -> 2']);
    expect(count(scene, 'logging/setLevel')).toBe(3);
    expect(scene.server.counts.executionsById).toEqual({ 'set-up-1': 1, 'set-up-2': 1, after: 1 });
  });

  it('is what the getters and the strict check of capabilities go by', async () => {
    const scene = await set({ enforceStrictCapabilities: true });
    const { server, client } = scene;
    await client.listPrompts();
    server.deploy({
      serverInfo: { name: 'other', version: '2' },
      capabilities: { tools: {}, completions: {} },
    });

    await lose(scene);

    expect(client.getServerVersion()).toEqual({ name: 'other', version: '2' });
    expect(client.getServerCapabilities()).toEqual({ tools: {}, completions: {} });
    const sent = server.counts.requests;
    await expect(client.listPrompts()).rejects.toThrow('Server does not support prompts');
    expect(server.counts.requests).toBe(sent);
    const ref = { type: 'ref/prompt', name: 'x' } as const;
    await expect(client.complete({ ref, argument: { name: 'a', value: '' } })).rejects.toMatchObject({
      code: -32601,
    });
  });

  it('whose handshake is swallowed on the way is asked for again; waiting calls go out on it', async () => {
    const scene = await set();
    scene.server.replyOnce({ method: 'initialize' }, { silence: true });
    await lose(scene);
    const waiting = echo(scene.client, 'waiting');

    await scene.clock.advance(20_000);

    await waiting;
    expect(scene.server.counts).toMatchObject({ initializes: 3, executionsById: { waiting: 1 } });
  });

  it('brings its own instructions', async () => {
    const scene = await set();
    scene.server.replyOnce(
      { method: 'initialize' },
      {
        tool: 'run',
        status: 200,
        headers: ({ sessionId = '' }) => ({
          'content-type': 'application/json',
          'mcp-session-id': sessionId,
        }),
        body: ({ answer }) => ({
          ...answer,
          result: { ...(answer?.result as object), instructions: 'Ask first.' },
        }),
      },
    );
    expect(scene.client.getInstructions()).toBeUndefined();

    await lose(scene);

    expect(scene.client.getInstructions()).toBe('Ask first.');
  });

  it("queuedCalls 'reject': calls that were waiting are told, and nothing of them is sent", async () => {
    const scene = await set({ session: { queuedCalls: 'reject' } });
    const { server, client, clock } = scene;
    server.throttle(3_000);
    const limited = failureOf(echo(client, 'limited'));
    await clock.settle();
    const waiting = failureOf(echo(client, 'waiting'));
    await clock.settle();
    server.dropSessions();
    await clock.advance(3_000);

    // The first to go out meets the loss; the other one is still queued then, or meets it itself.
    for (const failure of await Promise.all([limited, waiting]))
      expect(failure).toMatchObject({ code: 'ERR_SESSION_LOST', executed: false, retryable: true });
    expect(server.counts.executions).toEqual({});
    await echo(client, 'after');
  });

  it('graceMs: a call under way may still be answered, and then no longer', async () => {
    const scene = await set(
      { session: { graceMs: 4_000 } },
      { tools: [pausing, { name: 'echo', handler: () => 'x' }] },
    );
    const { client, clock } = scene;
    const soon = client.callTool({ name: 'pausing', arguments: { ms: 3_000 } });
    const late = failureOf(client.callTool({ name: 'pausing', arguments: { ms: 9_000 } }));
    await clock.settle();

    await lose(scene);
    await clock.advance(3_000);
    expect(await soon).toMatchObject({ content: [{ text: 'done' }] });
    await clock.advance(1_000);

    expect(await late).toMatchObject({ code: 'ERR_SESSION_LOST', executed: 'unknown', retryable: false });
    expect(scene.server.counts.executions).toEqual({ pausing: 2 });
  });
});

describe('session.isLost', () => {
  const refusal = (status: number): ScriptedReply => ({
    status,
    headers: { 'content-type': 'text/plain' },
    body: 'gone fishing',
  });

  it('true: the session is replaced', async () => {
    const { server, client, clock } = await set({
      session: { isLost: ({ status }) => (status === 418 ? true : undefined) },
    });
    server.replyOnce({ method: 'tools/call' }, refusal(418));

    expect(await failureOf(echo(client, 'a'))).toMatchObject({
      code: 'ERR_SESSION_LOST',
      executed: 'unknown',
    });
    await echo(client, 'b');
    await clock.settle();

    expect(server.counts).toMatchObject({ initializes: 2, pings: 0, executionsById: { b: 1 } });
  });

  it("'suspect': one ping decides", async () => {
    const { server, client } = await set({
      session: { isLost: ({ status }) => (status === 418 ? 'suspect' : undefined) },
    });
    server.replyOnce({ method: 'tools/call' }, refusal(418));

    expect(await failureOf(echo(client, 'a'))).toMatchObject({ code: 'ERR_HTTP_STATUS', status: 418 });

    expect(server.counts).toMatchObject({ initializes: 1, pings: 1 });
  });

  it('false: no session matter, whatever it looks like', async () => {
    const { server, client } = await set({ session: { isLost: () => false } });
    server.replyOnce({ method: 'tools/call' }, refusal(404));

    expect(await failureOf(echo(client, 'a'))).toMatchObject({
      code: 'ERR_HTTP_STATUS',
      executed: 'unknown',
      status: 404,
    });
    await echo(client, 'b');

    expect(server.counts).toMatchObject({ initializes: 1, pings: 0 });
  });

  it('one that throws fails this call, and says so', async () => {
    const { server, client } = await set({
      session: {
        isLost: () => {
          throw new Error('bug');
        },
      },
    });
    server.replyOnce({ method: 'tools/call' }, refusal(500));

    const outcome = await echo(client, 'a').catch((error: unknown) => error);

    expect(outcome).toMatchObject({ code: 'ERR_PROTOCOL', executed: 'unknown', tool: 'echo' });
    expect(server.counts.executionsById).toEqual({});
  });
});

describe('idleTimeoutMs', () => {
  it('deletes the session and keeps nothing open; the next call opens again', async () => {
    const scene = await set({ session: { idleTimeoutMs: 60_000 }, streams: { listen: true } });
    const { server, client, clock } = scene;
    const seen = states(client);
    await echo(client, 'a');
    await clock.advance(59_000);
    await echo(client, 'b');
    await clock.advance(59_999);
    expect([server.counts.deletes, client.connection.state]).toEqual([0, 'ready']);

    await clock.advance(10);

    expect([server.counts.deletes, client.connection.state, clock.pendingTimers]).toEqual([1, 'idle', 0]);
    expect(client.connection.health().ok).toBe(true);
    await vi.waitFor(() => expect(openSockets(server.url)).toBe(0));
    await clock.advance(600_000);
    expect(server.counts.listens).toBe(1);

    await echo(client, 'c');

    expect(server.counts).toMatchObject({ initializes: 2, deletes: 1, executionsById: { a: 1, b: 1, c: 1 } });
    expect(seen).toEqual(['idle', 'recovering', 'ready']);
  });

  it('does not end a session with a call under way', async () => {
    const { server, client, clock } = await set({ session: { idleTimeoutMs: 1_000 } }, { tools: [pausing] });
    const long = client.callTool({ name: 'pausing', arguments: { ms: 10_000 } });
    await clock.advance(10_000);

    expect(await long).toMatchObject({ content: [{ text: 'done' }] });
    expect(server.counts.deletes).toBe(0);
    await clock.advance(1_000);
    expect(server.counts.deletes).toBe(1);
  });
});

describe('health and state', () => {
  it('ready, recovering, ready', async () => {
    const scene = await set();
    const { client, clock } = scene;
    const seen = states(client);
    await clock.advance(7_000);
    expect(client.connection.health()).toEqual({ ok: true, state: 'ready', sinceMs: 7_000 });

    await lose(scene);

    expect(seen).toEqual(['recovering', 'ready']);
    expect(client.connection.session?.number).toBe(2);
  });

  it('unstable, where no session answers a call; then it tries again', async () => {
    const scene = await set();
    const { server, client, clock } = scene;
    const seen = states(client);
    const gone = server.reply(
      { method: 'tools/call' },
      {
        status: 404,
        headers: { 'content-type': 'application/json' },
        body: { jsonrpc: '2.0', id: null, error: { code: -32001, message: 'Session not found' } },
      },
    );
    for (let call = 1; call <= 3; call += 1) {
      await failureOf(echo(client, `${call}`));
      await clock.settle();
    }

    expect(client.connection.health()).toMatchObject({
      ok: false,
      state: 'unstable',
      code: 'ERR_SESSION_UNSTABLE',
      retryAfterMs: expect.any(Number),
    });
    const { requests } = server.counts;
    expect(await failureOf(echo(client, 'now'))).toMatchObject({
      code: 'ERR_SESSION_UNSTABLE',
      executed: false,
      retryable: true,
    });
    expect(server.counts.requests).toBe(requests);

    gone.dispose();
    await clock.advance(10_000);
    await echo(client, 'later');
    expect(seen.slice(-3)).toEqual(['unstable', 'recovering', 'ready']);
    expect(server.counts.executionsById).toEqual({ later: 1 });
  });

  it('closed', async () => {
    const { client } = await set();
    const seen = states(client);

    await client.close();

    expect(seen).toEqual(['closed']);
    expect(client.connection.health()).toMatchObject({ ok: false, state: 'closed' });
    await expect(client.connection.once('state')).rejects.toMatchObject({ code: 'ERR_CLOSED' });
  });

  it('figures: answers and failures, by tool and by code, and the longest think-time', async () => {
    const scene = await set();
    const { client, clock } = scene;
    await echo(client, 'a');
    await clock.advance(42_000);
    await echo(client, 'b');
    await lose(scene);

    const { stats } = client.connection;
    expect(stats.calls.failed).toEqual({ ERR_SESSION_LOST: 1 });
    expect(stats.latencyByTool.echo?.count).toBe(2);
    expect(stats.longestIdleGapMs).toBe(42_000);
  });

  it('one call event for each request, with the verdict; no session id and no token in any event', async () => {
    const scene = await set();
    const { client } = scene;
    const events: unknown[] = [];
    for (const name of [
      'call',
      'exchange',
      'session-lost',
      'session-established',
      'session-replaced',
    ] as const)
      client.connection.on(name, (event) => events.push({ name, event }));
    await echo(client, 'a');

    await lose(scene);

    const calls = events.flatMap((each) =>
      (each as { name: string }).name === 'call' ? [(each as { event: object }).event] : [],
    );
    expect(calls).toMatchObject([
      { method: 'tools/call', tool: 'echo', session: 1, executed: true },
      { method: 'tools/call', tool: 'echo', session: 1, executed: false, code: 'ERR_SESSION_LOST' },
    ]);
    const text = JSON.stringify(events);
    expect(text).toContain('session-replaced');
    expect(text).not.toMatch(/[0-9a-f]{8}-[0-9a-f]{4}-/);
    expect(text).not.toMatch(/Bearer/);
  });
});

/** Sockets of this process that lead to the server. */
function openSockets(url: string): number {
  const port = Number(new URL(url).port);
  const handles = (
    process as unknown as { _getActiveHandles(): { remotePort?: number; destroyed?: boolean }[] }
  )._getActiveHandles();
  return handles.filter((handle) => handle.remotePort === port && handle.destroyed !== true).length;
}
