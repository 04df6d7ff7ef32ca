/**
 * The ordinary way: an address, a browser, a callback; and that nothing stays behind.
 */
import { getEventListeners } from 'node:events';
import { createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import { HostedMcpError } from '../../../src/errors.js';
import { type LoopbackRedirect, loopbackRedirect } from '../../../src/loopback/index.js';
import {
  afterwards,
  bodyOf,
  CODE,
  errorOf,
  get,
  heldServers,
  isListening,
  peer,
  STATE,
  scene,
  statusOf,
} from './support.js';

describe('the redirect URI', () => {
  it('is 127.0.0.1 by number, a port of the system, and the one path that can be registered', async () => {
    const first = await scene();
    const second = await scene();
    for (const { redirectUri } of [first, second]) {
      expect(redirectUri).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/callback$/);
    }
    expect(first.port).not.toBe(second.port);
  });

  it('has the port and the path that were given', async () => {
    const free = await scene();
    await free.close();
    const { redirectUri } = await scene({ port: free.port, path: '/oauth2/back' });
    expect(redirectUri).toBe(`http://127.0.0.1:${free.port}/oauth2/back`);
  });

  it('is served on 127.0.0.1 alone', async () => {
    const { port } = await scene();
    expect(await isListening(port)).toBe(true);
    // Had it taken all addresses, this one would not be free.
    const server = createServer();
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen({ host: '127.0.0.2', port }, resolve);
    });
    await new Promise((resolve) => server.close(resolve));
  });
});

describe('onRedirect', () => {
  it('opens the authorization URL once and resolves with the whole URL of the callback', async () => {
    const { authorization, onRedirect, opened, callback } = await scene();
    const result = onRedirect(authorization);
    expect(opened.map(String)).toEqual([authorization.href]);
    const answer = await fetch(`${callback()}&iss=https%3A%2F%2Fas.example&x=a+b%20c`);
    expect(answer.status).toBe(200);
    const url = await result;
    expect(url).toBeInstanceOf(URL);
    expect(url.href).toBe(`${callback()}&iss=https%3A%2F%2Fas.example&x=a+b%20c`);
    expect(opened).toHaveLength(1);
  });

  it('has delivered a fixed page by then, which is not stored, framed, sniffed or named to anybody', async () => {
    const { authorization, onRedirect, port } = await scene();
    const result = onRedirect(authorization);
    const browser = peer(port);
    browser.socket.write(
      `GET /callback?code=${CODE}&state=${STATE} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: keep-alive\r\n\r\n`,
    );
    await result;
    const answer = await browser.closed;
    expect(statusOf(answer)).toBe(200);
    const head = answer.slice(0, answer.indexOf('\r\n\r\n')).toLowerCase();
    expect(head).toContain('\r\ncontent-type: text/html; charset=utf-8');
    expect(head).toContain('\r\ncache-control: no-store');
    expect(head).toContain("\r\ncontent-security-policy: default-src 'none'; frame-ancestors 'none'");
    expect(head).toContain('\r\nreferrer-policy: no-referrer');
    expect(head).toContain('\r\nx-content-type-options: nosniff');
    expect(head).toContain('\r\nconnection: close');
    expect(bodyOf(answer)).toContain('You can close this window');
    expect(answer).not.toContain(CODE);
    expect(answer).not.toContain(STATE);
  });

  it("resolves with the server's refusal, too: that is for the grant to read", async () => {
    const { authorization, onRedirect, redirectUri } = await scene();
    const result = onRedirect(authorization);
    await fetch(`${redirectUri}?error=access_denied&state=${STATE}`);
    expect((await result).searchParams.get('error')).toBe('access_denied');
  });

  it('knows a state whose spelling needs escapes', async () => {
    const { authorization, onRedirect, redirectUri } = await scene();
    const state = 'a+b/c=&d é';
    authorization.searchParams.set('state', state);
    const result = onRedirect(authorization);
    await fetch(`${redirectUri}?code=1&state=${encodeURIComponent(state)}`);
    expect((await result).searchParams.get('state')).toBe(state);
  });

  it('goes by the URL as it was: what the app or the browser hook makes of it later is theirs', async () => {
    const changed = await scene({ open: (url) => url.searchParams.set('state', 'other') });
    const result = changed.onRedirect(changed.authorization);
    changed.authorization.searchParams.set('state', 'another');
    await fetch(changed.callback());
    expect((await result).searchParams.get('code')).toBe(CODE);
  });

  it('does not wait for a browser hook that is still running', async () => {
    const { authorization, onRedirect, callback } = await scene({ open: () => new Promise(() => {}) });
    const result = onRedirect(authorization);
    await fetch(callback());
    expect((await result).searchParams.get('code')).toBe(CODE);
  });

  it('serves plain http on loopback as an authorization server of a developer', async () => {
    const { authorization, onRedirect, opened, callback } = await scene();
    const local = new URL(`http://localhost:9000/authorize${authorization.search}`);
    const result = onRedirect(local);
    await fetch(callback());
    await result;
    expect(opened.map(String)).toEqual([local.href]);
  });
});

