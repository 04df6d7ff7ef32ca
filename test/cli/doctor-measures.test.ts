/**
 * What `doctor` measures: idle limits on a manual clock, limits by their headers, times; and what it keeps to itself.
 */
import { describe, expect, test } from 'vitest';
import { type CommandIo, UsageError } from '../../src/cli/command.js';
import { aimAt, aimOf } from '../../src/cli/doctor/aim.js';
import { Line } from '../../src/cli/doctor/line.js';
import { proxyFor } from '../../src/cli/doctor/proxy.js';
import { Report, span } from '../../src/cli/doctor/report.js';
import { lookAtTls } from '../../src/cli/doctor/tls.js';
import { lookAtWay } from '../../src/cli/doctor/way.js';
import { Progress } from '../../src/cli/progress.js';
import type { Target } from '../../src/cli/target.js';
import { systemClock } from '../../src/clock.js';
import { type HostedServerOptions, manualClock } from '../../src/testing/index.js';
import {
  type Certificate,
  certificateFor,
  clientEnv,
  closedPort,
  closeLater,
  connectProxy,
  hosted,
  run,
  silentServer,
  throughTime,
  tlsServer,
  type World,
  webServer,
} from './doctor-support.js';

/** Runs on a manual clock that goes on by itself, in steps. */
async function onClock(
  options: HostedServerOptions,
  args: readonly string[],
  { stepMs = 500, world = {} as World } = {},
) {
  const clock = manualClock();
  const server = await hosted({ clock, ...options });
  const running = run([server.url, ...args], { env: clientEnv(server), clock, ...world });
  const ran = await throughTime(running, { clock, server, stepMs });
  return { server, clock, ...ran };
}

describe('--idle', () => {
  test.each([
    ['fin', 'FIN'],
    ['eof', 'end of answer'],
    ['reset', 'reset'],
  ] as const)('a cut by %s after 30 s: whole seconds, the shape, what to set', async (cutShape, shape) => {
    const { status, json, server } = await onClock({ idleCutMs: 30_000, cutShape }, ['--idle']);
    expect(status).toBe(1);
    expect(json.idle).toMatchObject({ limitMs: 30_000, shape, serverSpeaksEveryMs: null });
    expect(json.findings).toMatchObject([
      {
        section: 'idle',
        measured: `cut after 30 s of silence (${shape})`,
        set: expect.stringContaining('streams.idleLimitMs: 30000'),
      },
    ]);
    expect(server.counts).toMatchObject({ initializes: 2, deletes: 2, gets: 2, streamsOpen: 0 });
  });

  test('a limit of 90 s is worth knowing, no finding', async () => {
    const { status, json } = await onClock({ idleCutMs: 90_000 }, ['--idle'], { stepMs: 1_000 });
    expect(status).toBe(0);
    expect(json.idle.limitMs).toBe(90_000);
  });

  test('no cut: it stops at --max, with progress each second', async () => {
    const world = { isTTY: { stdout: false, stderr: true } };
    const { status, json, stderr, server } = await onClock({}, ['--idle', '--max', '7'], { world });
    expect(status).toBe(0);
    expect(json.idle).toMatchObject({ limitMs: null, shape: null, heldMs: 7_000, maxMs: 7_000 });
    for (const second of [1, 2, 3, 4, 5, 6]) expect(stderr).toContain(`for 7 s at most ... ${second} s`);
    expect(server.counts.streamsOpen).toBe(0);
  });

  test("the server's own keep-alive is told from the patience of the way", async () => {
    const { status, json } = await onClock({ heartbeatMs: 15_000, idleCutMs: 20_000 }, ['--idle']);
    expect(status).toBe(0);
    expect(json.idle.limitMs).toBeNull();
    expect(json.idle.serverSpeaksEveryMs).toBeGreaterThan(13_000);
    expect(json.idle.serverSpeaksEveryMs).toBeLessThanOrEqual(16_400);
    expect(json.findings).toEqual([]);
  });

  test('a cut at an age, although bytes flow, is no idle limit', async () => {
    const { json } = await onClock({ heartbeatMs: 2_000, ageCutMs: 25_000 }, ['--idle']);
    expect(json.idle).toMatchObject({ limitMs: null, ageLimitMs: 25_000 });
  });

  test('a server that offers no stream', async () => {
    const { status, json } = await onClock({ listen: false }, ['--idle']);
    expect(status).toBe(0);
    expect(json.idle).toMatchObject({ limitMs: null, shape: null });
  });

  test('a stream that ends at once is not a limit of 0 s', async () => {
    const server = await hosted();
    server.reply(
      { http: 'GET' },
      { chunks: [': hello\n\n'], headers: { 'content-type': 'text/event-stream' } },
    );
    const { status, json } = await run([server.url, '--idle'], { env: clientEnv(server) });
    expect(status).toBe(1);
    expect(json.idle.limitMs).toBeNull();
    expect(json.findings[0].measured).toMatch(/^ended at once/);
  });

  test('Ctrl-C while it holds: 130, the sessions deleted, nothing open', async () => {
    const server = await hosted();
    const stop = new AbortController();
    const listens = () =>
      server.log.some(({ http, status, tokenLabel }) => http === 'GET' && status === 200 && tokenLabel);
    const running = run([server.url, '--idle'], { env: clientEnv(server), signal: stop.signal });
    while (!listens()) await new Promise(setImmediate);
    stop.abort(new Error('stopped'));
    const { status, stdout } = await running;
    expect({ status, stdout }).toEqual({ status: 130, stdout: '' });
    expect(server.counts).toMatchObject({ initializes: 2, deletes: 2, streamsOpen: 0 });
  });

  test('Ctrl-C while the handshake is under way: its session is deleted, too', async () => {
    const clock = manualClock();
    const server = await hosted({ clock });
    server.replyOnce(
      { method: 'notifications/initialized' },
      { tool: 'run', headers: { 'content-type': 'application/json' }, chunks: [{ pauseMs: 1_000 }] },
    );
    const stop = new AbortController();
    const running = run([server.url], { env: clientEnv(server), signal: stop.signal, clock });
    while (!server.log.some(({ rpcMethod }) => rpcMethod === 'notifications/initialized'))
      await new Promise(setImmediate);
    stop.abort(new Error('stopped'));
    await clock.advance(1_000);
    expect((await running).status).toBe(130);
    expect(server.counts).toMatchObject({ initializes: 1, deletes: 1 });
  });
});

