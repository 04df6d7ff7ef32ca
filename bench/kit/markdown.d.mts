type Cell = string | number | null | undefined;
export function table(head: readonly string[], rows: readonly (readonly Cell[])[]): string;
export function figure(value: number | undefined): string | undefined;
export function ratio(value: number | undefined): string | undefined;
export function percent(share: number | undefined, digits?: number): string | undefined;
