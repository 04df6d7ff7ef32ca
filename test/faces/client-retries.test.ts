import { describe, expect, it } from 'vitest';
import type { HostedClientOptions } from '../../src/client.js';
import type { ScriptedReply } from '../../src/testing/index.js';
import { connect, echo, failureOf, type Scene, startServer } from '../wire/support.js';

async function set(options: Partial<HostedClientOptions> = {}) {
  const scene = await startServer({ tokenLifetimeMs: 3_600_000 });
  const client = await connect(scene, options);
  await scene.clock.settle();
  return { ...scene, client };
}

/** Lets whatever waits go on, as long as it waits. */
async function outcomeOf<T>({ clock }: Scene, promise: Promise<T>, ms = 5_000): Promise<T> {
  promise.catch(() => {});
  await clock.advance(ms);
  return promise;
}

const count = ({ server }: Scene, method: string) =>
  server.log.filter((entry) => entry.rpcMethod === method).length;

const FAULTS: [string, ScriptedReply][] = [
  ['a 502 page', { status: 502, headers: { 'content-type': 'text/html' }, body: '<html>Bad Gateway</html>' }],
  ['a 504', { status: 504 }],
  ['a cut before the answer', { cut: 'reset' }],
  ['a cut within the answer', { cut: 'fin', afterBytes: 20 }],
];

describe('reads of the protocol', () => {
  it.each(FAULTS)('are asked once more after %s', async (_name, fault) => {
    const scene = await set();
    scene.server.replyOnce({ method: 'tools/list' }, fault);

    const { tools } = await outcomeOf(scene, scene.client.listTools());

    expect(tools.length).toBeGreaterThan(0);
    expect(count(scene, 'tools/list')).toBe(2);
  });

  it('are given up after retry.maxAttempts', async () => {
    const scene = await set({ retry: { maxAttempts: 3 } });
    scene.server.reply({ method: 'resources/list' }, { status: 502 });

    const failure = await outcomeOf(scene, failureOf(scene.client.listResources()), 20_000);

    expect(failure).toMatchObject({ code: 'ERR_HTTP_STATUS', status: 502, executed: 'unknown' });
    expect(count(scene, 'resources/list')).toBe(3);
  });

  it('with retry.maxAttempts 1 are asked once', async () => {
    const scene = await set({ retry: { maxAttempts: 1 } });
    scene.server.replyOnce({ method: 'tools/list' }, { status: 502 });

    await outcomeOf(scene, failureOf(scene.client.listTools()));

    expect(count(scene, 'tools/list')).toBe(1);
  });

  it('are asked again on the new session after a loss', async () => {
    const scene = await set();
    scene.server.dropSessions();

    const { resources } = await outcomeOf(scene, scene.client.listResources());

    expect(resources).toHaveLength(1);
    expect(scene.server.counts.initializes).toBe(2);
  });
});

describe('tool calls', () => {
  it.each(FAULTS)('go out once, whatever happens: %s', async (_name, fault) => {
    const scene = await set();
    scene.server.replyOnce({ method: 'tools/call' }, fault);

    expect(await outcomeOf(scene, failureOf(echo(scene.client, 'a')))).toMatchObject({
      executed: 'unknown',
      retryable: false,
    });

    expect(count(scene, 'tools/call')).toBe(1);
  });

  it.each([
    ['by name', ['echo']],
    ['by rule', (tool: string) => tool === 'echo'],
  ])('of tools listed as safe (%s) are repeated, of others never', async (_name, safeTools) => {
    const scene = await set({ retry: { safeTools } });
    scene.server.replyOnce({ method: 'tools/call', tool: 'echo' }, { tool: 'run', cut: 'reset' });
    scene.server.replyOnce({ method: 'tools/call', tool: 'add' }, { tool: 'run', cut: 'reset' });

    expect(await outcomeOf(scene, echo(scene.client, 'safe'))).toMatchObject({ content: [{ text: 'safe' }] });
    const add = failureOf(scene.client.callTool({ name: 'add', arguments: { a: 1, b: 2 } }));
    expect(await outcomeOf(scene, add)).toMatchObject({ executed: 'unknown' });

    expect(scene.server.counts.executions).toEqual({ echo: 2, add: 1 });
  });

  it('of which no byte left may go out again', async () => {
    const scene = await startServer({ tokenLifetimeMs: 3_600_000 });
    let isDown = false;
    const client = await connect(scene, {
      credentials: scene.server.issueToken(),
      http: {
        fetch: (url, init) => {
          if (isDown) {
            isDown = false;
            throw Object.assign(new TypeError('fetch failed'), {
              cause: Object.assign(new Error(), { code: 'ECONNREFUSED' }),
            });
          }
          return fetch(url, init);
        },
      },
    });
    await scene.clock.settle();
    isDown = true;

    expect(await outcomeOf(scene, echo(client, 'a'))).toMatchObject({ content: [{ text: 'a' }] });

    expect(scene.server.counts.executionsById).toEqual({ a: 1 });
  });
});

