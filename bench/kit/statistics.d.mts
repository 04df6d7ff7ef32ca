export function median(values: readonly number[]): number | undefined;
export function quantile(values: readonly number[], share: number): number | undefined;
export function growthExponent(points: readonly (readonly [size: number, cost: number])[]): number;
