/**
 * The system browser: which program, with which words, and what becomes of one that is not there. The program is a
 * real one, put first on the path under the name of the system's.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { browserCommand } from '../../../src/loopback/browser.js';
import { loopbackRedirect } from '../../../src/loopback/index.js';
import { afterwards, errorOf, heldServers, STATE } from './support.js';

afterEach(() => {
  vi.unstubAllEnvs();
});

describe('which program', () => {
  const url = new URL('https://as.example/authorize?a=1&b=%20c');
  it('by platform', () => {
    expect(browserCommand(url, 'linux')).toEqual({ command: 'xdg-open', args: [url.href], hasStatus: true });
    expect(browserCommand(url, 'freebsd').command).toBe('xdg-open');
    expect(browserCommand(url, 'darwin')).toEqual({ command: 'open', args: [url.href], hasStatus: true });
    expect(browserCommand(url, 'win32')).toEqual({
      command: 'rundll32',
      args: ['url.dll,FileProtocolHandler', url.href],
      hasStatus: false,
    });
  });

  it.each(['linux', 'darwin', 'win32'] as const)(
    'on %s no word is left that a shell would expand, and the server reads the same',
    (platform) => {
      const hostile = new URL(
        "https://as.example/$(id)/`id`/a'b?x=$(touch /tmp/x)&y=`id`&z='\"\\&w=\x24{IFS}",
      );
      const { args } = browserCommand(hostile, platform);
      const given = args.at(-1) ?? '';
      expect(given).not.toMatch(/[$`'"\\\s]/);
      expect(new URL(given).searchParams.toString()).toBe(hostile.searchParams.toString());
      expect(decodeURIComponent(new URL(given).pathname)).toBe(decodeURIComponent(hostile.pathname));
      expect(given.startsWith('https://')).toBe(true);
    },
  );

  it('nor in the host name', () => {
    const given = browserCommand(new URL('https://$(id).as.example/?state=s'), 'linux').args[0] ?? '';
    expect(given).not.toContain('$');
    expect(new URL(given).hostname).toBe('$(id).as.example');
  });
});

/** A folder with an `xdg-open` of our own in it, alone on the path. */
function withBrowser(script: string | undefined): { log: () => Record<string, unknown> } {
  const folder = mkdtempSync(join(tmpdir(), 'loopback-browser-'));
  afterwards(() => rmSync(folder, { recursive: true, force: true }));
  const log = join(folder, 'log.json');
  if (script !== undefined) {
    const file = join(folder, browserCommand(new URL('https://as.example'), process.platform).command);
    writeFileSync(file, `#!${process.execPath}\n${script}\n`, { mode: 0o755 });
  }
  vi.stubEnv('PATH', folder);
  vi.stubEnv('BROWSER_LOG', log);
  return { log: () => JSON.parse(readFileSync(log, 'utf8')) as Record<string, unknown> };
}

const NOTE = `
const { readFileSync, writeFileSync } = require('node:fs');
const [, , group, session] = readFileSync('/proc/self/stat', 'utf8').split(') ')[1].split(' ');
const own = { pid: process.pid, group: Number(group), session: Number(session) };
writeFileSync(process.env.BROWSER_LOG, JSON.stringify({ ...own, args: process.argv.slice(2) }));
`;
/** Notes what it was given, consents at once, and lives until its own callback has been answered. */
const CONSENTS = `${NOTE}
const url = new URL(process.argv[2]);
const back = new URL(url.searchParams.get('redirect_uri'));
back.searchParams.set('code', 'of-the-browser');
back.searchParams.set('state', url.searchParams.get('state'));
fetch(back).then((answer) => answer.text());
`;
/** As `xdg-open` does: hands the address on and ends well; the callback comes only after that. */
const HANDS_ON = `
const back = process.env.CALLBACK;
const program = "process.stdin.resume().on('end', () => fetch(process.argv[1]).then((answer) => answer.text()))";
require('node:child_process')
  .spawn(process.execPath, ['-e', program, back], { detached: true, stdio: ['pipe', 'ignore', 'ignore'] })
  .once('spawn', () => process.exit(0));
`;

async function authorize() {
  const helper = await loopbackRedirect();
  afterwards(() => helper.close());
  const query = new URLSearchParams({ state: STATE, redirect_uri: helper.redirectUri, x: "$(id) & 'b'" });
  const url = new URL(`https://as.example/authorize?${query}`);
  return { url, ...helper };
}

describe('a real process', () => {
  it('is given the address as its one argument and brings the callback', async () => {
    const { log } = withBrowser(CONSENTS);
    const { onRedirect, url } = await authorize();
    expect((await onRedirect(url)).searchParams.get('code')).toBe('of-the-browser');
    const { args } = log();
    expect(args).toHaveLength(1);
    expect(new URL((args as string[])[0] ?? '').searchParams.toString()).toBe(url.searchParams.toString());
  });

  it('has a session of its own, for Ctrl-C in the terminal is not meant for it, and holds nothing of ours', async () => {
    const processes = () => process.getActiveResourcesInfo().filter((name) => name === 'ProcessWrap').length;
    const before = processes();
    const { log } = withBrowser(CONSENTS);
    const { onRedirect, url } = await authorize();
    const result = onRedirect(url);
    expect(processes()).toBe(before);
    await result;
    const { pid, group, session } = log();
    expect(pid).not.toBe(process.pid);
    expect([group, session]).toEqual([pid, pid]);
  });

  it.each([
    ['is not there', undefined, 'ENOENT'],
    ['says that there is no browser', 'process.exit(3);', 'EXIT_3'],
    ['is killed', "process.kill(process.pid, 'SIGKILL');", 'SIGKILL'],
  ])('that %s: the address is for a person', async (_, script, code) => {
    const before = await heldServers();
    withBrowser(script);
    const { onRedirect, url } = await authorize();
    const error = await errorOf(onRedirect(url));
    expect(error).toMatchObject({
      code: 'ERR_REAUTHORIZATION_REQUIRED',
      authorizationUrl: url.href,
      cause: { code },
    });
    expect(await heldServers()).toBe(before);
  });

  it('that ends well at once does not end the wait', async () => {
    withBrowser(HANDS_ON);
    const { onRedirect, url, redirectUri } = await authorize();
    const callback = `${redirectUri}?code=later&state=${STATE}`;
    vi.stubEnv('CALLBACK', callback);
    expect((await onRedirect(url)).href).toBe(callback);
  });
});
