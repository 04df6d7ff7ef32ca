import type { Scenario, Verdict } from './suite.mjs';

export interface ColumnResults {
  readonly date: string;
  readonly node: string;
  readonly driven: string;
  readonly cells: Readonly<Record<string, string>>;
}
export interface Results {
  readonly suite?: string;
  readonly columns: Readonly<Record<string, ColumnResults>>;
}
export function cellOf(verdict: Verdict): string;
export function readResults(file: string): Results;
export function withColumns(
  results: Results,
  suite: string,
  found: Readonly<Record<string, ColumnResults>>,
): Results;
export function page(
  results: Results,
  scenarios: readonly Scenario[],
  scored: Readonly<Record<string, ReadonlySet<string>>>,
): string;