describe('limits', () => {
  const limit = (per: 'credential' | 'tenant', headers: 'ratelimit' | 'x-ratelimit' | 'none') =>
    ({ rateLimit: { limit: 60, intervalMs: 60_000, per, headers } }) as const;

  test.each([
    ['credential', 'ratelimit', 60_000],
    ['tenant', 'ratelimit', 60_000],
    ['credential', 'x-ratelimit', null],
    ['tenant', 'x-ratelimit', null],
  ] as const)('per %s, by %s', async (per, headers, windowMs) => {
    const server = await hosted(limit(per, headers));
    const { status, json } = await run([server.url, '--limit'], { env: clientEnv(server) });
    expect(status).toBe(0);
    expect(json.limits.published).toMatchObject([{ limit: 60, windowMs, per }]);
    expect(json.limits.published[0].remaining).toBeLessThan(60 - 20);
    expect(server.counts.rejectedByLimit).toBe(0);
  });

  test('without a credential nobody can tell whose it is', async () => {
    const server = await hosted({ auth: false, ...limit('tenant', 'ratelimit') });
    const { json } = await run([server.url, '--limit']);
    expect(json.limits.published).toMatchObject([{ limit: 60, per: 'cannot tell' }]);
  });

  test('no header says anything: cannot tell', async () => {
    const server = await hosted(limit('tenant', 'none'));
    const { status, stdout, json } = await run([server.url, '--limit'], { env: clientEnv(server) });
    expect(status).toBe(0);
    expect(json.limits.published).toEqual([]);
    expect(stdout).not.toContain('cannot tell whether');
    const { stdout: table } = await run(
      [server.url],
      { env: clientEnv(server), signal: new AbortController().signal },
      true,
    );
    expect(table).toContain('say nothing of a limit: cannot tell whether there is one');
  });

  test('--limit makes ten requests at most, and none is used up that an agent needs', async () => {
    const server = await hosted();
    await run([server.url, '--limit', '--calls', '1'], { env: clientEnv(server) });
    // One as a stranger, ten, and one that is timed.
    expect(server.counts.pings).toBe(12);
    const scarce = await hosted({
      rateLimit: { limit: 12, intervalMs: 60_000, per: 'tenant', headers: 'ratelimit' },
    });
    const { json } = await run([scarce.url, '--limit'], { env: clientEnv(scarce) });
    expect(json.limits.published[0].remaining).toBeGreaterThanOrEqual(1);
    expect(scarce.counts.rejectedByLimit).toBe(0);
  });

  test('a refusal met on the way is a finding, and ends the asking', async () => {
    const server = await hosted();
    server.reply({ method: 'ping' }, { status: 429, headers: { 'retry-after': '30' }, body: 'slow down' });
    const { status, json } = await run([server.url], { env: clientEnv(server) });
    expect(status).toBe(1);
    expect(json.limits.refused).toBe(1);
    expect(json.findings.map(({ name }: { name: string }) => name)).toContain('refused');
    // As a stranger, and the one that was refused.
    expect(server.counts.pings).toBe(2);
  });
});

