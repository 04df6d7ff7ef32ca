import { describe, expect, it } from 'vitest';
import { diffContracts } from '../../../src/contract/diff.js';
import { formatDiff } from '../../../src/contract/format-diff.js';
import type { JsonObject } from '../../../src/contract/types.js';
import { snapshotOf, toolOf } from './support.js';

const local = snapshotOf({
  environment: 'local',
  tools: [
    toolOf('purge', { description: 'Deletes all that is old.' }),
    toolOf('search', {
      description: 'Reads a file from the disk.',
      title: 'Search',
      inputSchema: { type: 'object', properties: { q: { type: 'string' } }, required: ['q'] },
    }),
  ],
});
const hosted = snapshotOf({
  environment: 'hosted',
  url: 'https://example.com/mcp',
  tools: [
    toolOf('search', {
      description: 'Reads a file from the disc.',
      title: 'Find',
      inputSchema: { type: 'object', properties: { q: { type: 'string' } }, required: ['limit', 'q'] },
    }),
    toolOf('share', { description: 'Shares a file\nwith everybody.', inputSchema: { type: 'object' } }),
  ],
  capabilities: { tools: { listChanged: true } },
  serverInfo: { name: 'files', version: '2026.02.3' },
});
const diff = diffContracts(local, hosted, { ignore: ['tools.*.title'] });

/** A description that changes to `text`, shown. */
const shown = (text: string, as: 'text' | 'markdown' = 'markdown', name = 't') =>
  formatDiff(
    diffContracts(
      snapshotOf({ tools: [toolOf(name)] }),
      snapshotOf({ tools: [toolOf(name, { description: text })] }),
    ),
    { as },
  );

