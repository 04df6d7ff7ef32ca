import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { showTextChange } from '../../../src/contract/text-change.js';
import { differOnlyInHidden, visible, visibleJsonString } from '../../../src/contract/visible.js';

const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u;
const hiding = fc.string({
  unit: fc.oneof(
    fc.constantFrom(
      '\\',
      'u',
      '{',
      '}',
      '2',
      '0',
      'b',
      '\u200b',
      '\u202e',
      '\u{e0041}',
      '\u00a0',
      '\ud800',
      '\n',
    ),
    fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
  ),
  maxLength: 8,
});

describe('what is not shown is spelled out', () => {
  it.each([
    ['escape sequence', '\u001b[2J', '\\u{1b}[2J'],
    ['bidi override', 'a\u202eb', 'a\\u{202e}b'],
    ['bidi isolate', '\u2066', '\\u{2066}'],
    ['zero width', '\u200b\ufeff\u200d', '\\u{200b}\\u{feff}\\u{200d}'],
    ['tag', '\u{e0061}', '\\u{e0061}'],
    ['variation selector', '\ufe0f', '\\u{fe0f}'],
    ['Hangul filler', '\u3164', '\\u{3164}'],
    ['soft hyphen', '\u00ad', '\\u{ad}'],
    ['line separators, C1, DEL', '\u2028\u0085\u007f', '\\u{2028}\\u{85}\\u{7f}'],
    ['half of a pair', '\ud83d', '\\u{d83d}'],
    ['another space', 'a\u00a0b', 'a\\u{a0}b'],
    ['line break', '\r\n', '\\u{d}\\u{a}'],
    ['what is shown', 'Größe 😀 \\d+ C:\\users', 'Größe 😀 \\d+ C:\\users'],
    ['an escape spelled by the text itself', '\\u{200b}', '\\\\u{200b}'],
  ])('%s', (_, text, shown) => {
    expect(visible(text)).toBe(shown);
  });

  it('two texts that differ never look the same, and none has anything hidden left', () => {
    fc.assert(
      fc.property(hiding, hiding, (one, other) => {
        expect(visible(one)).not.toMatch(HIDDEN);
        expect(visible(one) === visible(other)).toBe(one === other);
      }),
      { numRuns: 2_000 },
    );
  });

  it('a JSON string stays the same string for a parser', () => {
    fc.assert(
      fc.property(hiding, (text) => {
        expect(JSON.parse(visibleJsonString(text))).toBe(text);
        expect(visibleJsonString(text)).not.toMatch(HIDDEN);
      }),
      { numRuns: 1_000 },
    );
  });

  it('a long run of backslashes costs no more than its length', () => {
    expect(visible(`${'\\'.repeat(300_000)}x`)).toHaveLength(300_001);
    expect(visible(`${'\\'.repeat(300_000)}u{`)).toHaveLength(600_002);
  });

  it('differing only there', () => {
    expect(differOnlyInHidden('ab', 'a\u200bb')).toBe(true);
    expect(differOnlyInHidden('a b', 'a\u2003b')).toBe(true);
    expect(differOnlyInHidden('a\nb', 'a\r\nb')).toBe(true);
    expect(differOnlyInHidden('a\nb', 'ab')).toBe(false);
    expect(differOnlyInHidden('a', 'a')).toBe(false);
    expect(differOnlyInHidden('a', '\u0430')).toBe(false);
  });
});

describe('two versions of a text', () => {
  it('one character: both lines, and which', () => {
    expect(showTextChange('Reads a file from the disk.', 'Reads a file from the disc.')).toEqual({
      from: ['Reads a file from the disk.'],
      to: ['Reads a file from the disc.'],
      note: 'first difference: character 26: "k" → "c"',
    });
  });

  it('a look-alike is told by its number', () => {
    const { note } = showTextChange('Reads a file.', 'Re\u0430ds a file.');
    expect(note).toBe('first difference: character 3: "a" → "\u0430" (U+0430)');
  });

  it('something hidden is spelled out and told by its number', () => {
    const shown = showTextChange('Reads.', 'Reads\u200b.');
    expect(shown.to).toEqual(['Reads\\u{200b}.']);
    expect(shown.note).toBe('first difference: character 6: nothing → "\\u{200b}" (U+200B)');
  });

  it('of a long line, what is around the difference', () => {
    const long = (middle: string) => `${'a'.repeat(5_000)}${middle}${'b'.repeat(5_000)}`;
    const shown = showTextChange(long('x'), long('yz'));
    expect(shown.from).toEqual([`… ${'a'.repeat(60)}x${'b'.repeat(60)} …`]);
    expect(shown.to).toEqual([`… ${'a'.repeat(60)}yz${'b'.repeat(60)} …`]);
    expect(shown.note).toBe('first difference: character 5001: "x" → "yz"');
  });

  it('of many lines, those that differ', () => {
    const shown = showTextChange('one\ntwo\nthree\nfour', 'one\n2\nthree and\nfour');
    expect(shown.from).toEqual(['two', 'three']);
    expect(shown.to).toEqual(['2', 'three and']);
    expect(shown.note).toBe('first difference: line 2, character 1: "two" → "2"');
    expect(showTextChange('one', 'one\ntwo')).toEqual({ from: [], to: ['two'] });
  });

  it('is never the same on both sides, and no pair of surrogates is cut', () => {
    fc.assert(
      fc.property(hiding, hiding, fc.nat(200), (one, other, around) => {
        fc.pre(one !== other);
        const frame = '\u{1f600}'.repeat(around);
        const shown = showTextChange(frame + one + frame, frame + other + frame);
        expect(shown.from).not.toEqual(shown.to);
        if (!/[\ud800-\udfff]/.test((one + other).replace(/[\u{10000}-\u{10ffff}]/gu, ''))) {
          expect([...shown.from, ...shown.to].join('')).not.toMatch(/\\u\{d[89a-f]/);
        }
      }),
      { numRuns: 500 },
    );
  });
});
