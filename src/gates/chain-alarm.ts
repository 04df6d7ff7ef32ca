/**
 * `chainAlarm`: tells of unusual chains of calls.
 *
 * Guarantees one event for each finding, with names and counts alone. Never refuses anything, and never claims more
 * than a heuristic can: what a tool does is what its server says of it, unless the app says better.
 */
import { OptionReader } from '../option-reader.js';
import type { CallFacts, Gate, GateContext } from './gate.js';
import { turnOf } from './turn.js';
import { wireDigest } from './wire-digest.js';

export interface ChainAlarmOptions {
  /** The same tool with the same arguments so often in a row; told again at each multiple. 5; 0: never. */
  repeats?: number | undefined;
  /** A tool that this connection has never used, right after a result from outside. true. */
  newTool?: boolean | undefined;
  /** Of `newTool`: only once so many calls were made, so that the usual tools are known. 1. */
  newToolAfter?: number | undefined;
  /** In one turn, a call that sends after one that read. true. */
  readThenSend?: boolean | undefined;
  /** Whether a tool's result comes from outside. By default where its annotations do not say `openWorldHint: false`. */
  isOutside?: ((call: CallFacts) => boolean) | undefined;
  /** By default where its annotations say `readOnlyHint: true`. */
  isRead?: ((call: CallFacts) => boolean) | undefined;
  /** By default where it has annotations that say neither `readOnlyHint: true` nor `openWorldHint: false`. */
  isSend?: ((call: CallFacts) => boolean) | undefined;
}

interface TurnState {
  last?: string;
  count: number;
  /** The tool whose result came last, where that came from outside. */
  outside?: string;
  /** A tool that read. */
  read?: string;
  readonly told: Set<string>;
}

interface Memory {
  calls: number;
  readonly used: Set<string>;
  readonly turns: Map<string, TurnState>;
}

const TURNS_REMEMBERED = 1_000;
const TOOLS_REMEMBERED = 10_000;

/**
 * Makes `call-chain` events. Place it after the gates that rewrite arguments.
 *
 * @example
 * gates: [chainAlarm({ repeats: 3, isSend: (call) => call.tool === 'send_mail' })]
 *
 * Throws `TypeError` for an option that cannot be used.
 */
export function chainAlarm(options: ChainAlarmOptions = {}): Gate {
  const read = new OptionReader('chainAlarm', options);
  const repeats = read.count('repeats', 0, 1_000_000) ?? 5;
  const newTool = read.oneOf('newTool', [true, false] as const) ?? true;
  const newToolAfter = read.count('newToolAfter', 0, 1_000_000) ?? 1;
  const readThenSend = read.oneOf('readThenSend', [true, false] as const) ?? true;
  const isOutside = read.func<(call: CallFacts) => boolean>('isOutside') ?? saysOutside;
  const isRead = read.func<(call: CallFacts) => boolean>('isRead') ?? saysRead;
  const isSend = read.func<(call: CallFacts) => boolean>('isSend') ?? saysSend;
  read.done();
  const memories = new WeakMap<object, Memory>();

  const memoryOf = ({ connection }: GateContext): Memory => {
    const known = memories.get(connection);
    if (known !== undefined) return known;
    const made: Memory = { calls: 0, used: new Set(), turns: new Map() };
    memories.set(connection, made);
    return made;
  };

  return {
    name: 'chainAlarm',
    oncePerCall: true,
    before(call, context) {
      const { tool } = call;
      if (tool === undefined) return 'allow';
      const memory = memoryOf(context);
      const turn = turnOf(call);
      const state = stateOf(memory, turn);
      const found = { gate: 'chainAlarm', tool, ...(turn !== undefined && { turn }) };
      if (repeats > 0) {
        const asked = wireDigest([tool, call.arguments ?? null]);
        state.count = state.last === asked ? state.count + 1 : 1;
        state.last = asked;
        if (state.count >= repeats && state.count % repeats === 0)
          context.report({ ...found, kind: 'repeated', count: state.count });
      }
      const isNew = !memory.used.has(tool) && state.outside !== undefined && memory.calls >= newToolAfter;
      if (newTool && isNew) context.report({ ...found, kind: 'new-tool', after: state.outside as string });
      if (readThenSend && state.read !== undefined && isSend(call) && !state.told.has(tool)) {
        state.told.add(tool);
        context.report({ ...found, kind: 'read-then-send', after: state.read });
      }
      memory.calls += 1;
      if (memory.used.size < TOOLS_REMEMBERED) memory.used.add(tool);
      return 'allow';
    },
    after(call, _result, context) {
      const { tool } = call;
      if (tool === undefined) return 'allow';
      const state = stateOf(memoryOf(context), turnOf(call));
      if (isOutside(call)) state.outside = tool;
      else delete state.outside;
      if (isRead(call)) state.read = tool;
      return 'allow';
    },
  };
}

function stateOf({ turns }: Memory, turn: string | undefined): TurnState {
  const key = turn === undefined ? '' : `turn ${turn}`;
  const known = turns.get(key);
  if (known !== undefined) return known;
  const made: TurnState = { count: 0, told: new Set() };
  turns.set(key, made);
  if (turns.size > TURNS_REMEMBERED) turns.delete(turns.keys().next().value as string);
  return made;
}

function saysOutside({ annotations }: CallFacts): boolean {
  return annotations?.openWorldHint !== false;
}
function saysRead({ annotations }: CallFacts): boolean {
  return annotations?.readOnlyHint === true;
}
function saysSend({ annotations }: CallFacts): boolean {
  return (
    annotations !== undefined && annotations.readOnlyHint !== true && annotations.openWorldHint !== false
  );
}
