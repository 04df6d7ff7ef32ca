/**
 * The contract of a server as data: taken, written, read, compared, shown.
 *
 * Guarantees nothing of its own: it names what the rest of the library and its callers use.
 */

export { diffContracts } from './diff.js';
export { type FormatDiffOptions, formatDiff } from './format-diff.js';
export { findReferences, missingTools, type ToolReference, toolNames } from './references.js';
export { contractDigest, makeSnapshot, type SnapshotParts } from './snapshot.js';
export { SnapshotError, type SnapshotErrorPlace, type SnapshotProblem } from './snapshot-error.js';
export { formatSnapshot, parseSnapshot } from './snapshot-text.js';
export type * from './types.js';
