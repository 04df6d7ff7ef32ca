/**
 * Whatever a supervised server has started ends with it, with its supervisor, and with the supervisor's parent.
 */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type SuperviseOptions, superviseServer } from '../../src/relay/index.js';
import { split } from '../../src/relay/messages.js';
import { manualClock } from '../../src/testing/index.js';
import {
  AGENT,
  bundledSupervisor,
  commanded,
  eventually,
  FAMILY,
  lives,
  newTag,
  parentOf,
  tagged,
} from './relay-support.js';
import { closeLater } from './support.js';

const isLinux = existsSync('/proc/self/environ');
const never = new AbortController().signal;
const within = { deadlineMs: 20_000, signal: never };
const family = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'family' } } as const;

let module: string;
beforeAll(async () => {
  module = await bundledSupervisor();
});
afterAll(() => rm(module, { force: true }));

function entryOf(tag: string, env: Record<string, string> = {}) {
  return { command: process.execPath, args: [FAMILY], env: { TAG: tag, ...env } };
}

async function start(env: Record<string, string> = {}, options: SuperviseOptions = {}) {
  const tag = newTag();
  const supervisor = superviseServer(entryOf(tag, env), { name: 'family', restartDelayMs: 0, ...options });
  closeLater(() => supervisor.close());
  const asked = supervisor.handle(family, within);
  const { answer } = split(await asked);
  const [{ text }] = (answer as unknown as { result: { content: [{ text: string }] } }).result.content;
  await eventually(() => tagged(tag).length === 4);
  return { tag, supervisor, pids: JSON.parse(text) as number[] };
}

const guards = () => commanded('mcp-holdfast-guard').filter((pid) => parentOf(pid) === process.pid);

describe.runIf(isLinux)('close()', () => {
  it.each([
    ['goes with its input', {}],
    ['does not go by itself', { STUBBORN: 'yes' }],
  ])('of a server that %s: the same processes as before it was started', async (_, env) => {
    const guardsBefore = guards();
    const { tag, supervisor } = await start(env);
    const own = () => guards().filter((pid) => !guardsBefore.includes(pid));
    expect(own()).toHaveLength(1);
    await supervisor.close();
    expect(tagged(tag)).toEqual([]);
    await eventually(() => own().length === 0);
  });

  it('within two seconds of its own clock', async () => {
    const clock = manualClock();
    const { tag, supervisor } = await start({ STUBBORN: 'yes' }, { clock });
    let hasEnded = false;
    const closing = supervisor.close().then(() => {
      hasEnded = true;
    });
    while (!hasEnded) {
      // Either it waits for its clock, or for what the system does.
      await eventually(() => hasEnded || clock.pendingTimers > 0);
      if (!hasEnded) await clock.advance(10);
    }
    await closing;
    expect(tagged(tag)).toEqual([]);
    // It did not go by itself, and was not waited for longer than promised.
    expect(clock.monotonic()).toBeGreaterThan(800);
    expect(clock.monotonic()).toBeLessThanOrEqual(2_000);
  });
});

describe.runIf(isLinux)('a crash', () => {
  it('of the server: nobody of its family is left when the next one starts', async () => {
    const { tag, supervisor, pids } = await start();
    const [server, ...children] = pids as [number, ...number[]];
    const exits: unknown[] = [];
    supervisor.on('exit', (exit) => exits.push(exit));
    process.kill(server, 'SIGKILL');
    await eventually(() => exits.length === 1);
    const { answer } = split(await supervisor.handle({ ...family, id: 2 }, within));
    const [{ text }] = (answer as unknown as { result: { content: [{ text: string }] } }).result.content;
    const [next] = JSON.parse(text) as number[];
    expect(next).not.toBe(server);
    for (const pid of [server, ...children]) expect(lives(pid)).toBe(false);
    expect(exits).toEqual([{ server: 'family', generation: 1, code: 'SIGKILL', expected: false }]);
    await supervisor.close();
    expect(tagged(tag)).toEqual([]);
  });

  it('of the guard: another takes over', async () => {
    const before = guards();
    const { supervisor } = await start();
    const [guard] = guards().filter((pid) => !before.includes(pid));
    process.kill(guard as number, 'SIGKILL');
    // Of an earlier test one may still be on its way out.
    const others = () => guards().filter((pid) => !before.includes(pid) && pid !== guard);
    await eventually(() => !lives(guard as number) && others().length === 1);
    await supervisor.close();
    await eventually(() => others().length === 0);
  });
});

describe.runIf(isLinux)('SIGKILL', () => {
  async function agent(role: 'agent' | 'parent', options: SuperviseOptions = {}) {
    const tag = newTag();
    const entry = entryOf(tag, { STUBBORN: 'yes' });
    const started = spawn(
      process.execPath,
      [AGENT, role, module, JSON.stringify(entry), JSON.stringify({ name: 'family', ...options })],
      { stdio: ['ignore', 'pipe', 'inherit'], detached: true },
    );
    closeLater(async () => {
      for (const pid of [...tagged(tag), started.pid as number]) {
        try {
          process.kill(pid, 'SIGKILL');
        } catch {
          // It has ended, as it should.
        }
      }
    });
    // All of them: two that come in one piece are told in one turn.
    const lines: string[] = [];
    createInterface({ input: started.stdout }).on('line', (line) => lines.push(line));
    await eventually(() => lines.some((line) => line !== 'beat'));
    const told = JSON.parse(lines.find((line) => line !== 'beat') as string) as {
      agent: number;
      family: number[];
    };
    await eventually(() => tagged(tag).length === 4);
    return { tag, started, lines, ...told };
  }

  it('of the supervisor: the guard ends everybody', async () => {
    const { tag, agent: pid } = await agent('agent');
    process.kill(pid, 'SIGKILL');
    await eventually(() => tagged(tag).length === 0);
    await eventually(() => commanded('mcp-holdfast-guard').every((guard) => parentOf(guard) !== pid));
  });

  it('of all its process group: the guard is in none of it', async () => {
    const { tag, started } = await agent('agent');
    process.kill(-(started.pid as number), 'SIGKILL');
    await eventually(() => tagged(tag).length === 0);
  });

  it('of its parent: the supervisor ends everybody, and then itself', async () => {
    const { tag, started, agent: pid } = await agent('parent');
    process.kill(started.pid as number, 'SIGKILL');
    await eventually(() => tagged(tag).length === 0);
    await eventually(() => !lives(pid));
  });

  it('of its parent, where it is to outlive that: everybody lives on', async () => {
    const { tag, started, lines, agent: pid } = await agent('parent', { outliveParent: true });
    process.kill(started.pid as number, 'SIGKILL');
    await eventually(() => !lives(started.pid as number));
    // A second of the supervisor's own time, in which it would have looked.
    const before = lines.length;
    await eventually(() => lines.length >= before + 10);
    expect(tagged(tag)).toHaveLength(4);
    process.kill(pid, 'SIGKILL');
    await eventually(() => tagged(tag).length === 0);
  });
});
