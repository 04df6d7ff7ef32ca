/**
 * Server text made fit to be looked at: what a terminal would obey or hide is spelled out.
 *
 * Guarantees that no control, bidi, zero-width, tag or other character that is not shown leaves here as
 * itself, and that two texts which differ look different unless they differ in look-alikes only. Never cuts.
 */

/**
 * Controls, format characters (bidi, tags, zero width), halves of surrogate pairs, private use, line
 * separators, whatever else is not shown, and the spaces that look like the ordinary one.
 */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]|(?! )\p{Zs}/gu;
/** A text that spells such an escape itself must not pass for one: backslashes before it count double. */
const BACKSLASHES =
  /(?<!\\)\\+(?=u\{|[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]|(?! )\p{Zs})/gu;

/** With `\u{...}` in place of each character that is not shown. */
export function visible(text: string): string {
  return text.replace(BACKSLASHES, '$&$&').replace(HIDDEN, (character) => codePointEscape(character));
}

/** A JSON string literal (with its quotes) in which such characters are `\uXXXX`: the same string for a parser, readable for people. */
export function visibleJsonString(text: string): string {
  return JSON.stringify(text).replace(HIDDEN, (character) => {
    let escaped = '';
    for (let at = 0; at < character.length; at++) {
      escaped += `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`;
    }
    return escaped;
  });
}

/** Whether two different texts are the same once what is not shown has been taken away. Line breaks count as shown. */
export function differOnlyInHidden(one: string, other: string): boolean {
  return one !== other && withoutHidden(one) === withoutHidden(other);
}

/** `U+0430 U+200B` */
export function codePoints(text: string): string {
  return Array.from(
    text,
    (character) => `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`,
  ).join(' ');
}

function codePointEscape(character: string): string {
  return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
}

function withoutHidden(text: string): string {
  return text.replace(HIDDEN, (character) => {
    if (character === '\n' || character === '\t') return character;
    return /\p{Zs}/u.test(character) ? ' ' : '';
  });
}
