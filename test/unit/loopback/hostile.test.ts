/**
 * Requests of strangers: pages of other origins, other programs of this machine. Each is answered and forgotten, and
 * the callback that is waited for still counts after it.
 */
import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import {
  bodyOf,
  CODE,
  exchange,
  get,
  heldServers,
  type Peer,
  peer,
  type Scene,
  STATE,
  scene,
  statusOf,
} from './support.js';

/** A scene that waits; at its end the honest callback must still be what counts. */
async function waiting(hostile: (scene: Scene) => Promise<void>): Promise<void> {
  const own = await scene();
  let settled = false;
  const result = own.onRedirect(own.authorization);
  const note = () => {
    settled = true;
  };
  result.then(note, note);
  await hostile(own);
  expect(settled).toBe(false);
  expect((await fetch(own.callback('honest'))).status).toBe(200);
  expect((await result).searchParams.get('code')).toBe('honest');
  expect(own.clock.pendingTimers).toBe(0);
}

const good = `/callback?code=${CODE}&state=${STATE}`;

describe('another host: a name that was rebound to loopback', () => {
  it.each([
    ['a name', (port: number) => `evil.example:${port}`],
    ['localhost', (port: number) => `localhost:${port}`],
    ['another port', () => '127.0.0.1:1'],
    ['no port', () => '127.0.0.1'],
    ['another loopback address', (port: number) => `127.0.0.2:${port}`],
    ['the address as a prefix', (port: number) => `127.0.0.1:${port}.evil.example`],
    ['a user before it', (port: number) => `evil@127.0.0.1:${port}`],
    ['nothing', () => ''],
  ])('%s: 404 without a word', (_, host) =>
    waiting(async ({ port }) => {
      const answer = await get(port, good, host(port));
      expect(statusOf(answer)).toBe(404);
      expect(bodyOf(answer)).toBe('');
    }),
  );

  it('no Host at all', () =>
    waiting(async ({ port }) => {
      expect(statusOf(await exchange(port, `GET ${good} HTTP/1.1\r\n\r\n`))).toBe(400);
      expect(statusOf(await exchange(port, `GET ${good} HTTP/1.0\r\n\r\n`))).toBe(404);
    }));

  it('two: the first is not ours', () =>
    waiting(async ({ port }) => {
      const hosts = `Host: evil.example\r\nHost: 127.0.0.1:${port}`;
      const answer = await exchange(port, `GET ${good} HTTP/1.1\r\n${hosts}\r\n\r\n`);
      expect([400, 404]).toContain(statusOf(answer));
    }));
});

describe('another path: 404 without a word', () => {
  it.each([
    '/',
    '/favicon.ico',
    `/callback/?code=${CODE}&state=${STATE}`,
    `/Callback?code=${CODE}&state=${STATE}`,
    `//callback?code=${CODE}&state=${STATE}`,
    `/x/../callback?code=${CODE}&state=${STATE}`,
    `/%63allback?code=${CODE}&state=${STATE}`,
    `http://evil.example/callback?code=${CODE}&state=${STATE}`,
    `/callback;x?code=${CODE}&state=${STATE}`,
  ])('%s', (target) =>
    waiting(async ({ port }) => {
      const answer = await get(port, target);
      expect(statusOf(answer)).toBe(404);
      expect(bodyOf(answer)).toBe('');
    }),
  );
});

describe('another method', () => {
  it.each(['POST', 'HEAD', 'PUT', 'DELETE', 'OPTIONS', 'PATCH', 'TRACE'])(
    '%s: 405, GET is allowed',
    (method) =>
      waiting(async ({ port }) => {
        const head = `${method} ${good} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n`;
        const answer = await exchange(port, `${head}Content-Length: 0\r\n\r\n`);
        expect(statusOf(answer)).toBe(405);
        expect(answer.toLowerCase()).toContain('\r\nallow: get');
        expect(bodyOf(answer)).toBe('');
      }),
  );

  it('a form that is posted with the state in it', () =>
    waiting(async ({ redirectUri }) => {
      const body = new URLSearchParams({ code: CODE, state: STATE });
      expect((await fetch(redirectUri, { method: 'POST', body })).status).toBe(405);
    }));

  it('CONNECT and an upgrade', () =>
    waiting(async ({ port }) => {
      const host = `Host: 127.0.0.1:${port}\r\n`;
      expect(await exchange(port, `CONNECT 127.0.0.1:${port} HTTP/1.1\r\n${host}\r\n`)).toBe('');
      const upgrade = 'Connection: Upgrade\r\nUpgrade: websocket\r\n';
      expect(statusOf(await exchange(port, `GET /callback HTTP/1.1\r\n${host}${upgrade}\r\n`))).toBe(400);
    }));
});

