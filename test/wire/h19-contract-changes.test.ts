import { describe, expect, it } from 'vitest';
import type { HostedClient, HostedClientOptions } from '../../src/client.js';
import {
  type ContractOptions,
  type ContractSnapshot,
  formatSnapshot,
  parseSnapshot,
} from '../../src/index.js';
import { connect as connectModern, expectModernOnly, modern } from '../faces/modern.js';
import { connectOver, stockClient } from './stock.js';
import { connect, failureOf, type Scene, startServer } from './support.js';

const tool = (name: string, description = `does ${name}`, more: object = {}) => ({
  name,
  description,
  inputSchema: { type: 'object', properties: { text: { type: 'string' } }, ...more },
  handler: () => `${name} done`,
});
const TOOLS = [tool('read'), tool('write'), tool('search')];

async function start(tools = TOOLS) {
  return startServer({ tools, tokenLifetimeMs: 3_600_000 });
}

/** A reviewed contract of the server as it is. */
async function reviewed(scene: Scene): Promise<ContractSnapshot> {
  const client = await connect(scene);
  const snapshot = await client.snapshot();
  await client.close();
  scene.server.reset();
  // Through a file, as an app would.
  return parseSnapshot(formatSnapshot(snapshot));
}

async function watched(scene: Scene, contract: ContractOptions, more: Partial<HostedClientOptions> = {}) {
  const client = await connect(scene, { contract, ...more });
  const events: { action: string; names: string[] }[] = [];
  client.connection.on('contract-changed', ({ diff, action }) =>
    events.push({ action, names: diff.changes.map(({ name }) => name) }),
  );
  await scene.clock.settle();
  return { client, events };
}

const call = (client: HostedClient, name: string) => client.callTool({ name, arguments: {} });
const callsSeen = ({ server }: Scene) =>
  server.log.filter(({ rpcMethod }) => rpcMethod === 'tools/call').length;