describe('401', () => {
  it('a challenge: the call goes out once more after a refresh', async () => {
    const scene = await set();
    scene.server.expireTokens();

    expect(await outcomeOf(scene, echo(scene.client, 'a'))).toMatchObject({ content: [{ text: 'a' }] });

    expect(scene.server.counts).toMatchObject({ tokenRequests: 2, executionsById: { a: 1 }, initializes: 1 });
    expect(count(scene, 'tools/call')).toBe(2);
  });

  it("resendOn401 'never': the caller is told that nothing ran, and the next call has the new token", async () => {
    const scene = await set({ retry: { resendOn401: 'never' } });
    scene.server.expireTokens();

    expect(await outcomeOf(scene, failureOf(echo(scene.client, 'a')))).toMatchObject({
      code: 'ERR_CREDENTIAL_REJECTED',
      executed: false,
    });
    await outcomeOf(scene, echo(scene.client, 'b'));

    expect(scene.server.counts).toMatchObject({ tokenRequests: 2, executionsById: { b: 1 } });
    expect(count(scene, 'tools/call')).toBe(2);
  });

  it('a challenge beside the call’s own answer is another’s: no resend, not even of an isError result', async () => {
    const scene = await set();
    scene.server.replyOnce(
      { method: 'tools/call' },
      {
        tool: 'run',
        status: 401,
        headers: { 'www-authenticate': 'Bearer error="invalid_token"', 'content-type': 'application/json' },
        body: ({ answer }) => ({ ...answer, result: { content: [], isError: true } }),
      },
    );

    expect(await outcomeOf(scene, failureOf(echo(scene.client, 'a')))).toMatchObject({
      executed: 'unknown',
      retryable: false,
    });

    expect(scene.server.counts.executionsById).toEqual({ a: 1 });
    expect(count(scene, 'tools/call')).toBe(1);
  });
});

describe('429', () => {
  it('nothing goes out during the pause, of other calls neither; then each is answered, once', async () => {
    const scene = await set();
    const { server, client, clock } = scene;
    server.throttle(3_000);
    const refused = echo(client, 'refused');
    await clock.settle();
    const { requests } = server.counts;
    const others = [echo(client, 'other'), client.listTools()];

    await clock.advance(2_900);
    expect(server.counts.requests).toBe(requests);
    expect(client.connection.health()).toMatchObject({ ok: true, retryAfterMs: 100 });
    await clock.advance(200);

    await Promise.all([refused, ...others]);
    expect(server.counts).toMatchObject({ executionsById: { refused: 1, other: 1 }, rejectedByLimit: 1 });
  });

  it("resendOn429 'never': the caller is told how long, and others still wait", async () => {
    const scene = await set({ retry: { resendOn429: 'never' } });
    const { server, client, clock } = scene;
    server.throttle(3_000);

    expect(await failureOf(echo(client, 'refused'))).toMatchObject({
      code: 'ERR_RATE_LIMITED',
      executed: false,
      retryable: true,
      retryAfterMs: 3_000,
      status: 429,
    });
    const next = echo(client, 'next');
    await clock.advance(3_000);
    await next;

    expect(server.counts).toMatchObject({ executionsById: { next: 1 }, rejectedByLimit: 1 });
  });

  it('a pause longer than the call has time is told at once', async () => {
    const scene = await set();
    scene.server.throttle(30_000);

    const failure = await failureOf(echo(scene.client, 'a', { timeout: 10_000 }));

    expect(failure).toMatchObject({
      code: 'ERR_RATE_LIMITED',
      executed: false,
      retryable: true,
      retryAfterMs: 30_000,
    });
    expect(scene.server.counts.rejectedByLimit).toBe(1);
  });

  it('a limit met at the handshake is waited out', async () => {
    const scene = await startServer();
    scene.server.throttle(2_000);

    const connected = connect(scene);
    await scene.clock.advance(1_990);
    expect(scene.server.counts).toMatchObject({ requests: 1, rejectedByLimit: 1 });
    await scene.clock.advance(1_000);
    await echo(await connected, 'a');

    expect(scene.server.counts).toMatchObject({
      initializes: 2,
      rejectedByLimit: 1,
      executionsById: { a: 1 },
    });
  });

  it('a limit met at the handshake for longer than there is time ends connect, typed', async () => {
    const scene = await startServer();
    scene.server.throttle(200_000);

    const failure = failureOf(connect(scene));
    await scene.clock.advance(5_000);
    expect(await failure).toMatchObject({
      code: expect.stringMatching(/^ERR_RATE_(?:LIMITED|WAIT_EXCEEDED)$/),
      executed: false,
      retryable: true,
    });
    expect(scene.server.counts).toMatchObject({ requests: 1, rejectedByLimit: 1 });
  });
});