describe('timing', () => {
  const TOOLS = [
    { name: 'look', annotations: { readOnlyHint: true } },
    { name: 'write', annotations: { readOnlyHint: false } },
    { name: 'unsaid' },
  ];

  test('a read-only tool, as often as asked', async () => {
    const server = await hosted({ tools: TOOLS });
    const { json } = await run([server.url, '--tool', 'look', '--calls', '5'], { env: clientEnv(server) });
    expect(json.timing).toMatchObject({ of: 'look', count: 5, failed: 0 });
    expect(server.counts.executions).toEqual({ look: 5 });
  });

  test.each(['write', 'unsaid', 'missing'])('%s is not called: 2', async (tool) => {
    const server = await hosted({ tools: TOOLS });
    const { status, stderr } = await run([server.url, '--tool', tool], { env: clientEnv(server) });
    expect(status).toBe(2);
    expect(stderr).toMatch(/^mcp-holdfast doctor: --tool: /);
    expect(server.counts.executions).toEqual({});
    expect(server.counts.deletes).toBe(1);
  });
});

describe('secrets', () => {
  /** Longer than any name that is shown. */
  const LONG = `canary-${'0123456789abcdef'.repeat(8)}`;
  const WHOLE_OR_PART = /canary-|0123456789abcdef01/;

  test.each([LONG, 'canary-short-token'])(
    'a server that echoes the token in its heads: %s',
    async (token) => {
      const seen: (string | undefined)[] = [];
      const url = await webServer(async (request, response) => {
        seen.push(request.headers.authorization);
        const message = JSON.parse(Buffer.concat(await request.toArray()).toString() || '{}');
        // Known from an earlier day: said to strangers, too.
        const echoed = {
          server: token,
          location: `https://${token}.example/`,
          'ratelimit-policy': `"${token}";q=90;w=60`,
          ratelimit: `"${token}";r=80;t=60`,
        };
        const answers: Record<string, unknown> = {
          initialize: {
            protocolVersion: '2025-11-25',
            capabilities: { [token]: {} },
            serverInfo: { name: token, version: token },
          },
          'tools/list': { tools: [{ name: token, description: token, inputSchema: { type: 'object' } }] },
          ping: {},
        };
        const result = answers[message.method];
        const isStranger = request.headers.authorization === undefined;
        response.writeHead(isStranger ? 307 : result === undefined ? 202 : 200, {
          ...echoed,
          'content-type': 'application/json',
        });
        response.end(result === undefined ? '' : JSON.stringify({ jsonrpc: '2.0', id: message.id, result }));
      });
      const world = { env: { HOLDFAST_TOKEN: token }, isTTY: { stdout: true, stderr: true } };
      const outputs = [
        await run([`${url}/mcp?plain=canary-query`, '--limit'], world),
        await run([`${url}/mcp`, '--limit', '--lapse'], world, true),
      ];
      expect(outputs.map(({ status }) => status)).toEqual([1, 1]);
      expect(outputs[0]?.json.way.post).toMatchObject({
        server: '[redacted]',
        redirectOrigin: 'https://[redacted].example',
      });
      expect(outputs[0]?.json.limits.published).toMatchObject([{ limit: 90, name: '[redacted]' }]);
      expect(outputs[0]?.json.mcp.serverInfo.name).toBe('[redacted]');
      for (const { stdout, stderr } of outputs) expect(stdout + stderr).not.toMatch(WHOLE_OR_PART);
      expect(seen).toContain(`Bearer ${token}`);
    },
  );

  test.each([LONG, 'canary-short-token'])('a failure that echoes it: %s', async (token) => {
    const url = await webServer(({ headers }, response) => {
      const type = headers.authorization === undefined ? 'text/html' : `text/${token}`;
      response.writeHead(404, { 'content-type': type, server: 'x' }).end(token);
    });
    const { status, stdout, stderr } = await run([`${url}/mcp`], { env: { HOLDFAST_TOKEN: token } });
    expect(status).toBe(12);
    expect(stderr).toContain('text/[redacted] (status 404)');
    expect(stdout + stderr).not.toMatch(WHOLE_OR_PART);
  });

  test('a token endpoint that echoes the client secret', async () => {
    const server = await hosted();
    const { id, secret } = server.client;
    const body = { error: 'invalid_client', error_description: `no such ${id} ${secret}` };
    server.failTokenEndpoint({ status: 400, body });
    const { status, stdout, stderr } = await run([server.url], { env: clientEnv(server) });
    expect(status).toBe(13);
    expect(stdout + stderr).not.toContain(secret);
  });
});

