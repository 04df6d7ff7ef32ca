/** What happens on the way, under `hostedFetch` and the SDKs' own transports: judged at the server. */
import { describe, expect, it } from 'vitest';
import type { HostedMcpError } from '../../src/index.js';
import type { ScriptedReply, ScriptedRequest } from '../../src/testing/index.js';
import {
  call,
  carriedBy,
  connectFace,
  count,
  type Faced,
  KINDS,
  watched,
} from '../faces/hosted-fetch-clients.js';
import { machine, type Scene, startServer, user } from './support.js';

const CALL = { http: 'POST', method: 'tools/call' } as const;
/** Texts and statuses after which frameworks run a call again by themselves. */
const REPLAY =
  /not connected|http 40[0134]|econnrefused|fetch failed|connection refused|connection closed|terminated/i;

/** Calls `echo` every `everyMs`; what was not answered is told by what its error carries. */
async function run(face: Faced, scene: Scene, ids: readonly string[], everyMs: number) {
  const failed: Record<string, HostedMcpError> = {};
  for (const id of ids) {
    await call(face, id).catch(async (error: unknown) => {
      failed[id] = await carriedBy(Promise.reject(error));
    });
    await scene.clock.advance(everyMs);
  }
  return failed;
}

const ids = (from: number, to: number) => Array.from({ length: to - from }, (_, n) => `c${from + n}`);
const once = (all: readonly string[]) => Object.fromEntries(all.map((id) => [id, 1]));

/** The framework has seen no status but success: nothing for it to repeat, nothing to re-authorize. */
function expectQuiet(face: Faced): void {
  expect(face.seen.filter(({ status }) => status >= 300)).toEqual([]);
  expect(face.errors).toEqual([]);
}

describe.each(KINDS)('hostedFetch under %s, over the life of its tokens', (kind) => {
  it.each([401, 404, 403, 400, 200] as const)(
    'sessions bound to their token (%d), two expiries and one redeploy: nothing ran twice, one call not answered at most',
    async (sessionLostStatus) => {
      const scene = await startServer({ bindSession: 'token', sessionLostStatus });
      const face = await connectFace(scene, kind);
      const calls = ids(0, 20);

      const before = await run(face, scene, calls.slice(0, 13), 10_000);
      scene.server.deploy({ restart: true });
      const after = await run(face, scene, calls.slice(13), 10_000);

      expect(before).toEqual({});
      const lost = Object.keys(after);
      expect(lost.length).toBeLessThanOrEqual(1);
      for (const error of Object.values(after)) expect([false, 'unknown']).toContain(error.executed);
      const ran = scene.server.counts.executionsById;
      expect(Object.values(ran).every((times) => times === 1)).toBe(true);
      for (const id of calls) {
        const { executed } = after[id] ?? { executed: true };
        if (executed === false) expect(ran[id]).toBe(undefined);
        if (executed === true) expect(ran[id]).toBe(1);
      }
      // 200 s of tokens of 60 s, renewed at 45: one request each, and the restart costs none.
      expect(scene.server.counts.tokenRequests).toBeLessThanOrEqual(6);
      expect(scene.server.counts.tokenRequests).toBeGreaterThanOrEqual(4);
      expectQuiet(face);
    },
  );

  it('a user’s rotating refresh token, 16 callers at the expiry: one refresh, all answered once', async () => {
    const scene = await startServer({ rotateRefreshTokens: true, bindSession: 'token' });
    const face = await connectFace(scene, kind, { credentials: user(scene) });
    await call(face, 'before');
    const { tokenRequests } = scene.server.counts;
    scene.server.expireTokens();

    const all = ids(0, 16);
    await Promise.all(all.map((id) => call(face, id)));

    expect(scene.server.counts.tokenRequests).toBe(tokenRequests + 1);
    expect(scene.server.counts.executionsById).toEqual({ before: 1, ...once(all) });
    expectQuiet(face);
  });

  it('a credential that is refused for good: in-band, nothing for the framework to re-authorize', async () => {
    const scene = await startServer();
    const face = await connectFace(scene, kind, { credentials: scene.server.issueToken() });
    scene.server.revokeTokens();

    const failure = await carriedBy(call(face, 'refused'));

    expect(failure).toMatchObject({ code: 'ERR_CREDENTIAL_REJECTED', executed: false });
    expect(scene.server.counts.executionsById).toEqual({});
    expectQuiet(face);
  });
});

