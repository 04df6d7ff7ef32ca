import { spawnSync } from 'node:child_process';
import { appendFile, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { chained } from '../../../src/gates/audit-chain.js';
import { checkAudit } from '../../../src/gates/audit-log.js';
import { type AuditLog, auditLog, verifyAudit } from '../../../src/gates/index.js';
import { manualClock } from '../../../src/testing/index.js';

const START = '0'.repeat(64);
const clock = manualClock();
let folder: string;
let file: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-audit-'));
  file = join(folder, 'audit.jsonl');
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const take = (log: AuditLog, entry: object) =>
  checkAudit(log)?.take(JSON.stringify(entry).slice(1, -1), clock);
const mayCall = (log: AuditLog) => checkAudit(log)?.mayCall;
const linesOf = (text: string) => text.split('\n').slice(0, -1);

describe('auditLog on a file', () => {
  it('writes a line for each entry at once, and says its last hash', async () => {
    const log = auditLog(file, { required: true });
    expect(log.head).toBe(START);
    take(log, { tool: 'a' });
    const [first] = linesOf(await readFile(file, 'utf8'));
    expect(JSON.parse(first as string)).toEqual({ seq: 1, prev: START, tool: 'a', hash: log.head });
    take(log, { tool: 'b' });
    expect(verifyAudit(await readFile(file, 'utf8'), { head: log.head })).toEqual({
      ok: true,
      lines: 2,
      head: log.head,
    });
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    await log.close();
    take(log, { tool: 'c' });
    expect(linesOf(await readFile(file, 'utf8'))).toHaveLength(2);
  });

  it('writes what was gathered into as many files as it takes, each line whole', async () => {
    const log = auditLog(file, { maxFileBytes: 4_096 });
    for (let n = 0; n < 150; n += 1) take(log, { n, text: 'ü'.repeat(n) });
    await clock.advance(10);
    await log.close();
    const names = await readdir(folder);
    expect(names.length).toBeGreaterThan(5);
    let [after, lines] = [START, 0];
    for (const name of [...names.filter((each) => each !== 'audit.jsonl').sort(), 'audit.jsonl']) {
      const text = await readFile(join(folder, name), 'utf8');
      expect(Buffer.byteLength(text)).toBeLessThanOrEqual(4_096);
      const verdict = verifyAudit(text, { after });
      expect(verdict).toMatchObject({ ok: true });
      after = verdict.head;
      lines += verdict.lines;
    }
    expect([after, lines]).toEqual([log.head, 150]);
  });

  it('writes what is left when the process exits, and not when it was closed before', async () => {
    const script = (end: string) => `
      const { auditLog } = await import('mcp-holdfast/gates');
      const clock = { now: Date.now, setTimeout: () => ({ clear() {} }) };
      const log = auditLog(process.argv[1]);
      const writer = log[Symbol.for('mcp-holdfast.AuditLog')];
      for (let n = 0; n < 20; n += 1) writer.take('"n":' + n, clock);
      ${end}`;
    for (const [index, end] of ['process.exit(0)', 'throw new Error("crash")'].entries()) {
      const path = `${file}.${index}`;
      spawnSync(process.execPath, ['--input-type=module', '-e', script(end), path], { cwd: process.cwd() });
      expect(verifyAudit(await readFile(path, 'utf8'))).toMatchObject({ ok: true, lines: 20 });
    }
    const before = process.listenerCount('exit');
    const log = auditLog(file);
    take(log, { n: 1 });
    expect(process.listenerCount('exit')).toBe(before + 1);
    await log.close();
    expect(process.listenerCount('exit')).toBe(before);
  });

  it('opens nothing before the first entry', async () => {
    auditLog(file);
    expect(await readdir(folder)).toEqual([]);
  });

  it('goes on with the chain of a file that exists', async () => {
    for (let n = 0; n < 3; n += 1) {
      const log = auditLog(file);
      take(log, { n });
      take(log, { n, text: 'ü'.repeat(200_000) });
      await log.close();
    }
    const text = await readFile(file, 'utf8');
    expect(verifyAudit(text)).toMatchObject({ ok: true, lines: 6 });
  });

  it('takes out a line that was never finished, and says so', async () => {
    const log = auditLog(file);
    take(log, { n: 1 });
    await log.close();
    await appendFile(file, '{"seq":2,"prev":"ab');
    const next = auditLog(file);
    take(next, { n: 2 });
    const lines = linesOf(await readFile(file, 'utf8')).map((line) => JSON.parse(line));
    expect(lines).toMatchObject([{ n: 1 }, { event: 'recovered', tornBytes: 19 }, { n: 2 }]);
    expect(verifyAudit(await readFile(file, 'utf8'), { head: next.head }).ok).toBe(true);
  });

  it.each([
    ['a configuration', '{"mcpServers":{}}'],
    ['a text with lines', 'one\ntwo\n'],
    ['a log whose last line was changed', ''],
  ])('leaves %s alone, and refuses calls where the audit is required', async (what, text) => {
    let content = text;
    if (what.startsWith('a log')) {
      const log = auditLog(file);
      take(log, { amount: 1 });
      await log.close();
      content = (await readFile(file, 'utf8')).replace('"amount":1', '"amount":2');
    }
    await writeFile(file, content);
    const log = auditLog(file, { required: true });
    expect(mayCall(log)).toBe(false);
    take(log, { n: 1 });
    expect(log.waiting).toBe(1);
    expect(await readFile(file, 'utf8')).toBe(content);
    expect(mayCall(auditLog(file))).toBe(true);
  });

  it('keeps the chain over files that are full', async () => {
    const log = auditLog(file, { required: true, maxFileBytes: 4_096 });
    for (let n = 0; n < 100; n += 1) take(log, { n, text: 'x'.repeat(100) });
    await log.close();
    const again = auditLog(file, { required: true, maxFileBytes: 4_096 });
    for (let n = 100; n < 110; n += 1) take(again, { n });
    const names = (await readdir(folder)).sort();
    expect(names.length).toBeGreaterThan(5);
    const [current, ...full] = names;
    let head: string | undefined;
    let lines = 0;
    for (const name of [...full, current as string]) {
      const text = await readFile(join(folder, name), 'utf8');
      expect(text.length).toBeLessThanOrEqual(4_096);
      const verdict = verifyAudit(text, { after: head });
      expect(verdict.ok).toBe(true);
      lines += verdict.lines;
      head = verdict.head;
    }
    expect([lines, head]).toEqual([110, again.head]);
    // Each alone, without what came before, is not the beginning of a log.
    expect(verifyAudit(await readFile(file, 'utf8')).ok).toBe(false);
  });

  it('goes on where the process ended between a full file and the next one', async () => {
    const log = auditLog(file, { required: true, maxFileBytes: 4_096 });
    for (let n = 0; n < 20; n += 1) take(log, { n, text: 'x'.repeat(100) });
    const [, ...full] = (await readdir(folder)).sort();
    await log.close();
    await writeFile(file, '');
    const next = auditLog(file, { required: true, maxFileBytes: 4_096 });
    take(next, { n: 'next' });
    const before = verifyAudit(await readFile(join(folder, full.at(-1) as string), 'utf8'), { after: START });
    expect(before).toMatchObject({ ok: full.length === 1 });
    const last = linesOf(await readFile(join(folder, full.at(-1) as string), 'utf8')).at(-1) as string;
    expect(verifyAudit(await readFile(file, 'utf8'), { after: JSON.parse(last).hash })).toMatchObject({
      ok: true,
      lines: 1,
    });
  });

  it('writes what it could not write as soon as it can, in order', async () => {
    const log = auditLog(join(folder, 'later', 'audit.jsonl'), { required: true });
    take(log, { n: 1 });
    take(log, { n: 2 });
    expect([mayCall(log), log.waiting, log.head]).toEqual([false, 2, START]);
    const { mkdir } = await import('node:fs/promises');
    await mkdir(join(folder, 'later'));
    expect([mayCall(log), log.waiting]).toEqual([true, 0]);
    const text = await readFile(join(folder, 'later', 'audit.jsonl'), 'utf8');
    expect(linesOf(text).map((line) => JSON.parse(line).n)).toEqual([1, 2]);
    expect(verifyAudit(text, { head: log.head }).ok).toBe(true);
  });
});

describe('auditLog on anything that takes lines', () => {
  it('gives each line with its break, one after the other where the sink takes its time', async () => {
    const lines: string[] = [];
    const waiting: (() => void)[] = [];
    const log = auditLog({
      write: (line) => {
        lines.push(line);
        return new Promise<void>((resolve) => waiting.push(resolve));
      },
    });
    for (let n = 1; n <= 3; n += 1) take(log, { n });
    expect([lines.length, log.waiting, log.head]).toEqual([1, 3, START]);
    for (let n = 1; n <= 3; n += 1) {
      waiting.shift()?.();
      await clock.settle();
    }
    expect([lines.length, log.waiting]).toEqual([3, 0]);
    expect(verifyAudit(lines.join(''), { head: log.head })).toMatchObject({ ok: true, lines: 3 });
  });

  it.each(['throws', 'rejects'])('a sink that %s gets the line again, and nothing is lost', async (how) => {
    const lines: string[] = [];
    let isDown = true;
    const log = auditLog(
      {
        write: (line) => {
          if (!isDown) return lines.push(line);
          if (how === 'throws') throw new Error('full');
          return Promise.reject(new Error('full'));
        },
      },
      { required: true },
    );
    expect(mayCall(log)).toBe(true);
    take(log, { n: 1 });
    await clock.settle();
    take(log, { n: 2 });
    await clock.settle();
    expect([mayCall(log), log.waiting]).toEqual([false, 2]);
    await clock.settle();
    isDown = false;
    take(log, { n: 3 });
    await clock.settle();
    expect([mayCall(log), log.waiting]).toEqual([true, 0]);
    expect(lines.map((line) => JSON.parse(line).n)).toEqual([1, 2, 3]);
    expect(verifyAudit(lines.join('')).ok).toBe(true);
  });

  it('counts what it had to give up, in the next line', async () => {
    const lines: string[] = [];
    let isDown = true;
    const log = auditLog({
      write: (line) => {
        if (isDown) throw new Error('full');
        lines.push(line);
      },
    });
    for (let n = 1; n <= 10_005; n += 1) take(log, { n });
    isDown = false;
    take(log, { n: 'last' });
    expect(lines).toHaveLength(10_000);
    expect(JSON.parse(lines[0] as string)).toMatchObject({ n: 7, lostBefore: 6 });
    expect(JSON.parse(lines[1] as string)).not.toHaveProperty('lostBefore');
    expect(verifyAudit(lines.join('')).ok).toBe(true);
  });

  it('writes what is left when it is closed', async () => {
    const lines: string[] = [];
    const log = auditLog({
      write: async (line) => {
        await new Promise((resolve) => setImmediate(resolve));
        lines.push(line);
      },
    });
    for (let n = 0; n < 5; n += 1) take(log, { n });
    await log.close();
    expect(lines).toHaveLength(5);
  });

  it.each([
    ['no sink', () => auditLog(undefined as never)],
    ['an empty name', () => auditLog('')],
    ['no write()', () => auditLog({} as never)],
    ['an actor that is none', () => auditLog('a', { actor: 7 as never })],
    ['a path without a tool', () => auditLog('a', { clear: ['query'] })],
    ['a size for a stream', () => auditLog({ write: () => {} }, { maxFileBytes: 10_000 })],
    ['a misspelt option', () => auditLog('a', { require: true } as never)],
    ['what is no log', () => checkAudit({ head: '', waiting: 0, close: async () => {} })],
  ])('refuses %s with a TypeError', (_what, make) => {
    expect(make).toThrow(TypeError);
  });
});

describe('verifyAudit', () => {
  const logOf = (count: number) => {
    let text = '';
    const log = auditLog({
      write: (line) => {
        text += line;
      },
    });
    for (let n = 1; n <= count; n += 1) take(log, { n, tool: 'pay', amount: n * 10 });
    return { text, head: log.head };
  };

  it.each([
    ['nothing', (lines: string[]) => lines, true, undefined],
    [
      'a changed value',
      (l: string[]) => l.with(2, (l[2] as string).replace('"amount":30', '"amount":31')),
      false,
      3,
    ],
    ['a space more', (l: string[]) => l.with(2, `${l[2]} `), false, 3],
    [
      'a line forged, with a hash that is right',
      (l: string[]) => {
        const { line } = chained('"n":3,"tool":"buy"', JSON.parse(l[1] as string));
        return l.with(2, line.slice(0, -1));
      },
      false,
      4,
    ],
    ['a line gone', (l: string[]) => l.toSpliced(2, 1), false, 3],
    ['the first line gone', (l: string[]) => l.slice(1), false, 1],
    [
      'two lines in another order',
      (l: string[]) => l.with(1, l[2] as string).with(2, l[1] as string),
      false,
      2,
    ],
    ['a line twice', (l: string[]) => l.toSpliced(2, 0, l[2] as string), false, 4],
    ['a line put in', (l: string[]) => l.toSpliced(2, 0, '{"seq":3}'), false, 3],
    ['an empty line', (l: string[]) => l.toSpliced(2, 0, ''), false, 3],
    ['the tail gone', (l: string[]) => l.slice(0, 3), false, 4],
    ['everything gone', () => [], false, 1],
    ['written anew', () => logOf(5).text.replaceAll('pay', 'buy').split('\n').slice(0, -1), false, 1],
  ])('%s', (_what, tamper, ok, brokenAtLine) => {
    const { text, head } = logOf(5);
    const tampered = tamper(linesOf(text))
      .map((line) => `${line}\n`)
      .join('');
    expect(verifyAudit(tampered, { head })).toMatchObject(ok ? { ok } : { ok, brokenAtLine });
  });

  it('a whole new log, and a cut tail, are seen only by a head that was kept', () => {
    const { text, head } = logOf(5);
    const cut = `${linesOf(text).slice(0, 3).join('\n')}\n`;
    expect(verifyAudit(cut).ok).toBe(true);
    expect(verifyAudit(cut, { head })).toMatchObject({ ok: false, reason: 'head missing', brokenAtLine: 4 });
    expect(verifyAudit(text.slice(0, -1), { head })).toMatchObject({ ok: false, reason: 'incomplete' });
    // One that was kept earlier is in it as well.
    const earlier = JSON.parse(linesOf(text)[2] as string).hash;
    expect(verifyAudit(text, { head: earlier }).ok).toBe(true);
    expect(verifyAudit('', { head: START }).ok).toBe(true);
  });

  it('refuses a hash that is none', () => {
    expect(() => verifyAudit('', { head: 'abc' })).toThrow(TypeError);
    expect(() => verifyAudit('', { after: 'A'.repeat(64) })).toThrow(TypeError);
  });
});
