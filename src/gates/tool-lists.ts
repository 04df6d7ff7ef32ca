/**
 * `allowTools` and `denyTools`: which tools may be called at all.
 *
 * Guarantees that only a clear word lets a call pass: a function that answers anything but `true` or `false` refuses.
 * Never takes a tool out of a list that a model reads.
 */
import type { Gate } from './gate.js';
import { type ToolChoice, toolTest, withAnswer } from './tool-names.js';

/**
 * Only these tools may be called; a function says `true` for a call that may.
 *
 * @example
 * gates: [allowTools(['search', 'read_page'])]
 *
 * Throws `TypeError` for anything but an array of names or a function.
 */
export function allowTools(tools: ToolChoice): Gate {
  const isAllowed = toolTest(tools, 'allowTools');
  return {
    name: 'allowTools',
    before: (call) =>
      withAnswer(isAllowed(call), (answer) =>
        answer === true ? 'allow' : { deny: 'the tool is not among those that may be called' },
      ),
  };
}

/** These tools may not be called; a function says `true` for a call that may not, and `false` for one that may. */
export function denyTools(tools: ToolChoice): Gate {
  const isDenied = toolTest(tools, 'denyTools');
  return {
    name: 'denyTools',
    before: (call) =>
      withAnswer(isDenied(call), (answer) =>
        answer === false ? 'allow' : { deny: 'the tool is among those that may not be called' },
      ),
  };
}
