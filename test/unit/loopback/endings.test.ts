/**
 * How a wait ends without a callback: time, the signal, `close()`, no browser, no port. Each leaves nothing behind and
 * says nothing of what the browser was to carry.
 */
import { getEventListeners } from 'node:events';
import { createServer } from 'node:net';
import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { HostedMcpError } from '../../../src/errors.js';
import { type LoopbackOptions, loopbackRedirect } from '../../../src/loopback/index.js';
import {
  afterwards,
  CODE,
  errorOf,
  heldServers,
  isListening,
  peer,
  type Scene,
  STATE,
  scene,
} from './support.js';

/** Nothing of it is left. */
async function isGone({ clock, port }: Scene, before: number, signal?: AbortSignal): Promise<void> {
  expect(clock.pendingTimers).toBe(0);
  expect(await isListening(port)).toBe(false);
  expect(await heldServers()).toBe(before);
  if (signal !== undefined) expect(getEventListeners(signal, 'abort')).toEqual([]);
}

describe('time', () => {
  it.each([
    ['five minutes', {}, 300_000],
    ['what was given', { timeoutMs: 1_500 }, 1_500],
  ])('%s, from onRedirect on', async (_, options: LoopbackOptions, timeoutMs) => {
    const before = await heldServers();
    const own = await scene(options);
    await own.clock.advance(timeoutMs * 2);
    let failure: unknown;
    const result = errorOf(own.onRedirect(own.authorization)).then((error) => {
      failure = error;
      return error;
    });
    await own.clock.advance(timeoutMs - 1);
    expect(failure).toBeUndefined();
    expect(await isListening(own.port)).toBe(true);
    await own.clock.advance(1);
    const error = await result;
    expect(error).toMatchObject({
      code: 'ERR_REAUTHORIZATION_REQUIRED',
      executed: false,
      retryable: false,
      authorizationUrl: own.authorization.href,
    });
    await isGone(own, before);
    expect(await errorOf(own.onRedirect(own.authorization))).toMatchObject({ code: 'ERR_CLOSED' });
  });
});

describe('the signal', () => {
  it('ends a wait, sockets included', async () => {
    const before = await heldServers();
    const stop = new AbortController();
    const own = await scene({ signal: stop.signal });
    const idle = peer(own.port);
    const result = errorOf(own.onRedirect(own.authorization));
    stop.abort(new Error(`${CODE} ${STATE}`));
    expect(await result).toMatchObject({ code: 'ERR_ABORTED', executed: false });
    await idle.closed;
    await isGone(own, before, stop.signal);
  });

  it('ends a helper that nobody uses yet; it says so when somebody does', async () => {
    const before = await heldServers();
    const stop = new AbortController();
    const own = await scene({ signal: stop.signal });
    stop.abort();
    await own.close();
    await isGone(own, before, stop.signal);
    expect(await errorOf(own.onRedirect(own.authorization))).toMatchObject({ code: 'ERR_ABORTED' });
    expect(own.opened).toEqual([]);
  });

  it('that has ended before, or ends while the port is taken, makes no helper', async () => {
    const before = await heldServers();
    expect(await errorOf(loopbackRedirect({ signal: AbortSignal.abort() }))).toMatchObject({
      code: 'ERR_ABORTED',
    });
    const stop = new AbortController();
    const start = errorOf(loopbackRedirect({ signal: stop.signal }));
    stop.abort();
    expect(await start).toMatchObject({ code: 'ERR_ABORTED' });
    expect(getEventListeners(stop.signal, 'abort')).toEqual([]);
    expect(await heldServers()).toBe(before);
  });

  it('after the callback changes nothing', async () => {
    const stop = new AbortController();
    const own = await scene({ signal: stop.signal });
    const result = own.onRedirect(own.authorization);
    await fetch(own.callback());
    stop.abort();
    expect((await result).searchParams.get('code')).toBe(CODE);
  });
});

describe('close()', () => {
  it('ends a wait, sockets included', async () => {
    const before = await heldServers();
    const own = await scene();
    const idle = peer(own.port);
    const result = errorOf(own.onRedirect(own.authorization));
    expect(await own.close()).toBeUndefined();
    expect(await result).toMatchObject({ code: 'ERR_CLOSED', executed: false });
    await idle.closed;
    await isGone(own, before);
  });

  it('may be called at any time, as often as one likes, and never rejects', async () => {
    const before = await heldServers();
    const own = await scene();
    await Promise.all([own.close(), own.close()]);
    await own.close();
    expect(await errorOf(own.onRedirect(own.authorization))).toMatchObject({ code: 'ERR_CLOSED' });
    expect(own.opened).toEqual([]);
    await isGone(own, before);

    const used = await scene();
    const result = used.onRedirect(used.authorization);
    await fetch(used.callback());
    await result;
    await Promise.all([used.close(), used.close()]);
    await isGone(used, before);
  });

  it('from within the browser hook', async () => {
    const before = await heldServers();
    const own: Scene = await scene({ open: () => own.close() });
    expect(await errorOf(own.onRedirect(own.authorization))).toMatchObject({ code: 'ERR_CLOSED' });
    await isGone(own, before);
  });
});

