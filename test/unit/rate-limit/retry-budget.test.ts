import { describe, expect, it } from 'vitest';
import type { Clock } from '../../../src/clock.js';
import { backOffWithoutHint, RetryBudget } from '../../../src/rate-limit/retry-budget.js';

const times = (count: number, act: () => void) => {
  for (let done = 0; done < count; done += 1) act();
};

describe('RetryBudget (gRFC A6)', () => {
  it('lets failures be retried while more than half is left', () => {
    const budget = new RetryBudget();
    const allowed = Array.from({ length: 8 }, () => {
      budget.failed();
      return budget.mayRetry();
    });
    expect(allowed).toEqual([true, true, true, true, false, false, false, false]);
  });

  it('at half it is over, and one success brings the next retry', () => {
    const budget = new RetryBudget();
    times(5, () => budget.failed());
    expect(budget.mayRetry()).toBe(false);
    budget.succeeded();
    expect(budget.mayRetry()).toBe(true);
    budget.failed();
    expect(budget.mayRetry()).toBe(false);
  });

  it('a failure costs what ten successes bring', () => {
    const budget = new RetryBudget();
    times(6, () => budget.failed());
    times(10, () => budget.succeeded());
    expect(budget.mayRetry()).toBe(false);
    budget.succeeded();
    expect(budget.mayRetry()).toBe(true);
  });

  it('an outage is not paid for longer than the whole budget', () => {
    const budget = new RetryBudget();
    times(10_000, () => budget.failed());
    times(50, () => budget.succeeded());
    expect(budget.mayRetry()).toBe(false);
    budget.succeeded();
    expect(budget.mayRetry()).toBe(true);
  });

  it('good times are not saved up', () => {
    const budget = new RetryBudget();
    times(10_000, () => budget.succeeded());
    times(4, () => budget.failed());
    expect(budget.mayRetry()).toBe(true);
    budget.failed();
    expect(budget.mayRetry()).toBe(false);
  });

  it('does not drift: a thousand times one failure and ten successes leave it where it was', () => {
    const budget = new RetryBudget();
    times(4, () => budget.failed());
    times(1_000, () => {
      budget.failed();
      expect(budget.mayRetry()).toBe(false);
      times(10, () => budget.succeeded());
      expect(budget.mayRetry()).toBe(true);
    });
  });
});

describe('backing off without a hint', () => {
  const clockAt = (random: number) => ({ random: () => random }) as unknown as Clock;

  it('doubles from a second to half a minute, with full jitter', () => {
    const attempts = [0, 1, 2, 3, 4, 5, 6, 40, 1_000];
    const ceilings = [1, 2, 4, 8, 16, 30, 30, 30, 30].map((seconds) => seconds * 1_000);
    expect(attempts.map((attempt) => backOffWithoutHint(attempt, clockAt(0)))).toEqual(attempts.map(() => 0));
    expect(attempts.map((attempt) => backOffWithoutHint(attempt, clockAt(0.5)))).toEqual(
      ceilings.map((ms) => ms / 2),
    );
    attempts.forEach((attempt, at) => {
      expect(backOffWithoutHint(attempt, clockAt(0.999_999))).toBeLessThanOrEqual(ceilings[at]!);
    });
  });
});
