/**
 * What is packed in a text: JSON, base64, data URLs, percent-encoding, escapes.
 *
 * Guarantees work in proportion to what it may look at, and that only what unpacks to text is given. Never unpacks
 * twice: that is the caller's, who counts the layers.
 */
export interface Unpacked {
  /** What was unpacked, in the order of the text. */
  readonly found: {
    readonly how: 'json' | 'base64' | 'data-url' | 'percent' | 'escape';
    readonly value: unknown;
  }[];
  /** Characters that were looked at more closely. */
  readonly cost: number;
  /** There was more than might be looked at. */
  readonly isCut: boolean;
}

/** Shorter runs are ordinary words and ids. */
const BASE64 = /[A-Za-z0-9+/_-]{16,}={0,2}/g;
const DATA_URL = /data:[\w.+/-]{0,100}(?:;[\w.=+-]{1,100})*,[^\s"'<>)\]]*/gi;
const PERCENT = /%[0-9a-f]{2}/i;
const ESCAPE = /\\(?:u[0-9a-f]{4}|x[0-9a-f]{2})/i;
const RUN = /[A-Za-z0-9+/_-]{16}/;
const WHOLE_RUN = /^[A-Za-z0-9+/_-]{16,}={0,2}$/;
const JSON_START = /^\s*[[{"]/;
/** A text in a language may have some, a picture has many. */
const CONTROL = /[\p{Cc}\ufffd]/gu;
const decoder = new TextDecoder('utf-8', { fatal: true });

export function unpack(text: string, budget: number): Unpacked {
  const found: Unpacked['found'] = [];
  const hasJson = JSON_START.test(text);
  const hasData = /data:/i.test(text);
  const hasPercent = PERCENT.test(text);
  const hasEscape = ESCAPE.test(text);
  const hasRuns = RUN.test(text);
  if (!hasJson && !hasData && !hasPercent && !hasEscape && !hasRuns) return { found, cost: 0, isCut: false };
  if (text.length > budget) return { found, cost: 0, isCut: true };
  const asJson = hasJson ? parsed(text) : undefined;
  if (asJson !== undefined) {
    // Its strings are looked at one by one.
    found.push({ how: 'json', value: asJson });
    return { found, cost: text.length, isCut: false };
  }
  let rest = text;
  if (hasData) {
    rest = text.replace(DATA_URL, (url) => {
      const inner = ofDataUrl(url);
      if (inner !== undefined) found.push({ how: 'data-url', value: inner });
      return ' ';
    });
  }
  if (hasRuns) {
    // Some wrap their lines.
    const whole = rest.replace(/\s+/g, '');
    const isWrapped = whole.length < rest.length && WHOLE_RUN.test(whole) && addBase64(whole, found);
    for (const [run] of isWrapped ? [] : rest.matchAll(BASE64)) addBase64(run, found);
  }
  if (hasPercent) {
    const inner = text.replace(/(?:%[0-9a-f]{2})+/gi, (run) => ofPercent(run));
    if (inner !== text) found.push({ how: 'percent', value: inner });
  }
  if (hasEscape) {
    const inner = text.replace(
      /\\(?:u([0-9a-f]{4})|x([0-9a-f]{2}))/gi,
      (_all, long?: string, short?: string) =>
        String.fromCharCode(Number.parseInt(long ?? (short as string), 16)),
    );
    found.push({ how: 'escape', value: inner });
  }
  return { found, cost: text.length, isCut: false };
}

function parsed(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'string' || (typeof value === 'object' && value !== null) ? value : undefined;
  } catch {
    return undefined;
  }
}

function addBase64(run: string, found: Unpacked['found']): boolean {
  const inner = ofBase64(run);
  if (inner !== undefined) found.push({ how: 'base64', value: inner });
  return inner !== undefined;
}

/** The text that base64 (either alphabet, RFC 4648) stands for; undefined where it stands for none. */
function ofBase64(run: string): string | undefined {
  const bare = run.replace(/=+$/, '');
  if (bare.length % 4 === 1) return undefined;
  return ofBytes(Buffer.from(bare.replaceAll('-', '+').replaceAll('_', '/'), 'base64'));
}

function ofBytes(bytes: Buffer): string | undefined {
  const asUtf8 = utf8(bytes);
  if (asUtf8 !== undefined && isText(asUtf8)) return asUtf8;
  // As some write it; every other byte of plain text is zero then.
  if (bytes.length < 8 || bytes.length % 2 === 1) return undefined;
  const asUtf16 = bytes.toString('utf16le');
  return asUtf8 !== undefined && isText(asUtf16) ? asUtf16 : undefined;
}

function utf8(bytes: Buffer): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

function isText(text: string): boolean {
  const controls = text.replace(/[\t\n\r]/g, '').match(CONTROL)?.length ?? 0;
  return text !== '' && controls * 10 <= text.length;
}

function ofPercent(run: string): string {
  try {
    return decodeURIComponent(run);
  } catch {
    return Buffer.from(run.replaceAll('%', ''), 'hex').toString('latin1');
  }
}

/** RFC 2397. */
function ofDataUrl(url: string): string | undefined {
  const comma = url.indexOf(',');
  const isBase64 = /;\s*base64\s*$/i.test(url.slice(0, comma));
  const data = url.slice(comma + 1).replace(/(?:%[0-9a-f]{2})+/gi, (run) => ofPercent(run));
  return isBase64 ? ofBase64(data) : data === '' ? undefined : data;
}
