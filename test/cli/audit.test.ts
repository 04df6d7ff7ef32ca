import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkAudit } from '../../src/gates/audit-log.js';
import { auditLog } from '../../src/gates/index.js';
import { manualClock } from '../../src/testing/index.js';
import { folder, run } from './support.js';

/** A log of `count` lines, in a file of its own, with what it says of itself. */
async function log(count: number, options: { maxFileBytes?: number } = {}) {
  const cwd = await folder();
  const audit = auditLog(join(cwd, 'a.jsonl'), options);
  const clock = manualClock();
  for (let n = 1; n <= count; n += 1)
    checkAudit(audit)?.take(
      JSON.stringify({ n, secret: `canary-${n}`, text: 'x'.repeat(60) }).slice(1, -1),
      clock,
    );
  await audit.close();
  const text = await readFile(join(cwd, 'a.jsonl'), 'utf8');
  return { cwd, head: audit.head, text, lines: text.split('\n').slice(0, -1) };
}
const verify = (cwd: string, ...words: string[]) => run(['audit', 'verify', ...words], { cwd });

describe('audit verify', () => {
  it('says that every line is in place, and what cannot be seen without a head', async () => {
    const { cwd, head } = await log(5);
    expect(await verify(cwd, 'a.jsonl')).toEqual({
      status: 0,
      stdout: `5 lines are in place. Head: ${head}\nWithout --head a tail that was cut off, or a log that was written anew, cannot be seen.\n`,
      stderr: '',
    });
    expect(await verify(cwd, 'a.jsonl', '--head', head)).toMatchObject({
      status: 0,
      stdout: `5 lines are in place. Head: ${head}\n`,
    });
    const { text } = await log(3);
    const piped = await run(['audit', 'verify', '-'], { stdin: text });
    expect(piped).toMatchObject({ status: 0, stdout: expect.stringMatching(/^3 lines are in place/) });
  });

  it.each([
    [
      'a changed line',
      (l: string[]) => l.with(2, (l[2] as string).replace('canary-3', 'canary-4')),
      'a.jsonl:3: this line is not as it was written',
    ],
    ['a line gone', (l: string[]) => l.toSpliced(1, 1), 'a.jsonl:2: this line does not follow'],
    [
      'lines swapped',
      (l: string[]) => l.with(0, l[1] as string).with(1, l[0] as string),
      'a.jsonl:1: this line does not follow',
    ],
    ['the end gone', (l: string[]) => l.slice(0, 2), 'the line with the hash of --head is missing'],
  ])('finds %s, names the line, shows nothing of it', async (_what, tamper, words) => {
    const { cwd, head, lines } = await log(5);
    await writeFile(
      join(cwd, 'a.jsonl'),
      tamper(lines)
        .map((line) => `${line}\n`)
        .join(''),
    );
    const ran = await verify(cwd, 'a.jsonl', '--head', head);
    expect(ran).toMatchObject({ status: 1, stderr: '' });
    expect(ran.stdout).toContain(words);
    expect(ran.stdout).toContain('Verdict: the log is not as it was written.');
    expect(ran.stdout).not.toContain('canary');
  });

  it('reads the files of a rotated log in order, or a part of it after a known hash', async () => {
    const { cwd, head } = await log(60, { maxFileBytes: 4_096 });
    const { readdir } = await import('node:fs/promises');
    const [current, ...full] = (await readdir(cwd)).sort();
    expect(full.length).toBeGreaterThan(2);
    const all = [...full, current as string];
    expect(await verify(cwd, ...all, '--head', head)).toMatchObject({
      status: 0,
      stdout: `60 lines are in place. Head: ${head}\n`,
    });
    expect(await verify(cwd, ...all.toReversed())).toMatchObject({ status: 1 });
    expect(await verify(cwd, ...all.toSpliced(1, 1))).toMatchObject({ status: 1 });
    const before = (await readFile(join(cwd, full[0] as string), 'utf8')).trim().split('\n').at(-1) as string;
    const after = JSON.parse(before).hash as string;
    expect(await verify(cwd, ...all.slice(1), '--after', after, '--head', head)).toMatchObject({ status: 0 });
    expect(await verify(cwd, ...all.slice(1), '--head', head)).toMatchObject({ status: 1 });
    const second = await readFile(join(cwd, all[1] as string), 'utf8');
    await writeFile(join(cwd, all[1] as string), second.replace('canary', 'parrot'));
    const broken = await verify(cwd, ...all, '--json');
    expect(JSON.parse(broken.stdout)).toMatchObject({
      ok: false,
      reason: 'changed',
      file: all[1],
      brokenAtLineOfFile: 1,
      headGiven: false,
    });
  });

  it.each([
    [['audit'], '"verify" and a file'],
    [['audit', 'verify'], 'A file expected'],
    [['audit', 'verfy', 'a.jsonl'], 'did you mean verify?'],
    [['audit', 'verify', 'none.jsonl'], 'none.jsonl: There is no such file'],
    [['audit', 'verify', '-', '-'], 'standard input'],
    [['audit', 'verify', 'none.jsonl', '--head', 'abc'], '--head must be a hash'],
    [['audit', 'verify', 'none.jsonl', '--after', 'abc'], '--after must be a hash'],
  ])('%j cannot be used', async (words, said) => {
    const ran = await run(words, { cwd: await folder() });
    expect(ran).toMatchObject({ status: 2, stdout: '' });
    expect(ran.stderr).toContain(said);
  });

  it('is listed, and explains itself', async () => {
    expect((await run(['--help'])).stdout).toContain('audit');
    const { stdout, status } = await run(['audit', '--help']);
    expect(status).toBe(0);
    for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(100);
  });
});