describe('TLS', () => {
  const look = (url: string, certificate?: Certificate, proxy?: URL, timeoutMs = 5_000) =>
    lookAtTls({
      url: new URL(url),
      tls: certificate === undefined ? undefined : { ca: certificate.cert },
      proxy,
      timeoutMs,
      clock: systemClock(),
      signal: new AbortController().signal,
    });

  test('a certificate for another name, from an authority that is trusted', async () => {
    const certificate = certificateFor('elsewhere.example', 90);
    const url = await tlsServer(certificate, (_, response) => void response.end());
    expect(await look(url, certificate)).toMatchObject({
      kind: 'seen',
      failure: 'ERR_TLS_CERT_ALTNAME_INVALID',
    });
  });

  test('through a proxy: its credential goes to the proxy, and the certificate is the one of the server', async () => {
    const certificate = certificateFor('localhost', 90);
    const url = await tlsServer(certificate, (_, response) => void response.end());
    const { port } = new URL(url);
    const proxy = await connectProxy(200, Number(port));
    expect(await look(url, certificate, proxy.url)).toMatchObject({ kind: 'seen', failure: undefined });
    const basic = Buffer.from('user:canary-password').toString('base64');
    expect(proxy.asked).toEqual([`localhost:${port} Basic ${basic}`]);
  });

  test('a proxy that does not lead there, and one that is not there', async () => {
    const proxy = await connectProxy(407, 1);
    expect(await look('https://localhost:1', undefined, proxy.url)).toEqual({
      kind: 'proxy-refuses',
      status: 407,
    });
    const nobody = new URL(`http://127.0.0.1:${await closedPort()}`);
    expect(await look('https://localhost:1', undefined, nobody)).toMatchObject({ kind: 'unreachable' });
  });

  test('a host that accepts and says nothing is not waited for longer than said', async () => {
    const url = (await silentServer()).replace('http:', 'https:');
    expect(await look(url, undefined, undefined, 20)).toEqual({ kind: 'no-tls', code: 'ETIMEDOUT' });
  });

  test('one that is trusted and ends in five days is a finding', async () => {
    const certificate = certificateFor('localhost', 5);
    const url = await tlsServer(certificate, (_, response) => void response.writeHead(401).end());
    const clock = systemClock();
    const aim = aimAt('test', `${url}/mcp`, { http: { tls: { ca: certificate.cert } } }, clock);
    const line = new Line(aim, clock);
    closeLater(() => line.close());
    const report = new Report(aim.shownUrl, clock.now());
    const io = { clock, stderr: { write: () => {} }, isTTY: { stdout: false, stderr: false }, env: {} };
    const progress = new Progress(io as never);
    await lookAtWay({ aim, line, report, clock, progress, env: {}, signal: new AbortController().signal });
    expect(report.exitCode).toBe(1);
    expect(report.rows.find(({ level }) => level === 'finding')).toMatchObject({
      name: 'TLS',
      measured: expect.stringMatching(/^TLSv1\.3, issued by Test Authority, [45] days left$/),
    });
    expect(report.facts.way).toMatchObject({ post: { status: 401, challenges: [] }, tls: { trusted: true } });
  });
});

