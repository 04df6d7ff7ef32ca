/**
 * The reference server over stdio, from a configuration file, and over HTTP.
 */
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { startEverything } from '../real/everything.js';
import { closeLater, folder, run } from './support.js';

const MAIN = join(
  dirname(createRequire(import.meta.url).resolve('@modelcontextprotocol/server-everything/package.json')),
  'dist/index.js',
);

async function both() {
  const everything = await startEverything();
  closeLater(() => everything.close());
  const servers = {
    local: { command: process.execPath, args: [MAIN, 'stdio'] },
    hosted: { url: everything.serverUrl },
  };
  const cwd = await folder({ 'servers.json': JSON.stringify({ mcpServers: servers }, null, 2) });
  return { everything, cwd };
}

describe('server-everything', () => {
  it('is recorded over stdio and over HTTP, and the two are compared', async () => {
    const { everything, cwd } = await both();
    const lists = ['--resources', '--prompts'];
    for (const [from, to] of [
      ['servers.json#local', 'local.json'],
      ['servers.json#hosted', 'hosted.json'],
      [everything.url, 'bare.json'],
    ] as const) {
      const ran = await run(['snapshot', from, '-o', to, '--env', to, ...lists], { cwd });
      expect(ran).toMatchObject({ status: 0, stderr: '' });
      expect(ran.stdout).toMatch(/: 1\d tools, contract /);
    }
    const compared = await run(['diff', 'local.json', 'hosted.json', '--json'], { cwd });
    const { changes } = JSON.parse(compared.stdout);
    // The same program: only what it says of the way it was started by may differ.
    const kinds = new Set(changes.map(({ kind }: { kind: string }) => kind));
    for (const kind of kinds) expect(String(kind)).not.toMatch(/^tool-(added|removed|renamed)$/);
    expect(compared.status).toBe(
      ({ breaking: 1, behaviour: 3 } as Record<string, number>)[JSON.parse(compared.stdout).level] ?? 0,
    );
    expect(await run(['diff', 'hosted.json', 'bare.json'], { cwd })).toMatchObject({ status: 0 });
    expect(await run(['diff', 'local.json', 'servers.json#local'], { cwd })).toMatchObject({ status: 0 });
  });

  it('a command is ended with Ctrl-C', async () => {
    const script = `require('fs').writeFileSync(process.argv[1], String(process.pid)); setInterval(() => {}, 1000)`;
    // biome-ignore lint/suspicious/noTemplateCurlyInString: read by the command
    const args = ['-e', script, '${PID_FILE}'];
    const servers = { silent: { command: process.execPath, args } };
    const cwd = await folder({ 'servers.json': JSON.stringify({ mcpServers: servers }) });
    const pidFile = join(cwd, 'pid');
    const stop = new AbortController();
    const env = { PID_FILE: pidFile };
    const running = run(['snapshot', 'servers.json'], { cwd, signal: stop.signal, env });
    await expect.poll(() => readFile(pidFile, 'utf8').catch(() => '')).toMatch(/^\d+$/);
    stop.abort(new Error('stopped'));
    expect(await running).toEqual({ status: 130, stdout: '', stderr: '' });
    expect(() => process.kill(Number(readFileSync(pidFile, 'utf8')), 0)).toThrow('ESRCH');
  });
});
