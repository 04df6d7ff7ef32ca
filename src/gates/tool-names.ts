/**
 * Which tools an option means: a list of names, or a function of the app's.
 */
import type { CallFacts } from './gate.js';
import { isThenable } from './value.js';

export type ToolChoice = readonly string[] | ((call: CallFacts) => boolean | Promise<boolean>);

/** Throws `TypeError` naming the option that cannot be used. */
export function toolTest(choice: ToolChoice, option: string): (call: CallFacts) => unknown {
  if (typeof choice === 'function') return choice;
  if (!Array.isArray(choice) || !choice.every((name) => typeof name === 'string'))
    throw new TypeError(`${option} must be an array of tool names or a function`);
  const names: ReadonlySet<string> = new Set(choice);
  return ({ tool }) => tool !== undefined && names.has(tool);
}

/** Goes on with the answer, in the same turn where it is there. */
export function withAnswer<T>(answer: unknown, next: (answer: unknown) => T | Promise<T>): T | Promise<T> {
  return isThenable(answer) ? Promise.resolve(answer).then(next) : next(answer);
}
