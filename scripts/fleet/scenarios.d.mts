/** One promise, whether it was kept, and what was found. `trace`: the requests that broke it. */
export interface Claim {
  readonly text: string;
  readonly holds: boolean;
  readonly found: string;
  readonly trace?: readonly string[];
}

export interface ScenarioResult {
  readonly name: string;
  readonly parameters: string;
  readonly figures: Readonly<Record<string, string | number>>;
  /** A process was kept from running for longer than the store may take to answer. */
  readonly isStarved: boolean;
  readonly claims: readonly Claim[];
}

export function fleetToolsMissing(): string | undefined;
export function playScenario(name: string, form: 'full' | 'scaled'): Promise<ScenarioResult>;
