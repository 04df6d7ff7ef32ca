/**
 * Everything that a supervised process has started, and its end.
 *
 * Guarantees that nobody of its process group is left, nor, where `/proc` says what a process was started with, any
 * process that carries its mark, be it in a group of its own, as browsers are. Never touches a process without either.
 */
import { readdir, readFile } from 'node:fs/promises';
import { type Clock, sleep } from '../clock.js';

/** The variable by which all descendants are known. No secret. */
export const MARK = 'MCP_HOLDFAST_SUPERVISOR';

export interface ProcessGroup {
  /** Of the process that leads it. */
  readonly id: number;
  /** The value of `MARK`. */
  readonly mark: string;
}

/** Between two looks at who is left. */
const LOOK_MS = 20;
/** What SIGKILL does not end within this is in the kernel's hands. */
const KILL_MS = 400;

/** Asks them to end, and ends those that are left after `graceMs`. Never rejects. */
export async function endGroup(group: ProcessGroup, clock: Clock, graceMs: number): Promise<void> {
  if (process.platform === 'win32') return;
  let left = await living(group);
  for (const pid of left) signal(pid, 'SIGTERM');
  // By the clock: a look takes its time where there are many processes.
  const killAtMs = clock.monotonic() + graceMs;
  while (left.length > 0 && clock.monotonic() < killAtMs) {
    await sleep(clock, LOOK_MS);
    left = await living(group);
  }
  const untilMs = clock.monotonic() + KILL_MS;
  while (left.length > 0 && clock.monotonic() < untilMs) {
    for (const pid of left) signal(pid, 'SIGKILL');
    await sleep(clock, LOOK_MS);
    left = await living(group);
  }
}

/** Who of it has not ended; a negative number stands for the group where single processes cannot be seen. */
export async function living({ id, mark }: ProcessGroup): Promise<number[]> {
  const entries = await readdir('/proc').catch(() => undefined);
  const pids = entries?.filter((name) => /^\d+$/.test(name)).map(Number) ?? [];
  if (pids.length === 0) return signal(-id, 0) ? [-id] : [];
  const found = await Promise.all(pids.map((pid) => isOfGroup(pid, id, mark)));
  return pids.filter((_, index) => found[index]);
}

async function isOfGroup(pid: number, group: number, mark: string): Promise<boolean> {
  if (pid === process.pid) return false;
  try {
    // After the name, which may hold anything: state, parent, group (proc_pid_stat(5)).
    const stat = await readFile(`/proc/${pid}/stat`, 'latin1');
    const [state, , leader] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (state === 'Z' || state === 'X') return false;
    if (Number(leader) === group) return true;
    const environ = await readFile(`/proc/${pid}/environ`, 'latin1');
    return environ.split('\0').includes(`${MARK}=${mark}`);
  } catch {
    // It has ended, or is another user's.
    return false;
  }
}

function signal(pid: number, name: 'SIGTERM' | 'SIGKILL' | 0): boolean {
  try {
    return process.kill(pid, name);
  } catch {
    return false;
  }
}
