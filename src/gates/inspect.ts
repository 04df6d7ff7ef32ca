/**
 * `inspect`: the app's inspectors over what goes in, what comes out, and what a model reads of a server.
 *
 * Guarantees that an inspector sees the whole value and that only a clear verdict lets it pass. What an inspector
 * recognises is its own: none pretends to find every injection.
 */
import { OptionReader } from '../option-reader.js';
import type { BeforeVerdict, Gate, InspectVerdict, ToolResult } from './gate.js';
import { withAnswer } from './tool-names.js';
import { isObject } from './value.js';

/** What an inspector is shown: a call's arguments, a result, the list of tools, or the server's instructions (a text). */
export type Inspected = 'arguments' | 'result' | 'tools' | 'instructions';

export type Inspector = (
  value: unknown,
  options: { on: Inspected; signal: AbortSignal; tool?: string | undefined },
) => InspectVerdict | Promise<InspectVerdict>;

export interface InspectOptions {
  /** `'tools'` takes in the server's instructions: both are read by a model before any call. */
  on: readonly Inspected[];
  /** On errors and in figures. `'inspect'`. */
  name?: string | undefined;
  /** How long an inspector may take. 30,000. */
  timeoutMs?: number | undefined;
}

const ON = ['arguments', 'result', 'tools', 'instructions'] as const;

/**
 * Asks `inspector` for each of `on`: `'allow'`, `{ deny: reason }` or `{ replace: value }`. The reason stands in the
 * error's message, which a model may read: it must not repeat what was found.
 *
 * @example
 * gates: [inspect((value) => {
 *   for (const { text } of walkText(value)) if (/ignore (all )?previous/i.test(text)) return { deny: 'an instruction in data' };
 *   return 'allow';
 * }, { on: ['result', 'tools'] })]
 *
 * Throws `TypeError` for an option that cannot be used.
 */
export function inspect(inspector: Inspector, options: InspectOptions): Gate {
  if (typeof inspector !== 'function') throw new TypeError('inspect needs a function that inspects');
  const read = new OptionReader('inspect', options);
  const on = read.any('on');
  const name = read.any('name') ?? 'inspect';
  const timeoutMs = read.duration('timeoutMs', 1);
  read.done();
  if (typeof name !== 'string' || name === '') throw new TypeError('inspect.name must be a text');
  if (!Array.isArray(on) || on.length === 0 || !on.every((each) => (ON as readonly unknown[]).includes(each)))
    throw new TypeError(`inspect.on must be an array of ${ON.join(', ')}`);
  const sees = (what: Inspected) => on.includes(what) || (what === 'instructions' && on.includes('tools'));
  return {
    name,
    ...(timeoutMs !== undefined && { timeoutMs }),
    ...(sees('arguments') && {
      before: (call, context) =>
        withAnswer(
          inspector(call.arguments ?? {}, { on: 'arguments', signal: context.signal, tool: call.tool }),
          (verdict): BeforeVerdict => replaced(verdict, 'arguments') as BeforeVerdict,
        ),
    }),
    ...(sees('result') && {
      after: (call, result, context) =>
        withAnswer(
          inspector(result, { on: 'result', signal: context.signal, tool: call.tool }),
          (verdict) => replaced(verdict, 'result') as 'allow' | { result: ToolResult },
        ),
    }),
    ...(sees('tools') && {
      tools: (list, context) => inspector(list, { on: 'tools', signal: context.signal }),
    }),
    ...(sees('instructions') && {
      instructions: (text, context) => inspector(text, { on: 'instructions', signal: context.signal }),
    }),
  };
}

function replaced(verdict: unknown, as: 'arguments' | 'result'): unknown {
  if (!isObject(verdict) || verdict.deny !== undefined || !Object.hasOwn(verdict, 'replace')) return verdict;
  return { [as]: verdict.replace };
}
