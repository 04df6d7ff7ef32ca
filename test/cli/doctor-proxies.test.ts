/**
 * `doctor` against the simulator behind a real nginx, in real time.
 */
import { describe, expect, test } from 'vitest';
import { proxiesMissing, startHaproxy, startNginx } from '../proxies/proxy.js';
import { closeLater, hosted, issuerFor, run } from './doctor-support.js';

describe.skipIf(proxiesMissing !== undefined)('behind a proxy that cuts after 3 s', () => {
  test.each([
    ['nginx', startNginx],
    ['HAProxy', startHaproxy],
  ] as const)('%s: idle limit, token lifetime, bound sessions, limit', async (name, start) => {
    const server = await hosted({
      bindSession: 'token',
      rateLimit: { limit: 100, intervalMs: 60_000, per: 'credential', headers: 'ratelimit' },
    });
    const proxy = await start(Number(new URL(server.url).port), { idleMs: 3_000 });
    closeLater(() => proxy.close());
    const url = `${proxy.url}/mcp`;
    const args = [url, '--idle', '--max', '20', '--lapse', '--limit'];
    const { status, json, stderr } = await run(args, { env: await issuerFor(server) });

    expect({ status, stderr }).toEqual({ status: 1, stderr: '' });
    expect(json.idle).toMatchObject({ limitMs: 3_000, shape: 'FIN' });
    expect(json.credential.lifetimeMs).toBeGreaterThan(3_500_000);
    expect(json.credential.sessionBoundToToken).toBe('yes');
    expect(json.limits.published).toMatchObject([{ limit: 100, windowMs: 60_000, per: 'credential' }]);
    if (name === 'nginx') expect(json.way.post.server).toMatch(/^nginx/);
    expect(json.findings.map(({ section }: { section: string }) => section).sort()).toEqual([
      'credential',
      'idle',
    ]);
    expect(json.findings.find(({ section }: { section: string }) => section === 'idle').set).toBe(
      'streams.idleLimitMs: 3000, http.keepAliveTimeoutMs: 1000; at the server: keep-alive comments more often than that',
    );
    expect(server.counts.deletes).toBe(server.counts.initializes);
  });
});
