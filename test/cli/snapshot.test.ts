import { EventEmitter, once } from 'node:events';
import { chmod, mkdir, open, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseSnapshot } from '../../src/contract/index.js';
import type { HttpFetch } from '../../src/index.js';
import { type HostedServer, type HostedServerOptions, startHostedServer } from '../../src/testing/index.js';
import { httpServer } from '../unit/http/support.js';
import { closeLater, folder, run, startFakeServer } from './support.js';

const CANARY = 'canary-7f3a9c51d2e8';

async function start(options: HostedServerOptions = {}): Promise<HostedServer> {
  const server = await startHostedServer(options);
  closeLater(() => server.close());
  return server;
}

const clientOf = (server: HostedServer) => ({
  HOLDFAST_ISSUER: server.issuer,
  HOLDFAST_CLIENT_ID: server.client.id,
  HOLDFAST_CLIENT_SECRET: server.client.secret,
});

describe('snapshot', () => {
  it('of a server, with a token of the environment, to standard output', async () => {
    const server = await start();
    const env = { HOLDFAST_TOKEN: server.issueToken() };
    const { status, stdout, stderr } = await run(['snapshot', server.url, '--env', 'staging'], { env });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    const taken = parseSnapshot(stdout);
    expect(taken).toMatchObject({ environment: 'staging', url: server.url });
    expect(taken.tools.map(({ name }) => name)).toEqual(['add', 'echo', 'fail', 'slow']);
    expect(stdout).not.toContain(env.HOLDFAST_TOKEN);
    // Nothing is left at the server.
    expect(server.log.at(-1)).toMatchObject({ http: 'DELETE' });
  });

  it('with client credentials of the environment', async () => {
    const server = await start();
    const { status, stdout, stderr } = await run(['snapshot', server.url], { env: clientOf(server) });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(stdout + stderr).not.toContain(server.client.secret);
    expect(server.counts.tokenRequests).toBe(1);
  });

  it('all pages; resources and prompts when asked for', async () => {
    const tools = Array.from({ length: 25 }, (_, at) => ({ name: `tool${at}` }));
    const server = await start({ tools, pageSize: 10, auth: false });
    const plain = parseSnapshot((await run(['snapshot', server.url])).stdout);
    expect(plain.tools).toHaveLength(25);
    expect([plain.resources, plain.prompts]).toEqual([undefined, undefined]);
    const { stdout } = await run(['snapshot', server.url, '--resources', '--prompts']);
    const whole = parseSnapshot(stdout);
    expect([whole.resources, whole.prompts]).toMatchObject([[{ uri: 'memo://welcome' }], []]);
  });

  it('to a file: whole, and what was written is told', async () => {
    const server = await start({ auth: false });
    const cwd = await folder({ 'old.json': 'old' });
    await chmod(join(cwd, 'old.json'), 0o640);
    const text = await run(['snapshot', server.url, '-o', 'old.json'], { cwd });
    expect(text.stdout).toMatch(/^old\.json: 4 tools, contract [0-9a-f]{16}\n$/);
    const taken = parseSnapshot(await readFile(join(cwd, 'old.json'), 'utf8'));
    expect((await stat(join(cwd, 'old.json'))).mode & 0o777).toBe(0o640);
    const json = await run(['snapshot', server.url, '--output', 'new.json', '--json'], { cwd });
    expect(JSON.parse(json.stdout)).toEqual({ file: 'new.json', tools: 4, digest: taken.digest });
    expect((await readdir(cwd)).sort()).toEqual(['new.json', 'old.json']);
    const out = await run(['snapshot', server.url, '-o', '-'], { cwd });
    expect(parseSnapshot(out.stdout).digest).toBe(taken.digest);
  });

  it('replaces a file in one step: whoever has it open goes on with the old one', async () => {
    const server = await start({ auth: false });
    const cwd = await folder({ 'old.json': 'old' });
    const reader = await open(join(cwd, 'old.json'));
    closeLater(() => reader.close());
    expect(await run(['snapshot', server.url, '-o', 'old.json'], { cwd })).toMatchObject({ status: 0 });
    expect(await reader.readFile('utf8')).toBe('old');
    expect(await readFile(join(cwd, 'old.json'), 'utf8')).not.toBe('old');
  });

  it('through a link to the file it stands for, and into what is no file', async () => {
    const server = await start({ auth: false });
    const cwd = await folder();
    await mkdir(join(cwd, 'real'));
    await writeFile(join(cwd, 'real/contract.json'), 'old');
    await symlink('real/contract.json', join(cwd, 'link.json'));
    expect(await run(['snapshot', server.url, '-o', 'link.json'], { cwd })).toMatchObject({ status: 0 });
    expect(parseSnapshot(await readFile(join(cwd, 'real/contract.json'), 'utf8')).tools).toHaveLength(4);
    expect(await run(['snapshot', server.url, '-o', '/dev/null'], { cwd })).toMatchObject({ status: 0 });
    expect((await stat('/dev/null')).isCharacterDevice()).toBe(true);
  });

  it('a file that could not be written is refused before the server is asked', async () => {
    const server = await start({ auth: false });
    const cwd = await folder();
    for (const [name, words] of [
      ['.', 'This is a directory'],
      ['none/x.json', 'There is no directory'],
    ] as const) {
      const { status, stdout, stderr } = await run(['snapshot', server.url, '-o', name], { cwd });
      expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
      expect(stderr).toContain(`${name}: ${words}`);
    }
    expect(server.counts.requests).toBe(0);
  });

  it('a failure leaves the old file as it was, and nothing beside it', async () => {
    const cwd = await folder({ 'old.json': 'old' });
    const twins = await startFakeServer({ tools: [{ name: 'twin' }, { name: 'twin' }] });
    const nameless = await startFakeServer({ tools: [{ title: 'nobody' }] });
    const broken = await start({ auth: false, pageSize: 2 });
    broken.reply({ method: 'tools/list' }, { status: 500, body: 'oh' });
    for (const [server, status] of [
      [twins, 1],
      [nameless, 1],
      [broken, 10],
    ] as const) {
      const ran = await run(['snapshot', server.url, '-o', 'old.json'], { cwd });
      expect(ran).toMatchObject({ status, stdout: '' });
      expect(await readFile(join(cwd, 'old.json'), 'utf8')).toBe('old');
      expect(await readdir(cwd)).toEqual(['old.json']);
    }
  });

  it('stopped in the middle: 130, the old file as it was, the session deleted', async () => {
    const server = await start({ auth: false });
    server.reply({ method: 'tools/list' }, { silence: true });
    const cwd = await folder({ 'old.json': 'old' });
    const stop = new AbortController();
    const running = run(['snapshot', server.url, '-o', 'old.json'], { cwd, signal: stop.signal });
    await expect.poll(() => server.log.some(({ rpcMethod }) => rpcMethod === 'tools/list')).toBe(true);
    stop.abort(new Error('stopped'));
    expect(await running).toEqual({ status: 130, stdout: '', stderr: '' });
    expect(await readdir(cwd)).toEqual(['old.json']);
    expect(await readFile(join(cwd, 'old.json'), 'utf8')).toBe('old');
    expect(server.log.at(-1)).toMatchObject({ http: 'DELETE' });
  });

  it('stopped before the server has answered: the request is given up', async () => {
    const events = new EventEmitter();
    const url = await httpServer((_, response) => {
      response.once('close', () => events.emit('given up'));
      events.emit('asked');
    });
    const stop = new AbortController();
    const [asked, givenUp] = [once(events, 'asked'), once(events, 'given up')];
    const running = run(['snapshot', url], { signal: stop.signal });
    await asked;
    stop.abort(new Error('stopped'));
    expect(await running).toEqual({ status: 130, stdout: '', stderr: '' });
    // The handshake's own bound, 15 s, would end it, too.
    await givenUp;
  }, 7_000);

  it.each(['a token of the environment', 'a token it was granted'])(
    '%s that the server echoes is not kept',
    async (what) => {
      const server = await start({ tools: [{ name: 'whoami', description: 'You are AUTHORIZATION' }] });
      const env = what.endsWith('granted') ? clientOf(server) : { HOLDFAST_TOKEN: server.issueToken() };
      const seen = new Set<string>();
      // The server says to each caller what it was called with.
      const echoing: HttpFetch = async (url, init) => {
        const answer = await fetch(url, init as RequestInit);
        const sent = init.headers.authorization?.split(' ')[1] ?? '';
        if (url === server.url) seen.add(sent);
        const { status, headers } = answer;
        const text = (await answer.text()).replaceAll('AUTHORIZATION', sent);
        return new Response(status === 202 || status === 405 ? null : text, { status, headers });
      };
      const ran = await run(['snapshot', server.url], { env, fetch: echoing });
      expect({ status: ran.status, stderr: ran.stderr }).toEqual({ status: 0, stderr: '' });
      expect(seen.size).toBe(1);
      for (const token of seen) expect(ran.stdout).not.toContain(token);
      expect(parseSnapshot(ran.stdout).tools[0]?.definition.description).toBe('You are [redacted]');
    },
  );
});

