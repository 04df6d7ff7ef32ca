import { open, symlink, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type ContractSnapshot, formatSnapshot, type JsonObject } from '../../src/contract/index.js';
import { startHostedServer } from '../../src/testing/index.js';
import { snapshotOf, toolOf } from '../unit/contract/support.js';
import { HOSTED, LOCAL } from './seed.js';
import { closeLater, folder, run } from './support.js';

async function files(from: ContractSnapshot, to: ContractSnapshot): Promise<string> {
  return folder({ 'a.json': formatSnapshot(from), 'b.json': formatSnapshot(to) });
}

const one = (description = 'Does a.') => snapshotOf({ tools: [toolOf('a', { description })] });

describe('diff', () => {
  it('names what differs between an 11-tool local build and a 13-tool hosted one, and exits 1', async () => {
    const cwd = await files(LOCAL, HOSTED);
    expect([LOCAL.tools.length, HOSTED.tools.length]).toEqual([11, 13]);
    const { status, stdout, stderr } = await run(['diff', 'a.json', 'b.json'], { cwd });
    expect(stderr).toBe('');
    expect(stdout).toContain('tool run_sql\n    removed');
    for (const name of ['list_teams', 'archive_project', 'whoami']) {
      expect(stdout).toContain(`tool ${name}\n    added`);
    }
    expect(stdout).toMatch(/-\s+0\.4\.0\n\s+\+\s+2026\.02\.3/);
    expect(stdout).toMatch(/tools\.listChanged: added/);
    expect(stdout).toMatch(/prompts: added/);
    expect(stdout).toContain('Verdict: breaking.');
    expect(status).toBe(1);
    const back = JSON.parse((await run(['diff', 'a.json', 'b.json', '--json'], { cwd })).stdout);
    const kinds = back.changes.map(({ kind }: { kind: string }) => kind);
    expect(kinds.filter((kind: string) => kind === 'tool-removed')).toHaveLength(1);
    expect(kinds.filter((kind: string) => kind === 'tool-added')).toHaveLength(3);
    expect(kinds.filter((kind: string) => kind === 'capability-added')).toHaveLength(2);
    expect(kinds.filter((kind: string) => kind === 'server-info-changed')).toHaveLength(1);
  });

  it.each([
    ['the same', one(), one(), 0],
    ['other places and times', one(), { ...one(), environment: 'else', takenAt: '2026-01-01' }, 0],
    ['cosmetic', one(), snapshotOf({ ...parts(one()), serverInfo: { name: 'files', version: '9' } }), 0],
    ['behaviour', one(), one('Does a, and more.'), 3],
    ['breaking', one(), snapshotOf({ tools: [] }), 1],
    ['breaking beside behaviour', one(), snapshotOf({ tools: [toolOf('b', { inputSchema: { x: 1 } })] }), 1],
  ])('%s', async (_what, from, to, expected) => {
    const cwd = await files(from as ContractSnapshot, to as ContractSnapshot);
    for (const form of [[], ['--json'], ['--markdown']]) {
      expect(await run(['diff', 'a.json', 'b.json', ...form], { cwd })).toMatchObject({ status: expected });
    }
  });

  it('reads one side from standard input, in pieces', async () => {
    const cwd = await files(LOCAL, HOSTED);
    const text = formatSnapshot(HOSTED);
    const bytes = new TextEncoder().encode(text);
    const stdin = [bytes.subarray(0, 777), bytes.subarray(777)];
    const piped = await run(['diff', 'a.json', '-', '--json'], { cwd, stdin });
    expect(piped).toEqual(await run(['diff', 'a.json', 'b.json', '--json'], { cwd }));
  });

  it('colours on a terminal only, and not where NO_COLOR or a dumb terminal says so', async () => {
    const cwd = await files(LOCAL, HOSTED);
    const args = ['diff', 'a.json', 'b.json'];
    const isTTY = { stdout: true, stderr: false };
    const coloured = await run(args, { cwd, isTTY });
    expect(coloured.stdout).toContain('\u001b[31m');
    const plain = await run(args, { cwd });
    for (const setting of [{ env: { NO_COLOR: '1' } }, { env: { TERM: 'dumb' } }]) {
      expect(await run(args, { cwd, isTTY, ...setting })).toEqual(plain);
    }
    for (const form of ['--json', '--markdown']) {
      expect((await run([...args, form], { cwd, isTTY })).stdout).not.toContain('\u001b');
    }
    // biome-ignore lint/suspicious/noControlCharactersInRegex: what a terminal obeys
    expect(coloured.stdout.replace(/\u001b\[\d*m/g, '')).toBe(plain.stdout);
  });

  it('leaves out what it is told to, says so, and only then', async () => {
    const cwd = await files(LOCAL, HOSTED);
    const args = ['diff', 'a.json', 'b.json'];
    const ignoring = await run([...args, '--ignore', 'tools.run_sql', '--ignore=capabilities'], { cwd });
    expect(ignoring).toMatchObject({ status: 3 });
    expect(ignoring.stdout).toContain('Left out by choice: 1 under tools.run_sql');
    expect(ignoring.stdout).toContain('Left out by choice: 2 under capabilities');
    const named = await run([...args, '--tools', 'search, list_teams', '--ignore', 'capabilities'], { cwd });
    expect(named).toMatchObject({ status: 3 });
    expect(named.stdout).not.toContain('tool run_sql');
    expect(await run([...args, '--tools', 'run_sql'], { cwd })).toMatchObject({ status: 1 });
  });

  it('refuses names and paths that would hide everything', async () => {
    const cwd = await files(LOCAL, HOSTED);
    const args = ['diff', 'a.json', 'b.json'];
    const typo = await run([...args, '--tools', 'serach'], { cwd });
    expect(typo).toEqual({
      status: 2,
      stdout: '',
      stderr: 'mcp-holdfast diff: --tools: neither side has a tool serach. Did you mean search?\n',
    });
    for (const words of [
      ['--tools', ' , '],
      ['--ignore', '*.*'],
      ['--ignore', 'tools..title'],
    ]) {
      const { status, stdout, stderr } = await run([...args, ...words], { cwd });
      expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
      expect(stderr).toContain(words[0]);
    }
  });

  it('shows nothing that a terminal obeys, in any form', async () => {
    const evil = snapshotOf({
      tools: [
        toolOf('a\u001b]0;x\u0007', { description: 'Does\u202e a.\u200b\u{e0041}', __proto__x: '\u009b31m' }),
      ],
    });
    const cwd = await files(one(), evil);
    for (const form of [[], ['--json'], ['--markdown']]) {
      const { stdout } = await run(['diff', 'a.json', 'b.json', ...form], { cwd });
      expect(stdout.replaceAll('\n', '')).not.toMatch(/[\p{Cf}\p{Cc}]/u);
      expect(stdout).toMatch(/\\u\{?202e/);
    }
  });

  it('takes one side from a server', async () => {
    const server = await startHostedServer({ tools: [{ name: 'echo' }] });
    closeLater(() => server.close());
    const env = { HOLDFAST_TOKEN: server.issueToken() };
    const cwd = await folder();
    await run(['snapshot', server.url, '-o', 'a.json'], { cwd, env });
    expect(await run(['diff', 'a.json', server.url], { cwd, env })).toMatchObject({ status: 0 });
    server.deploy({ tools: [] });
    expect(await run(['diff', 'a.json', server.url], { cwd, env })).toMatchObject({ status: 1, stderr: '' });
    const requests = server.counts.requests;
    const two = await run(['diff', server.url, 'https://elsewhere.example/mcp'], { cwd, env });
    expect(two).toMatchObject({ status: 2, stdout: '' });
    // A file that cannot be used is found before the server is asked.
    expect(await run(['diff', server.url, 'none.json'], { cwd, env })).toMatchObject({ status: 2 });
    expect(server.counts.requests).toBe(requests);
  });
});

function parts({ tools, ...rest }: ContractSnapshot) {
  return { ...rest, tools: tools.map(({ definition }) => definition) };
}

describe('diff: unusable input', () => {
  const good = formatSnapshot(LOCAL);
  const lines = good.split('\n');
  /** One line of the file written differently. */
  const altered = (pattern: RegExp, to: string) => good.replace(pattern, to);
  const lineWith = (text: string, nth = 0) =>
    lines.map((line, at) => (line.includes(text) ? at + 1 : 0)).filter((at) => at > 0)[nth];

  it.each<[what: string, text: string | Uint8Array, place: string, words: RegExp]>([
    ['cut in half', good.slice(0, good.length / 2), ':\\d+:\\d+', /ends too early/],
    ['cut by a byte', good.trimEnd().slice(0, -1), ':\\d+:\\d+', /ends too early/],
    ['empty', '', ':1:1', /ends too early/],
    ['no JSON', good.replace('"digest"', 'digest'), ':\\d+:\\d+', /not JSON/],
    ['a web page', '<!doctype html>', ':1:1', /not JSON/],
    ['other JSON', '{\n  "name": "x"\n}', ':1:1', /not a contract snapshot/],
    ['a list', '[]', ':1:1', /not a contract snapshot/],
    [
      'a newer format',
      altered(/"holdfast": 1/, '"holdfast": 2'),
      `:${lineWith('"holdfast"')}:3`,
      /newer format/,
    ],
    [
      'a key twice',
      altered(/"holdfast": 1,/, '"holdfast": 1,\n  "holdfast": 1,'),
      ':\\d+:3',
      /same key twice/,
    ],
    [
      'an unknown field',
      altered(/"holdfast": 1,/, '"holdfast": 1,\n  "hold": 1,'),
      ':\\d+:3',
      /does not know/,
    ],
    [
      '__proto__ on top',
      altered(/"holdfast": 1,/, '"holdfast": 1,\n  "__proto__": {},'),
      ':\\d+:3',
      /does not know/,
    ],
    [
      'a tool changed by hand',
      altered(/Does search\./, 'Does harm.'),
      `:\\d+:\\d+`,
      /digest.*tools\[\d+\]\.digest.*Tool: search/,
    ],
    [
      'a field missing',
      altered(/ {2}"takenAt".*\n/, '').replace(/,\n {2}"tools"/, ',\n  "tools"'),
      ':1:1',
      /missing/,
    ],
    ['UTF-16', new Uint8Array(Buffer.from(`\ufeff${good}`, 'utf16le')), ':1:1', /UTF-16/],
    ['no text', new Uint8Array([0x7b, 0xff, 0x7d]), '', /UTF-8/],
  ])('%s', async (_what, text, place, words) => {
    const cwd = await folder({ 'good.json': good, 'bad.json': text });
    for (const args of [
      ['bad.json', 'good.json'],
      ['good.json', 'bad.json', '--json'],
    ]) {
      const { status, stdout, stderr } = await run(['diff', ...args], { cwd });
      expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
      expect(stderr).toMatch(new RegExp(`^mcp-holdfast diff: bad\\.json${place}: `));
      expect(stderr).toMatch(words);
      expect(stderr.split('\n')).toHaveLength(2);
    }
    const piped = await run(['diff', 'good.json', '-'], { cwd, stdin: [text] });
    expect(piped.status).toBe(2);
    expect(piped.stderr).toMatch(new RegExp(`standard input${place}: `));
  });

  it('two tools of one name: the second one, its name and its place', async () => {
    const file = JSON.parse(good);
    file.tools.splice(3, 0, file.tools[2]);
    const text = JSON.stringify(file, null, 2);
    const cwd = await folder({ 'good.json': good, 'bad.json': text });
    const { status, stderr } = await run(['diff', 'good.json', 'bad.json'], { cwd });
    expect(status).toBe(2);
    const second = text.split('\n').map((line, at) => [line, at + 1] as const);
    const openings = second.filter(([line]) => line === '    {').map(([, at]) => at);
    expect(stderr).toBe(
      `mcp-holdfast diff: bad.json:${openings[3]}:5: The snapshot has two tools of one name. Field: tools[3]. Tool: ${file.tools[2].name}.\n`,
    );
  });

  it('__proto__ keys within a tool are data: they are compared and shown, nothing is polluted', async () => {
    const schema = JSON.parse('{"type":"object","__proto__":{"polluted":true}}') as JsonObject;
    const cwd = await files(
      snapshotOf({ tools: [toolOf('a')] }),
      snapshotOf({ tools: [toolOf('a', { inputSchema: schema })] }),
    );
    const { status, stdout } = await run(['diff', 'a.json', 'b.json', '--json'], { cwd });
    expect(status).toBe(1);
    expect(stdout).toContain('"__proto__"');
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  });

  it('a file of 200 MB is refused by its size, unread', async () => {
    const cwd = await folder({ 'good.json': good, 'big.json': '' });
    await truncate(join(cwd, 'big.json'), 200 * 1024 * 1024);
    const before = process.memoryUsage().arrayBuffers;
    const { status, stdout, stderr } = await run(['diff', 'good.json', 'big.json'], { cwd });
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr).toBe('mcp-holdfast diff: big.json: It has 200 MiB, more than the 64 MiB that are read.\n');
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(16 * 1024 * 1024);
  });

  it('a pipe without end is cut at the same bound', async () => {
    const cwd = await folder({ 'good.json': good });
    let pieces = 0;
    const stdin = (function* () {
      for (;;) {
        pieces++;
        yield new Uint8Array(8 * 1024 * 1024);
      }
    })();
    const { status, stderr } = await run(['diff', '-', 'good.json'], { cwd, stdin });
    expect({ status, pieces }).toEqual({ status: 2, pieces: 9 });
    expect(stderr).toContain('standard input: It has more than the 64 MiB');
  });

  it('what is no file', async () => {
    const cwd = await folder({ 'good.json': good });
    await symlink('loop', join(cwd, 'loop'));
    for (const [name, words] of [
      ['.', 'This is a directory'],
      ['none.json', 'There is no such file'],
      ['good.json/x', 'There is no such file'],
      ['loop', 'Too many symbolic links'],
      ['no\u001b[2Jne', 'no\\u{1b}[2Jne: There is no such file'],
    ]) {
      const { status, stderr } = await run(['diff', 'good.json', name as string], { cwd });
      expect(status).toBe(2);
      expect(stderr).toContain(words);
    }
  });

  it('a file behind a byte order mark, and one with Windows line ends, are read', async () => {
    const cwd = await folder({ 'good.json': good, 'bom.json': `\ufeff${good}` });
    await writeFile(join(cwd, 'crlf.json'), good.replaceAll('\n', '\r\n'));
    for (const name of ['bom.json', 'crlf.json']) {
      expect(await run(['diff', 'good.json', name], { cwd })).toMatchObject({ status: 0, stderr: '' });
    }
  });

  it('a name with "#" in it is that file', async () => {
    const cwd = await folder({ 'a#b.json': good });
    const file = await open(join(cwd, 'a#b.json'));
    await file.close();
    expect(await run(['diff', 'a#b.json', 'a#b.json'], { cwd })).toMatchObject({ status: 0 });
  });
});
