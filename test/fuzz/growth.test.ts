/**
 * Whatever is read, four times as much of it costs about four times as much.
 */
import { expect, test } from 'vitest';
import { GROWTH, growthOf, MOST } from './growth.js';

test.each(GROWTH.map((growth) => [growth.name, growth] as const))('%s', { timeout: 120_000 }, (_, growth) => {
  expect(growthOf(growth)).toBeLessThan(MOST);
});

test('what grows with the square is seen', () => {
  const square = {
    name: 'a square',
    size: 300,
    make: (size: number) => () => {
      let sum = 0;
      for (let one = 0; one < size; one += 1)
        for (let other = 0; other < size; other += 1) sum += one ^ other;
      return sum;
    },
  };
  expect(growthOf(square, 1)).toBeGreaterThan(MOST);
});