describe('a browser that cannot be opened', () => {
  const words = `cannot open ?code=${CODE}&state=${STATE}`;
  it.each([
    [
      'throws',
      () => {
        throw Object.assign(new Error(words), { code: 'ENOENT' });
      },
    ],
    [
      'rejects',
      async () => {
        throw Object.assign(new Error(words), { code: 'ENOENT' });
      },
    ],
  ])('open %s: the address is for a person, the cause by its code alone', async (_, open) => {
    const before = await heldServers();
    const own = await scene({ open });
    const error = await errorOf(own.onRedirect(own.authorization));
    expect(error).toMatchObject({
      code: 'ERR_REAUTHORIZATION_REQUIRED',
      authorizationUrl: own.authorization.href,
      cause: { code: 'ENOENT' },
    });
    await isGone(own, before);
  });

  it('the address is the one that was asked for, whatever the app and its hook made of their own', async () => {
    const own = await scene({
      open: async (url) => {
        url.searchParams.set('state', 'of-the-hook');
        await Promise.resolve();
        throw new Error(words);
      },
    });
    const asked = own.authorization.href;
    const result = errorOf(own.onRedirect(own.authorization));
    own.authorization.searchParams.set('state', 'of-the-app');
    expect((await result).authorizationUrl).toBe(asked);
  });

  it('a failure after the callback is nobody’s', async () => {
    let fail: (error: Error) => void = () => {};
    const running = new Promise<void>((_, reject) => {
      fail = reject;
    });
    const own = await scene({ open: () => running });
    const result = own.onRedirect(own.authorization);
    await fetch(own.callback());
    fail(new Error(words));
    expect((await result).searchParams.get('code')).toBe(CODE);
  });
});

describe('the port', () => {
  it('that is taken is a typed error', async () => {
    const before = await heldServers();
    const server = createServer();
    await new Promise<void>((resolve) => server.listen({ host: '127.0.0.1', port: 0 }, resolve));
    afterwards(() => server.close());
    const { port } = server.address() as { port: number };
    const error = await errorOf(loopbackRedirect({ port }));
    expect(error).toMatchObject({
      code: 'ERR_CREDENTIAL_SOURCE',
      executed: false,
      cause: { code: 'EADDRINUSE' },
    });
    server.close();
    expect(await heldServers()).toBe(before);
  });

  it('is free by the very moment the callback is handed over', async () => {
    const first = await scene();
    const again = first.onRedirect(first.authorization).then(() => scene({ port: first.port }));
    await fetch(first.callback());
    expect((await again).port).toBe(first.port);
  });

  it('is free again after close: the next authorization may have it', async () => {
    const first = await scene();
    expect(await errorOf(loopbackRedirect({ port: first.port }))).toMatchObject({
      code: 'ERR_CREDENTIAL_SOURCE',
    });
    await first.close();
    const second = await scene({ port: first.port });
    const result = second.onRedirect(second.authorization);
    await fetch(second.callback());
    expect((await result).port).toBe(String(first.port));
  });
});

it('no error says a code or a state, whole or in part', async () => {
  const errors: (Error & Record<string, unknown>)[] = [];
  const throwing = () => {
    throw new Error(`${CODE} ${STATE}`);
  };
  const refused = await scene({ open: throwing });
  errors.push(await errorOf(refused.onRedirect(refused.authorization)));
  errors.push(await errorOf(refused.onRedirect(refused.authorization)));

  const late = await scene();
  const lateResult = errorOf(late.onRedirect(late.authorization));
  await fetch(late.callback(CODE, 'guess'));
  errors.push(await errorOf(late.onRedirect(late.authorization)));
  await late.clock.advance(300_000);
  errors.push(await lateResult);

  const stop = new AbortController();
  const aborted = await scene({ signal: stop.signal });
  const abortedResult = errorOf(aborted.onRedirect(aborted.authorization));
  stop.abort(new Error(`${CODE} ${STATE}`));
  errors.push(await abortedResult);

  const closed = await scene();
  const closedResult = errorOf(closed.onRedirect(closed.authorization));
  await closed.close();
  errors.push(await closedResult);

  const bad = await scene();
  for (const url of [
    `http://as.example/?code=${CODE}&state=${STATE}`,
    `file:///${STATE}?state=${STATE}`,
    `https://as.example/?state=${STATE}&state=${CODE}`,
    `https://as.example/?state=${STATE}&redirect_uri=https://evil.example/${CODE}`,
    `https://${STATE}:${CODE}@as.example/?state=${STATE}`,
    `${STATE} ${CODE}`,
  ]) {
    errors.push(await errorOf(bad.onRedirect(url as unknown as URL)));
  }

  expect(errors).toHaveLength(12);
  for (const error of errors) {
    const told = [
      inspect(error, { depth: Number.POSITIVE_INFINITY }),
      inspect(error.cause, { depth: Number.POSITIVE_INFINITY, showHidden: true }),
      JSON.stringify(error),
      String(error),
      error.stack,
      HostedMcpError.isInstance(error) ? JSON.stringify(error.toToolResult()) : '',
    ].join('\n');
    expect(told).not.toMatch(/canary|7f3a|91cd/);
  }
});
