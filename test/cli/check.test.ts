import { execFileSync } from 'node:child_process';
import { mkdir, rename, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { walk } from '../../src/cli/walk.js';
import { formatSnapshot } from '../../src/contract/index.js';
import { snapshotOf, toolOf } from '../unit/contract/support.js';
import { HOSTED, LOCAL } from './seed.js';
import { closeLater, folder, run } from './support.js';

const SNAPSHOTS = ['--snapshot', 'hosted.json', '--snapshot', 'local.json'];

/** An app beside two snapshots. */
async function app(files: Record<string, string | Uint8Array> = {}): Promise<string> {
  const cwd = await folder({ 'hosted.json': formatSnapshot(HOSTED), 'local.json': formatSnapshot(LOCAL) });
  await mkdir(join(cwd, 'app'));
  for (const [name, text] of Object.entries(files)) {
    await mkdir(join(cwd, 'app', name, '..'), { recursive: true });
    await writeFile(join(cwd, 'app', name), text);
  }
  return cwd;
}

describe('check --tools', () => {
  it.each<[tools: string[], missing: string[]]>([
    [['search,get_user'], []],
    [['search,run_sql'], ['run_sql']],
    [['--nothing'].slice(1).concat('never_there'), ['never_there']],
    [
      ['search', 'run_sql,search, gone'],
      ['run_sql', 'gone'],
    ],
  ])('%j', async (tools, missing) => {
    const cwd = await app();
    const args = ['check', '--snapshot', 'hosted.json', ...tools.flatMap((list) => ['--tools', list])];
    const { status, stdout, stderr } = await run(args, { cwd });
    expect({ status, stderr }).toEqual({ status: missing.length === 0 ? 0 : 1, stderr: '' });
    const lines = missing.map((name) => `${name} is missing in hosted.json\n`);
    expect(stdout).toBe(lines.join('') || 'Nothing is missing in hosted.json\n');
    const json = await run([...args, '--json'], { cwd });
    expect(JSON.parse(json.stdout)).toMatchObject({ missing, references: [] });
  });

  it('the first snapshot is the one that counts', async () => {
    const cwd = await app();
    const args = ['check', '--snapshot', 'local.json', '--snapshot', 'hosted.json', '--tools', 'run_sql'];
    expect(await run(args, { cwd })).toMatchObject({ status: 0 });
    expect(await run(['check', ...SNAPSHOTS, '--tools', 'run_sql'], { cwd })).toMatchObject({ status: 1 });
  });
});

describe('check --from', () => {
  it('names every place of every missing name, and no other', async () => {
    const cwd = await app({
      'main.ts': "call('search');\n\n  retry(`run_sql`, 'run_sql');\n",
      'prompts/agent.md': 'Use "run_sql" when asked.\nrun_sql without quotes is prose.\n',
      'bindings.json': '{"tool": "run_sql", "other": "whoami"}\n',
    });
    const { status, stdout, stderr } = await run(['check', ...SNAPSHOTS, '--from', 'app'], { cwd });
    expect({ status, stderr }).toEqual({ status: 1, stderr: '' });
    expect(stdout).toBe(
      [
        'app/bindings.json:1:11: run_sql is missing in hosted.json',
        'app/main.ts:3:10: run_sql is missing in hosted.json',
        'app/main.ts:3:21: run_sql is missing in hosted.json',
        'app/prompts/agent.md:1:6: run_sql is missing in hosted.json',
        '',
      ].join('\n'),
    );
    const json = JSON.parse((await run(['check', ...SNAPSHOTS, '--from', 'app', '--json'], { cwd })).stdout);
    expect(json).toMatchObject({ missing: ['run_sql'], filesRead: 3, unreadable: [] });
    expect(json.references).toHaveLength(4);
    expect(json.references[0]).toEqual({ name: 'run_sql', file: 'app/bindings.json', line: 1, column: 11 });
  });

  it('a name that only --tools gives is looked for, too', async () => {
    const cwd = await app({ 'main.py': "call('older_name')\n" });
    const args = ['check', '--snapshot', 'hosted.json', '--tools', 'older_name,search', '--from', 'app'];
    const { status, stdout } = await run(args, { cwd });
    expect(status).toBe(1);
    expect(stdout).toBe('app/main.py:1:7: older_name is missing in hosted.json\n');
  });

  it('nothing is missing where no name stands in quotes, and in an empty directory', async () => {
    const cwd = await app({ 'a.txt': 'run_sql "run_sqlx" "xrun_sql"\n"run_sql\n"' });
    expect(await run(['check', ...SNAPSHOTS, '--from', 'app'], { cwd })).toMatchObject({ status: 0 });
    const none = await app();
    expect(await run(['check', ...SNAPSHOTS, '--from', 'app'], { cwd: none })).toMatchObject({ status: 0 });
  });

  it('leaves out what is no text of the app: dependencies, history, snapshots, binary and large files', async () => {
    const uses = "call('run_sql')\n";
    const cwd = await app({
      'node_modules/x/index.js': uses,
      '.git/config': uses,
      'deep/node_modules/y.js': uses,
      'contracts/local.json': formatSnapshot(LOCAL),
      'image.bin': new Uint8Array([...Buffer.from(uses), 0, 1]),
      'large.txt': uses,
    });
    await truncate(join(cwd, 'app/large.txt'), 1024 * 1024 + 1);
    const args = ['check', ...SNAPSHOTS, '--from', 'app'];
    const { status, stderr } = await run(args, { cwd });
    expect({ status, stderr }).toEqual({ status: 0, stderr: 'app/large.txt: over 1 MiB, not looked at\n' });
    const { skipped } = JSON.parse((await run([...args, '--json'], { cwd })).stdout);
    expect(skipped).toEqual({ large: ['app/large.txt'], binary: 1, links: 0, snapshots: 1 });
  });

  it('never leaves the directory: links to files and directories outside, and in circles', async () => {
    const cwd = await app({ 'inside.ts': "call('search')\n" });
    await writeFile(join(cwd, 'outside.ts'), "call('run_sql')\n");
    await mkdir(join(cwd, 'beside'));
    await writeFile(join(cwd, 'beside/b.ts'), "call('run_sql')\n");
    await symlink('../outside.ts', join(cwd, 'app/file'));
    await symlink('../beside', join(cwd, 'app/folder'));
    await symlink('.', join(cwd, 'app/circle'));
    const args = ['check', ...SNAPSHOTS, '--from', 'app', '--json'];
    const { status, stdout } = await run(args, { cwd });
    expect(status).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ filesRead: 1, skipped: { links: 3 } });
    // What is named on the command line itself may be a link.
    await symlink('beside', join(cwd, 'named'));
    expect(await run(['check', ...SNAPSHOTS, '--from', 'named'], { cwd })).toMatchObject({ status: 1 });
    expect(await run(['check', ...SNAPSHOTS, '--from', 'outside.ts'], { cwd })).toMatchObject({ status: 1 });
  });

  it('pipes and sockets are not opened: it does not hang', async () => {
    const cwd = await app({ 'a.ts': "call('run_sql')\n" });
    execFileSync('mkfifo', [join(cwd, 'app/pipe')]);
    expect(await run(['check', ...SNAPSHOTS, '--from', 'app'], { cwd })).toMatchObject({ status: 1 });
  });

  it('what cannot be read is no success, but what is missing is told first', async () => {
    const cwd = await app({ 'a.ts': 'x\n' });
    // Deeper than a path may be long: nobody can read there, not even root.
    const [upper, lower] = ['u', 'l'].map((name) => join(...Array(11).fill(name.repeat(200)))) as [
      string,
      string,
    ];
    await mkdir(join(cwd, 'app', upper), { recursive: true });
    await mkdir(join(cwd, lower), { recursive: true });
    await rename(join(cwd, 'l'.repeat(200)), join(cwd, 'app', upper, 'l'));
    closeLater(async () => execFileSync('rm', ['-rf', join(cwd, 'app')]));
    const args = ['check', ...SNAPSHOTS, '--from', 'app'];
    const { status, stdout, stderr } = await run(args, { cwd });
    expect({ status, stdout }).toEqual({ status: 2, stdout: 'Nothing is missing in hosted.json\n' });
    expect(stderr).toMatch(/^app(\/u{200}){11}\/l(\/l{200})+: cannot be read\n$/);
    expect(await run([...args, '--tools', 'gone'], { cwd })).toMatchObject({ status: 1, stderr });
  });

  it('a link that has taken the place of a file since it was listed is not followed', async () => {
    const cwd = await app({ 'a.ts': 'a', 'b.ts': 'b' });
    await writeFile(join(cwd, 'outside.ts'), 'outside');
    const steps = walk('app', (path) => join(cwd, path), new AbortController().signal);
    expect(await steps.next()).toMatchObject({ value: { kind: 'text', path: 'app/a.ts', text: 'a' } });
    await rm(join(cwd, 'app/b.ts'));
    await symlink('../outside.ts', join(cwd, 'app/b.ts'));
    expect(await steps.next()).toMatchObject({ value: { kind: 'unreadable', path: 'app/b.ts' } });
    expect((await steps.next()).done).toBe(true);
  });

  it('names of files are shown, not obeyed', async () => {
    const cwd = await app({ 'a\u001b[2J.ts': "call('run_sql')\n" });
    const { stdout } = await run(['check', ...SNAPSHOTS, '--from', 'app'], { cwd });
    expect(stdout).toBe('app/a\\u{1b}[2J.ts:1:7: run_sql is missing in hosted.json\n');
  });

  it('a name with characters that are not shown', async () => {
    const other = snapshotOf({ tools: [toolOf('se\u200barch')] });
    const cwd = await app({ 'a.ts': "call('se\u200barch')\n" });
    await writeFile(join(cwd, 'other.json'), formatSnapshot(other));
    const args = ['check', '--snapshot', 'hosted.json', '--snapshot', 'other.json', '--from', 'app'];
    const { status, stdout } = await run(args, { cwd });
    expect({ status, stdout }).toEqual({
      status: 1,
      stdout: 'app/a.ts:1:7: se\\u{200b}arch is missing in hosted.json\n',
    });
  });
});

describe('check: unusable arguments', () => {
  it.each<[args: string[], words: string]>([
    [[], '--snapshot FILE is needed'],
    [['--tools', 'a'], '--snapshot FILE is needed'],
    [['--snapshot', 'hosted.json'], '--tools NAME,NAME or --from DIR is needed'],
    [['--snapshot', 'hosted.json', '--from', 'app'], '--from needs a second --snapshot'],
    [[...SNAPSHOTS, '--from', 'none'], 'none: There is no such directory.'],
    [[...SNAPSHOTS, '--tools', ','], '--tools names no tool'],
    [[...SNAPSHOTS, 'app'], 'Options only expected, 1 given'],
    [['--snapshot', 'none.json', '--tools', 'a'], 'none.json: There is no such file.'],
    [['--snapshot', '-', '--snapshot', '-', '--tools', 'a'], 'Only one snapshot'],
  ])('%j', async (args, words) => {
    const cwd = await app();
    const { status, stdout, stderr } = await run(['check', ...args], { cwd });
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr).toContain(words);
  });
});
