import { createServer as createHttp } from 'node:http';
import { createServer as createHttps } from 'node:https';
import { type AddressInfo, createServer } from 'node:net';
import { beforeAll, describe, expect, it } from 'vitest';
import { UsageError } from '../../src/cli/command.js';
import { EXIT, exitCodeOf } from '../../src/cli/exit-codes.js';
import { failureLine } from '../../src/cli/failure-line.js';
import { HostedMcpError, type HostedMcpErrorCode, SnapshotError } from '../../src/index.js';
import { type HostedServerOptions, startHostedServer } from '../../src/testing/index.js';
import { type Certificate, httpServer, listen, makeCertificate } from '../unit/http/support.js';
import { closeLater, folder, run } from './support.js';

const CANARY = 'canary-7f3a9c51d2e8';

let certificate: Certificate;
beforeAll(async () => {
  certificate = await makeCertificate();
});

async function start(options: HostedServerOptions = {}) {
  const server = await startHostedServer(options);
  closeLater(() => server.close());
  return server;
}

/** One failure, by an address and by an entry of a file: one clear line, nothing on standard output, its status. */
async function failing(url: string, status: number, words: RegExp, env: Record<string, string> = {}) {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: read by the command
  const entry = { url, ...(env.HOLDFAST_TOKEN !== undefined && { auth: { token: '${HOLDFAST_TOKEN}' } }) };
  const cwd = await folder({ 's.json': JSON.stringify({ mcpServers: { one: entry } }) });
  for (const [target, label] of [
    [url, new URL(url).origin],
    ['s.json', 's.json#one'],
  ] as const) {
    const ran = await run(['snapshot', target, '--json'], { cwd, env });
    expect({ status: ran.status, stdout: ran.stdout }).toEqual({ status, stdout: '' });
    expect(ran.stderr).toMatch(/^[^\n]+\n$/);
    expect(ran.stderr).toContain(`mcp-holdfast snapshot: ${label}`);
    expect(ran.stderr).toMatch(words);
    expect(ran.stderr).not.toContain(CANARY);
    expect(ran.stderr).not.toMatch(/The call/);
  }
}

describe('10: unreachable', () => {
  it('nothing listens', async () => {
    const closed = createServer();
    const port = await listen(closed);
    await new Promise((resolve) => closed.close(resolve));
    await failing(`http://127.0.0.1:${port}/mcp`, 10, /nothing listens at that port/);
  });
  it('no such host', () => failing('https://no-such-host.invalid/mcp', 10, /no such host|DNS/));
  it('it hangs up at once', async () => {
    const server = createServer((socket) => socket.destroy());
    await listen(server);
    closeLater(async () => server.close());
    await failing(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`, 10, /hung up|cut off/);
  });
  it.each([502, 503, 504, 500])('a gateway that answers %d', async (status) => {
    const url = await httpServer((_, response) => response.writeHead(status).end(`<html>${CANARY}`));
    await failing(url, 10, new RegExp(`status ${status}`));
  });
  it('a pause that was asked for', async () => {
    const url = await httpServer((_, response) => response.writeHead(429, { 'retry-after': '3000' }).end());
    await failing(url, 10, /limits how often|rate limit|pause/);
  });
});

describe('11: TLS', () => {
  async function tls(): Promise<string> {
    const server = createHttps({ ...certificate }, (_, response) => response.end());
    const port = await listen(server);
    closeLater(async () => server.close());
    return `https://localhost:${port}/mcp`;
  }
  it('a certificate that nobody here vouches for', async () => {
    await failing(await tls(), 11, /TLS: .*not signed by an authority.*NODE_EXTRA_CA_CERTS/);
  });
  it('https to a port that speaks http', async () => {
    // As gateways do: a page that says what the port is for.
    const port = await listen(createHttp((_, response) => response.end()));
    await failing(`https://127.0.0.1:${port}/mcp`, 11, /TLS: what answers does not speak TLS/);
  });
});

describe('12: no MCP server', () => {
  it.each<[what: string, status: number, type: string, body: string]>([
    ['a web page', 200, 'text/html', `<!doctype html><title>${CANARY}</title>`],
    ['a login page that is not there', 404, 'text/html', CANARY],
    ['an answer of another kind of API', 200, 'application/json', `{"status":"${CANARY}"}`],
    ['damaged JSON', 200, 'application/json', `{"jsonrpc":`],
    ['nothing at all', 200, 'application/json', ''],
    ['405', 405, 'text/plain', CANARY],
    ['400', 400, 'application/json', `{"error":"${CANARY}"}`],
  ])('%s', async (_what, status, type, body) => {
    const url = await httpServer((_, response) =>
      response.writeHead(status, { 'content-type': type }).end(body),
    );
    await failing(url, 12, /not an MCP endpoint, or not at this path/);
  });
  it('a redirect elsewhere: the credential does not follow it', async () => {
    let followed = 0;
    const other = await httpServer((_, response) => {
      followed++;
      response.end();
    });
    const url = await httpServer((_, response) => response.writeHead(302, { location: other }).end());
    await failing(url, 12, /redirect/, { HOLDFAST_TOKEN: CANARY });
    expect(followed).toBe(0);
  });
  it('a server that refuses to open a session', async () => {
    const url = await httpServer(async (request, response) => {
      let body = '';
      for await (const chunk of request) body += chunk;
      const { id } = JSON.parse(body || '{}') as { id?: unknown };
      const error = { code: -32602, message: `Unsupported client: ${CANARY}` };
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ jsonrpc: '2.0', id, error }));
    });
    await failing(url, 12, /refused to open a session/);
  });
});

