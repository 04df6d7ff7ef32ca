/**
 * The members of an audit entry as JSON text, put together by hand: it is done for every call.
 *
 * Guarantees JSON, and that nothing which a terminal obeys or hides stands in it as itself. Never cuts.
 */

/** Stands in JSON as it is. */
const SAFE = /^[ !#-[\]-~]*$/;
const PLAIN = /^[ -~]*$/;
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

export function quoted(text: string): string {
  return SAFE.test(text) ? `"${text}"` : visible(JSON.stringify(text));
}

/** `,"name":"text"`, or nothing. */
export function textMember(name: string, value: string | null | undefined): string {
  if (value === undefined) return '';
  return `,"${name}":${value === null ? 'null' : quoted(value)}`;
}

/** Of hexadecimal digits, which need no look. */
export function digestMember(name: string, value: string | null | undefined): string {
  if (value === undefined) return '';
  return value === null ? `,"${name}":null` : `,"${name}":"${value}"`;
}

/** Of a finite number, or true, or false. */
export function plainMember(name: string, value: number | boolean | undefined): string {
  return value === undefined ? '' : `,"${name}":${value}`;
}

export function jsonMember(name: string, value: unknown): string {
  const text = JSON.stringify(value);
  return text === undefined ? '' : `,"${name}":${visible(text)}`;
}

/** What is not shown stands as its escape: to a parser the same text. */
function visible(json: string): string {
  if (PLAIN.test(json)) return json;
  return json.replace(HIDDEN, (character) => {
    let escaped = '';
    for (let at = 0; at < character.length; at += 1)
      escaped += `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`;
    return escaped;
  });
}
