import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { startHostedServer } from '../../src/testing/index.js';
import { closeLater, run } from './doctor-support.js';

const CANARY = 'canary-41b7f0aa93';

/** A configuration file whose server `tracker` takes its token from the environment. */
async function configured() {
  const server = await startHostedServer();
  closeLater(() => server.close());
  const cwd = mkdtempSync(join(tmpdir(), 'holdfast-doctor-'));
  closeLater(async () => rmSync(cwd, { recursive: true, force: true }));
  const token = `$${'{TRACKER_TOKEN}'}`;
  const servers = {
    tracker: { url: server.url, auth: { token }, headers: { 'x-place': `$${'{PLACE}'}` } },
    local: { command: 'node', args: ['server.mjs'] },
  };
  writeFileSync(join(cwd, 'servers.json'), JSON.stringify({ mcpServers: servers }));
  return { server, cwd };
}

describe('doctor, of a server in a configuration file', () => {
  it('goes there with the entry’s own credential and headers, and shows neither', async () => {
    const { server, cwd } = await configured();
    const env = { TRACKER_TOKEN: server.issueToken(), PLACE: CANARY, HOLDFAST_TOKEN: 'not for this one' };
    const ran = await run(['servers.json#tracker', '--calls', '2'], { cwd, env });
    expect(ran.json.mcp).toMatchObject({ protocolVersion: '2025-11-25', tools: expect.any(Number) });
    expect([0, 1]).toContain(ran.status);
    for (const secret of [CANARY, env.TRACKER_TOKEN]) expect(ran.stdout + ran.stderr).not.toContain(secret);
    const withCredential = server.log.filter(({ headers }) => headers.authorization !== undefined);
    expect(withCredential.length).toBeGreaterThan(2);
    expect(withCredential.every(({ headers }) => headers['x-place'] !== undefined)).toBe(true);
  });

  it.each([
    ['a variable that is not set', 'servers.json#tracker', { PLACE: 'x' }, 2, /servers\.json.*TRACKER_TOKEN/],
    [
      'a token that is refused',
      'servers.json#tracker',
      { PLACE: 'x', TRACKER_TOKEN: 'wrong' },
      13,
      /credential/,
    ],
    ['a server that is started here', 'servers.json#local', {}, 2, /started here/],
    ['a name that is not there', 'servers.json#traker', {}, 2, /tracker/],
  ] as const)('%s: one clear line, and a status of its own', async (_name, target, env, status, words) => {
    const { cwd } = await configured();
    const ran = await run([target], { cwd, env });
    expect(ran).toMatchObject({ status, stderr: expect.stringMatching(words) });
    // What cannot be used is no finding; what was found is in the report as well.
    expect(ran.stdout === '').toBe(status === 2);
    expect(ran.stderr.trim().split('\n')).toHaveLength(1);
  });
});
