import { describe, expect, it } from 'vitest';
import { type RetryPlan, withRetries } from '../../../src/connection/retry.js';
import { HostedMcpError } from '../../../src/errors.js';
import { manualClock } from '../../../src/testing/index.js';

const failure = () => new HostedMcpError('ERR_NOT_SENT', 'Away', { retryable: true });

function plan(given: Partial<Omit<RetryPlan, 'clock'>> = {}) {
  const clock = manualClock();
  return {
    clock,
    attempts: 3,
    untilMs: 50_000,
    again: () => true,
    delayMs: (attempt: number) => attempt * 1_000,
    ...given,
  } satisfies RetryPlan & { clock: typeof clock };
}

/** Fails so many times, then succeeds; tells when it was tried. */
function flaky(times: number, clock: RetryPlan['clock'], error: () => unknown = failure) {
  const at: number[] = [];
  const run = async () => {
    at.push(clock.monotonic());
    if (at.length <= times) throw error();
    return 'done';
  };
  return { at, run };
}

describe('withRetries', () => {
  it('tries again until it succeeds, at the delays it was given', async () => {
    const given = plan();
    const { at, run } = flaky(2, given.clock);
    const done = withRetries(run, given);

    await given.clock.advance(10_000);

    expect(await done).toBe('done');
    expect(at).toEqual([0, 1_000, 3_000]);
    expect(given.clock.pendingTimers).toBe(0);
  });

  it('gives up after so many attempts, the first included, with the last error itself', async () => {
    const given = plan();
    const errors = [failure(), failure(), failure()];
    const { at, run } = flaky(9, given.clock, () => errors[at.length - 1]);
    const done = withRetries(run, given).catch((error: unknown) => error);

    await given.clock.advance(10_000);

    expect(await done).toBe(errors[2]);
    expect(at).toHaveLength(3);
  });

  it('one attempt means one', async () => {
    const given = plan({ attempts: 1 });
    const { at, run } = flaky(9, given.clock);

    await expect(withRetries(run, given)).rejects.toMatchObject({ code: 'ERR_NOT_SENT' });
    expect(at).toHaveLength(1);
  });

  it('does not try what may not be tried again', async () => {
    const given = plan({ again: () => false });
    const { at, run } = flaky(1, given.clock);

    await expect(withRetries(run, given)).rejects.toMatchObject({ code: 'ERR_NOT_SENT' });
    expect(at).toHaveLength(1);
  });

  it('begins nothing after its time', async () => {
    const given = plan({ attempts: 10, untilMs: 3_500 });
    const { at, run } = flaky(9, given.clock);
    const done = withRetries(run, given).catch((error: unknown) => error);

    await given.clock.advance(60_000);

    expect(await done).toMatchObject({ code: 'ERR_NOT_SENT' });
    expect(at).toEqual([0, 1_000, 3_000]);
  });

  it.each([
    ['a TypeError', () => new TypeError('Failed to fetch')],
    ['an error of another realm', () => ({ name: 'Error', message: 'elsewhere' })],
    ['a text', () => 'no'],
  ])('hands on %s as it is, after asking whether to try again', async (_name, error) => {
    const seen: unknown[] = [];
    const given = plan({ again: (thrown) => seen.push(thrown) < 2 });
    const thrown = error();
    const { run } = flaky(9, given.clock, () => thrown);
    const done = withRetries(run, given).catch((caught: unknown) => caught);

    await given.clock.advance(60_000);

    expect(await done).toBe(thrown);
    expect(seen).toEqual([thrown, thrown]);
  });

  it('ends with the signal, within a delay too, and leaves no timer', async () => {
    const caller = new AbortController();
    const given = plan({ signal: caller.signal });
    const { at, run } = flaky(9, given.clock);
    const done = withRetries(run, given).catch((caught: unknown) => caught);
    await given.clock.advance(500);
    const reason = new Error('enough');

    caller.abort(reason);

    expect(await done).toBe(reason);
    expect(at).toEqual([0]);
    expect(given.clock.pendingTimers).toBe(0);
  });
});