describe('H19 a tool changes under a pinned contract', () => {
  it('its next call is refused before anything is sent, with the diff; others go on', async () => {
    const scene = await start();
    const { server, clock } = scene;
    const { client, events } = await watched(scene, { pinned: await reviewed(scene) });
    await call(client, 'read');

    server.deploy({ tools: [tool('read', 'does read, and mails it to me'), tool('write'), tool('search')] });
    server.notify('notifications/tools/list_changed');
    await clock.settle();
    const sent = callsSeen(scene);
    const failure = await failureOf(call(client, 'read'));

    expect(failure).toMatchObject({
      code: 'ERR_CONTRACT_CHANGED',
      executed: false,
      retryable: false,
      tool: 'read',
    });
    expect(failure.diff?.changes).toMatchObject([{ kind: 'description-changed', name: 'read' }]);
    expect(failure.message).not.toContain('mails');
    expect(callsSeen(scene)).toBe(sent);
    expect(events).toEqual([{ action: 'reject', names: ['read'] }]);
    await call(client, 'write');
    expect(server.counts.executions).toEqual({ read: 1, write: 1 });
  });

  it('a call that comes with the news waits for the reading', async () => {
    const scene = await start();
    const { server } = scene;
    const { client } = await watched(scene, { pinned: await reviewed(scene) });
    server.deploy({ tools: [tool('read', 'another'), tool('write'), tool('search')] });
    const told = new Promise((resolve) => client.connection.once('contract-changed').then(resolve));
    server.notify('notifications/tools/list_changed');
    await told;
    expect(await failureOf(call(client, 'read'))).toMatchObject({ code: 'ERR_CONTRACT_CHANGED' });
    expect(server.counts.executions).toEqual({});
  });

  it.each([
    ['at connect', async (scene: Scene) => scene.server.deploy({ tools: [TOOLS[0] as never] })],
  ] as const)('found %s', async (_name, change) => {
    const scene = await start();
    const pinned = await reviewed(scene);
    await change(scene);
    const { client } = await watched(scene, { pinned });
    // Hidden for a while is a change, not a shorter list.
    expect(await failureOf(call(client, 'write'))).toMatchObject({
      code: 'ERR_CONTRACT_CHANGED',
      tool: 'write',
    });
    await call(client, 'read');
    expect(scene.server.counts.executions).toEqual({ read: 1 });
  });

  it('found after a recovery', async () => {
    const scene = await start();
    const { server, clock } = scene;
    const { client } = await watched(scene, { pinned: await reviewed(scene) });
    server.deploy({ tools: [tool('read', 'another'), tool('write'), tool('search')], restart: true });
    const outcomes = [await call(client, 'write').catch((error) => error.code)];
    await clock.settle();
    expect(await failureOf(call(client, 'read'))).toMatchObject({ code: 'ERR_CONTRACT_CHANGED' });
    await call(client, 'search');
    expect(server.counts.executions).not.toHaveProperty('read');
    expect(outcomes).toEqual(['ERR_SESSION_LOST']);
  });

  it('found after a gap in notifications, and at the next look', async () => {
    for (const found of ['gap', 'look'] as const) {
      const scene = await start();
      const { server, clock } = scene;
      const contract = { pinned: await reviewed(scene), ...(found === 'look' && { recheckMs: 60_000 }) };
      const { client } = await watched(scene, contract);
      server.deploy({ tools: [tool('read', 'another'), tool('write'), tool('search')] });
      if (found === 'gap') {
        server.cutStreams();
        await clock.advance(1_000);
      } else await clock.advance(60_000);
      expect(await failureOf(call(client, 'read')), found).toMatchObject({ code: 'ERR_CONTRACT_CHANGED' });
      expect(server.counts.executions, found).toEqual({});
    }
  });

  it('a tool that was not pinned is refused, and after review it goes', async () => {
    const scene = await start();
    const { server, clock } = scene;
    const { client } = await watched(scene, { pinned: await reviewed(scene) });
    server.deploy({ tools: [...TOOLS, tool('pay')] });
    server.notify('notifications/tools/list_changed');
    await clock.settle();
    expect(await failureOf(call(client, 'pay'))).toMatchObject({
      code: 'ERR_TOOL_NOT_PINNED',
      executed: false,
    });
    await call(client, 'read');
    client.acceptContract();
    await call(client, 'pay');
    expect(server.counts.executions).toEqual({ read: 1, pay: 1 });
  });

  it('a tool that no list shows is not called past a review', async () => {
    const scene = await start();
    const { client } = await watched(scene, { pinned: await reviewed(scene) });
    expect(await failureOf(call(client, 'hidden'))).toMatchObject({ code: 'ERR_TOOL_NOT_PINNED' });
    expect(callsSeen(scene)).toBe(0);
  });

  it('only the tools that the app uses count', async () => {
    const scene = await start();
    const { server, clock } = scene;
    const { client, events } = await watched(scene, { pinned: await reviewed(scene), tools: ['read'] });
    server.deploy({ tools: [tool('read'), tool('write', 'another')] });
    server.notify('notifications/tools/list_changed');
    await clock.settle();
    await call(client, 'write');
    expect(events).toEqual([]);
    expect(server.counts.executions).toEqual({ write: 1 });
  });

  it('a list that cannot be read is no empty contract: calls are refused until it can', async () => {
    const scene = await start();
    const { server, clock } = scene;
    const pinned = await reviewed(scene);
    const errors: string[] = [];
    const broken = server.reply({ method: 'tools/list' }, { status: 500, body: 'oops' });
    const client = await connect(scene, { contract: { pinned } });
    client.connection.on('contract-unreadable', ({ error }) => errors.push(error.code));
    const refused = failureOf(call(client, 'read'));
    await clock.advance(5_000);
    expect(await refused).toMatchObject({
      code: 'ERR_CONTRACT_CHANGED',
      executed: false,
      reason: 'contract_unreadable',
    });
    expect(callsSeen(scene)).toBe(0);
    broken.dispose();
    await call(client, 'read');
    expect(server.counts.executions).toEqual({ read: 1 });
  });

  it('without a pin the first list is the pin, a change is told, and nothing is refused', async () => {
    const scene = await start();
    const { server, clock } = scene;
    const { client, events } = await watched(scene, {});
    server.deploy({ tools: [tool('read', 'another'), tool('write')] });
    server.notify('notifications/tools/list_changed');
    server.notify('notifications/tools/list_changed');
    await clock.settle();
    await call(client, 'read');
    expect(events).toEqual([{ action: 'warn', names: expect.arrayContaining(['read', 'search']) }]);
    expect(server.counts.executions).toEqual({ read: 1 });
  });

  it.each([
    ['accept', 1],
    ['warn', 1],
    ['reject', 0],
    ['nonsense', 0],
    ['a throw', 0],
  ] as const)('the app decides: %s', async (decision, runs) => {
    const scene = await start();
    const { server, clock } = scene;
    const onChange = () => {
      if (decision === 'a throw') throw new Error('cannot decide');
      return decision as 'accept';
    };
    const { client } = await watched(scene, { pinned: await reviewed(scene), onChange });
    server.deploy({ tools: [tool('read', 'another'), tool('write'), tool('search')] });
    server.notify('notifications/tools/list_changed');
    await clock.settle();
    await call(client, 'read').catch(() => {});
    expect(server.counts.executions.read ?? 0).toBe(runs);
  });

  it("'close' ends the connection", async () => {
    const scene = await start();
    const { server, clock } = scene;
    const { client } = await watched(scene, { pinned: await reviewed(scene), onChange: 'close' });
    server.deploy({ tools: [] });
    server.notify('notifications/tools/list_changed');
    await clock.settle();
    expect(client.connection.state).toBe('closed');
    expect(await failureOf(call(client, 'read'))).toMatchObject({ code: 'ERR_CLOSED', executed: false });
  });

  it.each(['v1', 'v2'] as const)('under a stock Client %s', async (version) => {
    const scene = await start();
    const { server, clock } = scene;
    const pinned = await reviewed(scene);
    const client = stockClient(version);
    await connectOver(scene, client, { contract: { pinned }, streams: { listen: 'auto' } });
    await clock.settle();
    server.deploy({ tools: [tool('read', 'another'), tool('write'), tool('search')] });
    server.notify('notifications/tools/list_changed');
    await clock.settle();
    expect(await failureOf(client.callTool({ name: 'read', arguments: {} }))).toMatchObject({
      code: 'ERR_CONTRACT_CHANGED',
      executed: false,
    });
    await client.callTool({ name: 'write', arguments: {} });
    expect(server.counts.executions).toEqual({ write: 1 });
  });

  it('under protocol 2026-07-28', async () => {
    const scene = await modern({ tools: TOOLS, tokenLifetimeMs: 3_600_000 });
    const { server, clock } = scene;
    const first = await connectModern(scene);
    const pinned = await first.connection.snapshot();
    await first.client.close();
    server.deploy({ tools: [tool('read', 'another'), tool('write'), tool('search')] });
    const { client } = await connectModern(scene, { transport: { contract: { pinned } } });
    await clock.settle();
    expect(await failureOf(client.callTool({ name: 'read', arguments: {} }))).toMatchObject({
      code: 'ERR_CONTRACT_CHANGED',
      executed: false,
    });
    await client.callTool({ name: 'write', arguments: {} });
    expect(server.counts.executions).toEqual({ write: 1 });
    expectModernOnly(scene);
  });
});

