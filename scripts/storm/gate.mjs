// What an app's gate says, by the arguments of the call.

/** Without arguments that ask for it, everything passes. */
export const STORM_GATE = {
  name: 'storm',
  before: ({ arguments: args }) => (args?.deny === true ? { deny: 'not this one' } : 'allow'),
  after: ({ arguments: args }) => (args?.refuse === true ? { deny: 'not this result' } : 'allow'),
};

/** Decoded bytes of an answer: far above the usual ones, and below those that are meant to be too large. */
export const MAX_MESSAGE_BYTES = 100_000;
export const TAG = 'mcp-holdfast/callId';
