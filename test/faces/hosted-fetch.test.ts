/** `hostedFetch` under the SDKs' own Clients and stock transports, judged at the server. */
import {
  LoggingMessageNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, it, vi } from 'vitest';
import type { ToolCallContext, ToolDefinition } from '../../src/testing/index.js';
import { startServer } from '../wire/support.js';
import {
  call,
  carriedBy,
  connectFace,
  count,
  type Faced,
  frameworkOver,
  KINDS,
  type Kind,
  makeFetch,
  watched,
} from './hosted-fetch-clients.js';

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
    handler: async (_args, context) => {
      started(context);
      await opened;
      return 'done';
    },
  };
  return { tool, running, open };
}

const ASK: ToolDefinition = {
  name: 'ask',
  handler: async ({ text }, context) => {
    const requestedSchema = { type: 'object', properties: {} };
    const said = await context.request('elicitation/create', { message: String(text), requestedSchema });
    return JSON.stringify(said);
  },
};
const ECHO: ToolDefinition = { name: 'echo', handler: ({ text }) => String(text) };

function listen({ client }: Pick<Faced, 'client'>, kind: Kind, heard: (what: unknown) => void) {
  if (kind === 'v1') {
    client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => heard(params.data));
    client.setNotificationHandler(ToolListChangedNotificationSchema, () => heard('list_changed'));
    return;
  }
  const v2 = client as unknown as {
    setNotificationHandler(method: string, handler: (message: { params: { data: unknown } }) => void): void;
  };
  v2.setNotificationHandler('notifications/message', ({ params }) => heard(params.data));
  v2.setNotificationHandler('notifications/tools/list_changed', () => heard('list_changed'));
}

