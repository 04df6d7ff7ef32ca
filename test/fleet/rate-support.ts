/**
 * Scenarios of the fleet as tests: the scaled form, so many at once.
 *
 * Guarantees that a failure names every promise that was broken, with what was found. Never judges by itself: the
 * judge is the server of the scenario.
 */
import { expect } from 'vitest';
import { fleetToolsMissing, playScenario, type ScenarioResult } from '../../scripts/fleet/scenarios.mjs';

/** Waiting for a turn included. */
export const PATIENCE_MS = 240_000;

/**
 * Where the machine kept a process from running for longer than the store may take to answer, a broken promise says
 * nothing, and the scenario is played again. Where it did not, the first play counts.
 */
const MOST_PLAYS = 3;

function brokenIn({ claims }: ScenarioResult) {
  return claims.filter(({ holds }) => !holds);
}

/** Each scenario is five processes: too many at once, and they measure the machine. */
export class Lanes {
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(lanes: number) {
    this.#free = lanes;
  }

  async holds(name: string): Promise<void> {
    const missing = fleetToolsMissing();
    if (missing !== undefined) throw new Error(missing);
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      let result = await playScenario(name, 'scaled');
      for (let plays = 1; plays < MOST_PLAYS && result.isStarved && brokenIn(result).length > 0; plays += 1)
        result = await playScenario(name, 'scaled');
      expect(brokenIn(result), JSON.stringify(result.figures)).toEqual([]);
      expect(result.claims.length).toBeGreaterThan(0);
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}
