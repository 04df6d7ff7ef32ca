/**
 * `WWW-Authenticate`, read strictly (RFC 9110 section 11.6.1; RFC 6750 section 3; RFC 9728 section 5.1).
 *
 * Guarantees linear time and a bound on what is read; reading ends where it cannot be parsed, and what was
 * read in full until there counts. Never follows what it finds.
 */
import { LIMITS } from '../limits.js';

export interface Challenge {
  /** In lower case: `bearer`, `dpop`, `basic` ... */
  readonly scheme: string;
  readonly error?: string;
  readonly scope?: string;
  readonly resourceMetadata?: string;
}

const TOKEN = /[!#$%&'*+\-.^_`|~0-9A-Za-z]+/y;
const PADDED = /[0-9A-Za-z\-._~+/]+=*(?=\s*(?:,|$))/y;

/** All challenges of all header values, in order. */
export function parseChallenges(values: readonly string[]): Challenge[] {
  const found: Challenge[] = [];
  let read = 0;
  for (const value of values) {
    read += value.length;
    if (read > LIMITS.challengeBytes) break;
    found.push(...parseOne(value));
  }
  return found;
}

function parseOne(text: string): Challenge[] {
  const challenges: { scheme: string; parameters: Map<string, string> }[] = [];
  let at = 0;
  const match = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at;
    const found = pattern.exec(text)?.[0];
    if (found !== undefined) at += found.length;
    return found;
  };
  const skip = () => match(/[\s,]*/y);
  for (skip(); at < text.length; skip()) {
    const word = match(TOKEN);
    if (word === undefined) return finish(challenges);
    const current = challenges.at(-1);
    if (match(/\s*=\s*/y) !== undefined) {
      const value = text[at] === '"' ? quoted() : match(TOKEN);
      // A parameter of nothing, or one that goes on in a way no parameter does: a scheme it is not.
      if (current === undefined || value === undefined || !/[\s,]|$/y.test(text.slice(at, at + 1)))
        return finish(challenges);
      const name = word.toLowerCase();
      if (!current.parameters.has(name)) current.parameters.set(name, value);
    } else {
      challenges.push({ scheme: word.toLowerCase(), parameters: new Map() });
      match(/\s+/y);
      // A token68 (RFC 9110 section 11.2) stands where parameters would.
      if (!/[\w.-]+\s*=\s*["\w]/y.test(text.slice(at, at + 100))) match(PADDED);
    }
  }
  return finish(challenges);

  function quoted(): string | undefined {
    let value = '';
    for (at += 1; at < text.length; at += 1) {
      if (text[at] === '"') {
        at += 1;
        return value;
      }
      if (text[at] === '\\') at += 1;
      value += text[at] ?? '';
    }
    return undefined;
  }
}

function finish(challenges: { scheme: string; parameters: Map<string, string> }[]): Challenge[] {
  return challenges.map(({ scheme, parameters }) => {
    const error = parameters.get('error');
    const scope = parameters.get('scope');
    const resourceMetadata = parameters.get('resource_metadata');
    return {
      scheme,
      ...(error !== undefined && { error }),
      ...(scope !== undefined && { scope }),
      ...(resourceMetadata !== undefined && { resourceMetadata }),
    };
  });
}
