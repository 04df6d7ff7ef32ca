/**
 * `doctor` against the simulator, and against what is no MCP server at all. Judged by its exit status, its JSON
 * and what the server has seen.
 */
import { rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { formatSnapshot, makeSnapshot } from '../../src/contract/index.js';
import { manualClock } from '../../src/testing/index.js';
import {
  certificateFor,
  clientEnv,
  closedPort,
  closeLater,
  hosted,
  run,
  silentServer,
  throughTime,
  tlsServer,
  webServer,
} from './doctor-support.js';

const lines = (text: string) => text.split('\n').filter((line) => line !== '');

describe('a server that is well', () => {
  test('exit status 0, every section, and nothing left at the server', async () => {
    const server = await hosted();
    const { status, json, stderr } = await run([server.url], { env: clientEnv(server) });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(json).toMatchObject({
      doctor: 1,
      url: server.url,
      exitCode: 0,
      findings: [],
      way: {
        addresses: ['127.0.0.1'],
        proxy: null,
        tls: null,
        post: { status: 401, challenges: ['bearer'] },
      },
      mcp: {
        protocolVersion: '2025-11-25',
        era: 'initialize',
        serverInfo: { name: 'mcp-holdfast-simulator' },
        tools: 4,
      },
      credential: {
        configured: true,
        generation: 1,
        refreshable: 'not measured',
        sessionBoundToToken: 'not measured',
      },
      idle: null,
      limits: { refused: 0, published: [] },
      timing: { of: 'ping', count: 20, failed: 0 },
    });
    expect(json.credential.lifetimeMs).toBeGreaterThan(3_500_000);
    expect(json.mcp.digest).toMatch(/^[0-9a-f]{64}$/);
    expect(json.timing.p99Ms).toBeGreaterThanOrEqual(json.timing.p50Ms);
    expect(server.counts).toMatchObject({
      initializes: 1,
      deletes: 1,
      pings: 21,
      streamsOpen: 0,
      executions: {},
    });
  });

  test('the table says the same, section by section', async () => {
    const server = await hosted();
    const { status, stdout } = await run([server.url], { env: clientEnv(server) }, true);
    expect(status).toBe(0);
    expect(stdout).toMatch(/^http:\/\/127.*\n\nThe way\n {2}ok {7}address/);
    expect(stdout).toMatch(/token +lives another 60 min \(generation 1\)/);
    expect(stdout).toMatch(/means: a limit would be met/);
    expect(stdout).toMatch(/No finding\. Exit status 0\.\n$/);
    expect(stdout).not.toContain('\u001b');
    const { stdout: painted } = await run(
      [server.url],
      { env: clientEnv(server), isTTY: { stdout: true, stderr: false } },
      true,
    );
    expect(painted).toContain('\u001b[32mok');
  });

  test('one that speaks the later era only is examined as well', async () => {
    const server = await hosted({ protocolVersion: '2026-07-28' });
    const { status, json } = await run([server.url, '--lapse'], { env: clientEnv(server) });
    expect(status).toBe(0);
    expect(json.mcp).toMatchObject({
      era: 'stateless',
      protocolVersion: '2026-07-28',
      tools: 4,
      session: false,
    });
    expect(json.credential.sessionBoundToToken).toBe('no');
    expect(json.timing).toMatchObject({ of: 'server/discover', count: 20 });
  });

  test('one of protocol 2024-11-05 as well', async () => {
    const server = await hosted({ transport: 'legacy-sse' });
    const { status, json } = await run([server.url], { env: clientEnv(server) });
    expect(status).toBe(0);
    expect(json).toMatchObject({ mcp: { transport: 'http+sse', tools: 4 }, timing: { count: 20 } });
    await vi.waitFor(() => expect(server.counts.streamsOpen).toBe(0));
  });
});

describe('failures: a status of its own, and one clear line', () => {
  const failed = async (args: readonly string[], env: Record<string, string> = {}) => {
    const ran = await run(args, { env });
    expect(lines(ran.stderr)).toHaveLength(1);
    expect(ran.json).toMatchObject({ exitCode: ran.status, findings: [{ level: 'failure' }] });
    return ran;
  };

  test.each([
    ['a wrong token', { HOLDFAST_TOKEN: 'wrong-token' }, /the credential is refused \(status 401\)/],
    ['none at all', {}, /the server asks for a credential, and none is configured/],
  ])('%s: 13', async (_, env: Record<string, string>, line) => {
    const server = await hosted();
    const { status, stderr } = await failed([server.url], env);
    expect(status).toBe(13);
    expect(stderr).toMatch(line);
    expect(stderr).toMatch(/^mcp-holdfast doctor: http:\/\/127\.0\.0\.1:\d+\/mcp: /);
    expect(server.counts.initializes).toBe(1);
  });

  test('a wrong client secret: 13, and no session is asked for', async () => {
    const server = await hosted();
    const env = { ...clientEnv(server), HOLDFAST_CLIENT_SECRET: 'wrong-secret' };
    const { status, stderr } = await failed([server.url], env);
    expect(status).toBe(13);
    expect(stderr).not.toContain('wrong-secret');
    // It is not the MCP server that refuses.
    expect(stderr).not.toContain('the credential is refused');
    expect(server.counts.initializes).toBe(0);
  });

  test('a refusal by a gateway (403): 13', async () => {
    const server = await hosted();
    server.reply(
      { method: 'initialize' },
      { status: 403, headers: { 'content-type': 'text/html' }, body: '<p>no' },
    );
    expect((await failed([server.url], clientEnv(server))).status).toBe(13);
  });

  test('nothing listens there: 10', async () => {
    const { status, stderr, json } = await failed([`http://127.0.0.1:${await closedPort()}/mcp`]);
    expect(status).toBe(10);
    expect(stderr).toMatch(/the host cannot be reached: nothing listens on that port\n$/);
    expect(json.mcp).toBeNull();
  });

  test('nothing listens there, by https: 10', async () => {
    const { status } = await failed([`https://127.0.0.1:${await closedPort()}/mcp`]);
    expect(status).toBe(10);
  });

  test('a name that nobody knows: 10', async () => {
    const { status, stderr } = await failed(['https://no-such-host.invalid/mcp']);
    expect(status).toBe(10);
    expect(stderr).toMatch(/no-such-host\.invalid: .*DNS/);
  });

  test('a host that accepts and says nothing: 10, after its time', async () => {
    const clock = manualClock();
    const url = `${await silentServer()}/mcp`;
    let ended = false;
    const running = run([url], { clock }).finally(() => {
      ended = true;
    });
    while (!ended) await clock.advance(5_000);
    const { status, stderr } = await running;
    expect(status).toBe(10);
    expect(stderr).toMatch(/it does not answer in time/);
  });

  test('a gateway without a server behind it (502): 10', async () => {
    const url = await webServer(
      (_, response) => void response.writeHead(502, { 'content-type': 'text/html' }).end('<h1>'),
    );
    expect((await failed([`${url}/mcp`])).status).toBe(10);
  });

  test('a certificate signed by itself: 11, with the reason, and no request is made', async () => {
    let requests = 0;
    const url = await tlsServer(certificateFor('localhost', 90), (_, response) => {
      requests += 1;
      response.end();
    });
    const { status, stderr, json } = await failed([`${url}/mcp`], { HOLDFAST_TOKEN: 'some-token' });
    expect(status).toBe(11);
    expect(stderr).toMatch(
      /not trusted: the certificate is signed by itself \(DEPTH_ZERO_SELF_SIGNED_CERT\)/,
    );
    expect(json.way.tls).toMatchObject({ trusted: false, issuer: 'Test Authority', protocol: 'TLSv1.3' });
    expect([89, 90]).toContain(json.way.tls.daysLeft);
    expect(requests).toBe(0);
  });

  test('what listens there does not speak TLS: 11', async () => {
    const url = await webServer((_, response) => void response.end());
    const { status, stderr } = await failed([`${url.replace('http:', 'https:')}/mcp`]);
    expect(status).toBe(11);
    expect(stderr).toMatch(/TLS fails: /);
  });

  test.each([
    [
      'a page instead of MCP',
      200,
      'text/html; charset=utf-8',
      '<!doctype html><h1>Welcome</h1>',
      /text\/html \(status 200\)/,
    ],
    ['a page that is not there', 404, 'text/html', '<h1>Not found</h1>', /text\/html \(status 404\)/],
    ['JSON that is no JSON-RPC', 200, 'application/json', '{"hello":"world"}', /No session/],
  ])('%s: 12', async (_, code, type, body, line) => {
    const url = await webServer(
      (__, response) => void response.writeHead(code, { 'content-type': type }).end(body),
    );
    const { status, stderr } = await failed([`${url}/mcp`], { HOLDFAST_TOKEN: 'some-token' });
    expect(status).toBe(12);
    expect(stderr).toMatch(line);
  });

  test.each([
    [['--max', '0'], /--max must be a whole number from 1/],
    [['--calls', 'many'], /--calls must be/],
    [['--idel'], /did you mean --idle/],
    [['--token', 'x'], /secrets are never arguments/],
    [['--snapshot', 'no-such-file.json'], /no such file/],
  ])('%j: 2, before any I/O', async (args, line) => {
    const server = await hosted();
    const { status, stderr, stdout } = await run([server.url, ...args]);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr).toMatch(line);
    expect(server.counts.requests).toBe(0);
  });
});

