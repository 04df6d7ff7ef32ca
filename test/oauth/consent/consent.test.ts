/**
 * A user's consent, once, in a real browser at a real authorization server: asked for by one process, finished by
 * another, used by a third after a restart.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { type Browser, chromium } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ConsentWorld, startConsentWorld } from './authorization-server.js';

const PROGRAM = fileURLToPath(new URL('process.mjs', import.meta.url));

interface Said {
  listening?: boolean;
  finished?: boolean;
  refused?: string;
  answered?: string;
  code?: string;
  reason?: string;
  executed?: unknown;
  authorizationUrl?: string;
}

/** A process and the lines it says. */
class Running {
  readonly child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  constructor(role: 'agent' | 'backend', environment: Record<string, string>) {
    this.child = spawn(process.execPath, [PROGRAM, role], {
      env: { PATH: process.env.PATH, HOME: process.env.HOME, ...environment },
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const lines: Interface = createInterface({ input: this.child.stdout as NodeJS.ReadableStream });
    this.#lines = lines[Symbol.asyncIterator]();
  }

  async next(): Promise<Said> {
    const { value, done } = await this.#lines.next();
    if (done === true) throw new Error('the process ended');
    return JSON.parse(value);
  }

  async tell(line: string): Promise<Said> {
    this.child.stdin?.write(`${line}\n`);
    return await this.next();
  }

  async end(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.stdin?.end();
    this.child.kill();
    await ended;
  }
}

let world: ConsentWorld;
let browser: Browser;
let folder: string;
let environment: Record<string, string>;
const started: Running[] = [];
const start = (role: 'agent' | 'backend') => {
  const running = new Running(role, environment);
  started.push(running);
  return running;
};

beforeAll(async () => {
  expect(existsSync(new URL('../../../dist/client.js', import.meta.url)), 'run `npm run build` first').toBe(
    true,
  );
  folder = mkdtempSync(join(tmpdir(), 'holdfast-consent-'));
  world = await startConsentWorld();
  environment = {
    MCP_URL: world.url,
    STORE: join(folder, 'store'),
    REDIRECT_URI: `http://127.0.0.1:${await freePort()}/callback`,
  };
  const executablePath = spawnSync('sh', ['-c', 'command -v chromium'], { encoding: 'utf8' }).stdout.trim();
  browser = await chromium.launch({ executablePath });
}, 60_000);

afterAll(async () => {
  await Promise.all(started.map((each) => each.end()));
  await browser?.close();
  await world?.close();
  rmSync(folder, { recursive: true, force: true });
});

test('consent once, finished elsewhere, and no second browser after a restart', async () => {
  const agent = start('agent');
  const backend = start('backend');
  expect(await backend.next()).toEqual({ listening: true });

  const first = await agent.tell('before');
  expect(first).toMatchObject({ code: 'ERR_REAUTHORIZATION_REQUIRED', executed: false });
  const url = new URL(first.authorizationUrl as string);
  expect(url.searchParams.get('resource')).toBe(world.url);
  expect(url.searchParams.get('scope')).toBe('mcp offline_access');
  // Another failing call sends nobody anywhere else.
  expect((await agent.tell('again')).authorizationUrl).toBe(url.href);

  const page = await browser.newPage();
  await page.goto(url.href);
  await page.fill('[name=login]', 'user-7');
  await page.fill('[name=password]', 'anything');
  await page.click('[type=submit]');
  await page.waitForSelector('text=/authorize|continue/i');
  await page.click('[type=submit]');
  await page.waitForURL(`${environment.REDIRECT_URI}**`);
  expect(await backend.next()).toEqual({ finished: true });
  expect(await page.title()).toBe('done');

  // The same process that asked, which has heard nothing of the callback.
  expect(await agent.tell('after')).toEqual({ answered: 'after' });
  expect(world.counts).toMatchObject({ authorize: 1, register: 1, code: 1, refresh: 0 });

  // A callback is good once, whoever brings it again.
  await page.reload();
  expect(await backend.next()).toEqual({
    refused: 'ERR_REAUTHORIZATION_REQUIRED',
    reason: 'unknown_state',
  });

  await Promise.all([agent.end(), backend.end()]);
  const restarted = start('agent');
  expect(await restarted.tell('restarted')).toEqual({ answered: 'restarted' });
  world.expireTokens();
  expect(await restarted.tell('refreshed')).toEqual({ answered: 'refreshed' });
  await restarted.end();
  const again = start('agent');
  world.expireTokens();
  expect(await again.tell('and again')).toEqual({ answered: 'and again' });
  expect(world.counts).toMatchObject({ authorize: 1, register: 1, code: 1, refresh: 2 });
  expect(world.server.counts.executions.echo).toBe(4);

  const store = environment.STORE as string;
  expect(statSync(store).mode & 0o777).toBe(0o700);
  for (const file of readdirSync(store)) expect(statSync(join(store, file)).mode & 0o777).toBe(0o600);
}, 120_000);

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as { port: number };
      probe.close(() => resolve(port));
    });
  });
}
