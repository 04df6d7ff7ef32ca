/**
 * `mcp-holdfast bridge --login`: a user's consent, asked for by the program as it is built, with a browser that a test
 * drives, judged at the authorization server and in the store.
 */
import { chmod, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { portFor } from '../../src/cli/bridge/login.js';
import { startWorld, type World } from '../unit/credentials/authorization/support.js';
import { eventually, RawHost, textOf } from './bridge-support.js';
import { folder, run } from './support.js';

interface Desk {
  readonly cwd: string;
  readonly world: World;
  /** The addresses that the browser was given. */
  opened(): Promise<string[]>;
  launch(args?: readonly string[], env?: Record<string, string>): RawHost;
}

/** `waits`: the user does nothing before the file `consent` is there. `fails`: there is no browser. */
async function desk(user: 'consents' | 'waits' | 'has no browser' = 'consents'): Promise<Desk> {
  const world = await startWorld();
  const cwd = await folder();
  const bin = join(cwd, 'bin');
  await mkdir(bin);
  const goes = `
const { appendFileSync, existsSync, watch } = require('node:fs');
const [, , url] = process.argv;
appendFileSync(${JSON.stringify(join(cwd, 'opened'))}, url + '\\n');
const go = () => fetch(url).then(() => process.exit(0), () => process.exit(0));
const consent = ${JSON.stringify(join(cwd, 'consent'))};
if (${user === 'consents'} || existsSync(consent)) go();
else watch(${JSON.stringify(cwd)}, () => existsSync(consent) && go());
`;
  const program = user === 'has no browser' ? 'process.exit(3)' : goes;
  for (const name of ['xdg-open', 'open']) {
    await writeFile(join(bin, name), `#!${process.execPath}\n${program}`);
    await chmod(join(bin, name), 0o755);
  }
  return {
    cwd,
    world,
    opened: async () => {
      const text = await readFile(join(cwd, 'opened'), 'utf8').catch(() => '');
      return text.split('\n').filter((line) => line !== '');
    },
    launch: (args = [], env = {}) =>
      new RawHost([world.mcp.url.href, '--login', '--log-level', 'debug', ...args], {
        cwd,
        env: { HOME: cwd, PATH: `${bin}:${process.env.PATH ?? ''}`, ...env },
      }),
  };
}

async function calls(host: RawHost, id: string, name: string): Promise<string> {
  return textOf((await host.ask(id, 'tools/call', { name })).result);
}

async function end(host: RawHost): Promise<void> {
  host.child.stdin?.end();
  expect((await host.exited).status).toBe(0);
  // Throws for a byte that is no JSON-RPC.
  expect(host.heard.messages.length).toBeGreaterThan(0);
}

/** Of the test's authorization server: its name is part of each. */
const SECRETS = /first-(?:token|refresh|code)-\d/;

it('one consent, kept: no second one after a restart, nor when the token lapses', async () => {
  const { cwd, world, opened, launch } = await desk();
  const { as, mcp } = world;
  const first = launch();
  expect((await first.initialize()).result).toMatchObject({ serverInfo: { name: 'resource' } });
  expect(await calls(first, 'a', 'one')).toBe('one');
  await end(first);
  const second = launch();
  await second.initialize();
  mcp.expireTokens();
  expect(await calls(second, 'b', 'two')).toBe('two');
  await end(second);

  expect(mcp.executions).toEqual(['one', 'two']);
  expect(as.counts).toMatchObject({ authorize: 1, register: 1, token: 2 });
  expect(await opened()).toHaveLength(1);
  const [{ redirect_uris: uris } = {}] = as.registrations;
  expect(uris).toEqual([`http://127.0.0.1:${portFor(mcp.url)}/callback`]);
  const store = join(cwd, '.local/state/mcp-holdfast');
  expect((await stat(store)).mode & 0o777).toBe(0o700);
  const files = await readdir(store);
  expect(files.filter((file) => file.endsWith('.json')).length).toBeGreaterThan(0);
  for (const file of files) expect((await stat(join(store, file))).mode & 0o777).toBe(0o600);
  for (const host of [first, second]) {
    expect(host.stderr).not.toMatch(SECRETS);
    expect(host.heard.text).not.toMatch(SECRETS);
  }
  expect(first.stderr).toContain('The user is asked for consent');
});

it('hosts that launch it at the same time ask the user once', async () => {
  const { cwd, world, opened, launch } = await desk('waits');
  const hosts = [launch(), launch(), launch()];
  const handshakes = hosts.map((host) => host.initialize());
  await eventually(async () => (await opened()).length).toBe(1);
  await eventually(() => hosts.filter(({ stderr }) => stderr.includes('in use')).length).toBe(2);
  await writeFile(join(cwd, 'consent'), '');
  for (const handshake of handshakes) expect((await handshake).error).toBeUndefined();
  for (const [at, host] of hosts.entries()) expect(await calls(host, 'a', `call-${at}`)).toBe(`call-${at}`);
  expect(world.as.counts).toMatchObject({ authorize: 1, register: 1 });
  expect(await opened()).toHaveLength(1);
  expect(world.mcp.executions).toHaveLength(3);
  for (const host of hosts) await end(host);
});

it('a process that is killed in the middle of a consent blocks nobody', async () => {
  const { cwd, world, opened, launch } = await desk('waits');
  const killed = launch();
  void killed.initialize().catch(() => {});
  await eventually(async () => (await opened()).length).toBe(1);
  const next = launch();
  const handshake = next.initialize();
  await eventually(() => next.stderr).toContain('in use');
  killed.child.kill('SIGKILL');
  await eventually(async () => (await opened()).length).toBe(2);
  await writeFile(join(cwd, 'consent'), '');
  expect((await handshake).error).toBeUndefined();
  expect(world.as.counts).toMatchObject({ token: 1 });
});

it('a user who says no: typed, told, and no browser after browser', async () => {
  const { world, opened, launch } = await desk();
  world.as.answer = 'access_denied';
  const host = launch();
  for (const id of ['a', 'b', 'c']) {
    const { error } = await host.initialize(id);
    expect(error).toMatchObject({
      code: -32015,
      data: { holdfast: { code: 'ERR_REAUTHORIZATION_REQUIRED', executed: false } },
    });
  }
  expect(await opened()).toHaveLength(1);
  expect(host.stderr).toMatch(/bridge: error: .*127\.0\.0\.1/);
  await end(host);
});

it('without a browser the address is on standard error, and the consent still counts', async () => {
  const { world, launch } = await desk('has no browser');
  const host = launch();
  const handshake = host.initialize();
  await eventually(() => host.stderr).toContain('To authorize, open ');
  const address = /To authorize, open (\S+)/.exec(host.stderr)?.[1] ?? '';
  expect(host.heard.text).toBe('');
  const back = await world.as.browse(address);
  expect((await fetch(back)).status).toBe(200);
  expect((await handshake).error).toBeUndefined();
  await end(host);
});

it('the end of the input ends a consent, too, and gives the port free', async () => {
  const { world, opened, launch } = await desk('waits');
  const host = launch();
  void host.initialize().catch(() => {});
  await eventually(async () => (await opened()).length).toBe(1);
  host.child.stdin?.end();
  expect((await host.exited).status).toBe(0);
  await (await bound(portFor(world.mcp.url))).close();
});

it('the port is free when the command has returned, not only with the end of its process', async () => {
  const { cwd, world } = await desk('waits');
  vi.stubEnv('PATH', join(cwd, 'bin'));
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'x', version: '1' } };
  const stdin = `${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params })}\n`;
  const ran = await run(['bridge', world.mcp.url.href, '--login', '--store', 'mine'], { cwd, stdin });
  vi.unstubAllEnvs();
  expect(ran.status).toBe(0);
  expect(ran.stderr).toContain('The user is asked');
  await (await bound(portFor(world.mcp.url))).close();
});

