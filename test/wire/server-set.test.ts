/**
 * Many servers of one configuration: started here, hosted, and behind a relay; judged by what reached them.
 */
import { describe, expect, it } from 'vitest';
import { parseServersConfig } from '../../src/client.js';
import { HostedMcpError } from '../../src/index.js';
import { type RelaySend, superviseServer, toStub } from '../../src/relay/index.js';
import {
  type ConnectServersOptions,
  connectServers,
  type ServersConfig,
} from '../../src/servers/server-set.js';
import { type Bench, bench, INFO, isRunning, placeholder, textOf, until } from './stdio-support.js';
import { closeLater, failureOf, startServer } from './support.js';

const open = async (config: ServersConfig, options: ConnectServersOptions = {}) => {
  const set = await connectServers(INFO, config, options);
  closeLater(() => set.close());
  return set;
};
const entryOf = ({ entry }: Bench, env: Record<string, string> = {}) => ({
  ...entry,
  env: { ...entry.env, ...env },
});

/** A supervised server and the stub by which a brain knows it. */
function elsewhere(name = 'remote') {
  const server = bench();
  const supervisor = superviseServer(server.entry, { name, restartDelayMs: 0 });
  closeLater(() => supervisor.close());
  const stub = toStub(server.entry, { name, route: `route-of-${name}` });
  const routes: string[] = [];
  const relay = ({ route }: { route: string }): RelaySend => {
    routes.push(route);
    return (message, how) => supervisor.handle(message, how);
  };
  return { server, supervisor, stub, relay, routes };
}

async function three() {
  const started = bench();
  const scene = await startServer({
    tools: [{ name: 'echo', handler: ({ text }) => `hosted ${text}` }, { name: 'weird name!' }],
  });
  const remote = elsewhere();
  const config = {
    ...parseServersConfig({
      here: entryOf(started),
      there: { url: scene.server.url, auth: { token: scene.server.issueToken() } },
    }),
    remote: remote.stub,
  };
  const set = await open(config, {
    relay: remote.relay,
    optionsFor: (name) => (name === 'there' ? { clock: scene.clock } : undefined),
  });
  return { started, scene, remote, config, set };
}

describe('a set', () => {
  it('opens nothing before it is wanted, and then only what is', async () => {
    const { started, scene, remote, set } = await three();
    expect(started.pids()).toEqual([]);
    expect(remote.server.pids()).toEqual([]);
    expect(scene.server.counts.requests).toBe(0);

    expect(await textOf(set.callTool('here__echo', { text: 'a' }))).toBe('a');
    expect(started.pids()).toHaveLength(1);
    expect(scene.server.counts.requests).toBe(0);
    expect(await textOf(set.callTool('remote__echo', { text: 'b' }))).toBe('b');
    expect(await textOf(set.callTool('there__echo', { text: 'c' }))).toContain('hosted c');
    expect(await textOf(set.get('here')!.callTool({ name: 'echo', arguments: { text: 'd' } }))).toBe('d');
    expect(remote.routes).toEqual(['route-of-remote']);
    expect(set.get('nobody')).toBeUndefined();
    expect([started, remote.server].map((each) => each.pids().length)).toEqual([1, 1]);
    expect(scene.server.counts.initializes).toBe(1);
  });

  it('lists all tools under names that say whose they are', async () => {
    const { started, remote, scene, set } = await three();
    const tools = await set.listTools();
    const names = tools.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    expect(names).toEqual(expect.arrayContaining(['here__echo', 'there__echo', 'remote__echo']));
    expect([...new Set(tools.map(({ server }) => server))]).toEqual(['here', 'there', 'remote']);
    for (const name of names) expect(name).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
    const weird = tools.find(({ tool }) => tool.name === 'weird name!');
    await set.callTool(weird!.name);
    expect(scene.server.counts.executions['weird name!']).toBe(1);
    expect([started, remote.server].map((each) => each.received('tools/list').length)).toEqual([1, 1]);
  });

  it('a name with a digest is found without a list before it', async () => {
    const { scene, set, config } = await three();
    const [weird] = (await set.listTools()).filter(({ tool }) => tool.name === 'weird name!');
    const token = scene.server.issueToken();
    const other = await open(
      { there: { ...(config as unknown as Record<string, object>).there, auth: { token } } as never },
      { optionsFor: () => ({ clock: scene.clock }) },
    );
    await other.callTool(weird!.name);
    expect(scene.server.counts.executions['weird name!']).toBe(1);
  });

  it.each(['nobody__echo', 'echo', '', '__proto__', 'here__', 'x'.repeat(300)])(
    'no tool %j: an error a model can read, and nothing is sent',
    async (name) => {
      const server = bench();
      const set = await open({ here: entryOf(server) });
      const failure = await failureOf(set.callTool(name));
      expect(failure).toMatchObject({
        code: 'ERR_NOT_SENT',
        executed: false,
        retryable: false,
        reason: 'unknown-tool',
      });
      expect(server.received('tools/call')).toHaveLength(0);
    },
  );

  it('a server that is away is left out and told of; the others are there', async () => {
    const errors: { server: string; error: unknown }[] = [];
    const server = bench();
    const config = parseServersConfig(
      {
        here: entryOf(server),
        away: { command: '/nowhere/none' },
        poor: {
          url: 'https://x.example/mcp',
          auth: { token: placeholder('NO') },
          headers: { 'x-a': placeholder('NO') },
        },
      },
      {},
    );
    const set = await open(config, { onError: (failure) => errors.push(failure) });
    expect(errors.map(({ server: name }) => name)).toEqual(['poor']);
    expect(set.get('poor')).toBeUndefined();
    const tools = await set.listTools();
    expect(new Set(tools.map(({ server: name }) => name))).toEqual(new Set(['here']));
    expect(errors.map(({ server: name }) => name).sort()).toEqual(['away', 'poor', 'poor']);
    expect(errors.map(({ error }) => HostedMcpError.isInstance(error))).toEqual([true, true, true]);
    expect((await failureOf(set.callTool('poor__x'))).code).toBe('ERR_CREDENTIAL_SOURCE');

    const none = await open({ away: config.away! });
    expect((await failureOf(none.listTools())).code).toBe('ERR_NOT_SENT');
    expect(await (await open({})).listTools()).toEqual([]);
  });

  it('one entry’s secret goes to no other server', async () => {
    const [one, two] = [bench(), bench()];
    const set = await open({ one: entryOf(one, { API_KEY: 'sk-canary-one-1' }), two: entryOf(two) });
    const variables = await textOf(set.callTool('two__variables'));
    expect(variables).not.toContain('canary');
    expect(await textOf(set.callTool('one__variables'))).toContain('sk-canary-one-1');
  });
});