/** The tool ran; its answer never came. */
const CUTS: readonly (readonly [string, ScriptedReply])[] = [
  ['reset before the head', { tool: 'run', cut: 'reset' }],
  ['closed before the head', { tool: 'run', cut: 'fin' }],
  ['reset in the middle', { tool: 'run', cut: 'reset', afterBytes: 30 }],
  ['closed in the middle', { tool: 'run', cut: 'fin', afterBytes: 30 }],
  ['ended in the middle', { tool: 'run', cut: 'eof', afterBytes: 30 }],
  ['a stream that says nothing', { tool: 'run', chunks: [': hello\n\n'] }],
  ['an empty stream', { tool: 'run', chunks: [] }],
  ['202 and no answer', { tool: 'run', status: 202 }],
  ['500', { tool: 'run', status: 500, body: 'oops' }],
  [
    '502 of a gateway',
    { tool: 'run', status: 502, body: '<html>', headers: { 'content-type': 'text/html' } },
  ],
  ['503', { tool: 'run', status: 503, body: '' }],
  ['504', { tool: 'run', status: 504, body: '' }],
  ['401 of somebody else', { tool: 'run', status: 401, body: own('upstream: 401') }],
  ['429 of somebody else', { tool: 'run', status: 429, body: own('Too Many Requests') }],
  ['408', { tool: 'run', status: 408, body: '' }],
  ['409', { tool: 'run', status: 409, body: '' }],
];

function own(message: string) {
  return (request: ScriptedRequest) => ({
    jsonrpc: '2.0',
    id: request.message?.id,
    error: { code: -32000, message },
  });
}

describe.each(KINDS)('hostedFetch under %s: the tool ran and the answer is gone', (kind) => {
  it.each(CUTS)(
    '%s: told at once, in-band, not run again; the next call is answered',
    async (_name, reply) => {
      const scene = await startServer({ answer: 'sse' });
      const face = await connectFace(scene, kind);
      scene.server.replyOnce(CALL, reply);

      const failing = call(face, 'cut').catch((error: unknown) => error);
      const failure = await failing;
      const carried = await carriedBy(Promise.reject(failure));

      expect(carried).toMatchObject({ executed: 'unknown', retryable: false });
      expect(failure).toMatchObject({ data: { holdfast: { code: carried.code, executed: 'unknown' } } });
      const { code, message } = failure as { code: number; message: string };
      expect(code).toBeGreaterThanOrEqual(-32018);
      expect(code).toBeLessThanOrEqual(-32010);
      expect(message).not.toMatch(REPLAY);
      expect(message).toContain('may have run');
      await scene.clock.advance(5_000);
      await call(face, 'after');
      expect(scene.server.counts.executionsById).toEqual({ cut: 1, after: 1 });
      expect(scene.server.log.filter(({ tool }) => tool === 'echo')).toHaveLength(2);
      expectQuiet(face);
    },
  );

  it.each(['fin', 'eof', 'reset'] as const)(
    'a stream with a cursor is taken up again behind the fetch (%s)',
    async (shape) => {
      const scene = await startServer({ answer: 'sse', eventStore: true });
      const face = await connectFace(scene, kind);
      const heard: number[] = [];
      const done = call(
        face,
        'long',
        'slow',
        { ms: 10_000 },
        { onprogress: ({ progress }) => heard.push(progress) },
      );
      await scene.clock.advance(1_000);
      scene.server.cutStreams(shape);
      await scene.clock.advance(7_000);
      scene.server.cutStreams(shape);
      await scene.clock.advance(5_000);

      expect(await done).toMatchObject({ content: [{ text: 'waited 10000 ms' }] });
      expect(heard).toEqual([0, 50, 100]);
      expect(scene.server.counts.executionsById).toEqual({ long: 1 });
      expect(scene.server.counts.resumes).toBeGreaterThanOrEqual(2);
      expect(face.seen.filter(({ rpcMethod }) => rpcMethod === 'tools/call')).toHaveLength(1);
      expect(face.seen.filter(({ method }) => method === 'GET')).toHaveLength(1);
      expectQuiet(face);
    },
  );

  it('cut after progress, on an open stream: the error comes on it', async () => {
    const scene = await startServer({ answer: 'sse' });
    const face = await connectFace(scene, kind);
    const heard: number[] = [];
    const failing = carriedBy(
      call(face, 'cut', 'slow', { ms: 1_000 }, { onprogress: ({ progress }) => heard.push(progress) }),
    );
    await scene.clock.advance(100);

    scene.server.cutStreams('reset');

    expect(await failing).toMatchObject({ code: 'ERR_OUTCOME_UNKNOWN', executed: 'unknown' });
    expect(heard).toEqual([0]);
    expect(face.seen.at(-1)?.contentType).toBe('text/event-stream');
    expectQuiet(face);
  });

  it('safe tools may run again: the app said so', async () => {
    const scene = await startServer();
    const face = await connectFace(scene, kind, { retry: { safeTools: ['echo'] } });
    scene.server.replyOnce(CALL, { tool: 'run', cut: 'reset' });

    const answered = call(face, 'twice');
    await scene.clock.advance(2_000);

    expect(await answered).toMatchObject({ content: [{ text: 'twice' }] });
    expect(scene.server.counts.executionsById).toEqual({ twice: 2 });
    expectQuiet(face);
  });
});