describe.each(KINDS)('hostedFetch under the stock transport of %s', (kind) => {
  it.each(['json', 'sse'] as const)('connects, lists and calls (answers as %s)', async (answer) => {
    const scene = await startServer({ answer });
    const face = await connectFace(scene, kind);

    expect((await face.client.listTools()).tools.map(({ name }) => name)).toContain('echo');
    expect(await call(face, 'a')).toMatchObject({ content: [{ type: 'text', text: 'a' }] });

    expect(face.client.getServerVersion()).toMatchObject({ name: 'mcp-holdfast-simulator' });
    expect(scene.server.counts).toMatchObject({ initializes: 1, listens: 1, executionsById: { a: 1 } });
    expect(count(scene, 'notifications/initialized')).toBe(1);
    // Nothing came before the answers: they are plain JSON, whatever the server made of them.
    const answers = face.seen.filter(({ rpcMethod }) => rpcMethod === 'tools/call');
    expect(answers.map(({ contentType }) => contentType)).toEqual(['application/json']);
    expect(face.errors).toEqual([]);
  });

  it('the session id is one of ours, and stays while the server’s sessions come and go', async () => {
    const scene = await startServer();
    const face = await connectFace(scene, kind);
    const { sessionId } = face.transport;
    await call(face, 'a');
    const servers = new Set<string>();

    scene.server.dropSessions();
    await carriedBy(call(face, 'lost'));
    await call(face, 'b');

    for (const { sessionLabel } of scene.server.log) if (sessionLabel) servers.add(sessionLabel);
    expect(servers).toEqual(new Set(['session#1', 'session#2']));
    expect(sessionId).toMatch(/^[0-9a-f-]{36}$/);
    expect(face.transport.sessionId).toBe(sessionId);
    const given = face.seen.map(({ givenSessionId }) => givenSessionId).filter((id) => id !== null);
    expect(given).toEqual([sessionId]);
    expect(scene.server.counts.executionsById).toEqual({ a: 1, b: 1 });
  });

  it('the server’s own errors and the tools’ own failures stay what they are', async () => {
    const scene = await startServer();
    const face = await connectFace(scene, kind);

    await expect(call(face, 'x', 'none')).rejects.toMatchObject({ code: -32602 });
    expect(await call(face, 'y', 'fail')).toMatchObject({ isError: true });
    expect(face.seen.every(({ status }) => status < 300)).toBe(true);
  });

  it('progress arrives for the caller who asked, on the call’s own stream', async () => {
    const scene = await startServer();
    const face = await connectFace(scene, kind);
    const seen: number[] = [];
    const done = call(face, 'p', 'slow', { ms: 100 }, { onprogress: ({ progress }) => seen.push(progress) });

    await scene.clock.advance(100);
    await done;

    expect(seen).toEqual([0, 50, 100]);
    expect(face.seen.findLast(({ rpcMethod }) => rpcMethod === 'tools/call')?.contentType).toBe(
      'text/event-stream',
    );
    expect(face.errors).toEqual([]);
  });

  it.each([
    ['on the call’s own stream', undefined],
    ['on the listen stream', 'json'],
  ] as const)('a question of the server (%s) is answered', async (_name, answer) => {
    const scene = await startServer({ answer, tools: [ASK] });
    const face = await connectFace(scene, kind, {}, { answer: () => ({ action: 'decline' }) });

    const answered = await call(face, 'q', 'ask', { text: 'Sure?' });

    expect(answered).toMatchObject({ content: [{ text: JSON.stringify({ action: 'decline' }) }] });
    expect(face.questions).toEqual(['Sure?']);
    expect(scene.server.counts.executionsById).toEqual({ q: 1 });
    expect(face.errors).toEqual([]);
  });

  it('a question is answered where the framework has no listen stream', async () => {
    const scene = await startServer({ answer: 'json', tools: [ASK] });
    const face = makeFetch(scene);
    // As a framework does that opens none: its GET is refused, and it goes on.
    const withoutGet = async (input: string | URL | Request, init?: RequestInit) =>
      init?.method === 'GET' ? new Response(null, { status: 405 }) : face(input, init);
    const framework = await frameworkOver(scene, kind, withoutGet as typeof fetch);

    await call(framework, 'q', 'ask', { text: 'Here?' });

    expect(framework.questions).toEqual(['Here?']);
    expect(framework.errors).toEqual([]);
  });

  it('notifications come over the listen stream, before and after the server cuts its own', async () => {
    const scene = await startServer();
    const face = await connectFace(scene, kind);
    const heard: unknown[] = [];
    listen(face, kind, (what) => heard.push(what));

    scene.server.notify('notifications/tools/list_changed');
    await expect.poll(() => heard).toEqual(['list_changed']);
    for (const shape of ['fin', 'eof', 'reset'] as const) {
      scene.server.cutStreams(shape);
      await scene.clock.advance(2_000);
      scene.server.notify('notifications/message', { level: 'info', data: shape });
      await expect.poll(() => heard).toContain(shape);
    }

    expect(heard).toEqual(['list_changed', 'fin', 'eof', 'reset']);
    expect(face.seen.filter(({ method }) => method === 'GET')).toHaveLength(1);
    expect(scene.server.counts.listens).toBe(4);
    expect(face.errors).toEqual([]);
  });

  it('notifications go on over the same listen stream when the session is another', async () => {
    const scene = await startServer();
    const face = await connectFace(scene, kind);
    const heard: unknown[] = [];
    listen(face, kind, (what) => heard.push(what));
    scene.server.dropSessions();
    await carriedBy(call(face, 'lost'));
    await call(face, 'b');
    await scene.clock.settle();

    scene.server.notify('notifications/tools/list_changed');

    await expect.poll(() => heard).toEqual(['list_changed']);
    expect(face.seen.filter(({ method }) => method === 'GET')).toHaveLength(1);
  });

  it('DELETE ends the session at the server; the next call opens another', async () => {
    const scene = await startServer();
    const face = await connectFace(scene, kind);
    await call(face, 'a');

    await face.transport.terminateSession();
    expect(scene.server.counts.deletes).toBe(1);
    expect(scene.server.log.findLast(({ http }) => http === 'DELETE')?.sessionLabel).toBe('session#1');
    expect(face.fetch.connection.state).toBe('idle');
    await call(face, 'b');

    expect(scene.server.counts).toMatchObject({ initializes: 2, executionsById: { a: 1, b: 1 } });
    expect(face.seen.at(-1)?.status).toBe(200);
    expect(face.errors).toEqual([]);
  });

  it('DELETE that the server refuses or never answers is no failure of the framework’s', async () => {
    const scene = await startServer();
    const face = await connectFace(scene, kind);
    scene.server.replyOnce({ http: 'DELETE' }, { silence: true });

    const deleted = face.transport.terminateSession();
    await scene.clock.advance(3_000);
    await deleted;

    expect(face.seen.at(-1)).toMatchObject({ method: 'DELETE', status: 200 });
    expect(face.errors).toEqual([]);
  });

  it('64 calls at once: each gets its own answer, each ran once', async () => {
    const scene = await startServer();
    const face = await connectFace(scene, kind);
    const ids = Array.from({ length: 64 }, (_, n) => `c${n}`);

    const answers = await Promise.all(ids.map((id) => call(face, id)));

    expect(answers.map((answer) => (answer as { content: { text: string }[] }).content[0]?.text)).toEqual(
      ids,
    );
    expect(scene.server.counts.executionsById).toEqual(Object.fromEntries(ids.map((id) => [id, 1])));
    expect(face.errors).toEqual([]);
  });

  it('64 calls at once with progress: nobody hears of another’s', async () => {
    const scene = await startServer();
    const face = await connectFace(scene, kind);
    const heard = Array.from({ length: 64 }, () => [] as number[]);
    const done = heard.map((seen, n) =>
      call(face, `c${n}`, 'slow', { ms: n + 1 }, { onprogress: ({ progress }) => seen.push(progress) }),
    );

    await scene.clock.advance(100);
    await Promise.all(done);

    for (const seen of heard) expect(seen).toEqual([0, 50, 100]);
    expect(face.errors).toEqual([]);
  });

  describe('a call that its caller takes back', () => {
    it('was sent: cancelled once at the server, and nobody complains', async () => {
      const { tool, running, open } = gated();
      const scene = await startServer({ tools: [tool] });
      const face = await connectFace(scene, kind);
      const caller = new AbortController();
      const taken = call(face, 'g', 'gated', {}, { signal: caller.signal }).catch(() => 'taken back');
      const context = await running;
      await scene.clock.settle();

      caller.abort();
      expect(await taken).toBe('taken back');
      await scene.clock.settle();

      expect(context.signal.aborted).toBe(true);
      expect(count(scene, 'notifications/cancelled')).toBe(1);
      open();
      await scene.clock.settle();
      expect(face.fetch.connection.stats.calls.failed).toEqual({ ERR_ABORTED: 1 });
      expect(face.errors).toEqual([]);
    });

    it('had its stream open already: the same', async () => {
      const scene = await startServer();
      const face = await connectFace(scene, kind);
      const caller = new AbortController();
      const heard = vi.fn();
      const taken = call(
        face,
        's',
        'slow',
        { ms: 1_000 },
        { signal: caller.signal, onprogress: heard },
      ).catch(() => 'taken back');
      await scene.clock.advance(100);
      await expect.poll(() => heard.mock.calls.length).toBe(1);

      caller.abort();
      expect(await taken).toBe('taken back');
      await scene.clock.advance(2_000);

      expect(count(scene, 'notifications/cancelled')).toBe(1);
      expect(scene.server.counts.executions).toEqual({ slow: 1 });
      expect(face.errors).toEqual([]);
    });

    it('was queued: neither it nor its cancellation reaches the wire', async () => {
      const scene = await startServer();
      const face = await connectFace(scene, kind);
      scene.server.throttle(5_000);
      const first = call(face, 'first');
      await scene.clock.settle();
      const caller = new AbortController();
      const queued = call(face, 'queued', 'echo', { text: '' }, { signal: caller.signal }).catch(
        () => 'taken back',
      );
      await scene.clock.settle();

      caller.abort();
      expect(await queued).toBe('taken back');
      await scene.clock.advance(6_000);
      await first;

      expect(scene.server.counts.executionsById).toEqual({ first: 1 });
      expect(count(scene, 'notifications/cancelled')).toBe(0);
      expect(face.errors).toEqual([]);
    });
  });

  it('the framework closes: the call under way is cancelled at the server, the engine stays', async () => {
    const { tool, running } = gated();
    const scene = await startServer({ tools: [tool, ECHO] });
    const face = await connectFace(scene, kind);
    const ended = call(face, 'g', 'gated').catch(() => 'ended');
    const context = await running;
    await scene.clock.settle();

    await face.client.close();
    expect(await ended).toBe('ended');
    await scene.clock.settle();

    expect(context.signal.aborted).toBe(true);
    expect(count(scene, 'notifications/cancelled')).toBe(1);
    expect(face.fetch.connection.state).toBe('ready');
    expect(scene.server.counts.deletes).toBe(0);
  });

  it('a framework that connects again keeps the session that stands', async () => {
    const scene = await startServer();
    const made = makeFetch(scene);
    const first = watched(made);
    const before = await frameworkOver(scene, kind, first.fetch);
    await call(before, 'a');
    await before.client.close();

    const after = await frameworkOver(scene, kind, first.fetch);
    await call(after, 'b');

    expect(scene.server.counts).toMatchObject({ initializes: 1, executionsById: { a: 1, b: 1 } });
    expect(count(scene, 'server/discover')).toBe(kind === 'v2 auto' ? 1 : 0);
    expect(after.transport.sessionId).not.toBe(before.transport.sessionId);
    expect([...before.errors, ...after.errors]).toEqual([]);
  });

  it('one that can do more than the last one gets a session that says so', async () => {
    const scene = await startServer({ tools: [ASK] });
    const made = makeFetch(scene);
    const before = await frameworkOver(scene, kind, made, { capabilities: {} });
    await before.client.close();

    const after = await frameworkOver(scene, kind, made, { capabilities: { elicitation: {} } });
    await call(after, 'q', 'ask', { text: 'Now?' });

    expect(after.questions).toEqual(['Now?']);
    expect(scene.server.counts).toMatchObject({ initializes: 2, deletes: 1 });
  });

  it('two at once count from the same id: answers, progress and cancels keep apart', async () => {
    const one = gated('one');
    const two = gated('two');
    const scene = await startServer({ tools: [one.tool, two.tool, ECHO] });
    const made = makeFetch(scene);
    const a = await frameworkOver(scene, kind, made);
    const b = await frameworkOver(scene, kind, made);
    const caller = new AbortController();
    const ofA = call(a, 'a', 'one', {}, { signal: caller.signal }).catch(() => 'taken back');
    const ofB = call(b, 'b', 'two');
    const [contextA, contextB] = await Promise.all([one.running, two.running]);
    await scene.clock.settle();

    caller.abort();
    expect(await ofA).toBe('taken back');
    await scene.clock.settle();
    expect([contextA.signal.aborted, contextB.signal.aborted]).toEqual([true, false]);
    two.open();

    expect(await ofB).toMatchObject({ content: [{ text: 'done' }] });
    const ids = scene.server.log.flatMap(({ rpcId, tool }) => (tool === undefined ? [] : [rpcId]));
    expect(new Set(ids).size).toBe(2);
    expect([...a.errors, ...b.errors]).toEqual([]);
  });

  it('a second one’s DELETE does not take the session from under the first', async () => {
    const scene = await startServer();
    const made = makeFetch(scene);
    const a = await frameworkOver(scene, kind, made);
    const b = await frameworkOver(scene, kind, made);

    await b.transport.terminateSession();
    expect(scene.server.counts.deletes).toBe(0);
    await call(a, 'a');
    await a.client.close();
    await b.client.close();

    expect(scene.server.counts).toMatchObject({ initializes: 1, executionsById: { a: 1 } });
  });

  it('a notification reaches each of two once', async () => {
    const scene = await startServer();
    const made = makeFetch(scene);
    const heard: unknown[] = [];
    for (const name of ['a', 'b']) {
      const framework = await frameworkOver(scene, kind, made);
      listen(framework, kind, (what) => heard.push([name, what]));
    }

    scene.server.notify('notifications/tools/list_changed');

    await expect.poll(() => heard.length).toBe(2);
    await scene.clock.settle();
    expect(heard).toEqual([
      ['a', 'list_changed'],
      ['b', 'list_changed'],
    ]);
  });

  it('close ends calls as ERR_CLOSED, deletes the session, and leaves no timer', async () => {
    const { tool, running } = gated();
    const scene = await startServer({ tools: [tool, ECHO] });
    const face = await connectFace(scene, kind, { credentials: scene.server.issueToken() });
    const sent = carriedBy(call(face, 'g', 'gated'));
    await running;
    await scene.clock.settle();

    await expect(face.fetch.close()).resolves.toBeUndefined();
    await expect(face.fetch.close()).resolves.toBeUndefined();

    expect(await sent).toMatchObject({ code: 'ERR_CLOSED', executed: 'unknown' });
    expect(await carriedBy(call(face, 'late'))).toMatchObject({ code: 'ERR_CLOSED', executed: false });
    expect(scene.server.counts).toMatchObject({ deletes: 1, executionsById: { g: 1 } });
    expect(scene.clock.pendingTimers).toBe(0);
    expect(face.fetch.connection.state).toBe('closed');
  });

  it('a framework that kept its session id over a restart is served without a handshake of its own', async () => {
    const scene = await startServer();
    const before = await connectFace(scene, kind);
    const { sessionId } = before.transport;
    await before.client.close();
    await before.fetch.close();
    scene.server.reset();

    const face = await connectFace(scene, kind, {}, { transport: { sessionId } });
    await call(face, 'resumed');

    expect(scene.server.counts).toMatchObject({ initializes: 1, executionsById: { resumed: 1 } });
    expect(face.seen.some(({ rpcMethod }) => rpcMethod === 'initialize')).toBe(false);
    expect(face.errors).toEqual([]);
  });
});
