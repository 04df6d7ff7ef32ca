/**
 * Our own secrets, taken out of text and data that others wrote.
 *
 * Guarantees that a known secret does not survive in plain, percent-encoded, base64 (also as a part of a
 * longer base64 text, as in HTTP Basic) or JSON-escaped spelling, also where secrets overlap. Never changes
 * what holds none, never shows its secrets to `util.inspect` or JSON. Knows only what it was told: it is no
 * search for things that look like secrets.
 */
const REDACTED = '[redacted]';
/** Shorter ones would hit ordinary words. */
const SHORTEST_SECRET = 6;
/** Old tokens may still be echoed for a while, but not for ever. */
const KEPT_SECRETS = 64;
/** Deeper data than this is replaced as a whole, once anything in it has to be replaced. */
const MAX_DEPTH = 50;

export class Redactor {
  /** Secret → its spellings; the order is that of adding. */
  readonly #secrets = new Map<string, readonly string[]>();
  #spellings: readonly string[] = [];
  #shortest = Number.POSITIVE_INFINITY;

  /** Adds a secret, or makes it the latest again; of more than 64 the oldest is forgotten. */
  add(secret: string): void {
    if (secret.length < SHORTEST_SECRET) return;
    const known = this.#secrets.get(secret);
    // Added again with every request; which is the latest matters only when one has to go.
    if (known !== undefined && this.#secrets.size < KEPT_SECRETS) return;
    this.#secrets.delete(secret);
    this.#secrets.set(secret, known ?? spellingsOf(secret));
    if (known !== undefined) return;
    if (this.#secrets.size > KEPT_SECRETS) this.#secrets.delete(this.#secrets.keys().next().value as string);
    this.#spellings = [...new Set([...this.#secrets.values()].flat())];
    this.#shortest = Math.min(...this.#spellings.map((spelling) => spelling.length));
  }

  contains(text: string): boolean {
    if (text.length < this.#shortest) return false;
    for (const spelling of this.#spellings) if (text.includes(spelling)) return true;
    return false;
  }

  /** The text with every secret replaced by `[redacted]`. */
  text(text: string): string {
    if (text.length < this.#shortest) return text;
    let found: [start: number, end: number][] | undefined;
    for (const spelling of this.#spellings) {
      let last: [start: number, end: number] | undefined;
      for (let at = text.indexOf(spelling); at !== -1; at = text.indexOf(spelling, at + 1)) {
        const end = at + spelling.length;
        // A spelling may overlap itself.
        if (last !== undefined && at <= last[1]) {
          last[1] = end;
        } else {
          last = [at, end];
          found ??= [];
          found.push(last);
        }
      }
    }
    return found === undefined ? text : withoutRanges(text, found);
  }

  /**
   * The same value if no string in it holds a secret, else a copy with those strings (names of properties
   * too) replaced. Looks into arrays and plain objects, own enumerable properties only.
   */
  value(value: unknown): unknown {
    if (typeof value === 'string') return this.text(value);
    if (this.#spellings.length === 0 || !this.#findsIn(value)) return value;
    return this.#copy(value, 0, new Map(), new Set());
  }

  /** Walks without recursion: data from outside may be nested deeper than the stack. */
  #findsIn(root: unknown): boolean {
    const open: unknown[] = [root];
    const seen = new Set<object>();
    while (open.length > 0) {
      const value = open.pop();
      if (typeof value === 'string') {
        if (this.contains(value)) return true;
      } else if (isContainer(value) && !seen.has(value)) {
        seen.add(value);
        if (Array.isArray(value)) {
          for (const item of value) open.push(item);
        } else {
          for (const key of Object.keys(value)) open.push(key, value[key]);
        }
      }
    }
    return false;
  }

  #copy(value: unknown, depth: number, done: Map<object, unknown>, path: Set<object>): unknown {
    if (typeof value === 'string') return this.text(value);
    if (!isContainer(value)) return value;
    if (depth >= MAX_DEPTH || path.has(value)) return REDACTED;
    const before = done.get(value);
    if (before !== undefined) return before;
    path.add(value);
    let copy: unknown;
    if (Array.isArray(value)) {
      copy = Array.from(value, (item) => this.#copy(item, depth + 1, done, path));
    } else {
      copy = Object.getPrototypeOf(value) === null ? Object.create(null) : {};
      for (const key of Object.keys(value)) {
        // Defined, not assigned: a property named __proto__ stays one.
        Object.defineProperty(copy, this.text(key), {
          value: this.#copy(value[key], depth + 1, done, path),
          enumerable: true,
          configurable: true,
          writable: true,
        });
      }
    }
    path.delete(value);
    done.set(value, copy);
    return copy;
  }
}

/** Arrays and plain objects, of this or another realm. */
function isContainer(value: unknown): value is Record<string, unknown> | unknown[] {
  if (typeof value !== 'object' || value === null) return false;
  if (Array.isArray(value)) return true;
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function withoutRanges(text: string, found: [start: number, end: number][]): string {
  found.sort((a, b) => a[0] - b[0]);
  let out = '';
  let copied = 0;
  found.forEach(([from, to], index) => {
    // Overlapping or touching finds are one.
    if (index === 0 || from > copied) out += `${text.slice(copied, from)}${REDACTED}`;
    copied = Math.max(copied, to);
  });
  return out + text.slice(copied);
}

function spellingsOf(secret: string): string[] {
  const inJson = JSON.stringify(secret).slice(1, -1);
  const all = new Set([secret, inJson, inJson.replaceAll('/', '\\/')]);
  for (const text of [...all]) all.add(text.replace(/[^ -~]/g, unicodeEscape));

  const inForm = new URLSearchParams([['', secret]]).toString().slice(1);
  for (const encoded of [percentEncoded(secret), inForm, inForm.replaceAll('+', '%20')]) {
    all.add(encoded);
    all.add(encoded.replace(/%[0-9A-F]{2}/g, (octet) => octet.toLowerCase()));
  }
  for (const encoded of base64Forms(new TextEncoder().encode(secret))) {
    all.add(encoded);
    all.add(encoded.replaceAll('+', '-').replaceAll('/', '_'));
  }
  return [...all].filter((spelling) => spelling.length >= SHORTEST_SECRET);
}

function percentEncoded(secret: string): string {
  try {
    return encodeURIComponent(secret);
  } catch {
    // Half of a surrogate pair: there is no such spelling.
    return secret;
  }
}

function unicodeEscape(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/**
 * The whole, and for each of the three positions in which it may stand within a longer base64 text
 * (`user:secret` of HTTP Basic) those characters that depend on the secret alone.
 */
function base64Forms(bytes: Uint8Array): string[] {
  const whole = base64(bytes);
  const forms = [whole, whole.replace(/=+$/, '')];
  for (let offset = 0; offset < 3; offset++) {
    const shifted = new Uint8Array(offset + bytes.length);
    shifted.set(bytes, offset);
    // Six bits a character: leave out those that share bits with a neighbour's bytes.
    const first = Math.ceil((offset * 8) / 6);
    const end = Math.floor((shifted.length * 8) / 6);
    forms.push(base64(shifted).slice(first, end));
  }
  return forms;
}

function base64(bytes: Uint8Array): string {
  let binary = '';
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary);
}
