// Time that runs faster than the world's, can be set wrong, and knows its timers.

/** So many milliseconds of the library's pass in one of the world's: a minute of back-off is over in six seconds. */
export const SPEED = 10;

/** A Clock. `jump(ms)` moves the wall clock alone; `pending` counts the timers that were not cleared and have not fired. */
export function fastClock(random = Math.random) {
  const startedAt = performance.now();
  const startedAtMs = Date.now();
  const timers = new Set();
  let offMs = 0;
  const monotonic = () => (performance.now() - startedAt) * SPEED;
  return {
    now: () => startedAtMs + monotonic() + offMs,
    monotonic,
    random,
    setTimeout(fn, ms, options) {
      const timer = setTimeout(
        () => {
          timers.delete(timer);
          fn();
        },
        Math.min(Math.max(ms, 0) / SPEED, 2 ** 31 - 1),
      );
      timers.add(timer);
      if (options?.background === true) timer.unref();
      return {
        clear() {
          timers.delete(timer);
          clearTimeout(timer);
        },
      };
    },
    jump(ms) {
      offMs += ms;
    },
    /** When that was by the world's clock, for a reading of the monotonic one. */
    inWorld: (ms) => startedAt + ms / SPEED,
    get pending() {
      return timers.size;
    },
  };
}

/** Waits so many milliseconds of fast time. */
export function elapse(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms / SPEED));
}

/** Gives the event loop turns until it is so; false where it is not within `withinMs` of the world's time. */
export async function soon(isSo, withinMs) {
  const untilMs = performance.now() + withinMs;
  while (!isSo()) {
    if (performance.now() > untilMs) return false;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  return true;
}

/** A bucket in Redis, whose time nobody can hurry, behind a limiter whose time runs fast. */
export function inFastTime(store) {
  const slowed = (rules) => rules.map((rule) => ({ ...rule, intervalMs: rule.intervalMs / SPEED }));
  const ago = (list) => list.map((ms) => ms / SPEED);
  return {
    async take(key, rules, options) {
      const { ownGrantsAgoMs } = options ?? {};
      const taken = await store.take(key, slowed(rules), {
        ...options,
        ...(ownGrantsAgoMs !== undefined && { ownGrantsAgoMs: () => ago(ownGrantsAgoMs()) }),
      });
      if ('grantedInMs' in taken) return { ...taken, grantedInMs: taken.grantedInMs * SPEED };
      return { ...taken, askAgainInMs: taken.askAgainInMs * SPEED };
    },
    pause: (key, forMs, options) => store.pause(key, forMs / SPEED, options),
    note: (key, rules, grantsAgoMs, options) => store.note(key, slowed(rules), ago(grantsAgoMs), options),
    close: () => store.close?.(),
  };
}

/** A store of credentials in Redis, with leases that end in fast time. */
export function leasedInFastTime(store) {
  return {
    read: (...given) => store.read(...given),
    compareAndSet: (...given) => store.compareAndSet(...given),
    async lease(id, leaseMs, options) {
      const lease = await store.lease(id, leaseMs / SPEED, options);
      return lease && { remainingMs: () => lease.remainingMs() * SPEED, release: () => lease.release() };
    },
    close: () => store.close?.(),
  };
}

/** Of the world's time: longer than any rest that the library gives a server. */
const DONE_WITHIN_MS = 45_000;

/** Whether it settles before long. */
export async function isDone(promise) {
  let timer;
  const late = new Promise((resolve) => {
    timer = setTimeout(() => resolve(false), DONE_WITHIN_MS);
  });
  const done = await Promise.race([promise.then(() => true), late]);
  clearTimeout(timer);
  return done;
}
