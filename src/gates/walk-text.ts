/**
 * Every text in a value, as a model could come to read it: also what is packed into JSON, base64, data URLs or
 * percent-encoding within a text.
 *
 * Guarantees that no text is left out without a piece that says so (`cut`), and bounds on depth and work, so that no
 * value can keep an inspector busy without end. Never judges: what is found is for the inspector.
 */
import { unpack } from './unpack.js';

/** One text, and where it is. */
export interface TextPiece {
  /** `content[0].text`, and for what was packed in it `content[0].text>json.note>base64`; `{key}`: the name of a property. */
  readonly path: string;
  readonly text: string;
  /** Characters that are not shown (bidi controls, zero width, tags, controls): `U+202E U+200B`, each once. */
  readonly hidden?: string;
  /** What may be packed in this text was not looked at: it is packed too deep, or there is too much of it. */
  readonly cut?: 'depth' | 'size';
}

/** Packings within packings that are opened. */
const MAX_LAYERS = 3;
/** Characters of packed text that are looked at, over all of a value. */
const MAX_PACKED = 1024 * 1024;
/** Of ordinary words; what is longer or has other characters may say something. */
const PLAIN_KEY = /^[\w$.:/-]{1,40}$/;
/** As for errors' texts, save for the white space of ordinary text. */
const HIDDEN = /(?![\t\n\r])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;
const HIDDEN_SHOWN = 20;
const PLAIN = /^[\t\n\r -~]*$/;

interface Open {
  readonly path: string;
  readonly value: unknown;
  readonly layers: number;
}

/**
 * Yields every string of `value`: of content blocks, structured content, arguments, tool definitions, or any other
 * JSON; names of properties where they are no plain words; and what is packed in them, down to three layers and 1 MiB.
 * A heuristic: there are other ways to hide a text.
 */
export function* walkText(value: unknown): Generator<TextPiece, void, undefined> {
  // No recursion: what comes from outside may be nested deeper than the stack.
  const open: Open[] = [{ path: '', value, layers: 0 }];
  const seen = new Set<object>();
  let leftToUnpack = MAX_PACKED;
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    const { path, layers } = at;
    if (typeof at.value === 'string') {
      const text = at.value;
      const packed = unpack(text, leftToUnpack);
      leftToUnpack -= packed.cost;
      const isTooDeep = layers >= MAX_LAYERS && packed.found.length > 0;
      const cut = isTooDeep ? 'depth' : packed.isCut ? 'size' : undefined;
      const hidden = hiddenIn(text);
      yield {
        path,
        text,
        ...(hidden !== undefined && { hidden }),
        ...(cut !== undefined && { cut }),
      };
      if (isTooDeep) continue;
      for (const { how, value: inner } of packed.found.reverse())
        open.push({ path: `${path}>${how}`, value: inner, layers: layers + 1 });
      continue;
    }
    if (typeof at.value !== 'object' || at.value === null || seen.has(at.value)) continue;
    seen.add(at.value);
    const inner: Open[] = [];
    if (Array.isArray(at.value)) {
      for (const [index, item] of at.value.entries())
        inner.push({ path: `${path}[${index}]`, value: item, layers });
    } else {
      for (const key of Object.keys(at.value)) {
        const isPlain = PLAIN_KEY.test(key);
        const here = isPlain ? `${path === '' ? '' : `${path}.`}${key}` : `${path}[${JSON.stringify(key)}]`;
        if (!isPlain) inner.push({ path: `${path}{key}`, value: key, layers });
        inner.push({ path: here, value: (at.value as Record<string, unknown>)[key], layers });
      }
    }
    for (const each of inner.reverse()) open.push(each);
  }
}

function hiddenIn(text: string): string | undefined {
  if (PLAIN.test(text)) return undefined;
  const found = new Set<string>();
  for (const [character] of text.matchAll(HIDDEN)) {
    found.add(`U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`);
    if (found.size >= HIDDEN_SHOWN) break;
  }
  return found.size === 0 ? undefined : [...found].join(' ');
}
