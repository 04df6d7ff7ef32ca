// The world of a relayed server: a real process under the supervisor, a way there that loses things, and HostedClient.
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { MAX_MESSAGE_BYTES, STORM_GATE, TAG } from './gate.mjs';
import { CALLERS } from './plan.mjs';
import { randomOf } from './random.mjs';
import { elapse, fastClock, isDone, SPEED, soon } from './time.mjs';

const INFO = { name: 'storm', version: '1.0.0' };
const SERVER = fileURLToPath(new URL('relay-server.mjs', import.meta.url));
const RETRY_CONNECT_MS = 500;
/** Of the world's time: some turns, for what ends with the last exchange. */
const TIMERS_WITHIN_MS = 50;

export async function openRelay({ lib, plan }) {
  const { seed, face } = plan;
  const clock = fastClock(randomOf(seed, face, 'jitter'));
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-storm-'));
  const ledger = join(folder, 'ledger');
  const refuse = join(folder, 'refuse');
  const env = { LEDGER: ledger, REFUSE: refuse, SPEED: String(SPEED) };
  const entry = { command: process.execPath, args: [SERVER], env };
  const supervisor = lib.superviseServer(entry, {
    name: 'storm',
    concurrency: CALLERS,
    restartMaxDelayMs: 2_000,
    maxMessageBytes: MAX_MESSAGE_BYTES,
    clock,
  });
  const hop = lib.relayHop((message, how) => supervisor.handle(message, how), { name: 'storm', clock });
  const laid = new Map();
  let inUse;
  let replacing;
  let isClosing = false;

  /** The way there and back, as whoever writes a relay would have it. */
  async function send(message, how) {
    const fault = laid.get(message.params?._meta?.[TAG]) ?? {};
    if (fault.before === 'throw') throw new Error('the line is dead');
    if (fault.before === 'refuse') {
      throw new lib.HostedMcpError('ERR_NOT_SENT', 'The relay is full', { executed: false, retryable: true });
    }
    if (fault.before === 'keep') return forEver(how.signal);
    const answer = await hop(message, how);
    if (fault.after === 'throw') throw new Error('the line is dead');
    if (fault.after === 'keep') return forEver(how.signal);
    if (fault.after === 'foreign') return { jsonrpc: '2.0', method: 'notifications/odd' };
    return answer;
  }

  async function open() {
    const client = new lib.HostedClient(INFO, { clock });
    try {
      await client.connect(lib.relayTransport(send, { name: 'storm', clock, gates: [STORM_GATE] }));
      return client;
    } catch (error) {
      await client.close();
      throw error;
    }
  }

  function replace() {
    replacing ??= (async () => {
      for (;;) {
        if (isClosing) return;
        const opened = await open().catch(() => undefined);
        if (opened === undefined) await elapse(RETRY_CONNECT_MS);
        else {
          const old = inUse;
          inUse = opened;
          await old.close();
          return;
        }
      }
    })().finally(() => {
      replacing = undefined;
    });
    return replacing;
  }

  /** To the process that was started last, if it is still there. */
  function signal(name) {
    try {
      process.kill(Number(readFileSync(`${ledger}.pid`, 'utf8')), name);
    } catch {
      // It has ended, or was never there.
    }
  }

  // Nothing has befallen it yet, but a busy machine may be late.
  while (inUse === undefined) inUse = await open().catch(() => elapse(RETRY_CONNECT_MS));
  return {
    clock,
    heard: new Map(),
    signal,
    refuseStarts: (does) => (does ? writeFileSync(refuse, '') : rmSync(refuse, { force: true })),
    replace: () => void replace(),
    call: (slot, tag, args, { timeoutMs, signal: given }) =>
      inUse.callTool({ name: `work-${slot}`, arguments: args, _meta: { [TAG]: tag } }, undefined, {
        timeout: timeoutMs,
        signal: given,
      }),
    lay(_slot, { relay }, params, tag) {
      if (relay === undefined) return () => {};
      laid.set(tag, relay(params));
      return () => laid.delete(tag);
    },
    failed() {},
    async restore() {
      signal('SIGCONT');
      if (replacing !== undefined && !(await isDone(replacing))) return 'no client can be opened any more';
    },
    async close() {
      isClosing = true;
      await replacing;
      await inUse.close();
      await supervisor.close();
      await soon(() => clock.pending === 0, TIMERS_WITHIN_MS);
      const timers = clock.pending;
      const lines = existsSync(ledger) ? readFileSync(ledger, 'utf8').split('\n') : [];
      const counts = new Map();
      for (const tag of lines) if (tag !== '') counts.set(tag, (counts.get(tag) ?? 0) + 1);
      rmSync(folder, { recursive: true, force: true });
      return { ledger: counts, timers, requests: supervisor.generation, isQuiet: true, handshakes: [] };
    },
  };
}

function forEver(signal) {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(new Error('nobody waits any more')), { once: true });
  });
}
