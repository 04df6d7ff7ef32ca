/**
 * The sandbox, as it stands: five processes, of which the model's side knows a name and a route. Judged by the process
 * table.
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterEach, describe, expect, it } from 'vitest';
import { HostedMcpError } from '../../src/index.js';
import { commanded, eventually, everybody, lives, parentOf, readOf } from '../wire/relay-support.js';

const BRAIN = fileURLToPath(new URL('../../examples/sandbox/brain.mjs', import.meta.url));
const isLinux = existsSync('/proc/self/environ');

interface Sandbox {
  stub: { name: string; route: string };
  servers: {
    listTools(): Promise<{ name: string }[]>;
    callTool(
      name: string,
      args?: object,
      options?: { timeout: number },
    ): Promise<{ content: { text: string }[] }>;
    get(name: string): { connection: { stats: { calls: object } } };
  };
  close(): Promise<void>;
}

/** All that this process has started, and they. */
function descendants(): number[] {
  const all = everybody();
  const ours = new Set([process.pid]);
  for (let size = 0; size !== ours.size; ) {
    size = ours.size;
    for (const pid of all) if (ours.has(parentOf(pid))) ours.add(pid);
  }
  ours.delete(process.pid);
  return [...ours].sort();
}
const inside = () => commanded('inside.mjs').filter((pid) => descendants().includes(pid));
const servers = () => commanded('server-everything').filter((pid) => descendants().includes(pid));

let sandbox: Sandbox | undefined;
afterEach(async () => {
  await sandbox?.close();
  sandbox = undefined;
});

async function open(log: (line: string) => void = () => {}): Promise<Sandbox> {
  // As a reader would: the built package.
  const { openSandbox } = (await import(BRAIN as string)) as { openSandbox(o: object): Promise<Sandbox> };
  sandbox = await openSandbox({ log });
  return sandbox;
}

const echo = async ({ servers: set }: Sandbox, message: string) =>
  (await set.callTool('everything__echo', { message })).content[0]?.text;

describe.runIf(isLinux)('the sandbox', () => {
  it('first call starts it, the second finds it, a killed server is told of and replaced, and nothing is left', async () => {
    const before = descendants();
    const guardsBefore = commanded('mcp-holdfast-guard');
    const lines: string[] = [];
    const opened = await open((line) => lines.push(line));
    expect(inside()).toEqual([]);
    expect(servers()).toEqual([]);

    expect(await echo(opened, 'one')).toBe('Echo: one');
    const [first, ...none] = servers();
    expect(none).toEqual([]);
    expect(await echo(opened, 'two')).toBe('Echo: two');
    expect(servers()).toEqual([first]);
    const [agent] = inside();

    // Between calls: refused unread. During one: unknown. Then a fresh one each time.
    process.kill(first as number, 'SIGKILL');
    await eventually(() =>
      lines.some((line) => line.includes('[everything #1] has ended (SIGKILL), by itself')),
    );
    const lost = await echo(opened, 'three').catch((error: unknown) => error);
    expect(lost).toMatchObject({ code: 'ERR_SESSION_LOST', executed: false, retryable: true });
    expect(await echo(opened, 'four')).toBe('Echo: four');
    const [second] = servers();
    expect(second).not.toBe(first);
    const cut = opened.servers
      .callTool('everything__trigger-long-running-operation', { duration: 60, steps: 600 })
      .catch((error: unknown) => error);
    await eventually(() =>
      lines.some((line) => line.includes('[everything #2] says notifications/progress')),
    );
    // Behind it in line, and so not yet run when the server ends.
    const behind = echo(opened, 'behind').catch((error: unknown) => error);
    process.kill(second as number, 'SIGKILL');
    expect(await cut).toMatchObject({ code: 'ERR_OUTCOME_UNKNOWN', executed: 'unknown', retryable: false });
    expect(await behind).toMatchObject({ executed: false });
    expect(HostedMcpError.isInstance(await cut)).toBe(true);
    expect(await echo(opened, 'five')).toBe('Echo: five');
    expect(inside()).toEqual([agent]);

    await opened.close();
    await eventually(() =>
      commanded('mcp-holdfast-guard').every((pid) => guardsBefore.includes(pid) || parentOf(pid) !== 1),
    );
    expect(descendants()).toEqual(before);
    for (const pid of [first, second, agent]) expect(lives(pid as number)).toBe(false);
    // Its standard error is a log with a name and a number.
    expect(lines.some((line) => /^\[everything #1\] .*Starting/i.test(line))).toBe(true);
  });

  it('the brain has a name and a route; the secret is in one environment, and in no command line', async () => {
    const opened = await open();
    await echo(opened, 'x');
    const [server] = servers();
    const secret = /EVERYTHING_API_KEY=([^\0]+)/.exec(readOf(server as number, 'environ'))?.[1] as string;
    expect(secret).toMatch(/^sk-[0-9a-f]{32}$/);
    expect(Object.keys(opened.stub).sort()).toEqual(['name', 'route', 'type']);
    for (const word of [secret, 'server-everything', process.execPath])
      expect(JSON.stringify(opened.stub)).not.toContain(word);
    expect(everybody().filter((pid) => readOf(pid, 'environ').includes(secret))).toEqual([server]);
    expect(everybody().filter((pid) => readOf(pid, 'cmdline').includes(secret))).toEqual([]);
  });

  it('has no network where the machine allows it, and says so where not', async () => {
    const lines: string[] = [];
    const opened = await open((line) => lines.push(line));
    await echo(opened, 'x');
    const [server] = servers();
    const devices = readFileSync(`/proc/${server}/net/dev`, 'utf8')
      .split('\n')
      .flatMap((line) => /^\s*([\w.]+):/.exec(line)?.[1] ?? []);
    if (lines.some((line) => line.startsWith('WARNING'))) expect(devices).not.toEqual(['lo']);
    else expect(devices).toEqual(['lo']);
  });

  it('the same gates as for a hosted server, and an hour-long call ends in its own time at the supervisor', async () => {
    const opened = await open();
    expect(
      await opened.servers.callTool('everything__get-env').catch((error: unknown) => error),
    ).toMatchObject({
      code: 'ERR_DENIED',
      executed: false,
      gate: 'policy',
    });
    await echo(opened, 'x');
    const late = await opened.servers
      .callTool(
        'everything__trigger-long-running-operation',
        { duration: 3_600, steps: 2 },
        { timeout: 2_000 },
      )
      .catch((error: unknown) => error);
    expect(late).toMatchObject({ code: 'ERR_TIMEOUT', executed: 'unknown', reason: 'hop:everything' });
    expect(await echo(opened, 'y')).toBe('Echo: y');
  });

  it('a brain that is killed takes everything with it', async () => {
    const script = `import(${JSON.stringify(BRAIN)}).then(async ({ openSandbox }) => {
      const { servers } = await openSandbox();
      await servers.callTool('everything__echo', { message: 'x' });
      console.log('up');
      setInterval(() => {}, 1_000);
    });`;
    const brain = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
    await once(brain.stdout, 'data');
    const family = descendants().filter((pid) => pid !== brain.pid);
    expect(family.some((pid) => readOf(pid, 'cmdline').includes('server-everything'))).toBe(true);
    process.kill(brain.pid as number, 'SIGKILL');
    await eventually(() => !family.some(lives));
  });
});

it('runs with node', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [BRAIN]);
  expect(stdout).toContain('Echo: from inside');
  expect(stdout).toContain('ERR_DENIED');
  expect(stdout).toMatch(/\d+ tools, such as everything__/);
});