describe('the proxy of the environment', () => {
  const PROXY = 'http://user:canary-password@proxy.example:3128';
  const at = (url: string, noProxy = '') => {
    const before = process.env.https_proxy;
    process.env.https_proxy = PROXY;
    try {
      return proxyFor(new URL(url), 'env', { no_proxy: noProxy });
    } finally {
      if (before === undefined) delete process.env.https_proxy;
      else process.env.https_proxy = before;
    }
  };

  test.each([
    ['https://mcp.example.com/mcp', '', true],
    ['https://localhost/mcp', '', false],
    ['https://127.0.0.1:8443/mcp', '', false],
    ['https://mcp.example.com/mcp', 'example.com', false],
    ['https://mcp.example.com/mcp', '.example.com, other', false],
    ['https://mcp.example.com/mcp', '*.example.com', false],
    ['https://mcp.example.com/mcp', 'example.com:8443', true],
    ['https://mcp.example.com:8443/mcp', 'example.com:8443', false],
    ['https://notexample.com/mcp', 'example.com', true],
    ['https://mcp.example.com/mcp', '*', false],
  ])('%s with NO_PROXY=%j: %s', (url, noProxy, isUsed) => {
    expect(at(url, noProxy).proxy?.origin).toBe(isUsed ? 'http://proxy.example:3128' : undefined);
  });

  test('off where the option says so', () => {
    expect(proxyFor(new URL('https://mcp.example.com'), false, {}).proxy).toBeUndefined();
  });
});

describe('an entry of a configuration', () => {
  const io = { clock: systemClock() } as CommandIo;
  const target = (config: object) => ({ label: 'servers.json#files', config }) as unknown as Target;

  test('one that has an address, with what it resolves to', async () => {
    const resolve = async () => ({
      url: 'https://mcp.example.com/canary-path/mcp',
      credentials: 'some-token',
      http: { headers: { 'x-tenant': 'canary' } },
    });
    const shownUrl = `https://mcp.example.com/\${PATH}/mcp`;
    const aim = await aimOf(target({ kind: 'http', shownUrl, resolve }), io);
    expect(aim).toMatchObject({
      shownUrl,
      http: { headers: { 'x-tenant': 'canary' } },
      credentials: { id: 'bearer' },
    });
    expect(aim.url.pathname).toBe('/canary-path/mcp');
  });

  test.each([
    ['that is started here', { kind: 'stdio' }, /only one that has an address/],
    [
      'with plain http off loopback',
      { kind: 'http', resolve: async () => ({ url: 'http://mcp.example.com/mcp' }) },
      /Plain http is refused/,
    ],
  ])('one %s: refused by its name', async (_, config, words) => {
    const refused = await aimOf(target(config), io).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(UsageError);
    expect((refused as Error).message).toMatch(/^servers\.json#files: /);
    expect((refused as Error).message).toMatch(words);
  });
});

test.each([
  [12, '12 ms'],
  [3_005, '3 s'],
  [2_795, '3 s'],
  [3_600_000, '60 min'],
  [14 * 86_400_000, '14 days'],
])('%d ms are %s', (ms, words) => expect(span(ms)).toBe(words));
