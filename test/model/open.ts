/**
 * What the engine does not keep yet, by the words of the invariant: nothing. An entry goes with the change that makes it
 * true.
 */
export const OPEN: ReadonlySet<string> = new Set([]);
