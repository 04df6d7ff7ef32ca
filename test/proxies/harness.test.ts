/**
 * The proxies themselves: what every test behind them relies on, and what the simulator's `idleCutMs` imitates.
 */
import { spawnSync } from 'node:child_process';
import { afterEach, describe, expect, test } from 'vitest';
import { type HostedServer, type HostedServerOptions, startHostedServer } from '../../src/testing/index.js';
import { connect, readUntil, textOf } from '../unit/testing/support.js';
import { proxiesMissing, type RunningProxy, startHaproxy, startNginx } from './proxy.js';

const IDLE_MS = 1_000;
/** HAProxy holds small writes back by some 210 ms: the client sees the cut that much earlier. */
const EARLY_MS = 300;
const STARTERS = { nginx: startNginx, HAProxy: startHaproxy };

const open: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

async function behind(
  name: keyof typeof STARTERS,
  options: HostedServerOptions,
): Promise<{ server: HostedServer; proxied: HostedServer; proxy: RunningProxy }> {
  const server = await startHostedServer({ auth: false, ...options });
  open.push(() => server.close());
  const proxy = await STARTERS[name](Number(new URL(server.url).port), { idleMs: IDLE_MS });
  open.push(() => proxy.close());
  const proxied = Object.create(server, { url: { value: `${proxy.url}/mcp` } }) as HostedServer;
  return { server, proxied, proxy };
}

describe.skipIf(proxiesMissing !== undefined)('the proxies', () => {
  describe.each(['nginx', 'HAProxy'] as const)('%s', (name) => {
    test('passes calls, as JSON and as a stream', async () => {
      const { server, proxied } = await behind(name, {});
      const peer = await connect(proxied, '');
      expect(await textOf(await peer.call('echo', { text: 'through' }))).toBe('through');
      server.set({ answer: 'sse' });
      expect(await textOf(await peer.call('echo', { text: 'streamed' }))).toBe('streamed');
      expect(server.counts.executions).toEqual({ echo: 2 });
    });

    test('passes a notification at once, cuts the stream at its limit, and frees the slot', async () => {
      const { server, proxied } = await behind(name, {});
      const peer = await connect(proxied, '');
      const stream = await peer.get();
      server.notify('notifications/message', { n: 1 });
      await readUntil(stream, (text) => text.includes('"n":1'));
      const since = performance.now();
      const cut = await readUntil(stream, () => false).then(
        (text) => ({ text }),
        (error: { cause?: { code?: string } }) => error.cause?.code,
      );
      expect(cut).toBe('UND_ERR_SOCKET');
      expect(performance.now() - since).toBeGreaterThan(IDLE_MS - EARLY_MS);
      expect((await peer.get()).status).toBe(200);
    });

    test('answers 504 with a page for an answer that does not begin', async () => {
      const { server, proxied } = await behind(name, { answer: 'json' });
      const peer = await connect(proxied, '');
      const since = performance.now();
      const late = await peer.call('slow', { ms: 60_000 });
      expect([late.status, late.headers.get('content-type')]).toEqual([504, expect.stringContaining('html')]);
      expect(performance.now() - since).toBeGreaterThan(IDLE_MS - EARLY_MS);
      expect(server.counts.executions).toEqual({ slow: 1 });
    });

    test('is gone after close(), which may be called twice', async () => {
      const { proxy } = await behind(name, {});
      await Promise.all([proxy.close(), proxy.close()]);
      await proxy.close();
      await expect(fetch(proxy.url)).rejects.toThrow();
    });
  });

  test('a proxy that cannot start says why', async () => {
    // No such port: the configuration is refused.
    await expect(startNginx(70_000)).rejects.toThrow(/nginx did not start: .*invalid port/s);
    await expect(startHaproxy(70_000)).rejects.toThrow(/haproxy did not start: .*70000/s);
  });
});

describe('ensure-tools.sh', () => {
  const run = (args: string[], env: NodeJS.ProcessEnv = process.env) =>
    spawnSync('sh', ['scripts/ensure-tools.sh', ...args], { encoding: 'utf8', env });

  test('what is there is not looked for any further', () => {
    expect(run(['--check', 'flock', 'unshare'])).toMatchObject({ status: 0, stdout: '', stderr: '' });
  });

  test('misuse is status 2', () => {
    expect(run([]).status).toBe(2);
    expect(run(['--check', 'no-such-tool'])).toMatchObject({
      status: 2,
      stderr: "ensure-tools: no package is known for 'no-such-tool'\n",
    });
  });
});