describe('findings', () => {
  test('a redirect elsewhere: where the credential would go, and it does not go there', async () => {
    const seen: (string | undefined)[] = [];
    const other = await webServer(({ headers }, response) => {
      seen.push(headers.authorization);
      response.end();
    });
    const url = await webServer(
      (_, response) => void response.writeHead(307, { location: `${other}/mcp` }).end(),
    );
    const { status, json } = await run([`${url}/mcp`], { env: { HOLDFAST_TOKEN: 'some-token' } });
    expect(status).toBe(12);
    expect(json.way.post).toMatchObject({ status: 307, redirectOrigin: other });
    expect(json.findings[0]).toMatchObject({
      name: 'redirect',
      level: 'finding',
      measured: `307 to ${other}`,
    });
    expect(seen).toEqual([]);
  });

  test('a contract that is not as it was reviewed', async () => {
    const server = await hosted({ tools: [{ name: 'one', description: 'now another' }] });
    const reviewed = makeSnapshot({
      protocolVersion: '2025-11-25',
      capabilities: {},
      serverInfo: { name: 'mcp-holdfast-simulator', version: '1.0.0' },
      tools: [{ name: 'one', description: 'as reviewed', inputSchema: { type: 'object' } }],
      takenAt: new Date(0),
    });
    const file = join(tmpdir(), `holdfast-doctor-${process.pid}.json`);
    closeLater(() => rm(file, { force: true }));
    await writeFile(file, formatSnapshot(reviewed));
    const { status, json } = await run([server.url, '--snapshot', file], { env: clientEnv(server) });
    expect(status).toBe(1);
    expect(json.mcp.diff.level).toBe('behaviour');
    expect(json.findings).toMatchObject([
      { section: 'mcp', name: 'contract', set: expect.stringContaining('contract.pinned') },
    ]);
  });

  test('a list of tools that has no end', async () => {
    const server = await hosted();
    server.reply({ method: 'tools/list' }, { status: 200, body: '{"jsonrpc":"2.0","id":1,"result":{}}' });
    const { status, json } = await run([server.url], { env: clientEnv(server) });
    expect(status).toBe(1);
    expect(json.findings).toMatchObject([{ section: 'mcp', name: 'tools' }]);
  });
});

