/**
 * The SDK's check of structured results, kept from harming its host.
 *
 * Guarantees that a schema which cannot be compiled costs its own tool the check, not the whole tool
 * list, and that no pattern of a server can block the event loop: nested quantifiers are refused and long
 * texts are not matched. Never lets a checked result pass that the check refused.
 */
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/ajv';
import type {
  JsonSchemaType,
  JsonSchemaValidator,
  jsonSchemaValidator,
} from '@modelcontextprotocol/sdk/validation/types.js';

/** A pattern is tried on no longer text: what is quadratic stays in milliseconds. */
const LONGEST_PATTERN_INPUT = 8 * 1024;
const MAX_DEPTH = 64;
/** A repeated group that holds a repetition itself: `(a+)+`, `(a|b*)*`. */
const NESTED_QUANTIFIER = /\([^()]*[*+}][^()]*\)\s*[*+{]/;

export function guardedValidator(
  given: jsonSchemaValidator | undefined,
  report: (error: Error) => void,
): jsonSchemaValidator {
  const inner = given ?? new AjvJsonSchemaValidator();
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
        validate = inner.getValidator<T>(schema);
      } catch {
        report(new Error('The output schema of a tool cannot be used; its results are not checked.'));
        return unchecked;
      }
      if (patterns.length === 0) return validate;
      return (input) => (hasLongText(input, 0) ? unchecked(input) : validate(input));
    },
  };
}

function isDangerous(pattern: string): boolean {
  // Innermost groups are taken out one by one, so that nesting of any depth is seen.
  let text = pattern.replace(/\\./g, 'x').replace(/\[[^\]]*\]/g, 'x');
  for (let depth = 0; depth < MAX_DEPTH; depth += 1) {
    if (NESTED_QUANTIFIER.test(text)) return true;
    const next = text.replace(/\([^()]*[*+}][^()]*\)/g, 'x+').replace(/\([^()]*\)/g, 'x');
    if (next === text) return false;
    text = next;
  }
  return true;
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

function hasLongText(value: unknown, depth: number): boolean {
  if (typeof value === 'string') return value.length > LONGEST_PATTERN_INPUT;
  if (typeof value !== 'object' || value === null || depth > MAX_DEPTH) return false;
  return Object.entries(value).some(
    ([key, each]) => key.length > LONGEST_PATTERN_INPUT || hasLongText(each, depth + 1),
  );
}
