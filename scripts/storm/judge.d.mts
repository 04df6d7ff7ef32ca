export type Outcome =
  | { end: 'answered'; text?: string }
  | { end: 'failed'; executed: unknown; code: string }
  | { end: 'untyped'; because: string }
  | { end: 'strange'; what: string }
  | { end: 'pending' };
export interface Judged {
  readonly tag: string;
  readonly outcome: Outcome;
  readonly runs: number;
  readonly heard?: { readonly executed: unknown; readonly code?: string } | undefined;
}
export interface Placed extends Judged {
  readonly fault?: string | undefined;
  readonly met: readonly string[];
}
export interface Row {
  calls: number;
  answered: number;
  false: number;
  unknown: number;
  true: number;
  wrong: number;
  notRun: number;
}
export function sideBySide(
  handshakes: readonly { client: string; atMs: number; isEnd: boolean }[],
  options: { withinMs: number; isCalm: (fromMs: number, untilMs: number) => boolean },
): string[];
export const NO_FAULT: string;
export function wrongWith(call: Judged): string | undefined;
export function verdictOf(call: Pick<Judged, 'outcome' | 'heard'>): string;
export function tally(calls: readonly Placed[]): Map<string, Row>;
export function total(calls: readonly Judged[]): Row;
export function addUp(rows: Map<string, Row>, more: Iterable<readonly [string, Row]>): Map<string, Row>;