describe('--lapse', () => {
  test.each([
    ['token', 'yes', 1],
    ['none', 'no', 0],
  ] as const)('sessions bound to %s: %s', async (bindSession, bound, exit) => {
    const server = await hosted({ bindSession });
    const { status, json } = await run([server.url, '--lapse'], { env: clientEnv(server) });
    expect(status).toBe(exit);
    expect(json.credential).toMatchObject({ refreshable: 'yes', generation: 2, sessionBoundToToken: bound });
    expect(server.counts.tokenRequests).toBe(2);
    expect(server.counts.deletes).toBe(server.counts.initializes);
  });

  const READ_ONLY = { name: 'look', annotations: { readOnlyHint: true } };
  const NOT_FOUND = {
    status: 404,
    headers: { 'content-type': 'application/json' },
    body: { jsonrpc: '2.0', id: null, error: { code: -32001, message: 'Session not found' } },
  };

  test('a session that a restart ended meanwhile is not called bound', async () => {
    const server = await hosted({ tools: [READ_ONLY] });
    // As a stranger, with the renewed token, with the old one; outside of a session the server speaks for itself.
    server.replyOnce({ method: 'ping' }, NOT_FOUND);
    server.replyOnce({ method: 'ping' }, NOT_FOUND);
    server.replyOnce({ method: 'ping' }, NOT_FOUND);
    const { json, stdout } = await run([server.url, '--lapse', '--tool', 'look'], { env: clientEnv(server) });
    expect(json.credential.sessionBoundToToken).toBe('not measured');
    expect(stdout).not.toContain('session.boundToToken');
    expect(server.counts.pings).toBe(1 + 3);
  });

  test('a server that refuses the renewed token on every session is not called bound either', async () => {
    const server = await hosted({ tools: [READ_ONLY] });
    let renewed: unknown;
    server.reply(
      { method: 'ping' },
      {
        headers: { 'content-type': 'application/json' },
        chunks: ({ headers: { authorization }, message }) => {
          renewed ??= authorization;
          const isRefused = renewed !== undefined && authorization === renewed;
          const answer = isRefused
            ? { error: { code: -32001, message: 'Session not found' } }
            : { result: {} };
          return [JSON.stringify({ jsonrpc: '2.0', id: message?.id, ...answer })];
        },
      },
    );
    const { json } = await run([server.url, '--lapse', '--tool', 'look'], { env: clientEnv(server) });
    expect(json.credential.sessionBoundToToken).toBe('not measured');
  });

  test('a renewal that ends the old token at once: bound all the same', async () => {
    const server = await hosted({ bindSession: 'token', tools: [READ_ONLY] });
    const refused = { status: 401, headers: { 'www-authenticate': 'Bearer' }, body: 'revoked' };
    server.replyOnce({ method: 'ping' }, refused);
    server.replyOnce({ method: 'ping' }, NOT_FOUND);
    server.replyOnce({ method: 'ping' }, refused);
    server.replyOnce({ method: 'ping' }, refused);
    const { json } = await run([server.url, '--lapse', '--tool', 'look'], { env: clientEnv(server) });
    expect(json.credential.sessionBoundToToken).toBe('yes');
    expect(json.findings[0].measured).toMatch(/the renewal ended the old one/);
  });

  test('a fixed token: not measured, and said so', async () => {
    const server = await hosted();
    const { status, json } = await run([server.url, '--lapse'], {
      env: { HOLDFAST_TOKEN: server.issueToken() },
    });
    expect(status).toBe(0);
    expect(json.credential).toMatchObject({ refreshable: 'no', sessionBoundToToken: 'not measured' });
  });

  test.each([
    ['bearer', 'challenged', 0],
    ['none', 'refused', 1],
  ] as const)('a token that lapses meanwhile, challenge %s: %s', async (challenge, lapsed, exit) => {
    const clock = manualClock();
    const server = await hosted({ clock, challenge, tokenLifetimeMs: 60_000 });
    const running = run([server.url, '--lapse'], { env: clientEnv(server), clock });
    const { status, json } = await throughTime(running, { clock, server, stepMs: 1_000 });
    expect(json.credential).toMatchObject({
      lapsedToken: lapsed,
      streamOverLapse: 'kept',
      lifetimeMs: 60_000,
    });
    expect(status).toBe(exit);
    const old = server.log.filter(({ rpcMethod }) => rpcMethod === 'ping').at(-1);
    expect(old).toMatchObject({ status: 401, tokenLabel: 'token#1' });
    expect(server.counts.streamsOpen).toBe(0);
  });

  test('a stream that the server ends with its token', async () => {
    const clock = manualClock();
    const server = await hosted({ clock, tokenLifetimeMs: 60_000, ageCutMs: 60_500 });
    const running = run([server.url, '--lapse'], { env: clientEnv(server), clock });
    const { json } = await throughTime(running, { clock, server, stepMs: 250 });
    expect(json.credential).toMatchObject({ lapsedToken: 'challenged', streamOverLapse: 'cut' });
  });

  test('one that outlives --max is not waited for', async () => {
    const server = await hosted();
    const { stdout } = await run([server.url, '--lapse', '--max', '5'], { env: clientEnv(server) }, true);
    expect(stdout).toMatch(/lapsed token +not measured: it lives another 60 min, and 5 s are waited at most/);
  });
});
