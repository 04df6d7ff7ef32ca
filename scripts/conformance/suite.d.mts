export interface Scenario {
  readonly name: string;
  readonly revisions: readonly string[];
}
export interface Check {
  readonly id: string;
  readonly status: 'SUCCESS' | 'FAILURE' | 'WARNING' | 'SKIPPED' | 'INFO';
}
export interface Verdict {
  readonly verdict: 'passed' | 'failed' | 'skipped';
  readonly passed: number;
  readonly failed: readonly string[];
}
export interface ScenarioRun extends Verdict {
  readonly scenario: string;
  readonly exitCode: number;
  readonly printed: string;
}
export const ROOT: string;
export function suiteVersion(): string;
export function clientScenarios(): Promise<Scenario[]>;
export function scoredAt(revision: string): Promise<Set<string>>;
export function runScenario(run: {
  scenario: string;
  judged: readonly string[];
  folder: string;
  refusal?: string | undefined;
  env?: Readonly<Record<string, string>>;
}): Promise<ScenarioRun>;
export function clientCommand(driver: string): string[];
export function verdictOf(
  exitCode: number,
  checks: readonly Check[] | undefined,
  end?: { refusal?: string | undefined; ended?: string | undefined },
): Verdict;
