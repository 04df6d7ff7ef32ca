import type { Fault, Plan } from './plan.mjs';

export const TRIES: number;
export function shrink<T>(
  faults: readonly T[],
  goesWrong: (faults: readonly T[]) => Promise<boolean>,
  options?: { tries?: number; onStep?: (length: number) => void },
): Promise<{ faults: readonly T[] | undefined; runs: number }>;
export function withFaults(plan: Plan, faults: readonly Fault[]): Plan;
