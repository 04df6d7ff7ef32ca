import type { Scenario } from './suite.mjs';

export interface Column {
  readonly id: string;
  readonly title: string;
  readonly sdk: 'v1' | 'v2';
  readonly isOurs: boolean;
  readonly driver: string;
  readonly lacks?: readonly string[];
}
export interface Planned {
  readonly column: Column;
  readonly scenario: string;
  readonly revision: string;
  readonly judged: readonly string[];
  readonly refusal: string | undefined;
}
export const EARLIER: string;
export const LATER: string;
export const COLUMNS: readonly Column[];
export function isQuick(scenario: string): boolean;
export function runsAlone(scenario: string): boolean;
export function revisionFor(column: Column, scenario: Scenario): string | undefined;
export function plan(columns: readonly Column[], scenarios: readonly Scenario[]): Planned[];