describe('13: credential', () => {
  it('none where one is wanted', async () => {
    const server = await start();
    await failing(server.url, 13, /credential/);
  });
  it('a wrong one', async () => {
    const server = await start();
    await failing(server.url, 13, /check the credential: HOLDFAST_TOKEN/, { HOLDFAST_TOKEN: CANARY });
  });
  it('one that has expired', async () => {
    const server = await start();
    const token = server.issueToken();
    server.expireTokens();
    await failing(server.url, 13, /credential/, { HOLDFAST_TOKEN: token });
  });
  it('403 without a word', async () => {
    const url = await httpServer((_, response) => response.writeHead(403).end(CANARY));
    await failing(url, 13, /check the credential/, { HOLDFAST_TOKEN: CANARY });
  });
  it.each<[what: string, reply: { status: number; headers?: object; body?: object }, words: RegExp]>([
    [
      'a wrong client secret',
      { status: 401, body: { error: 'invalid_client' } },
      /client|credential|refused/i,
    ],
    ['a token endpoint that is down', { status: 503, headers: { 'retry-after': '3000' } }, /token/i],
  ])('%s', async (_what, reply, words) => {
    const server = await start();
    server.failTokenEndpoint(reply as never);
    const env = {
      HOLDFAST_ISSUER: server.issuer,
      HOLDFAST_CLIENT_ID: server.client.id,
      HOLDFAST_CLIENT_SECRET: CANARY,
    };
    const { status, stdout, stderr } = await run(['snapshot', server.url], { env });
    expect({ status, stdout }).toEqual({ status: 13, stdout: '' });
    expect(stderr).toMatch(words);
    expect(stderr).not.toContain(CANARY);
  });
});

describe('exitCodeOf', () => {
  const failure = (code: HostedMcpErrorCode, fields = {}) => new HostedMcpError(code, 'Something', fields);

  it.each<[error: unknown, status: number]>([
    [new UsageError('x'), EXIT.usage],
    [new SnapshotError('duplicate-tool'), EXIT.finding],
    [failure('ERR_NOT_SENT'), EXIT.unreachable],
    [failure('ERR_NOT_SENT', { cause: { code: 'CERT_HAS_EXPIRED' } }), EXIT.tls],
    [failure('ERR_NOT_SENT', { cause: failure('ERR_NOT_SENT', { cause: { code: 'EPROTO' } }) }), EXIT.tls],
    [
      failure('ERR_OUTCOME_UNKNOWN', { cause: { code: 'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED' } }),
      EXIT.tls,
    ],
    // The way to the token endpoint is the credential's.
    [failure('ERR_TOKEN_ENDPOINT', { cause: { code: 'CERT_HAS_EXPIRED' } }), EXIT.credential],
    [failure('ERR_HTTP_STATUS', { status: 404 }), EXIT.notMcp],
    [failure('ERR_HTTP_STATUS', { status: 403 }), EXIT.credential],
    [failure('ERR_HTTP_STATUS', { status: 501 }), EXIT.notMcp],
    [failure('ERR_HTTP_STATUS', { status: 502 }), EXIT.unreachable],
    [failure('ERR_ABORTED'), EXIT.interrupted],
    [new Error('wrapped', { cause: failure('ERR_REDIRECT') }), EXIT.notMcp],
    [Object.assign(new Error('x'), { name: 'McpError', code: -32000 }), EXIT.notMcp],
    [new TypeError('x'), EXIT.defect],
    [undefined, EXIT.defect],
    ['text', EXIT.defect],
  ])('%s: %d', (error, status) => {
    expect(exitCodeOf(error)).toBe(status);
  });

  it('a foreign error is named, its words are not shown', () => {
    const error = Object.assign(new RangeError(`token ${CANARY}\nsecond line`), { code: 'E_ODD' });
    expect(failureLine(error, 'here')).toBe(
      'here: An unexpected failure, and a fault of this program: RangeError E_ODD.',
    );
    expect(failureLine(Object.assign(new Error('x'), { name: `a ${CANARY}` }))).not.toContain(CANARY);
  });
});