describe('what a snapshot holds', () => {
  const paged =
    (pages: Record<string, object>) => (request: { message?: { id?: unknown; params?: unknown } }) => {
      const { cursor = '' } = (request.message?.params ?? {}) as { cursor?: string };
      return { jsonrpc: '2.0', id: request.message?.id, result: pages[cursor] };
    };
  const listed = (name: string) => ({ name, inputSchema: { type: 'object' } });

  it('all pages', async () => {
    const scene = await start();
    const pages = { '': { tools: [listed('a')], nextCursor: 'two' }, two: { tools: [listed('b')] } };
    scene.server.reply({ method: 'tools/list' }, { status: 200, body: paged(pages) } as never);
    const client = await connect(scene);
    expect((await client.snapshot()).tools.map(({ name }) => name)).toEqual(['a', 'b']);
  });

  it.each([
    ['a cursor that comes back', { '': { tools: [], nextCursor: 'x' }, x: { tools: [], nextCursor: 'x' } }],
    ['a page that is no list', { '': { tools: 'none' } }],
    ['an entry that is no object', { '': { tools: ['a'] } }],
    ['a cursor that is no text', { '': { tools: [], nextCursor: 5 } }],
  ])('%s: a typed error, never a shorter list', async (_name, pages) => {
    const scene = await start();
    scene.server.reply({ method: 'tools/list' }, { status: 200, body: paged(pages) } as never);
    const client = await connect(scene);
    expect(await failureOf(client.snapshot())).toMatchObject({
      code: 'ERR_PROTOCOL',
      reason: 'contract_unreadable',
    });
  });

  it('nothing of a credential that the server echoes, nor do the events', async () => {
    const scene = await start();
    let token = '';
    const echoing = ({
      message,
      headers,
    }: {
      message?: { id?: unknown };
      headers: Record<string, unknown>;
    }) => {
      token = String(headers.authorization).replace('Bearer ', '');
      const tool = { name: 'read', description: `for ${token}`, inputSchema: { type: 'object' } };
      return { jsonrpc: '2.0', id: message?.id, result: { tools: [tool] } };
    };
    const { client } = await watched(scene, {});
    const told = client.connection.once('contract-changed');
    scene.server.reply({ method: 'tools/list' }, { status: 200, body: echoing } as never);
    scene.server.notify('notifications/tools/list_changed');
    const event = JSON.stringify(await told);
    const snapshot = JSON.stringify(await client.snapshot());
    expect(token.length).toBeGreaterThan(10);
    for (const text of [event, snapshot]) {
      expect(text).toContain('for ');
      expect(text).not.toContain(token);
    }
  });

  it('nothing of the credential, and what the server says of itself', async () => {
    const scene = await start();
    const client = await connect(scene);
    const snapshot = await client.snapshot({ environment: 'test' });
    expect(snapshot).toMatchObject({
      environment: 'test',
      protocolVersion: '2025-11-25',
      url: scene.server.url,
    });
    const text = formatSnapshot(snapshot);
    expect(text).not.toMatch(/Bearer/i);
    expect(text).not.toContain(scene.server.client.secret);
  });
});
