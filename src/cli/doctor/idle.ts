/**
 * How long this way leaves a silent stream alone, measured by holding one.
 *
 * Guarantees a session of its own, which is deleted in the end; that it stops at the cut or at the time given; and
 * that the server's own keep-alive is told apart from the patience of the way. Never opens a second stream.
 */
import type { StreamFacts } from '../../connection/route.js';
import { HostedMcpError } from '../../errors.js';
import { failureLine } from '../failure-line.js';
import { span, wholeSeconds } from './report.js';
import type { Stage } from './stage.js';

type Shape = 'FIN' | 'end of answer' | 'reset' | `status ${number}`;

interface Held {
  readonly facts: StreamFacts;
  readonly isOpen: boolean;
  readonly heldMs: number;
  /** The last silence of the stream, and the longest one that it came through. */
  readonly silentMs: number;
  readonly survivedMs: number;
  readonly pulses: number;
}

/** What is cut sooner was ended for another reason than its silence. */
const SHORTEST_MS = 1_000;
/** What agents think for without a word is often longer. */
const SHORT_MS = 60_000;
/** As the engine has it: transit, and timers that fire late. */
const MARGIN_MS = 2_000;
const GATEWAY: ReadonlySet<number> = new Set([502, 503, 504]);
const AT = { section: 'idle', name: 'silent stream' } as const;

export async function measureIdle(stage: Stage, maxMs: number): Promise<void> {
  const { report, signal, line } = stage;
  report.note('idle', { limitMs: null, shape: null, heldMs: null, serverSpeaksEveryMs: null, maxMs });
  let held: Held;
  try {
    stage.progress.step('opening a session to hold a stream');
    const session = await line.open(signal);
    held = await hold(stage, session, maxMs);
  } catch (error) {
    signal.throwIfAborted();
    if (!HostedMcpError.isInstance(error)) throw error;
    report.add({ ...AT, level: 'finding', measured: `not measured: ${failureLine(error)}` });
    return;
  }
  report.note('idle', { heldMs: Math.round(held.heldMs) });
  const shape = shapeOf(held);
  if (held.isOpen || isGatewayCut(held)) tell(stage, held, shape, maxMs);
  else tellRefused(stage, held.facts);
}

async function hold(
  { line, clock, signal, progress }: Stage,
  session: Parameters<typeof line.hold>[0],
  maxMs: number,
): Promise<Held> {
  const enough = new AbortController();
  const onAbort = () => enough.abort(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  const timer = clock.setTimeout(() => enough.abort(), maxMs);
  const startedMs = clock.monotonic();
  let lastMs = startedMs;
  let survivedMs = 0;
  let pulses = 0;
  let isOpen = false;
  progress.step(`holding a silent stream, for ${wholeSeconds(maxMs)} s at most`);
  try {
    const facts = await line.hold(session, enough.signal, {
      onOpen: () => {
        isOpen = true;
      },
      onBytes: () => {
        const nowMs = clock.monotonic();
        survivedMs = Math.max(survivedMs, nowMs - lastMs);
        lastMs = nowMs;
        pulses += 1;
      },
    });
    signal.throwIfAborted();
    const nowMs = clock.monotonic();
    const silentMs = facts.idleMs ?? nowMs - lastMs;
    return { facts, isOpen, heldMs: nowMs - startedMs, silentMs, survivedMs, pulses };
  } finally {
    timer.clear();
    signal.removeEventListener('abort', onAbort);
  }
}

/** A server that sends its head with the first event only: the gateway's page after a wait is the cut. */
function isGatewayCut({ facts, heldMs }: Held): boolean {
  return GATEWAY.has(facts.status ?? 0) && heldMs >= SHORTEST_MS;
}

/** Undefined: we ended it ourselves. */
function shapeOf({ facts, isOpen }: Held): Shape | undefined {
  const { failure, status } = facts;
  if (!isOpen) return status === undefined ? undefined : `status ${status}`;
  if (failure?.kind === 'aborted') return undefined;
  if (failure?.code === 'ECONNRESET') return 'reset';
  return failure === undefined || failure.code === 'EOF' ? 'end of answer' : 'FIN';
}

function tell({ report }: Stage, held: Held, shape: Shape | undefined, maxMs: number): void {
  const { silentMs, survivedMs, heldMs, pulses } = held;
  const everyMs = pulses > 1 ? Math.round(heldMs / pulses) : null;
  report.note('idle', { shape: shape ?? null, serverSpeaksEveryMs: everyMs });
  if (shape === undefined) {
    report.add({
      ...AT,
      level: 'ok',
      measured:
        everyMs === null
          ? `no cut within ${wholeSeconds(maxMs)} s of silence`
          : `no cut within ${wholeSeconds(maxMs)} s: the server itself sends something about every ${span(everyMs)}`,
    });
    return;
  }
  if (heldMs < SHORTEST_MS) {
    report.add({
      ...AT,
      level: 'finding',
      measured: `ended at once (${shape}), after ${span(heldMs)}`,
      meaning: 'the server, or a gateway, keeps no stream open: what it says between calls is not heard',
      set: 'streams.listen: false',
    });
    return;
  }
  // Whoever let a longer silence pass has not cut for silence.
  if (survivedMs >= silentMs) {
    report.note('idle', { ageLimitMs: Math.round(heldMs) });
    report.add({
      ...AT,
      level: 'note',
      measured: `cut at an age of ${wholeSeconds(heldMs)} s (${shape}) although the server sends something about every ${span(everyMs ?? silentMs)}`,
      meaning:
        'the way limits how old a stream gets: a call that takes longer is cut off, and its outcome unknown',
    });
    return;
  }
  const limitMs = wholeSeconds(silentMs) * 1_000;
  report.note('idle', { limitMs });
  const isShort = limitMs < SHORT_MS;
  report.add({
    ...AT,
    level: isShort ? 'finding' : 'note',
    measured: `cut after ${wholeSeconds(silentMs)} s of silence (${shape})`,
    meaning: `a call that says nothing for ${wholeSeconds(silentMs)} s is cut off, and its outcome is unknown unless the server can resume it; notifications depend on the stream's coming back`,
    set: settingFor(limitMs),
  });
}

function settingFor(limitMs: number): string {
  const usableMs = Math.max(0, limitMs - MARGIN_MS);
  // Unused sockets are kept for 4 s: a call on one that was closed meanwhile fails.
  const sockets = usableMs < 4_000 ? `, http.keepAliveTimeoutMs: ${usableMs}` : '';
  return `streams.idleLimitMs: ${limitMs}${sockets}; at the server: keep-alive comments more often than that`;
}

function tellRefused({ report }: Stage, { status, failure }: StreamFacts): void {
  const none = status === 405 || status === 501;
  report.add({
    ...AT,
    level: 'note',
    measured: none
      ? `not measured: the server offers no listen stream (status ${status})`
      : `not measured: no stream was opened (${status === undefined ? (failure?.kind ?? 'no answer') : `status ${status}`})`,
    ...(none && {
      meaning: 'the limit holds for calls all the same; nothing here can be held in silence to measure it',
      set: 'streams.listen: false spares the attempt',
    }),
  });
}
