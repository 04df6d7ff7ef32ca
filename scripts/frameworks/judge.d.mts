export interface Failure {
  readonly name?: string;
  readonly message?: string;
  readonly code?: string;
  readonly executed?: boolean | 'unknown';
}
/** `done` where it was answered, `silent` where nothing came. */
export interface Outcome {
  readonly done?: boolean;
  readonly silent?: boolean;
  readonly failure?: Failure;
}
export interface PlayedCall extends Outcome {
  readonly ticket: string;
  /** As the server counts. */
  readonly runs: number;
}
export interface Play {
  readonly opened: Outcome;
  readonly calls: readonly PlayedCall[];
  readonly closed: boolean;
  readonly unhandled: readonly string[];
  readonly initializes: number;
  readonly tokenRequests: number;
}
export interface Claim {
  readonly text: string;
  readonly holds: boolean;
  readonly found: string;
}
export function figuresOf(play: Play): {
  opened: boolean;
  asked: number;
  answered: number;
  failed: number;
  unanswered: number;
  ranTwice: number;
  initializes: number;
  tokenRequests: number;
};
export function claimsOnRun(play: Play, script: { expiries: readonly string[]; redeploys: number }): Claim[];
export function claimsOnCuts(play: Play, names: readonly string[]): Claim[];
export function outcomeOf(call: Outcome | undefined): string;
