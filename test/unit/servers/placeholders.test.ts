import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { HostedMcpError } from '../../../src/index.js';
import { type Reader, resolveText } from '../../../src/servers/placeholders.js';

const ph = (inner: string) => `\${${inner}}`;
let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'placeholders-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function reader(variables: Record<string, string | undefined> = {}): Reader & { learned: string[] } {
  const learned: string[] = [];
  return { server: 'mine', variables, learned, learn: (value) => learned.push(value) };
}
function file(name: string, content: string | Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}
const failure = (text: string, from: Reader = reader()) =>
  resolveText(text, 'env.KEY', from).then(
    (value) => {
      throw new Error(`resolved to ${value}`);
    },
    (error: unknown) => error as HostedMcpError,
  );

describe('variables', () => {
  it.each([
    ['nothing to read $A {A} $', 'nothing to read $A {A} $'],
    [ph('A'), 'a'],
    [ph('env:A'), 'a'],
    [`x${ph('A')}y${ph('B')}z`, `xayb-${ph('A')}z`],
    [ph('C:-otherwise: this'), 'otherwise: this'],
    [ph('A:-otherwise'), 'a'],
    [ph('EMPTY:-'), ''],
    [`Bearer ${ph('A')}`, 'Bearer a'],
  ])('%s', async (text, expected) => {
    // What a variable holds is not read again.
    const from = reader({ A: 'a', B: `b-${ph('A')}`, EMPTY: '' });
    expect(await resolveText(text, 'env.KEY', from)).toBe(expected);
  });

  it.each([ph('GONE'), ph('EMPTY'), ph('UNSET'), ph('toString'), ph('__proto__')])(
    '%s cannot be had',
    async (text) => {
      const error = await failure(`a-${text}`, reader({ EMPTY: '', UNSET: undefined }));
      expect(HostedMcpError.isInstance(error, 'ERR_CREDENTIAL_SOURCE')).toBe(true);
      expect(error.message).toContain('The server "mine"');
      expect(error.message).toContain('"env.KEY"');
      expect(error.message).toContain(text.slice(2, -1));
    },
  );

  it('tells what was read, and only that', async () => {
    const from = reader({ A: 'secret' });
    await resolveText(`literal ${ph('A')}`, 'args[0]', from);
    expect(from.learned).toEqual(['secret']);
  });

  it('a name is shown as text, with nothing hidden in it', async () => {
    const error = await failure(ph('A'), { ...reader(), server: `evil\u001b[31m\u202e${'x'.repeat(500)}` });
    expect(error.message).not.toMatch(/[\p{Cc}\p{Cf}]/u);
    expect(error.message.length).toBeLessThan(400);
  });
});

describe('files', () => {
  it.each([
    ['value', 'value'],
    ['value\n', 'value'],
    ['value\r\n', 'value'],
    ['value\n\n', 'value\n'],
    [' value ', ' value '],
    ['\ufeffvalue', 'value'],
    ['zwölf €\n', 'zwölf €'],
    ['x'.repeat(64 * 1024), 'x'.repeat(64 * 1024)],
  ])('%#', async (content, expected) => {
    const path = file('content', content);
    const from = reader();
    expect(await resolveText(`<${ph(`file:${path}`)}>`, 'env.KEY', from)).toBe(`<${expected}>`);
    expect(from.learned).toEqual([expected]);
  });

  it('is read at each use, through a link, too', async () => {
    const path = file('first', 'one');
    const link = join(folder, 'link');
    symlinkSync(path, link);
    expect(await resolveText(ph(`file:${link}`), 'env.KEY', reader())).toBe('one');
    file('first', 'two');
    expect(await resolveText(ph(`file:${link}`), 'env.KEY', reader())).toBe('two');
  });

  it.each([
    ['one byte too large', () => file('large', 'x'.repeat(64 * 1024 + 1)), 'is larger than 65536 bytes'],
    ['missing', () => join(folder, 'missing'), 'cannot be read'],
    ['a folder', () => folder, 'is no file'],
    ['empty', () => file('empty', '\n'), 'is empty'],
    ['no text', () => file('binary', Uint8Array.of(0xff, 0xfe, 0x80)), 'cannot be read as text'],
    ['with a NUL', () => file('nul', 'a\0b'), 'holds a NUL'],
    ['endless', () => '/dev/zero', 'is no file'],
    [
      'a pipe that nobody writes to',
      () => {
        const path = join(folder, 'pipe');
        execFileSync('mkfifo', [path]);
        return path;
      },
      'is no file',
    ],
  ])('%s', async (_, make, words) => {
    const path = make();
    const error = await failure(ph(`file:${path}`));
    expect(HostedMcpError.isInstance(error, 'ERR_CREDENTIAL_SOURCE')).toBe(true);
    expect(error.message).toContain(words);
    expect(error.message).not.toContain('xxx');
  });
});
