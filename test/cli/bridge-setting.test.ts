/**
 * `mcp-holdfast bridge`: which server, which credential, which headers; as it is built.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { portFor } from '../../src/cli/bridge/login.js';
import { COMMANDS } from '../../src/cli/commands.js';
import { eventually, RawHost, startServer, stockHost, textOf } from './bridge-support.js';
import { folder, run } from './support.js';

const CANARY = 'canary-of-a-secret-1234';

async function echoed(host: RawHost, text: string): Promise<string> {
  return textOf((await host.ask(text, 'tools/call', { name: 'echo', arguments: { text } })).result);
}

describe('a server of a configuration file', () => {
  it.each([
    ['the only one', 1, ['servers.json']],
    ['by --server', 2, ['servers.json', '--server', 'hosted']],
    ['by its name behind the file', 2, ['servers.json#hosted']],
  ] as const)('%s, with the token that its entry names', async (_, count, args) => {
    const server = await startServer();
    // biome-ignore lint/suspicious/noTemplateCurlyInString: read by the command
    const hosted = { url: server.url, headers: { Authorization: 'Bearer ${TOKEN}' } };
    const servers = { hosted, ...(count > 1 && { other: { url: 'http://127.0.0.1:1/mcp' } }) };
    const cwd = await folder({ 'servers.json': JSON.stringify({ mcpServers: servers }) });
    const token = server.issueToken();
    const host = await stockHost([...args, '--log-level', 'debug'], { cwd, env: { TOKEN: token } });
    const result = await host.client.callTool({ name: 'echo', arguments: { text: 'hi' } });
    expect(textOf(result)).toBe('hi');
    await host.client.close();
    expect(`${host.stderr()}${host.heard.text}`).not.toContain(token);
    expect(host.stderr()).toContain('A session was established');
  });

  it.each([
    ['no such server', ['servers.json', '--server', 'hostde'], /Did you mean hosted/],
    ['one that is a command', ['servers.json', '--server', 'local'], /started by a command/],
    ['none of two', ['servers.json'], /Which of its servers/],
    ['no such file', ['nowhere.json'], /nowhere\.json: There is no such file/],
    ['a name for an address', ['https://mcp.example.com/mcp', '--server', 'x'], /--server names an entry/],
    ['no address, no file', [], /One address or configuration expected/],
    ['a token in the address', [`https://mcp.example.com/mcp?token=${CANARY}`], /carries what looks like/],
    ['a token as an option', ['https://mcp.example.com/mcp', '--token', CANARY], /never arguments/],
    [
      'a value for --header-env',
      ['https://mcp.example.com/mcp', '--header-env', `X=Key ${CANARY}`],
      /NAME=VARIABLE/,
    ],
    [
      'a variable that is not set',
      ['https://mcp.example.com/mcp', '--header-env', 'X-Key=NOT_SET'],
      /is not set/,
    ],
    [
      'a header that no one may set',
      ['https://mcp.example.com/mcp', '--header-env', 'Mcp-Session-Id=KEY'],
      /mcp-session-id/i,
    ],
    ['plain http', ['http://mcp.example.com/mcp'], /https|plain/i],
    ['a level that is none', ['https://mcp.example.com/mcp', '--log-level', 'loud'], /--log-level must be/],
    ['an option of --login', ['https://mcp.example.com/mcp', '--port', '4711'], /--port is for --login/],
  ] as const)('%s: one line, exit 2', async (_, args, why) => {
    const servers = { hosted: { url: 'https://mcp.example.com/mcp' }, local: { command: 'true' } };
    const cwd = await folder({ 'servers.json': JSON.stringify({ mcpServers: servers }) });
    const ran = await run(['bridge', ...args], { cwd, env: { KEY: CANARY } });
    expect(ran).toMatchObject({ status: 2, stdout: '' });
    expect(ran.stderr).toMatch(why);
    expect(ran.stderr.split('\n')).toHaveLength(2);
    expect(ran.stderr).not.toContain(CANARY);
  });
});

describe('the credential', () => {
  it('of HOLDFAST_TOKEN', async () => {
    const server = await startServer();
    const HOLDFAST_TOKEN = server.issueToken();
    const host = new RawHost([server.url], { env: { HOLDFAST_TOKEN } });
    await host.initialize();
    expect(await echoed(host, 'a')).toBe('a');
    expect(`${host.stderr}${host.heard.text}`).not.toContain(HOLDFAST_TOKEN);
  });

  it('of a file that comes late, and is written anew when its token has lapsed', async () => {
    const server = await startServer();
    const cwd = await folder();
    const host = new RawHost([server.url, '--token-file', 'token'], { cwd });
    expect((await host.initialize(1)).error?.data?.holdfast).toMatchObject({ code: 'ERR_CREDENTIAL_SOURCE' });
    await eventually(() => host.stderr).toMatch(/bridge: error: .*token file/);
    await writeFile(join(cwd, 'token'), `${server.issueToken()}\n`);
    expect((await host.initialize(2)).error).toBeUndefined();
    server.expireTokens();
    await writeFile(join(cwd, 'token'), `${server.issueToken()}\n`);
    expect(await echoed(host, 'b')).toBe('b');
    expect(server.counts.executions.echo).toBe(1);
  });

  it('refused: the host and a person are told, and what to do', async () => {
    const server = await startServer();
    const host = new RawHost([server.url], { env: { HOLDFAST_TOKEN: CANARY } });
    const { error } = await host.initialize();
    expect(error).toMatchObject({ code: -32015, data: { holdfast: { executed: false } } });
    await eventually(() => host.stderr).toMatch(/error: .*refused the credential.*HOLDFAST_TOKEN.*--login/);
    expect(`${host.stderr}${host.heard.text}`).not.toContain(CANARY);
    expect(host.child.exitCode).toBe(null);
  });

  it('headers from variables go to the server, and nowhere else', async () => {
    const server = await startServer({ auth: false });
    const host = new RawHost(
      [
        server.url,
        '--header-env',
        'X-Api-Key=KEY',
        '--header-env',
        'X-Tenant=TENANT',
        '--log-level',
        'debug',
      ],
      { env: { KEY: CANARY, TENANT: 'acme' } },
    );
    await host.initialize();
    await echoed(host, 'a');
    expect(server.log.length).toBeGreaterThan(2);
    for (const { headers } of server.log)
      expect(headers).toMatchObject({ 'x-api-key': CANARY, 'x-tenant': 'acme' });
    host.child.stdin?.end();
    await host.exited;
    expect(`${host.stderr}${host.heard.text}`).not.toContain(CANARY);
  });
});

it('--json: each line of the log is an object', async () => {
  const server = await startServer({ auth: false });
  const host = new RawHost([server.url, '--json', '--log-level', 'debug']);
  await host.initialize();
  await echoed(host, 'a');
  host.say('not JSON');
  host.child.stdin?.end();
  await host.exited;
  const lines = host.stderr
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(lines.length).toBeGreaterThan(5);
  for (const line of lines) {
    expect(line).toEqual(expect.objectContaining({ time: expect.any(String), level: expect.any(String) }));
  }
  expect(lines.map(({ event }) => event)).toEqual(
    expect.arrayContaining(['session-established', 'call', 'exchange', 'host-line-refused']),
  );
});

it('the help fits a terminal, and is no start', async () => {
  const ran = await run(['bridge', '--help']);
  expect(ran).toMatchObject({ status: 0, stderr: '' });
  for (const line of ran.stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(100);
  const overview = (await run(['--help'])).stdout;
  expect(overview).toContain('  bridge  ');
  expect(COMMANDS.filter(({ isService }) => isService).map(({ name }) => name)).toEqual(['bridge']);
});

it('the port of a server is the same each time, and that of another is another', () => {
  const port = portFor(new URL('https://mcp.example.com/mcp'));
  expect(portFor(new URL('https://mcp.example.com/mcp?tenant=1'))).toBe(port);
  expect(port).toBeGreaterThanOrEqual(20_000);
  const others = [
    'https://mcp.example.com/other',
    'https://mcp.example.org/mcp',
    'http://127.0.0.1:8080/mcp',
  ];
  for (const other of others) expect(portFor(new URL(other))).not.toBe(port);
});
