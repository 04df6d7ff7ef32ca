export interface Arrival {
  readonly atMs: number;
}
export interface Stamped extends Arrival {
  readonly grantedAtMs: number;
  readonly stalledMs: number;
}
export function paddedMs(intervalMs: number): number;
export function padMs(intervalMs: number): number;
export function mostIn(timesMs: readonly number[], windowMs: number): number;
export function fullestWindow<T extends Arrival>(requests: readonly T[], windowMs: number): T[];
export function lateMs(request: Stamped): number;
export function timesWithinPad(
  requests: readonly Stamped[],
  intervalMs: number,
  options?: { countStalls?: boolean },
): number[];
export function usage(
  requests: readonly Arrival[],
  rule: { limit: number; intervalMs: number },
  windows: number,
): number;
export function shares(
  requests: readonly (Arrival & { replica: string })[],
  rule: { intervalMs: number },
  windows: number,
): Record<string, number>;
export function longestGaps(
  requests: readonly (Arrival & { client: string })[],
  clients: readonly string[],
  fromMs: number,
  untilMs: number,
): number[];
