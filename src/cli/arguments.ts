/**
 * The words of a command line, read by `node:util`'s parseArgs.
 *
 * Guarantees that what a command does not know is refused with the nearest name it knows, and that no value is
 * repeated in a message: somebody may have put a secret there. Never guesses what a word belongs to.
 */
import { parseArgs } from 'node:util';
import { UsageError } from './command.js';
import { nearest } from './nearest.js';

export interface OptionSpec {
  readonly type: 'string' | 'boolean';
  /** One letter: `o` for `-o`. */
  readonly short?: string | undefined;
  /** May be given more than once. */
  readonly multiple?: boolean | undefined;
}

/** Options that every command has. */
export const COMMON_OPTIONS = Object.freeze({
  json: { type: 'boolean' },
  progress: { type: 'boolean' },
} as const satisfies Record<string, OptionSpec>);

export interface ReadWords {
  readonly positionals: readonly string[];
  flag(name: string): boolean;
  one(name: string): string | undefined;
  all(name: string): readonly string[];
}

const SECRET_NAMES = /token|secret|passw|key|auth|bearer|header|^h$|^u$|credential/i;
export const WHERE_SECRETS_GO =
  'secrets are never arguments, where every process can read them: set HOLDFAST_TOKEN, or HOLDFAST_ISSUER, HOLDFAST_CLIENT_ID and HOLDFAST_CLIENT_SECRET, or name an entry of a configuration file';

/**
 * `count`: how many words that are no options there may be, and what they are for the message.
 * Throws a `UsageError`.
 */
export function readArguments(
  args: readonly string[],
  spec: Readonly<Record<string, OptionSpec>>,
  count: { readonly min: number; readonly max: number; readonly what: string },
): ReadWords {
  const options = Object.fromEntries(
    Object.entries(spec).map(([name, { type, short }]) => [
      name,
      { type, ...(short !== undefined && { short }) },
    ]),
  );
  const { tokens } = parseArgs({
    args: [...args],
    options,
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const values = new Map<string, string[]>();
  const positionals: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional') positionals.push(token.value);
    if (token.kind !== 'option') continue;
    const { name, rawName, value, inlineValue } = token;
    const known = Object.hasOwn(spec, name) ? spec[name] : undefined;
    if (known === undefined) throw unknownOption(rawName, name, spec);
    const given = values.get(name) ?? [];
    values.set(name, given);
    if (given.length > 0 && known.multiple !== true) throw new UsageError(`${rawName} is given twice.`);
    if (known.type === 'boolean') {
      if (value !== undefined) throw new UsageError(`${rawName} takes no value.`);
      given.push('');
      continue;
    }
    // The next option is no value: it was forgotten.
    const isForgotten = inlineValue === false && value !== undefined && /^-./.test(value);
    if (value === undefined || value === '' || isForgotten) {
      throw new UsageError(`${rawName} needs a value.`);
    }
    given.push(value);
  }
  if (positionals.length < count.min || positionals.length > count.max) {
    throw new UsageError(`${count.what} expected, ${positionals.length} given; see --help.`);
  }
  return {
    positionals,
    flag: (name) => values.has(name),
    one: (name) => values.get(name)?.[0],
    all: (name) => values.get(name) ?? [],
  };
}

/** The parts of `a,b`, for `--tools`. */
export function namesIn(lists: readonly string[]): string[] {
  const names = lists.flatMap((list) => list.split(',')).map((name) => name.trim());
  return [...new Set(names.filter((name) => name !== ''))];
}

function unknownOption(
  rawName: string,
  name: string,
  spec: Readonly<Record<string, OptionSpec>>,
): UsageError {
  const isName = /^--?[a-z][\w-]{0,39}$/i.test(rawName);
  const shown = isName ? `Unknown option ${rawName}` : 'Unknown option';
  if (SECRET_NAMES.test(name)) return new UsageError(`${shown}: ${WHERE_SECRETS_GO}.`);
  const meant = name.length > 1 ? nearest(name, [...Object.keys(spec), 'help']) : undefined;
  return new UsageError(meant === undefined ? `${shown}; see --help.` : `${shown}; did you mean --${meant}?`);
}
