import type { Row } from './judge.mjs';
import type { Plan } from './plan.mjs';

export interface StormRedis {
  readonly port: number;
  freeze(): void;
  thaw(): void;
  kill(): Promise<void>;
  start(): Promise<void>;
}
export interface Storm {
  readonly violations: readonly string[];
  readonly figures: Row;
  readonly rows: Map<string, Row>;
  readonly codes: Readonly<Record<string, number>>;
  readonly requests: number;
  readonly healMs: number;
  readonly durationMs: number;
}
export type Call = (
  slot: number,
  tag: string,
  args: Readonly<Record<string, unknown>>,
  how: { timeoutMs: number; signal: AbortSignal },
) => Promise<unknown>;
export function runStorm(options: {
  lib: object;
  plan: Plan;
  redis?: StormRedis | undefined;
  wrap?: ((call: Call) => Call) | undefined;
}): Promise<Storm>;