describe.each(KINDS)('hostedFetch under %s: refused before it ran', (kind) => {
  it('429: waited for, then answered; nothing of it reaches the framework', async () => {
    const scene = await startServer();
    const face = await connectFace(scene, kind);
    scene.server.throttle(2_000);

    const all = ids(0, 4);
    const answered = Promise.all(all.map((id) => call(face, id)));
    await scene.clock.advance(10_000);
    await answered;

    expect(scene.server.counts.executionsById).toEqual(once(all));
    expectQuiet(face);
  });

  it('429 that does not end: typed, with how long to wait', async () => {
    const scene = await startServer();
    const face = await connectFace(scene, kind);
    scene.server.reply(CALL, { status: 429, headers: { 'retry-after': '30' }, body: '' });

    const failing = carriedBy(call(face, 'limited'));
    await scene.clock.advance(70_000);

    const failure = await failing;
    expect(failure).toMatchObject({ executed: false, retryable: true });
    expect(['ERR_RATE_LIMITED', 'ERR_RATE_WAIT_EXCEEDED']).toContain(failure.code);
    expect(failure.retryAfterMs).toBeGreaterThan(0);
    expect(scene.server.counts.executionsById).toEqual({});
    expectQuiet(face);
  });

  it('a limit of our own holds for the framework’s calls, and for its handshake', async () => {
    const scene = await startServer();
    const rateLimit = { limit: 10, intervalMs: 60_000 };
    const face = await connectFace(scene, kind, { rateLimit });
    const all = ids(0, 12);
    const answered = Promise.all(all.map((id) => call(face, id).catch(() => undefined)));
    await scene.clock.advance(200_000);
    await answered;

    expect(scene.server.mostIn(60_000)).toBeLessThanOrEqual(10);
    expectQuiet(face);
  });

  it.each([401, 404, 403, 400, 200] as const)(
    'a session that is gone (%d), ten callers at once: one handshake, nothing run twice',
    async (sessionLostStatus) => {
      const scene = await startServer({ sessionLostStatus });
      const face = await connectFace(scene, kind);
      scene.server.dropSessions();
      const all = ids(0, 10);

      const failures = await Promise.all(all.map((id) => carriedBy(call(face, id))));
      await Promise.all(all.map((id) => call(face, `${id}'`)));

      expect(new Set(failures.map(({ code }) => code))).toEqual(new Set(['ERR_SESSION_LOST']));
      for (const { executed, retryable } of failures) expect(executed === false).toBe(retryable);
      expect(scene.server.counts).toMatchObject({
        initializes: 2,
        executionsById: once(all.map((id) => `${id}'`)),
      });
      expectQuiet(face);
    },
  );

  it('a read meets the loss: healed behind the fetch', async () => {
    const scene = await startServer();
    const face = await connectFace(scene, kind);
    scene.server.dropSessions();

    expect((await face.client.listTools()).tools).toHaveLength(4);

    expect(scene.server.counts.initializes).toBe(2);
    expectQuiet(face);
  });

  it('a gate’s refusal is in-band', async () => {
    const scene = await startServer();
    const gates = [{ name: 'policy', before: () => ({ deny: 'not on Sundays' }) }];
    const face = await connectFace(scene, kind, { gates });

    const failure = call(face, 'denied');

    expect(await carriedBy(failure)).toMatchObject({ code: 'ERR_DENIED', executed: false, retryable: false });
    await expect(failure).rejects.toThrow(/not on Sundays/);
    expect(scene.server.counts.executionsById).toEqual({});
    expectQuiet(face);
  });

  it('a contract that differs from the pin is in-band', async () => {
    const scene = await startServer();
    const face = await connectFace(scene, kind, { contract: { onChange: 'reject' } });
    await call(face, 'a');
    scene.server.deploy({ tools: [{ name: 'echo', description: 'Now it does more.', handler: () => 'x' }] });
    scene.server.notify('notifications/tools/list_changed');
    await scene.clock.settle();

    expect(await carriedBy(call(face, 'b'))).toMatchObject({ code: 'ERR_CONTRACT_CHANGED', executed: false });
    expect(scene.server.counts.executionsById).toEqual({ a: 1 });
  });

  it('a person’s late answer to a session that is gone reaches nobody', async () => {
    let answer!: () => void;
    const thinking = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const scene = await startServer({
      tools: [
        {
          name: 'ask',
          handler: async (_args, context) => {
            const requestedSchema = { type: 'object', properties: {} };
            return JSON.stringify(
              await context.request('elicitation/create', { message: '?', requestedSchema }),
            );
          },
        },
        { name: 'echo', handler: () => 'x' },
      ],
    });
    const face = await connectFace(
      scene,
      kind,
      {},
      { answer: () => thinking.then(() => ({ action: 'accept', content: {} })) },
    );
    const first = carriedBy(call(face, 'first', 'ask'));
    await expect.poll(() => face.questions.length).toBe(1);
    scene.server.dropSessions();
    await carriedBy(call(face, 'lost'));
    await call(face, 'next');

    answer();
    await scene.clock.advance(6_000);

    expect(await first).toMatchObject({ code: 'ERR_SESSION_LOST', executed: 'unknown' });
    const answers = scene.server.log.filter(
      ({ http, path, rpcMethod }) => http === 'POST' && path === '/mcp' && rpcMethod === undefined,
    );
    expect(answers).toEqual([]);
    expect(scene.server.counts.executionsById).toEqual({ first: 1, next: 1 });
  });
});

