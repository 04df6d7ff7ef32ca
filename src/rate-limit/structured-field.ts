/**
 * The part of structured fields (RFC 9651) that rate limits are written in: lists and dictionaries of items
 * with parameters.
 *
 * Guarantees a bounded length, one pass, and all or nothing: a field with one fault in it is none. Never reads
 * inner lists and display strings: no such field has them.
 */

export type BareItem = number | string | boolean;

export interface FieldMember {
  /** In a dictionary. */
  readonly key?: string;
  /** Tokens and strings alike as text, byte sequences as their base64 text, dates as their seconds. */
  readonly value: BareItem;
  readonly parameters: ReadonlyMap<string, BareItem>;
}

/** Characters of one field, all its lines together: some thirty policies with long names are not half of it. */
const MAX_LENGTH = 8 * 1024;

const SPACES = / */y;
const OPTIONAL_WHITESPACE = /[ \t]*/y;
const COMMA = /,/y;
const SEMICOLON = /;/y;
const EQUALS = /=/y;
const KEY = /[a-z*][a-z0-9_.*-]*/y;
const DICTIONARY_KEY = /[a-z*][a-z0-9_.*-]*=/y;
const NUMBER = /-?(?:\d{1,12}\.\d{1,3}|\d{1,15})/y;
const STRING = /"(?:[ !#-[\]-~]|\\["\\])*"/y;
const TOKEN = /[A-Za-z*][A-Za-z0-9!#$%&'*+.^_`|~:/-]*/y;
const BYTES = /:[A-Za-z0-9+/=]*:/y;
const BOOLEAN = /\?[01]/y;
const DATE = /@-?\d{1,15}/y;

/** The members of a field in order; undefined where it is malformed, empty or too long. */
export function parseStructuredField(
  value: string | readonly string[] | undefined,
): readonly FieldMember[] | undefined {
  if (value === undefined) return undefined;
  const text = (typeof value === 'string' ? value : value.join(', ')).trim();
  if (text === '' || text.length > MAX_LENGTH) return undefined;
  return new Reader(text).members();
}

class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  members(): readonly FieldMember[] | undefined {
    const members: FieldMember[] = [];
    for (;;) {
      const member = this.#member();
      if (member === undefined) return undefined;
      members.push(member);
      this.#take(OPTIONAL_WHITESPACE);
      if (this.#at === this.#text.length) return members;
      if (this.#take(COMMA) === undefined) return undefined;
      this.#take(OPTIONAL_WHITESPACE);
    }
  }

  #member(): FieldMember | undefined {
    const key = this.#take(DICTIONARY_KEY)?.slice(0, -1);
    const value = this.#bareItem();
    const parameters = value === undefined ? undefined : this.#parameters();
    if (value === undefined || parameters === undefined) return undefined;
    return { ...(key !== undefined && { key }), value, parameters };
  }

  #parameters(): ReadonlyMap<string, BareItem> | undefined {
    const parameters = new Map<string, BareItem>();
    while (this.#take(SEMICOLON) !== undefined) {
      this.#take(SPACES);
      const key = this.#take(KEY);
      if (key === undefined) return undefined;
      const value = this.#take(EQUALS) === undefined ? true : this.#bareItem();
      if (value === undefined) return undefined;
      parameters.set(key, value);
    }
    return parameters;
  }

  #bareItem(): BareItem | undefined {
    const number = this.#take(NUMBER);
    if (number !== undefined) return Number(number);
    const text = this.#take(STRING);
    if (text !== undefined) return text.slice(1, -1).replace(/\\(["\\])/g, '$1');
    const token = this.#take(TOKEN);
    if (token !== undefined) return token;
    const bytes = this.#take(BYTES);
    if (bytes !== undefined) return bytes.slice(1, -1);
    const boolean = this.#take(BOOLEAN);
    if (boolean !== undefined) return boolean === '?1';
    const date = this.#take(DATE);
    return date === undefined ? undefined : Number(date.slice(1));
  }

  #take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0];
    if (found !== undefined) this.#at += found.length;
    return found;
  }
}