describe('another state: answered, never shown, and the wait goes on', () => {
  it.each([
    ['none', `?code=${CODE}`],
    ['an empty one', `?code=${CODE}&state=`],
    ['a wrong one', `?code=${CODE}&state=guess`],
    ['part of it', `?code=${CODE}&state=${STATE.slice(0, -1)}`],
    ['more than it', `?code=${CODE}&state=${STATE}x`],
    ['in capitals', `?code=${CODE}&state=${STATE.toUpperCase()}`],
    ['the right one beside a wrong one', `?code=${CODE}&state=${STATE}&state=guess`],
    ['twice the right one', `?code=${CODE}&state=${STATE}&state=${STATE}`],
    ['under another name', `?code=${CODE}&State=${STATE}`],
    ['in a fragment', `?code=${CODE}#state=${STATE}`],
    ['no query', ''],
    ['markup', '?state=<script>alert(1)</script>&error_description=<img/src=x>'],
  ])('%s', (_, query) =>
    waiting(async ({ port }) => {
      const answer = await get(port, `/callback${query}`);
      expect(statusOf(answer)).toBe(400);
      expect(answer).not.toContain('close this window');
      for (const word of [CODE, STATE, 'guess', 'script', 'alert', 'img']) expect(answer).not.toContain(word);
    }),
  );

  it('two hundred guesses', () =>
    waiting(async ({ port }) => {
      for (let at = 0; at < 200; at++) {
        expect(statusOf(await get(port, `/callback?code=1&state=guess-${at}`))).toBe(400);
      }
    }));

  it('before anybody waits', async () => {
    const own = await scene();
    expect(statusOf(await get(own.port, good))).toBe(400);
    const result = own.onRedirect(own.authorization);
    await fetch(own.callback('honest'));
    expect((await result).searchParams.get('code')).toBe('honest');
  });
});

describe('limits', () => {
  it('a huge query is refused; a long code is not', async () => {
    await waiting(async ({ port }) => {
      const answer = await get(port, `${good}&x=${'x'.repeat(17 * 1024)}`);
      expect(statusOf(answer)).toBe(431);
      expect(answer).not.toContain(CODE);
    });
    const long = await scene();
    const result = long.onRedirect(long.authorization);
    await fetch(long.callback('c'.repeat(8 * 1024)));
    expect((await result).searchParams.get('code')).toHaveLength(8 * 1024);
  });

  it('huge headers are refused', () =>
    waiting(async ({ port }) => {
      const head = `GET ${good} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n`;
      expect(statusOf(await exchange(port, `${head}X-Filler: ${'x'.repeat(17 * 1024)}\r\n\r\n`))).toBe(431);
    }));

  it('what is no HTTP is refused', () =>
    waiting(async ({ port }) => {
      expect(statusOf(await exchange(port, '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n'))).toBe(
        400,
      );
    }));

  it.each([
    ['sends nothing', ''],
    ['never ends its head', 'GET /callback HTTP/1.1\r\nX-Slow: '],
    ['has not even ended its first line', `GET ${good}`],
  ])('a connection that %s is ended after 5 s', (_, text) =>
    waiting(async ({ port, clock }) => {
      const slow = await connected(port);
      slow.socket.write(text);
      await seen(port);
      await clock.advance(4_999);
      await seen(port);
      expect(slow.isClosed()).toBe(false);
      await clock.advance(1);
      expect(await slow.closed).toBe('');
    }),
  );

  it.each(['/', '/callback?state=guess'])(
    'one request for each connection: what follows %s is not read',
    (first) =>
      waiting(async ({ port }) => {
        const head = `HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: keep-alive\r\n\r\n`;
        const answer = await exchange(port, `GET ${first} ${head}GET ${good} ${head}`);
        expect(answer.toLowerCase()).toContain('\r\nconnection: close');
        expect(answer).not.toContain('close this window');
      }),
  );

  it('a body that never ends is not waited for', () =>
    waiting(async ({ port }) => {
      const head = `HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Length: 9\r\n\r\n1`;
      expect(statusOf(await exchange(port, `POST ${good} ${head}`))).toBe(405);
      expect(statusOf(await exchange(port, `GET /callback?state=guess ${head}`))).toBe(400);
    }));

  it('one that drips is ended all the same: the time is that of the whole request', () =>
    waiting(async ({ port, clock }) => {
      const slow = await connected(port);
      slow.socket.write(`GET ${good} HTTP/1.1\r\nX-Slow: `);
      for (let second = 0; second < 5; second++) {
        await seen(port);
        expect(slow.isClosed()).toBe(false);
        slow.socket.write('x');
        await clock.advance(1_000);
      }
      await slow.closed;
      expect(slow.received()).toBe('');
    }));

  it('of a hundred connections eight are held, and those give way to the user in time', () =>
    waiting(async ({ port, clock }) => {
      const crowd = await Promise.all(Array.from({ length: 100 }, () => connected(port)));
      const closed = () => crowd.filter((each) => each.isClosed()).length;
      await new Promise<void>((resolve) => {
        const look = () => {
          if (closed() >= 92) resolve();
        };
        for (const each of crowd) void each.closed.then(look);
      });
      await clock.settle();
      expect(closed()).toBe(92);
      expect(await get(port, good)).toBe('');
      await clock.advance(5_000);
      await Promise.all(crowd.map((each) => each.closed));
    }));

  it('eight requests that say nothing do not keep their places after an abort', async () => {
    const before = await heldServers();
    const stop = new AbortController();
    const own = await scene({ signal: stop.signal });
    const result = own.onRedirect(own.authorization);
    result.catch(() => {});
    const crowd = await Promise.all(Array.from({ length: 8 }, () => connected(own.port)));
    stop.abort();
    await expect(result).rejects.toMatchObject({ code: 'ERR_ABORTED' });
    await Promise.all(crowd.map((each) => each.closed));
    expect(await heldServers()).toBe(before);
    expect(own.clock.pendingTimers).toBe(0);
  });
});

async function connected(port: number): Promise<Peer> {
  const own = peer(port);
  await once(own.socket, 'connect');
  return own;
}

/** Connections are taken in order: once this one is answered, all before it have been seen. */
async function seen(port: number): Promise<void> {
  expect(statusOf(await get(port, '/'))).toBe(404);
}
