/**
 * What becomes of a session that was given to us and that nobody will use: it is ended at the server.
 *
 * Guarantees one DELETE for each, under the session's own credential and within a bound on the clock, whoever gave the
 * session up; and that the end of the connection can wait for those under way. Never sends one twice, never one for a
 * session that the server itself has called unknown. Never rejects.
 */
import { type Clock, untilAborted } from '../clock.js';
import type { Wire } from '../connection/wire.js';
import type { Session } from './session.js';

interface ReleasesParts {
  readonly clock: Clock;
  readonly wire: Pick<Wire, 'pay' | 'delete'>;
}

/** It is a courtesy: nobody waits long for its answer. */
const DELETE_TIMEOUT_MS = 2_000;
/** Where nobody waits for it, it may wait for the rate limit, or for the end of a pause that the server wants. */
const PATIENCE_MS = 60_000;
/** So long a connection that is being closed listens for a session that was asked for; what is left is for its DELETE. */
const LATE_ANSWER_MS = 1_000;

export class Releases {
  readonly #parts: ReleasesParts;
  readonly #underWay = new Set<Promise<void>>();
  readonly #released = new WeakMap<Session, Promise<void>>();
  readonly #closing = new AbortController();
  #listensMs = 0;

  constructor(parts: ReleasesParts) {
    this.#parts = parts;
  }

  /** Resolves when it is deleted, or when that has failed. `atOnce`: somebody waits, who is not to be kept by a rate limit. */
  release(session: Session, atOnce = false): Promise<void> {
    const before = this.#released.get(session);
    if (before !== undefined) return before;
    session.phase = 'ended';
    // It ends with the stream that carries it.
    session.road?.end();
    const released =
      session.hasId && !session.isForgotten
        ? this.#delete(session, atOnce).catch(() => {})
        : Promise.resolve();
    this.#released.set(session, released);
    this.#track(released);
    return released;
  }

  /**
   * Nobody waits any more for an answer that may bring a session: `answer` settles when that has been looked at. `stop`
   * ends the exchange: now, or, where the connection is being closed, a little later.
   */
  late(answer: Promise<unknown>, stop: () => void): void {
    const listensMs = this.#listensMs;
    if (listensMs === 0) stop();
    const timer = listensMs === 0 ? undefined : this.#parts.clock.setTimeout(stop, listensMs);
    this.#track(
      answer.then(
        () => timer?.clear(),
        () => timer?.clear(),
      ),
    );
  }

  /** From here on nothing waits for a rate limit. `listens`: whoever closes has time for an answer that is on its way. */
  close(listens: boolean): void {
    if (listens) this.#listensMs = LATE_ANSWER_MS;
    this.#closing.abort();
  }

  get isSettled(): boolean {
    return this.#underWay.size === 0;
  }

  /** When none is under way, and `before` has come to its end, which may bring one. Its bound is its caller's affair. */
  async settled(before?: Promise<unknown> | undefined): Promise<void> {
    await before?.catch(() => {});
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
  }

  #track(work: Promise<void>): void {
    this.#underWay.add(work);
    void work.then(() => this.#underWay.delete(work));
  }

  async #delete(session: Session, atOnce: boolean): Promise<void> {
    await this.#pay(atOnce);
    const { clock, wire } = this.#parts;
    const over = new AbortController();
    const { signal } = over;
    const timer = clock.setTimeout(() => over.abort(), DELETE_TIMEOUT_MS);
    const { credential } = session;
    try {
      await untilAborted(
        wire.delete({ session, credential, signal, toll: 'paid', onMessage: () => {} }),
        signal,
      );
    } finally {
      timer.clear();
    }
  }

  async #pay(atOnce: boolean): Promise<void> {
    const { clock, wire } = this.#parts;
    const { signal } = this.#closing;
    if (!atOnce && !signal.aborted) {
      try {
        await wire.pay('reply', { untilMs: clock.monotonic() + PATIENCE_MS, signal });
        return;
      } catch (error) {
        if (!signal.aborted) throw error;
      }
    }
    await wire.pay('reply', { untilMs: clock.monotonic() });
  }
}
