/**
 * `maxCalls`: how many calls a turn may make.
 *
 * Guarantees that no more than that pass, whatever face they come through; a call that names no turn counts too. Never
 * takes a count back: a call that was refused later, or failed, has been made.
 */
import { HostedMcpError } from '../errors.js';
import { OptionReader } from '../option-reader.js';
import type { CallFacts, Gate } from './gate.js';
import { turnOf } from './turn.js';

export interface MaxCallsOptions {
  /**
   * What is counted together: calls for which it gives the same text; `undefined` is not counted. By default the turn
   * that the call's `_meta['mcp-holdfast/turn']` names (`client.turn()` does it); calls that name none are one turn.
   */
  per?: ((call: CallFacts) => string | undefined) | undefined;
}

/** More turns than that are not under way at once; of older ones the count is forgotten. */
const TURNS_REMEMBERED = 10_000;

/**
 * Refuses the calls of a turn beyond `count` with `ERR_CALL_LIMIT`, in words that a model can act on.
 *
 * @example
 * gates: [maxCalls(10)]
 *
 * Throws `TypeError` for a count that is no whole number from 0 to 1,000,000.
 */
export function maxCalls(count: number, options: MaxCallsOptions = {}): Gate {
  const most = new OptionReader('maxCalls', { count }).count('count', 0, 1_000_000) as number | undefined;
  if (most === undefined) throw new TypeError('maxCalls.count must be a whole number from 0 to 1000000');
  const read = new OptionReader('maxCalls', options);
  const per = read.func<(call: CallFacts) => string | undefined>('per') ?? ((call) => turnOf(call) ?? '');
  read.done();
  const made = new Map<string, number>();
  return {
    name: 'maxCalls',
    oncePerCall: true,
    before(call) {
      const turn = per(call);
      if (turn === undefined) return 'allow';
      if (typeof turn !== 'string') throw new TypeError('maxCalls.per must give a text or undefined');
      const before = made.get(turn) ?? 0;
      if (before >= most) throw limitError(most, call);
      if (before === 0) forgetOldest(made);
      made.set(turn, before + 1);
      return 'allow';
    },
  };
}

function limitError(most: number, { method, tool }: CallFacts): HostedMcpError {
  const calls = most === 1 ? 'one tool call' : `${most} tool calls`;
  return new HostedMcpError('ERR_CALL_LIMIT', `This turn may make ${calls}, and has made them`, {
    method,
    tool,
    reason: 'call limit reached',
    executed: false,
  });
}

function forgetOldest(made: Map<string, number>): void {
  if (made.size < TURNS_REMEMBERED) return;
  for (const oldest of made.keys()) {
    made.delete(oldest);
    return;
  }
}