describe.each(KINDS)('hostedFetch under %s: the framework’s connect()', (kind) => {
  it('a server that is away: typed, never taken for an earlier one', async () => {
    const scene = await startServer();
    const credentials = scene.server.issueToken();
    await scene.server.close();

    const connecting = carriedBy(connectFace(scene, kind, { credentials }));
    await scene.clock.advance(60_000);

    expect(await connecting).toMatchObject({ code: 'ERR_NOT_SENT', executed: false, retryable: true });
  });

  it('a refused credential: typed', async () => {
    const scene = await startServer();

    const connecting = carriedBy(connectFace(scene, kind, { credentials: 'no-token-of-this-server' }));

    expect(await connecting).toMatchObject({ code: 'ERR_CREDENTIAL_REJECTED', executed: false });
    expect(scene.server.counts.initializes).toBeLessThanOrEqual(1);
    expect(count(scene, 'initialize')).toBe(kind === 'v2 auto' ? 0 : 1);
  });

  it.each([500, 503, 403])('status %d to all there is: typed', async (status) => {
    const scene = await startServer();
    scene.server.reply({ http: 'POST' }, { status, body: 'no' });

    const connecting = carriedBy(connectFace(scene, kind, { credentials: machine(scene) }));
    await scene.clock.advance(60_000);

    const { code, executed } = await connecting;
    expect(code).toMatch(/^ERR_(HTTP_STATUS|PROTOCOL)$/);
    // A handshake runs nothing; the question which era it is left, and was not answered.
    expect(executed).toBe(kind === 'v2 auto' ? 'unknown' : false);
    if (kind === 'v2 auto') expect(count(scene, 'initialize')).toBe(0);
  });

  it('no secret, and not the server’s session id, crosses the fetch', async () => {
    const scene = await startServer({ answer: 'sse' });
    const face = await connectFace(scene, kind);
    const secrets = new Set<string>();
    scene.server.reply(CALL, {
      status: 500,
      body: ({ headers }) => {
        for (const name of ['authorization', 'mcp-session-id']) secrets.add(headers[name] ?? '');
        return `failed for ${headers.authorization} in ${headers['mcp-session-id']}`;
      },
    });
    const texts: string[] = [];
    const { fetch } = watched(face.fetch);

    const response = await fetch(scene.server.url, {
      method: 'POST',
      headers: { 'mcp-session-id': face.transport.sessionId ?? '' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 'x', method: 'tools/call', params: { name: 'echo' } }),
    });
    texts.push(await response.text(), JSON.stringify([...response.headers]), JSON.stringify(face.seen));

    expect(secrets.size).toBe(2);
    for (const secret of secrets)
      for (const text of texts) expect(text).not.toContain(secret.replace('Bearer ', ''));
  });
});
