/**
 * The seam between the limiter and where its bucket lives.
 *
 * Guarantees that no client clock crosses it: everything is a span from now, so that replicas whose clocks
 * disagree share one bucket all the same.
 */

/** At most `limit` requests in every window of `intervalMs`, wherever it begins. */
export interface Rule {
  readonly limit: number;
  readonly intervalMs: number;
  /** Its own bucket, in place of the limiter's key: a user's 60 a minute and the tenant's 1,000 together. */
  readonly key?: string | undefined;
}

/** The store's answer: go in so many milliseconds (0: now), or ask again then, with nothing taken. */
export type Taken =
  | { readonly grantedInMs: number; readonly used?: number | undefined }
  | {
      readonly askAgainInMs: number;
      /** How many grants the store counts in the window of the rule that is fullest; for times when it is away. */
      readonly used?: number | undefined;
      /**
       * The store's count is not complete: it has lost its log, or replicas were away from it. For so long each
       * replica keeps to its own share, and tells the store of what it grants (`note`).
       */
      readonly keepShare?: boolean | undefined;
    };

export interface TakeOptions {
  readonly signal?: AbortSignal | undefined;
  /**
   * The caller's own grants under these rules within the longest window, as milliseconds ago: asked for by a store
   * that has lost its log.
   */
  readonly ownGrantsAgoMs?: (() => readonly number[]) | undefined;
}

/**
 * Where a bucket lives. A failure is a rejection, within a bound of the store's own; the limiter then does as
 * `onStoreDown` says. Keys may have any characters and are no secrets.
 */
export interface RateLimitStore {
  /** One token under all rules, or none. A rule's own key replaces `key`. */
  take(key: string, rules: readonly Rule[], options?: TakeOptions | undefined): Promise<Taken>;
  /** No grants under `key` for so long, for nobody. Never makes a pause shorter. */
  pause(
    key: string,
    forMs: number,
    options?: { signal?: AbortSignal | undefined } | undefined,
  ): Promise<void>;
  /**
   * Counts grants that a replica made while the store was away, as milliseconds ago; also called with none when
   * a replica is back. The store then lets all replicas keep their share until the others are back as well.
   */
  note?(
    key: string,
    rules: readonly Rule[],
    grantsAgoMs: readonly number[],
    options?: { signal?: AbortSignal | undefined } | undefined,
  ): Promise<void>;
  close?(): Promise<void>;
}

/** On a store that lives in this process: `take` without a promise; what it grants is for now. */
export const TAKE_NOW: unique symbol = Symbol('takeNow');

export interface StoreAtHand extends RateLimitStore {
  [TAKE_NOW]?(key: string, rules: readonly Rule[]): Taken;
}

/** On a store of this library, in whatever copy: each of its operations ends within a bound of its own. */
export const ENDS_BY_ITSELF = Symbol.for('mcp-holdfast.endsByItself');

/** A server sees requests later than they were granted, some more than others: windows are kept longer by so much. */
const PAD_MS = 250;
const PAD_FRACTION = 0.02;

/** The window that is kept, so that the server's own never holds more than the limit. */
export function keptIntervalMs(rule: Rule): number {
  return rule.intervalMs + Math.max(PAD_MS, Math.ceil(rule.intervalMs * PAD_FRACTION));
}