describe('what the command line and the environment say of the client', () => {
  it('a client id, a scope, a port, a folder', async () => {
    const { cwd, world, opened, launch } = await desk();
    const port = await freePort();
    const host = launch(
      ['--client-id', 'my-client', '--scope', 'read write', '--port', String(port), '--store', 'mine'],
      { XDG_STATE_HOME: join(cwd, 'elsewhere') },
    );
    await host.initialize();
    const [asked = ''] = await opened();
    const { searchParams: query } = new URL(asked);
    expect(query.get('client_id')).toBe('my-client');
    expect(query.get('scope')).toBe('read write');
    expect(query.get('redirect_uri')).toBe(`http://127.0.0.1:${port}/callback`);
    expect(world.as.counts.register).toBe(0);
    expect((await stat(join(cwd, 'mine'))).mode & 0o777).toBe(0o700);
    await end(host);
    await expect(stat(join(cwd, 'elsewhere'))).rejects.toThrow('ENOENT');
  });

  it('a confidential client of the environment, at the issuer that is named', async () => {
    const { cwd, world, launch } = await desk();
    const { as } = world;
    as.clients.set('kept', {
      redirectUris: [`http://127.0.0.1:${portFor(world.mcp.url)}/callback`],
      secret: 'canary-client-secret',
    });
    const host = launch([], {
      XDG_STATE_HOME: join(cwd, 'state'),
      HOLDFAST_CLIENT_ID: 'kept',
      HOLDFAST_CLIENT_SECRET: 'canary-client-secret',
      HOLDFAST_ISSUER: as.issuer,
    });
    expect((await host.initialize()).error).toBeUndefined();
    await end(host);
    expect(host.stderr).not.toContain('canary-client-secret');
    expect((await stat(join(cwd, 'state', 'mcp-holdfast'))).mode & 0o777).toBe(0o700);
  });

  it.each([
    ['a token beside it', [], { HOLDFAST_TOKEN: 'canary-token' }],
    ['a token file beside it', ['--token-file', 'x'], {}],
    ['a secret without a client', [], { HOLDFAST_CLIENT_SECRET: 'canary-secret' }],
    ['a secret without an issuer', ['--client-id', 'a'], { HOLDFAST_CLIENT_SECRET: 'canary-secret' }],
    ['two clients', ['--client-id', 'a'], { HOLDFAST_CLIENT_ID: 'canary-b' }],
    ['a port that is none', ['--port', '70000'], {}],
    ['metadata by plain http', ['--client-metadata-url', 'http://canary.example/x'], {}],
  ] as const)('%s is refused before anything is asked', async (_, args, env) => {
    const { world, launch } = await desk();
    const host = launch(args, env);
    expect((await host.exited).status).toBe(2);
    expect(host.stderr).toMatch(/^mcp-holdfast bridge: .+\n$/);
    expect(host.stderr).not.toContain('canary');
    expect(host.heard.text).toBe('');
    expect(world.mcp.requests).toHaveLength(0);
  });
});

async function bound(port: number): Promise<{ close(): Promise<unknown>; port: number }> {
  const server: Server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', resolve);
  });
  const { port: given } = server.address() as { port: number };
  return { port: given, close: () => new Promise((resolve) => server.close(resolve)) };
}

async function freePort(): Promise<number> {
  const probe = await bound(0);
  await probe.close();
  return probe.port;
}
