/**
 * The SDK's check of structured results, kept from harming its host.
 *
 * Guarantees that a schema which cannot be compiled costs its own tool the check, not the whole tool
 * list, and that no pattern of a server can block the event loop: repeated groups that match one text in
 * several ways are refused, and long texts are not matched. Never lets a checked result pass that the check refused.
 */
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/ajv';
import type {
  JsonSchemaType,
  JsonSchemaValidator,
  jsonSchemaValidator,
} from '@modelcontextprotocol/sdk/validation/types.js';
import { cleanServerText, HostedMcpError } from './errors.js';

/** Steps that a pattern may take: what is quadratic in 8 Ki characters stays in milliseconds. */
const MOST_STEPS = (8 * 1024) ** 2;
const MAX_DEPTH = 64;
/** A group with nothing but plain text, and what repeats it. */
const REPEATED_GROUP = /\(([^()]*)\)(?:[*+]|\{\d*,?\d*\})/g;
const QUANTIFIER = /[*+?}]/;
/** What stands for an escape or a class: it may overlap with any other character. */
const ANY = '\0';

export function guardedValidator(
  given: jsonSchemaValidator | undefined,
  report: (error: Error) => void,
): jsonSchemaValidator {
  // A client that never lists its tools needs none, and one weighs as much as the rest of the client.
  let inner = given;
  return {
    getValidator<T>(schema: JsonSchemaType): JsonSchemaValidator<T> {
      const unchecked: JsonSchemaValidator<T> = (input) => ({
        valid: true,
        data: input as T,
        errorMessage: undefined,
      });
      const patterns = patternsIn(schema);
      if (patterns.some(isDangerous)) {
        report(
          new Error(
            'The output schema of a tool has a pattern that could block this process; its results are not checked.',
          ),
        );
        return unchecked;
      }
      let validate: JsonSchemaValidator<T>;
      try {
        inner ??= new AjvJsonSchemaValidator();
        validate = inner.getValidator<T>(schema);
      } catch {
        report(new Error('The output schema of a tool cannot be used; its results are not checked.'));
        return unchecked;
      }
      if (patterns.length === 0) return validate;
      const longest = Math.min(...patterns.map(longestInput));
      return (input) => (hasLongText(input, longest, 0) ? unchecked(input) : validate(input));
    },
  };
}

/** The request was answered; the SDK found that the answer does not fit its schema. */
export function refusedResult(error: unknown, method: string, tool: string | undefined): HostedMcpError {
  const serverText = error instanceof Error ? cleanServerText(error.message) : undefined;
  const what =
    tool === undefined
      ? 'The result is not of the form it should have'
      : 'The result of the tool is not of the form it declares';
  return new HostedMcpError('ERR_RESULT_REFUSED', what, {
    executed: true,
    method,
    tool,
    serverText,
    cause: error,
  });
}

/** A repeated group that can match the same text in several ways takes time that doubles with each character. */
function isDangerous(pattern: string): boolean {
  let text = plain(pattern).replace(/\(\?(?:[:=!]|<[=!]|<\w+>)/g, '(');
  for (let depth = 0; depth < MAX_DEPTH; depth += 1) {
    for (const [, body = ''] of text.matchAll(REPEATED_GROUP)) if (isAmbiguous(body)) return true;
    // Innermost groups are taken out one by one, so that nesting of any depth is seen.
    const next = text.replace(/\([^()]*\)/g, (group) => (isAmbiguous(group) ? `${ANY}+` : ANY));
    if (next === text) return false;
    text = next;
  }
  return true;
}

/** Repetition within, or alternatives that may begin alike. */
function isAmbiguous(body: string): boolean {
  if (QUANTIFIER.test(body)) return true;
  const first = body.split('|').map((alternative) => alternative.charAt(0));
  return (
    first.length > 1 && (new Set(first).size < first.length || first.some((each) => !/[^\0^$.]/.test(each)))
  );
}

/** With `count` repetitions one after the other, time may grow with that power of the length. */
function longestInput(pattern: string): number {
  const count = plain(pattern).match(/[*+]|\{\d*,\d*\}/g)?.length ?? 0;
  return Math.floor(MOST_STEPS ** (1 / Math.max(2, count)));
}

function plain(pattern: string): string {
  return pattern.replace(/\\./gs, ANY).replace(/\[[^\]]*\]/g, ANY);
}

function patternsIn(schema: unknown, depth = 0): string[] {
  if (typeof schema !== 'object' || schema === null || depth > MAX_DEPTH) return [];
  const found: string[] = [];
  for (const [key, value] of Object.entries(schema)) {
    if (key === 'pattern' && typeof value === 'string') found.push(value);
    else if (key === 'patternProperties' && typeof value === 'object' && value !== null)
      found.push(...Object.keys(value));
    found.push(...patternsIn(value, depth + 1));
  }
  return found;
}

function hasLongText(value: unknown, longest: number, depth: number): boolean {
  if (typeof value === 'string') return value.length > longest;
  if (typeof value !== 'object' || value === null || depth > MAX_DEPTH) return false;
  return Object.entries(value).some(
    ([key, each]) => key.length > longest || hasLongText(each, longest, depth + 1),
  );
}
