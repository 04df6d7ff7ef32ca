export interface Fault {
  readonly at: number;
  readonly kind: string;
  readonly [param: string]: unknown;
}
export interface Plan {
  readonly seed: number;
  readonly face: string;
  readonly calls: number;
  readonly setting: { readonly era: string; readonly grant: string; readonly framework: string };
  readonly faults: readonly Fault[];
}
export const FACES: readonly string[];
export const CALLERS: number;
export const KINDS: readonly string[];
export function makePlan(options: {
  seed: number;
  face: string;
  calls: number;
  kinds?: readonly string[] | undefined;
}): Plan;
export function callOf(
  plan: Pick<Plan, 'seed' | 'face'>,
  at: number,
): { tag: string; args: object; timeoutMs: number };
export function catalogue(
  face: string,
  options?: { era?: string | undefined; kinds?: readonly string[] | undefined },
): { ofACall: readonly { kind: string }[]; ofTheWorld: readonly { kind: string; weight?: number }[] };
