import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseSnapshot } from '../../src/contract/index.js';
import { startHostedServer } from '../../src/testing/index.js';
import { closeLater, folder, run } from './support.js';

const CANARY = 'canary-7f3a9c51d2e8';

async function hosted(more: object = {}) {
  const server = await startHostedServer();
  closeLater(() => server.close());
  const entry = { url: server.url, auth: { token: '$' + '{MCP_TOKEN}' }, ...more };
  const text = JSON.stringify({ mcpServers: { tracker: entry, other: { command: 'nothing' } } }, null, 2);
  return { server, cwd: await folder({ 'servers.json': text }) };
}

describe('an entry of a configuration file', () => {
  it('is opened with its own credential; that of the environment stays at home', async () => {
    const { server, cwd } = await hosted();
    const env = { MCP_TOKEN: server.issueToken(), HOLDFAST_TOKEN: CANARY };
    const ran = await run(['snapshot', 'servers.json#tracker'], { cwd, env });
    expect(ran).toMatchObject({ status: 0, stderr: '' });
    expect(ran.stdout).not.toContain(env.MCP_TOKEN);
    expect(server.log.some(({ status }) => status === 401)).toBe(false);
    const wrong = await run(['snapshot', 'servers.json#tracker'], {
      cwd,
      env: { ...env, MCP_TOKEN: 'wrong-token' },
    });
    expect(wrong.status).toBe(13);
  });

  it('a secret in its address does not get into the snapshot', async () => {
    const { server, cwd } = await hosted();
    const url = server.url.replace('/mcp', '/$' + '{PLACE}?key=$' + '{MCP_TOKEN}');
    const env = { MCP_TOKEN: CANARY, PLACE: 'mcp' };
    const file = JSON.stringify({ s: { url, auth: { token: server.issueToken() } } });
    const other = await folder({ 's.json': file });
    const ran = await run(['snapshot', 's.json'], { cwd: other, env });
    expect(ran).toMatchObject({ status: 0, stderr: '' });
    expect(ran.stdout).not.toContain(CANARY);
    expect(parseSnapshot(ran.stdout).url).toBe(server.url.replace('/mcp', '/$' + '{PLACE}'));
    void cwd;
  });

  it('which one is asked for by name', async () => {
    const { server, cwd } = await hosted();
    const before = server.counts.requests;
    for (const [target, words] of [
      ['servers.json', 'servers.json: Which of its servers? Write servers.json#NAME; it has tracker, other.'],
      ['servers.json#trakcer', 'servers.json: There is no server trakcer. Did you mean tracker?'],
      ['servers.json#', 'There is no server . '],
      ['servers.json#__proto__', 'There is no server __proto__.'],
      ['none.json#x', 'none.json: There is no such file.'],
    ] as const) {
      const { status, stdout, stderr } = await run(['snapshot', target], { cwd });
      expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
      expect(stderr).toContain(words);
    }
    expect(server.counts.requests).toBe(before);
  });
});

describe('a configuration that cannot be used', () => {
  const PLACEHOLDER = '$' + '{HOLDFAST_TEST_UNSET}';
  const file = (entry: object, name = 'one') => JSON.stringify({ mcpServers: { [name]: entry } }, null, 2);

  it.each<[what: string, text: string, place: string, words: RegExp]>([
    [
      'both command and url',
      file({ command: CANARY, url: 'https://h/mcp' }),
      ':5:7',
      /"one".*"url".*"command"/,
    ],
    ['neither', file({ args: [CANARY] }), ':3:5', /"one".*needs a "command" or a "url"/],
    [
      'an unset variable',
      file({ url: 'https://127.0.0.1:9/mcp', auth: { token: PLACEHOLDER } }),
      ':6:9',
      /HOLDFAST_TEST_UNSET is not set/,
    ],
    [
      'an unset variable of a command',
      file({ command: 'node', env: { A: CANARY, B: PLACEHOLDER } }),
      ':7:9',
      /HOLDFAST_TEST_UNSET is not set/,
    ],
    [
      'an unset variable in a header',
      file({ url: 'https://127.0.0.1:9/mcp', headers: { 'X-Key': PLACEHOLDER } }),
      ':6:9',
      /HOLDFAST_TEST_UNSET is not set/,
    ],
    [
      'an unset variable among arguments',
      file({ command: 'node', args: ['-e', PLACEHOLDER] }),
      ':7:9',
      /HOLDFAST_TEST_UNSET is not set/,
    ],
    [
      'a file that is not there',
      file({ command: 'node', cwd: '$' + '{file:/none/x}' }),
      ':5:7',
      /\/none\/x cannot be read/,
    ],
    ['an unknown key', file({ command: 'node', token: CANARY }), ':5:7', /"token".*no key/],
    ['a value of the wrong type', file({ command: 'node', args: CANARY }), ':5:7', /"args".*list/],
    ['a wrong scheme', file({ url: `ftp://${CANARY}/` }), ':4:7', /https:\/\//],
    [
      'a password in the address',
      file({ url: `https://u:${CANARY}@h/mcp` }),
      ':3:5',
      /user name or password/,
    ],
    ['cut in half', file({ command: CANARY }).slice(0, 40), ':4:\\d+', /too early/],
    ['no JSON', `{ mcpServers: "${CANARY}" }`, ':1:3', /not JSON/],
    [
      'a server twice',
      '{"mcpServers":{"a":{"command":"x"},\n"a":{"command":"y"}}}',
      ':2:1',
      /same key twice/,
    ],
    ['no server', '{"mcpServers":{}}', '', /names no server/],
    ['a list', '[]', '', /object/],
  ])('%s', async (_what, text, place, words) => {
    const cwd = await folder({ 'servers.json': text, 'old.json': 'old' });
    const ran = await run(['snapshot', 'servers.json', '-o', 'old.json'], { cwd });
    expect({ status: ran.status, stdout: ran.stdout }).toEqual({ status: 2, stdout: '' });
    expect(ran.stderr).toMatch(/^[^\n]+\n$/);
    expect(ran.stderr).toMatch(new RegExp(`^mcp-holdfast snapshot: servers\\.json${place}: `));
    expect(ran.stderr).toMatch(words);
    expect(ran.stderr).not.toContain(CANARY);
    expect(await readFile(join(cwd, 'old.json'), 'utf8')).toBe('old');
    expect((await readdir(cwd)).sort()).toEqual(['old.json', 'servers.json']);
  });

  it('a server that cannot be started: 10, with its last words', async () => {
    const script = `console.error('no module'); console.error('\\u001b[2J' + process.env.KEY); process.exit(3)`;
    const env = { KEY: CANARY };
    const cwd = await folder({
      'dies.json': file({ command: process.execPath, args: ['-e', script], env }),
      'gone.json': file({ command: 'no-such-command-here' }),
    });
    const dies = await run(['snapshot', 'dies.json'], { cwd });
    expect(dies).toMatchObject({ status: 10, stdout: '' });
    expect(dies.stderr).toContain('one: no module\n');
    expect(dies.stderr).toContain('\\u{1b}[2J[redacted]\n');
    expect(dies.stderr).not.toContain(CANARY);
    const gone = await run(['snapshot', 'gone.json'], { cwd });
    expect(gone).toMatchObject({ status: 10, stdout: '' });
    expect(gone.stderr).toMatch(/^mcp-holdfast snapshot: gone\.json#one: .*could not be started.*\n$/);
  });
});
