/**
 * A supervised server's secret is in its own environment and nowhere else.
 */
import { existsSync } from 'node:fs';
import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { parseServersConfig } from '../../src/client.js';
import { superviseServer, toStub } from '../../src/relay/index.js';
import { brain, eventually, everybody, FAMILY, newTag, readOf, tagged } from './relay-support.js';
import { bench, call, placeholder, textOf } from './stdio-support.js';
import { closeLater, failureOf } from './support.js';

const isLinux = existsSync('/proc/self/environ');
const SECRET = 'sk-canary-relay-0123456789';
const OTHER = 'sk-canary-other-9876543210';
const never = new AbortController().signal;

/** Two servers of one sandbox, each with a secret of its own. */
function two() {
  const files = [bench(), bench()] as const;
  const config = {
    mcpServers: {
      one: { ...files[0].entry, env: { ...files[0].entry.env, API_KEY: placeholder('ONE_KEY') } },
      two: { ...files[1].entry, env: { ...files[1].entry.env, API_KEY: placeholder('TWO_KEY') } },
    },
  };
  const entries = parseServersConfig(config, { ONE_KEY: SECRET, TWO_KEY: OTHER, UNUSED: 'x' });
  const supervisors = [entries.one, entries.two].map((entry) =>
    superviseServer(entry as never, { restartDelayMs: 0 }),
  );
  for (const supervisor of supervisors) closeLater(() => supervisor.close());
  return { files, entries, supervisors };
}

describe('the environment of a supervised server', () => {
  it('is its list and its own: nothing of ours, nothing of another’s', async () => {
    const { supervisors, files } = two();
    const told = await Promise.all(
      supervisors.map(async (each) => JSON.parse(await textOf(call(await brain(each), 'variables')))),
    );
    const allowed = ['PATH', 'HOME', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR'].filter(
      (name) => process.env[name] !== undefined,
    );
    const expected = [...allowed, 'API_KEY', 'LOG', 'MCP_HOLDFAST_SUPERVISOR'].sort();
    for (const variables of told) expect(Object.keys(variables).sort()).toEqual(expected);
    expect(told.map(({ LOG }) => LOG)).toEqual(files.map(({ entry }) => entry.env.LOG));
    // In what the server itself says of it, it is taken out.
    expect(told.map(({ API_KEY }) => API_KEY)).toEqual(['[redacted]', '[redacted]']);
  });

  it.runIf(isLinux)('to the process table: in one environment each, in no command line', async () => {
    const { supervisors, files } = two();
    await Promise.all(supervisors.map(async (each) => call(await brain(each), 'pid')));
    const holders = (secret: string, what: 'environ' | 'cmdline') =>
      everybody().filter((pid) => readOf(pid, what).includes(secret));
    expect(holders(SECRET, 'environ')).toEqual(files[0].pids());
    expect(holders(OTHER, 'environ')).toEqual(files[1].pids());
    expect([...holders(SECRET, 'cmdline'), ...holders(OTHER, 'cmdline')]).toEqual([]);
  });

  it.runIf(isLinux)('reaches what the server starts, and no guard', async () => {
    const tag = newTag();
    const supervisor = superviseServer({ command: process.execPath, args: [FAMILY], env: { API_KEY: tag } });
    closeLater(() => supervisor.close());
    const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'family' } } as const;
    const pids = JSON.stringify(await supervisor.handle(message, { deadlineMs: 20_000, signal: never }));
    await eventually(() => tagged(tag).length === 4);
    const guards = everybody().filter((pid) => readOf(pid, 'cmdline').includes('mcp-holdfast-guard'));
    expect(guards.length).toBeGreaterThan(0);
    for (const guard of guards) expect(tagged(tag)).not.toContain(guard);
    expect(pids).not.toContain(tag);
  });
});

describe('the secret is in no word of ours', () => {
  it('whatever the server says, and however it fails', async () => {
    const { supervisors, entries, files } = two();
    const [supervisor] = supervisors as [(typeof supervisors)[0]];
    const heard: unknown[] = [];
    for (const event of ['stderr', 'exit', 'notification'] as const)
      supervisor.on(event, (each) => heard.push(each));
    const client = await brain(supervisor, { logger: (entry) => heard.push(entry) });
    client.connection.on('call', (each) => heard.push(each));
    client.connection.on('exchange', (each) => heard.push(each));
    heard.push(client.getInstructions());
    heard.push(await client.listTools(), await call(client, 'leakInResult'));
    heard.push(await call(client, 'leakInError').catch((error: unknown) => error));
    heard.push(await failureOf(call(client, 'die')));
    heard.push(await textOf(call(client, 'echo', { text: Buffer.from(SECRET).toString('base64') })));
    const shown = heard.map((each) => [
      inspect(each, { depth: 9, showHidden: true }),
      JSON.stringify(each),
      String(each),
      (each as Error)?.message,
      (each as Error)?.stack,
    ]);
    expect(JSON.stringify(shown)).not.toContain(SECRET);
    expect(JSON.stringify(shown)).not.toContain(Buffer.from(SECRET).toString('base64'));
    // It was there to be found.
    expect(JSON.stringify(heard)).toContain('started with [redacted]');
    expect(JSON.stringify(heard)).toContain('the key is [redacted]');
    expect(files[0].runs('leakInResult')).toBe(1);
    for (const each of [supervisor, entries.one, toStub(entries.one as never, { name: 'one', route: 'r' })])
      expect(inspect(each, { depth: 9, showHidden: true })).not.toContain(SECRET);
  });

  it('an argument that turns out to hold it: refused before anything is started', async () => {
    const { files } = two();
    const entry = {
      ...files[0].entry,
      args: [...files[0].entry.args, placeholder('PLAIN')],
      env: { ...files[0].entry.env, API_KEY: placeholder('ONE_KEY') },
    };
    const { mine } = parseServersConfig({ mine: entry }, { ONE_KEY: SECRET, PLAIN: `x=${SECRET}` });
    const supervisor = superviseServer(mine as never, { restartDelayMs: 0 });
    closeLater(() => supervisor.close());
    const failure = await failureOf(
      supervisor.handle({ jsonrpc: '2.0', id: 1, method: 'ping' }, { deadlineMs: 5_000, signal: never }),
    );
    expect(failure).toMatchObject({ code: 'ERR_CREDENTIAL_SOURCE', executed: false });
    expect(failure.message).toContain('args[1]');
    expect(failure.message).not.toContain(SECRET);
    expect(files[0].pids()).toEqual([]);
  });

  it('a secret that is not there: by server, field and variable; nothing is started', async () => {
    const { files } = two();
    const { mine } = parseServersConfig(
      { mine: { ...files[0].entry, env: { API_KEY: placeholder('GONE') } } },
      {},
    );
    const supervisor = superviseServer(mine as never);
    closeLater(() => supervisor.close());
    const failure = await failureOf(brain(supervisor));
    expect(failure).toMatchObject({ code: 'ERR_NOT_SENT', executed: false, reason: 'placeholder' });
    expect((failure.cause as Error).message).toMatch(/"mine".*env\.API_KEY.*GONE/);
    expect(files[0].pids()).toEqual([]);
  });
});