describe('reconcile', () => {
  it('keeps what is unchanged, closes what left or changed, opens what came when it is wanted', async () => {
    const [kept, left, changed, came] = [bench(), bench(), bench(), bench()];
    const before = { kept: entryOf(kept), left: entryOf(left), changed: entryOf(changed) };
    const set = await open(before);
    for (const name of Object.keys(before)) await set.callTool(`${name}__pid`);
    const session = set.get('kept')!.connection.session;
    const client = set.get('changed');

    // The order of keys, and copies, say nothing.
    const { command, args, env } = entryOf(kept);
    const after = {
      came: entryOf(came),
      changed: entryOf(changed, { MORE: 'x' }),
      kept: { env: { ...env }, args: [...args], command },
    };
    expect(await set.reconcile(after)).toEqual({
      added: ['came'],
      removed: ['left'],
      restarted: ['changed'],
    });

    await until(() => ![...left.pids(), ...changed.pids()].some(isRunning));
    expect(kept.pids().every(isRunning)).toBe(true);
    expect(came.pids()).toEqual([]);
    expect(changed.pids()).toHaveLength(1);
    expect(set.get('kept')!.connection.session).toBe(session);
    expect(set.get('changed')).not.toBe(client);
    expect(set.get('left')).toBeUndefined();
    expect(await failureOf(set.callTool('left__pid'))).toMatchObject({
      reason: 'unknown-tool',
      executed: false,
    });
    expect(await textOf(set.callTool('kept__pid'))).toBe(String(kept.pids()[0]));
    expect(await textOf(set.callTool('came__pid'))).toBe(String(came.pids()[0]));
    await set.callTool('changed__pid');
    expect([kept, left, changed, came].map((each) => each.pids().length)).toEqual([1, 1, 2, 1]);
    expect(await set.reconcile(after)).toEqual({ added: [], removed: [], restarted: [] });
  });

  it('names stay the same, whoever comes and goes', async () => {
    const [one, two] = [bench(), bench()];
    const set = await open({ one: entryOf(one) });
    const before = (await set.listTools()).map(({ name }) => name);
    await set.reconcile({ 'a first': entryOf(two), one: entryOf(one) });
    const after = await set.listTools();
    expect(after.filter(({ server }) => server === 'one').map(({ name }) => name)).toEqual(before);
    expect(after).toHaveLength(2 * before.length);
  });

  it('a new value behind a placeholder is a change; a new token that is read at each use is none', async () => {
    const server = bench();
    const scene = await startServer();
    const variables: Record<string, string> = { MORE: 'a', TOKEN: scene.server.issueToken() };
    const file = {
      here: entryOf(server, { MORE: placeholder('MORE') }),
      there: { url: scene.server.url, auth: { token: placeholder('TOKEN') } },
    };
    const set = await open(parseServersConfig(file, variables), {
      optionsFor: (name) => (name === 'there' ? { clock: scene.clock } : undefined),
    });
    await set.callTool('there__echo', { text: 'x' });
    scene.server.expireTokens();
    variables.TOKEN = scene.server.issueToken();
    expect(await set.reconcile(parseServersConfig(file, variables))).toMatchObject({ restarted: [] });
    await set.callTool('there__echo', { text: 'x' });
    expect(scene.server.counts.executions.echo).toBe(2);
    variables.MORE = 'b';
    expect(await set.reconcile(parseServersConfig(file, variables))).toMatchObject({ restarted: ['here'] });
    // Of other variables, the old client would go on reading its own.
    expect(await set.reconcile(parseServersConfig(file, { ...variables }))).toMatchObject({ restarted: [] });
    const renewed = { ...variables, TOKEN: scene.server.issueToken() };
    expect(await set.reconcile(parseServersConfig(file, renewed))).toMatchObject({ restarted: ['there'] });
  });

  it('of one that cannot be used: nothing changes', async () => {
    const server = bench();
    const set = await open({ here: entryOf(server) });
    await set.callTool('here__pid');
    const wrong = { here: entryOf(server, { A: 'b' }), bad: { command: 'x', url: 'https://x.example' } };
    await expect(set.reconcile(wrong as never)).rejects.toThrow(/"bad".*"url"/);
    await expect(set.reconcile([] as never)).rejects.toThrow(TypeError);
    expect(await textOf(set.callTool('here__pid'))).toBe(String(server.pids()[0]));
    expect(server.pids()).toHaveLength(1);
  });

  it('several at once go one after the other', async () => {
    const [one, two] = [bench(), bench()];
    const set = await open({});
    const all = await Promise.all([
      set.reconcile({ one: entryOf(one) }),
      set.reconcile({ one: entryOf(one), two: entryOf(two) }),
      set.reconcile({ two: entryOf(two) }),
    ]);
    expect(all).toEqual([
      { added: ['one'], removed: [], restarted: [] },
      { added: ['two'], removed: [], restarted: [] },
      { added: [], removed: ['one'], restarted: [] },
    ]);
    expect([one, two].flatMap((each) => each.pids())).toEqual([]);
  });

  it('a stub whose route changed is another server', async () => {
    const { stub, relay, routes, server } = elsewhere();
    const set = await open({ remote: stub }, { relay });
    await set.callTool('remote__pid');
    expect(await set.reconcile({ remote: JSON.parse(JSON.stringify(stub)) })).toMatchObject({
      restarted: [],
    });
    expect(await set.reconcile({ remote: { ...stub, route: 'elsewhere' } })).toMatchObject({
      restarted: ['remote'],
    });
    await set.callTool('remote__pid');
    expect(routes).toEqual(['route-of-remote', 'elsewhere']);
    // The process is its supervisor's.
    expect(server.pids()).toHaveLength(1);
  });
});

