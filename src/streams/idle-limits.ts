/**
 * Learns from cuts how long this way leaves a stream alone.
 *
 * Guarantees that a limit is named only when three cuts in a row agree, and that a limit on silence is told
 * from a limit on total age. Never probes: it knows what happened anyway.
 */

/** One stream that ended without being asked to. */
export interface Cut {
  /** Milliseconds since the last byte from the server. */
  readonly idleMs: number;
  /** Milliseconds since the stream was opened. */
  readonly ageMs: number;
  /** The longest silence between two bytes that it had survived before. */
  readonly survivedMs: number;
}

export interface LearnedLimit {
  /** `idle`: silence of so long is cut. `age`: streams are cut at this age, whatever flows. */
  readonly kind: 'idle' | 'age';
  readonly limitMs: number;
}

const CUTS_REMEMBERED = 8;
const CUTS_TO_AGREE = 3;
/** What one intermediary's cuts differ by: 3 % at a limit of 3 s, less at 60 s, and its timer's own grain. */
const SPREAD = 0.05;
/** A stream that ends sooner was ended for another reason: a deploy, a refusal, a server that ends each at once. */
const SHORTEST_LIMIT_MS = 1_000;
/** What is kept away from a limit: transit, and timers that fire late. */
const MARGIN_MS = 2_000;
const MARGIN = 0.05;

export class IdleLimits {
  #cuts: Cut[] = [];
  #learned: LearnedLimit | undefined;

  get learned(): LearnedLimit | undefined {
    return this.#learned;
  }

  /** The silence that is safe: the learned limit less a margin. */
  get usableMs(): number | undefined {
    if (this.#learned?.kind !== 'idle') return undefined;
    const { limitMs } = this.#learned;
    return Math.max(0, limitMs - Math.max(MARGIN_MS, limitMs * MARGIN));
  }

  /** Gives the limit when it is new or has moved. */
  record(cut: Cut): LearnedLimit | undefined {
    if (cut.idleMs < SHORTEST_LIMIT_MS && cut.ageMs < SHORTEST_LIMIT_MS) return undefined;
    this.#cuts = [...this.#cuts, cut].slice(-CUTS_REMEMBERED);
    const last = this.#cuts.slice(-CUTS_TO_AGREE);
    if (last.length < CUTS_TO_AGREE) return undefined;
    const found = agreeing(last, 'idle') ?? agreeing(last, 'age');
    if (found === undefined || isSame(found, this.#learned)) return undefined;
    this.#learned = found;
    return found;
  }
}

function agreeing(cuts: readonly Cut[], kind: LearnedLimit['kind']): LearnedLimit | undefined {
  // Whoever let a longer silence pass has not cut for silence.
  if (kind === 'idle' && cuts.some((cut) => cut.survivedMs >= cut.idleMs)) return undefined;
  const values = cuts.map((cut) => (kind === 'idle' ? cut.idleMs : cut.ageMs));
  const least = Math.min(...values);
  const most = Math.max(...values);
  if (least < SHORTEST_LIMIT_MS || most - least > most * SPREAD) return undefined;
  return { kind, limitMs: Math.round(least) };
}

function isSame(one: LearnedLimit, other: LearnedLimit | undefined): boolean {
  return other?.kind === one.kind && Math.abs(other.limitMs - one.limitMs) <= one.limitMs * SPREAD;
}
