export interface Row {
  readonly name: string;
  readonly packageName: string;
  readonly way: string;
  readonly folder: string;
  readonly program: string;
  readonly opens: string;
  readonly server: object;
  readonly script: { readonly expiries: readonly ('foreseen' | 'sudden')[]; readonly redeploys: number };
  readonly cuts: boolean;
  readonly forgets: boolean;
}
export const ROWS: readonly Row[];
