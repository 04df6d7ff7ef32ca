/**
 * No throw outside the typed errors, no hang, whatever comes in. The nightly form is `npm run nightly`.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { FUZZ } from './all.js';
import { replay, runs, runsFor } from './kit.js';

/** One input, waits included: what takes longer hangs. */
const ONE_MS = 20_000;

test.each(FUZZ.map((fuzz) => [fuzz.name, fuzz] as const))('%s', { timeout: 120_000 }, async (_, fuzz) => {
  const numRuns = runsFor(fuzz, FUZZ, runs(8_000));
  let ran = 0;
  const property = fuzz.property();
  property.afterEach?.(() => {
    ran += 1;
  });
  await fc.assert(property as fc.IAsyncProperty<unknown>, { numRuns, timeout: ONE_MS, ...replay() });
  expect(ran).toBeGreaterThanOrEqual(numRuns);
});
