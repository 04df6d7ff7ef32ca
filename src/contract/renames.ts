/**
 * Which of the tools that are gone look as if they had come back under another name.
 *
 * Guarantees that each tool is in at most one pair and that the cost stays linear, however alike the tools are.
 * Never pairs tools that have nothing but emptiness in common.
 */
import { canonicalJson, isJsonObject, own } from './canonical.js';
import type { ToolContract } from './types.js';

export interface Rename {
  readonly from: ToolContract;
  readonly to: ToolContract;
}

/** How many candidates are looked at for one tool: enough for real lists, and a bound for made-up ones. */
const CANDIDATES = 8;
/** Share of words in common from which two descriptions count as the same text, edited. */
const LIKE_WORDS = 0.7;
/** Of a description, the part that is compared. */
const DESCRIPTION_LENGTH = 2_000;

export function findRenames(removed: readonly ToolContract[], added: readonly ToolContract[]): Rename[] {
  if (removed.length === 0 || added.length === 0) return [];
  const gone = removed.map(traitsOf);
  const come = added.map(traitsOf);
  // The same in all but the name goes first, so that no mere likeness takes its place.
  const pairs: Rename[] = [];
  const pair = (
    keyOf: (traits: Traits) => string | undefined,
    alike: (one: Traits, other: Traits) => boolean,
  ) => {
    const waiting = new Map<string, Set<Traits>>();
    for (const traits of come) {
      const key = traits.paired ? undefined : keyOf(traits);
      if (key === undefined) continue;
      const others = waiting.get(key);
      if (others) others.add(traits);
      else waiting.set(key, new Set([traits]));
    }
    for (const traits of gone) {
      const key = traits.paired ? undefined : keyOf(traits);
      const others = key === undefined ? undefined : waiting.get(key);
      const match = others && firstOf(others, (other) => alike(traits, other));
      if (!match) continue;
      others.delete(match);
      traits.paired = true;
      match.paired = true;
      pairs.push({ from: traits.tool, to: match.tool });
    }
  };
  pair(
    ({ description, schema, says }) => (says ? `${schema} ${description}` : undefined),
    () => true,
  );
  pair(({ schema }) => schema, likeWords);
  pair(({ description }) => (description.length > 0 ? description : undefined), likeArguments);
  return pairs;
}

interface Traits {
  readonly tool: ToolContract;
  readonly description: string;
  /** Both schemas, canonical. */
  readonly schema: string;
  readonly words: ReadonlySet<string>;
  readonly args: ReadonlySet<string>;
  /** Whether there is anything by which it could be recognised. */
  readonly says: boolean;
  paired: boolean;
}

function traitsOf(tool: ToolContract): Traits {
  const stated = own(tool.definition, 'description');
  const description = typeof stated === 'string' ? stated : '';
  const input = own(tool.definition, 'inputSchema');
  const properties = isJsonObject(input) ? own(input, 'properties') : undefined;
  const args = new Set(isJsonObject(properties) ? Object.keys(properties) : []);
  return {
    tool,
    description,
    schema: canonicalJson([input ?? null, own(tool.definition, 'outputSchema') ?? null]),
    words: new Set(
      description
        .slice(0, DESCRIPTION_LENGTH)
        .toLowerCase()
        .split(/[^\p{L}\p{N}]+/u)
        .filter(Boolean),
    ),
    args,
    says: description.length > 0 || args.size > 0,
    paired: false,
  };
}

function likeWords(one: Traits, other: Traits): boolean {
  return likeness(one.words, other.words) >= LIKE_WORDS;
}

/** Under one description: half of the arguments or more are the same. */
function likeArguments(one: Traits, other: Traits): boolean {
  return likeness(one.args, other.args) >= 0.5;
}

/** What two sets share, of what either has. */
function likeness(one: ReadonlySet<string>, other: ReadonlySet<string>): number {
  let shared = 0;
  for (const word of one) if (other.has(word)) shared++;
  const all = one.size + other.size - shared;
  return all === 0 ? 0 : shared / all;
}

function firstOf(candidates: ReadonlySet<Traits>, fits: (traits: Traits) => boolean): Traits | undefined {
  let looked = 0;
  for (const candidate of candidates) {
    if (fits(candidate)) return candidate;
    if (++looked === CANDIDATES) return undefined;
  }
  return undefined;
}