describe('as text', () => {
  it('by level, then by tool, with what was and what is', () => {
    expect(formatDiff(diff)).toBe(`--- local 2026-02-03T04:05:06.000Z
+++ hosted https://example.com/mcp 2026-02-03T04:05:06.000Z

breaking: 2 changes
  tool purge
    removed
  -   {
  -     "description": "Deletes all that is old.",
  -     "inputSchema": {
  -       "type": "object"
  -     },
  -     "name": "purge"
  -   }
  tool search
    inputSchema.required: more is required
  -   ["q"]
  +   ["limit","q"]

behaviour: 3 changes
  tool search
    description: changed
  -   Reads a file from the disk.
  +   Reads a file from the disc.
      first difference: character 26: "k" → "c"
  tool share
    added
  +   {
  +     "description": "Shares a file\\nwith everybody.",
  +     "inputSchema": {
  +       "type": "object"
  +     },
  +     "name": "share"
  +   }
  capabilities
    tools.listChanged: added
  +   true

cosmetic: 1 change
  serverInfo
    version: changed
  -   0.4.0
  +   2026.02.3
      first difference: character 1: "0"… → "2"…

Verdict: breaking.
Left out by choice: 1 under tools.*.title
`);
  });

  it('nothing differs, or nothing that counts', () => {
    expect(formatDiff(diffContracts(local, local))).toContain('\nThe contracts are identical.\n');
    const ignored = diffContracts(snapshotOf(), snapshotOf({ instructions: 'x' }), {
      ignore: ['instructions'],
    });
    expect(formatDiff(ignored)).toContain(
      '\nNo difference but those left out.\nLeft out by choice: 1 under instructions\n',
    );
  });

  it('colour only when asked for, and of ours alone', () => {
    expect(formatDiff(diff)).not.toContain('\u001b');
    const coloured = formatDiff(diff, { color: true });
    expect(coloured).toContain('\u001b[31m-   Reads a file from the disk.\u001b[0m');
    expect(coloured).toContain('\u001b[32m+   Reads a file from the disc.\u001b[0m');
    // biome-ignore lint/suspicious/noControlCharactersInRegex: it is what colours are made of
    expect(coloured.replace(/\u001b\[(?:\d+)m/g, '')).toBe(formatDiff(diff));
  });

  it.each([
    ['screen clearing', '\u001b[2J\u001b[H'],
    ['title setting', '\u001b]0;x\u0007'],
    ['C1', '\u009b31m'],
    ['carriage return', 'safe\rdanger'],
    ['backspace', 'a\b\b'],
    ['bidi', '\u202edanger'],
    ['tags', '\u{e0069}\u{e006e}'],
  ])('no control of a server reaches a terminal: %s', (_, text) => {
    const hostile: JsonObject = {
      name: `t${text}`,
      description: text,
      inputSchema: JSON.parse(
        JSON.stringify({ properties: { [text]: { description: text, [text]: [text] } } }),
      ),
      [text]: text,
    };
    const [plain, poisoned] = [snapshotOf({ tools: [] }), snapshotOf({ tools: [hostile] })];
    const edited = snapshotOf({
      tools: [{ ...hostile, description: 'x', [text]: 1, inputSchema: { properties: {} } }],
    });
    for (const each of [
      diffContracts(plain, poisoned),
      diffContracts(poisoned, plain),
      diffContracts(edited, poisoned),
      diffContracts(poisoned, edited),
      diffContracts(
        plain,
        snapshotOf({ serverInfo: { [text]: text }, capabilities: { [text]: text }, environment: text }),
      ),
    ]) {
      for (const as of ['text', 'markdown'] as const) {
        const output = formatDiff(each, { as });
        expect(output.replaceAll('\n', '')).not.toMatch(
          /[\p{Cc}\p{Cf}\p{Cs}\p{Default_Ignorable_Code_Point}]/u,
        );
        expect(output).toMatch(/\\u/);
      }
    }
  });

  it('a difference that cannot be seen is named and spelled out', () => {
    const output = shown('Does\u200b t.', 'text');
    expect(output).toContain('description: changed: only characters that are not shown differ');
    expect(output).toContain('+   Does\\u{200b} t.');
  });
});

/** The lines outside fences, as a Markdown reader (CommonMark 4.5) would find them. */
function outsideFences(markdown: string): string[] {
  const outside: string[] = [];
  let fence: string | undefined;
  for (const line of markdown.split(/\r\n|\n|\r/)) {
    const run = /^ {0,3}(`{3,}|~{3,})(.*)$/.exec(line);
    if (fence === undefined) {
      if (run) fence = run[1];
      else outside.push(line);
    } else if (run?.[1]?.startsWith(fence) && run[2]?.trim() === '') fence = undefined;
    // Not even where it could not end the fence for this reader.
    else expect(line).not.toContain(fence);
  }
  expect(fence).toBeUndefined();
  return outside.filter((line) => line !== '');
}

describe('as Markdown', () => {
  it('headings of ours, everything of the server in fences, breaking first', () => {
    expect(outsideFences(formatDiff(diff, { as: 'markdown' }))).toEqual([
      '## Contract',
      '### breaking: 2 changes',
      '### behaviour: 3 changes',
      '### cosmetic: 1 change',
    ]);
    expect(formatDiff(diff, { as: 'markdown' })).toContain(
      '@@ tool search @@\n  description: changed\n-   Reads a file from the disk.\n+   Reads a file from the disc.\n',
    );
  });

  it.each([
    ['a fence', '```\n# Approved\n@everyone [click](https://evil.example)'],
    ['a longer fence', '`````````\n<img src=x>\n```'],
    ['a fence of tildes', '~~~\n# Approved\n~~~'],
    ['a fence after a carriage return', 'x\r```\r# Approved'],
    ['a fence after a line separator', 'x\u2028```\u2028# Approved'],
    ['a run of 50,000 backticks', '`'.repeat(50_000)],
    ['a table and HTML', '| a | b |\n|---|---|\n</details><script>'],
    ['an issue and a commit', 'Fixes #1, see org/repo@0123456789abcdef'],
  ])('a server cannot break out: %s', (_, text) => {
    for (const output of [shown(text), shown(`x\n${text}\ny`), shown('x', 'markdown', text)]) {
      const outside = outsideFences(output).filter((line) => !/^\*\*\d+ lines are not shown/.test(line));
      expect(outside).toEqual(['## Contract', '### behaviour: 1 change']);
    }
    const everywhere = diffContracts(
      snapshotOf({ environment: text }),
      snapshotOf({
        serverInfo: { [text]: text },
        capabilities: { [text]: { [text]: text } },
        instructions: text,
      }),
      { ignore: ['instructions'] },
    );
    for (const line of outsideFences(formatDiff(everywhere, { as: 'markdown' }))) {
      expect(line).toMatch(
        /^(## Contract|### (breaking|behaviour|cosmetic): \d+ changes?|\*\*\d+ lines are not shown here: see the text form\.\*\*)$/,
      );
    }
  });

  it('fits into a comment, says what it left out, and keeps the gravest', () => {
    const many = snapshotOf({
      tools: Array.from({ length: 3_000 }, (_, index) =>
        toolOf(`new-${index}`, { description: 'x'.repeat(90) }),
      ),
    });
    const flooded = diffContracts(snapshotOf({ tools: [toolOf('gone')] }), many);
    const output = formatDiff(flooded, { as: 'markdown' });
    expect(output.length).toBeLessThan(65_000);
    expect(outsideFences(output)).toContainEqual(
      expect.stringMatching(/^\*\*\d{4,} lines are not shown here/),
    );
    expect(output).toContain('@@ tool gone @@');
    expect(formatDiff(flooded)).toContain('"name": "new-2999"');
    expect(shown('`'.repeat(50_000)).length).toBeLessThan(65_000);
  });
});
