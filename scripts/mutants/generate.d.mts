export interface Mutant {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  /** What kind of change it is. */
  readonly rule: string;
  readonly was: string;
  readonly now: string;
  /** The function or member it stands in. */
  readonly within: string;
  /** Names it, wherever its line moves. */
  readonly key: string;
  /** The whole file with this one change. */
  readonly text: string;
}

export function mutantsOf(file: string, text: string): Mutant[];
