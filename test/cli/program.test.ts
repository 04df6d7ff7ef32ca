/**
 * The program as it is built, in a process of its own.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { formatSnapshot, parseSnapshot } from '../../src/contract/index.js';
import { startHostedServer } from '../../src/testing/index.js';
import { snapshotOf, toolOf } from '../unit/contract/support.js';
import { HOSTED, LOCAL } from './seed.js';
import { closeLater, folder } from './support.js';

const PROGRAM = fileURLToPath(new URL('../../dist/cli.js', import.meta.url));

function start(args: readonly string[], cwd: string, env: Record<string, string> = {}): ChildProcess {
  const { PATH = '' } = process.env;
  const child = spawn(process.execPath, [PROGRAM, ...args], { cwd, env: { PATH, ...env } });
  closeLater(async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
  });
  return child;
}

async function program(args: readonly string[], cwd: string, env: Record<string, string> = {}, stdin = '') {
  const child = start(args, cwd, env);
  const out = { stdout: '', stderr: '' };
  child.stdout?.setEncoding('utf8').on('data', (text: string) => (out.stdout += text));
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (out.stderr += text));
  child.stdin?.end(stdin);
  const [status] = await once(child, 'close');
  return { status, ...out };
}

describe('dist/cli.js', () => {
  it('begins as a program does, and knows its version', async () => {
    expect((await readFile(PROGRAM, 'utf8')).split('\n')[0]).toBe('#!/usr/bin/env node');
    const manifest = await readFile(new URL('../../package.json', import.meta.url), 'utf8');
    const cwd = await folder();
    expect(await program(['--version'], cwd)).toEqual({
      status: 0,
      stdout: `${JSON.parse(manifest).version}\n`,
      stderr: '',
    });
    expect(await program(['dif'], cwd)).toMatchObject({ status: 2, stdout: '' });
  });

  it('compares the seed example, from files and from standard input', async () => {
    const cwd = await folder({ 'a.json': formatSnapshot(LOCAL), 'b.json': formatSnapshot(HOSTED) });
    const fromFiles = await program(['diff', 'a.json', 'b.json', '--json'], cwd);
    expect(fromFiles).toMatchObject({ status: 1, stderr: '' });
    expect(JSON.parse(fromFiles.stdout).level).toBe('breaking');
    expect(await program(['diff', 'a.json', '-', '--json'], cwd, {}, formatSnapshot(HOSTED))).toEqual(
      fromFiles,
    );
  });

  it('writes all of a large result into a pipe', async () => {
    const tools = Array.from({ length: 10_000 }, (_, at) => toolOf(`tool${at}`));
    const cwd = await folder({
      'a.json': formatSnapshot(snapshotOf({ tools })),
      'b.json': formatSnapshot(snapshotOf()),
    });
    const { status, stdout } = await program(['diff', 'a.json', 'b.json', '--json'], cwd);
    expect(status).toBe(1);
    expect(JSON.parse(stdout).changes).toHaveLength(10_000);
  });

  it('records a server with its credential, and nothing of it is shown', async () => {
    const server = await startHostedServer();
    closeLater(() => server.close());
    const HOLDFAST_TOKEN = server.issueToken();
    const cwd = await folder();
    const ran = await program(['snapshot', server.url], cwd, { HOLDFAST_TOKEN });
    expect(ran).toMatchObject({ status: 0, stderr: '' });
    expect(parseSnapshot(ran.stdout).tools).toHaveLength(4);
    expect(ran.stdout).not.toContain(HOLDFAST_TOKEN);
    expect(await program(['snapshot', server.url], cwd)).toMatchObject({ status: 13, stdout: '' });
  });

  it.each(['SIGINT', 'SIGTERM'] as const)(
    '%s: the session is deleted, exit 130, the file as it was',
    async (signal) => {
      const server = await startHostedServer({ auth: false });
      closeLater(() => server.close());
      server.reply({ method: 'tools/list' }, { silence: true });
      const cwd = await folder({ 'old.json': 'old' });
      const child = start(['snapshot', server.url, '-o', 'old.json'], cwd);
      await expect
        .poll(() => server.log.some(({ rpcMethod }) => rpcMethod === 'tools/list'), { timeout: 20_000 })
        .toBe(true);
      child.kill(signal);
      const [status] = await once(child, 'exit');
      expect(status).toBe(130);
      expect(server.log.at(-1)).toMatchObject({ http: 'DELETE', status: 200 });
      expect(await readFile(join(cwd, 'old.json'), 'utf8')).toBe('old');
    },
  );

  it('a disk that is full in the middle leaves the old file, and nothing beside it', async () => {
    const server = await startHostedServer({ auth: false });
    closeLater(() => server.close());
    const cwd = await folder({ 'old.json': 'old' });
    // A file may have one block of 512 bytes: the write fails after them.
    const line = 'ulimit -f 1; exec "$0" "$@"';
    const child = spawn(
      'sh',
      ['-c', line, process.execPath, PROGRAM, 'snapshot', server.url, '-o', 'old.json'],
      {
        cwd,
      },
    );
    let stderr = '';
    child.stderr.on('data', (text) => (stderr += text));
    const [status] = await once(child, 'close');
    expect(status).toBe(2);
    expect(stderr).toBe('mcp-holdfast snapshot: old.json: It cannot be written (EFBIG).\n');
    expect(await readFile(join(cwd, 'old.json'), 'utf8')).toBe('old');
    expect(await readdir(cwd)).toEqual(['old.json']);
  });

  it('ends quietly when its reader leaves', async () => {
    const cwd = await folder({ 'a.json': formatSnapshot(LOCAL), 'b.json': formatSnapshot(HOSTED) });
    const child = start(['diff', 'a.json', 'b.json'], cwd);
    child.stdout?.destroy();
    let stderr = '';
    child.stderr?.on('data', (text) => (stderr += text));
    await once(child, 'close');
    expect(stderr).toBe('');
  });
});