describe('it is for one authorization', () => {
  it('the first of two callbacks counts', async () => {
    const { authorization, onRedirect, port } = await scene();
    const result = onRedirect(authorization);
    const [first, second] = [peer(port), peer(port)];
    for (const [each, code] of [
      [first, 'one'],
      [second, 'two'],
    ] as const) {
      each.socket.write(
        `GET /callback?code=${code}&state=${STATE} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`,
      );
    }
    const code = (await result).searchParams.get('code');
    const pages = [await first.closed, await second.closed].map((answer) => answer.includes('You can close'));
    // The two race for the server; what it took is what it said it took.
    expect(pages).toEqual([code === 'one', code === 'two']);
  });

  it('two on one connection: the second is not read', async () => {
    const { authorization, onRedirect, port } = await scene();
    const result = onRedirect(authorization);
    const browser = peer(port);
    const head = `HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`;
    browser.socket.write(
      `GET /callback?code=one&state=${STATE} ${head}GET /callback?code=two&state=${STATE} ${head}`,
    );
    expect((await result).searchParams.get('code')).toBe('one');
    expect((await browser.closed).match(/You can close/g)).toHaveLength(1);
  });

  it('nobody listens afterwards, and a second use says so', async () => {
    const { authorization, onRedirect, callback, port, opened } = await scene();
    const result = onRedirect(authorization);
    await fetch(callback());
    await result;
    expect(await isListening(port)).toBe(false);
    const error = await errorOf(onRedirect(authorization));
    expect(error).toMatchObject({ code: 'ERR_CLOSED', executed: false });
    expect(opened).toHaveLength(1);
  });

  it('a second use while the first waits is refused and disturbs nothing', async () => {
    const { authorization, onRedirect, callback, opened } = await scene();
    const result = onRedirect(authorization);
    const other = new URL(authorization);
    other.searchParams.set('state', 'other');
    expect(await errorOf(onRedirect(other))).toMatchObject({ code: 'ERR_CLOSED' });
    expect(opened).toHaveLength(1);
    await fetch(callback('x', 'other'));
    await fetch(callback());
    expect((await result).searchParams.get('code')).toBe(CODE);
  });
});

describe('what stays behind', () => {
  it('no server, timer, socket or listener after the callback', async () => {
    const before = await heldServers();
    const stop = new AbortController();
    const { authorization, onRedirect, callback, clock, port } = await scene({ signal: stop.signal });
    const idle = peer(port);
    const result = onRedirect(authorization);
    await fetch(callback());
    await result;
    await idle.closed;
    expect(clock.pendingTimers).toBe(0);
    expect(getEventListeners(stop.signal, 'abort')).toEqual([]);
    expect(await heldServers()).toBe(before);
    stop.abort();
  });

  it('a helper that nobody uses does not keep the process alive; one that waits does', async () => {
    const before = await heldServers();
    const { authorization, onRedirect, callback } = await scene();
    expect(await heldServers()).toBe(before);
    const result = onRedirect(authorization);
    expect(await heldServers()).toBe(before + 1);
    await fetch(callback());
    await result;
    expect(await heldServers()).toBe(before);
  });
});

it('works on the real clock, as an app calls it', async () => {
  let shown: URL | undefined;
  const helper: LoopbackRedirect = await loopbackRedirect({
    open: (url) => {
      shown = url;
    },
  });
  afterwards(() => helper.close());
  const url = new URL(`https://as.example/authorize?state=${STATE}`);
  const result = helper.onRedirect(url);
  expect(shown?.href).toBe(url.href);
  const { port } = new URL(helper.redirectUri);
  expect(statusOf(await get(Number(port), `/callback?state=${STATE}&code=1`))).toBe(200);
  expect((await result).href).toBe(`${helper.redirectUri}?state=${STATE}&code=1`);
  expect(HostedMcpError.isInstance(await errorOf(helper.onRedirect(url)))).toBe(true);
});