describe('snapshot: secrets', () => {
  it.each([
    [`https://user:${CANARY}@127.0.0.1:9/mcp`, 'a user name or password'],
    [`https://${CANARY}@127.0.0.1:9/mcp`, 'a user name or password'],
    [`https://127.0.0.1:9/mcp?token=${CANARY}`, 'in its query'],
    [`https://127.0.0.1:9/mcp?api_key=${CANARY}`, 'in its query'],
    [`https://127.0.0.1:9/mcp?x=1&apiKey=${CANARY}`, 'in its query'],
    [`https://127.0.0.1:9/mcp?k=sk-${CANARY}`, 'in its query'],
    [`https://127.0.0.1:9/mcp?k=${CANARY}${CANARY}`, 'in its query'],
    [`https://127.0.0.1:9/mcp?%74oken=${CANARY}`, 'in its query'],
    [`https://127.0.0.1:9/mcp#access_token=${CANARY}`, 'behind "#"'],
    [`ftp://127.0.0.1/${CANARY}`, 'must begin with https://'],
    [`https://[${CANARY}`, 'is no URL'],
  ])('%s is refused, not echoed', async (address, words) => {
    for (const args of [
      ['snapshot', address],
      ['diff', address, 'x.json'],
      ['diff', 'x.json', address],
    ]) {
      const { status, stdout, stderr } = await run(args);
      expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
      expect(stderr).toContain(words);
      expect(stderr).not.toContain(CANARY);
    }
  });

  it.each([
    'https://127.0.0.1:9/mcp?tenant=acme',
    'https://127.0.0.1:9/mcp?user_id=3f2b8c1e-0b6d-4f0e-9a77-6f1d2c3b4a59',
    'https://127.0.0.1:9/mcp?region=eu-west-1&toolset=all',
  ])('%s is no secret', async (address) => {
    expect((await run(['snapshot', address])).status).toBe(10);
  });

  it.each<[args: string[]]>([
    [['snapshot', 'https://h/mcp', '--token', CANARY]],
    [['snapshot', 'https://h/mcp', `--token=${CANARY}`]],
    [['snapshot', 'https://h/mcp', '-H', `Authorization: Bearer ${CANARY}`]],
    [['snapshot', 'https://h/mcp', `--api-key=${CANARY}`]],
    [['snapshot', 'https://h/mcp', `--${CANARY}-${CANARY}-${CANARY}`]],
    [['snapshot', 'https://h/mcp', CANARY]],
    [['snapshot', 'https://h/mcp', `--json=${CANARY}`]],
    [[`https://u:${CANARY}@h/mcp`]],
    [[`sk_${CANARY}`]],
  ])('%j is refused, not echoed', async (args) => {
    const { status, stdout, stderr } = await run(args);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr).not.toContain(CANARY);
  });

  it.each<[env: Record<string, string>, words: string]>([
    [{ HOLDFAST_TOKEN: '' }, 'HOLDFAST_TOKEN is set, but empty.'],
    [{ HOLDFAST_TOKEN: ' \n' }, 'HOLDFAST_TOKEN is set, but empty.'],
    [{ HOLDFAST_TOKEN: `${CANARY}\n${CANARY}` }, 'HOLDFAST_TOKEN cannot be used'],
    [{ HOLDFAST_TOKEN: CANARY, HOLDFAST_CLIENT_ID: 'x' }, 'are both set'],
    [{ HOLDFAST_CLIENT_SECRET: CANARY }, 'HOLDFAST_CLIENT_SECRET is set, but HOLDFAST_ISSUER is not.'],
    [{ HOLDFAST_ISSUER: 'https://i', HOLDFAST_CLIENT_ID: 'x' }, 'but HOLDFAST_CLIENT_SECRET is not.'],
    [
      {
        HOLDFAST_ISSUER: `http://${CANARY}.example`,
        HOLDFAST_CLIENT_ID: 'x',
        HOLDFAST_CLIENT_SECRET: CANARY,
      },
      'issuer must be an https address',
    ],
  ])('%j', async (env, words) => {
    const { status, stdout, stderr } = await run(['snapshot', 'https://127.0.0.1:9/mcp'], { env });
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr).toContain(words);
    expect(stderr).not.toContain(CANARY);
  });

  it('a token that ends in a line break is the token', async () => {
    const server = await start();
    const env = { HOLDFAST_TOKEN: `${server.issueToken()}\n` };
    expect(await run(['snapshot', server.url], { env })).toMatchObject({ status: 0, stderr: '' });
  });

  it('plain http off this machine is refused', async () => {
    const ran = await run(['snapshot', 'http://mcp.example.com/mcp'], { env: { HOLDFAST_TOKEN: CANARY } });
    expect(ran).toMatchObject({ status: 2, stdout: '' });
    expect(ran.stderr).toContain('Plain http is refused off loopback');
  });
});
