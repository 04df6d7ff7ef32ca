/**
 * The commands of `mcp-holdfast`, in the order in which they are listed.
 *
 * Guarantees that a command is loaded only when it is used. Never runs one.
 */
import type { CommandEntry } from './run.js';

export const COMMANDS: readonly CommandEntry[] = Object.freeze([
  {
    name: 'snapshot',
    summary: 'record what a server offers, for a repository and its reviews',
    load: async () => (await import('./snapshot.js')).snapshot,
  },
  {
    name: 'diff',
    summary: 'compare two snapshots: what changed, and how grave it is',
    load: async () => (await import('./diff.js')).diff,
  },
  {
    name: 'check',
    summary: 'which tools that an app refers to are missing in an environment',
    load: async () => (await import('./check.js')).check,
  },
  {
    name: 'doctor',
    summary: 'examine the way to a server from inside this environment',
    load: async () => (await import('./doctor/index.js')).doctor,
  },
  {
    name: 'bridge',
    summary: 'stdio on one side, a hosted server on the other: for hosts that launch commands',
    isService: true,
    load: async () => (await import('./bridge/index.js')).bridge,
  },
  {
    name: 'audit',
    summary: 'verify an audit log: find removed, changed or moved lines',
    load: async () => (await import('./audit.js')).audit,
  },
]);