it('close() ends what was started, not what is supervised; then nothing goes any more', async () => {
  const { started, remote, set } = await three();
  await set.callTool('here__pid');
  await set.callTool('remote__pid');
  await Promise.all([set.close(), set.close()]);
  expect(started.pids().some(isRunning)).toBe(false);
  expect(remote.server.pids().every(isRunning)).toBe(true);
  for (const promise of [set.listTools(), set.callTool('here__pid'), set.reconcile({})])
    expect((await failureOf(promise)).code).toBe('ERR_CLOSED');
  expect(set.get('here')).toBeUndefined();
});

describe('what cannot be the same for all', () => {
  it.each<[string, object]>([
    ['credentials', { credentials: 'x' }],
    ['headers', { http: { headers: { 'x-key': 'y' } } }],
    ['a pin', { contract: { pinned: {} } }],
    ['lazyConnect', { lazyConnect: false }],
    ['a relay that is none', { relay: 'x' }],
  ])('%s', async (_, options) => {
    await expect(connectServers(INFO, {}, options as never)).rejects.toThrow(TypeError);
  });

  it('a stub without a way to it, or with credentials', async () => {
    const { stub, relay } = elsewhere();
    await expect(connectServers(INFO, { remote: stub })).rejects.toThrow(/relay/);
    const own = { relay, optionsFor: () => ({ credentials: 'x' }) };
    await expect(connectServers(INFO, { remote: stub }, own)).rejects.toThrow(/credentials/);
  });
});
