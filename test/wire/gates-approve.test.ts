import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { describe, expect, it, vi } from 'vitest';
import { HostedClient, type HostedClientOptions } from '../../src/client.js';
import { type ApproveOptions, approve, type CallFacts } from '../../src/gates/index.js';
import { HostedTransport } from '../../src/index.js';
import { closeLater, connect, failureOf, machine, type Scene, startServer } from './support.js';

const pay = (description: string) => ({ name: 'pay', description, handler: () => 'paid' });
const CALL = { name: 'pay', arguments: { to: 'x', amount: 1 } };

/** A server with `pay`, and somebody who is asked and answers as `answers` says, in turn; then yes. */
async function scene(options: ApproveOptions = {}, client: Partial<HostedClientOptions> = {}) {
  const server = await startServer({ tools: [pay('Pays.'), { name: 'echo' }], listen: true });
  const asked: CallFacts[] = [];
  const answers: (boolean | (() => boolean | Promise<boolean>))[] = [];
  const decide = vi.fn((call: CallFacts) => {
    asked.push(call);
    const answer = answers.shift() ?? true;
    return typeof answer === 'function' ? answer() : answer;
  });
  const gates = [approve(decide, options)];
  const connected = await connect(server, { gates, ...client });
  const runs = () => server.server.counts.executions.pay ?? 0;
  return { ...server, client: connected, asked, answers, runs };
}

/** Until the rate limit leaves no room. */
async function usedUp(client: HostedClient): Promise<void> {
  let isFull = false;
  client.connection.on('rate-wait', () => {
    isFull = true;
  });
  const caller = new AbortController();
  const pings: Promise<unknown>[] = [];
  while (!isFull) {
    pings.push(client.ping({ signal: caller.signal }).catch(() => {}));
    await new Promise((resolve) => setImmediate(resolve));
  }
  caller.abort();
  await Promise.all(pings);
}

describe('the time of a call that waits for approval', () => {
  it('does not run meanwhile, and runs again afterwards', async () => {
    const { client, answers, clock, server, runs } = await scene({ timeoutMs: 3_600_000 });
    answers.push(() => new Promise((resolve) => clock.setTimeout(() => resolve(true), 3_000_000)));
    const paying = client.callTool(CALL, undefined, { timeout: 1_000, maxTotalTimeout: 1_000 });
    await clock.advance(3_000_000);
    await paying;
    expect(runs()).toBe(1);

    server.reply({ tool: 'pay' }, { silence: true });
    answers.push(() => new Promise((resolve) => clock.setTimeout(() => resolve(true), 50_000)));
    const hanging = failureOf(client.callTool(CALL, undefined, { timeout: 1_000 }));
    let isOver = false;
    void hanging.then(() => {
      isOver = true;
    });
    await clock.advance(50_999);
    expect(isOver).toBe(false);
    await clock.advance(1);
    expect(await hanging).toMatchObject({ code: 'ERR_TIMEOUT', executed: 'unknown' });
    expect(clock.pendingTimers).toBeLessThanOrEqual(3);
  });

  it('ends with the caller, and a late yes sends nothing', async () => {
    const { client, answers, clock, runs, asked } = await scene({ remember: 'session' });
    let sayYes: (yes: boolean) => void = () => {};
    answers.push(
      () =>
        new Promise((resolve) => {
          sayYes = resolve;
        }),
    );
    const caller = new AbortController();
    const paying = failureOf(client.callTool(CALL, undefined, { signal: caller.signal }));
    await clock.settle();
    caller.abort();
    expect(await paying).toMatchObject({ code: 'ERR_ABORTED', executed: false });
    sayYes(true);
    await clock.settle();
    expect(runs()).toBe(0);
    // Nor is it remembered.
    answers.push(false);
    expect(await failureOf(client.callTool(CALL))).toMatchObject({ code: 'ERR_DENIED', gate: 'approve' });
    expect(asked).toHaveLength(2);
  });

  it('a transport on its own refuses a gate that may take longer than all waits', async () => {
    const { server, clock } = await startServer();
    const make = (timeoutMs: number) =>
      new HostedTransport(server.url, {
        credentials: server.issueToken(),
        clock,
        gates: [approve(() => true, { timeoutMs })],
      });
    await expect(make(50_001).start()).rejects.toThrow(TypeError);
    await expect(make(50_001).start()).rejects.toThrow(/"approve".*retry\.maxElapsedMs/);
    expect(server.counts.requests).toBe(0);
    const stock = new Client({ name: 'stock', version: '1' });
    closeLater(() => stock.close());
    await stock.connect(make(50_000) as never);
    const ours = new HostedClient({ name: 'ours', version: '1' }, { clock });
    closeLater(() => ours.close());
    await ours.connect(make(600_000) as never);
  });
});

describe('what an approval covers', () => {
  it('is shown the tool as it is, with its digest', async () => {
    const { client, asked } = await scene();
    await client.callTool(CALL);
    const { tools } = await client.snapshot();
    const digest = tools.find(({ name }) => name === 'pay')?.digest;
    expect(digest).toMatch(/^[0-9a-f]{64}$/);
    expect(asked[0]).toMatchObject({ tool: 'pay', arguments: CALL.arguments, toolDigest: digest });
  });

  it.each([
    ['never', 'same turn', 2],
    ['turn', 'same turn', 1],
    ['turn', 'other turn', 2],
    ['turn', 'no turn', 2],
    ['turn', 'other arguments', 2],
    ['turn', 'arguments in another order', 1],
    ['turn', 'too late', 2],
    ['turn', 'tool changed', 2],
    ['session', 'no turn', 1],
    ['session', 'other turn', 1],
    ['session', 'other arguments', 2],
    ['session', 'other session', 2],
    ['session', 'tool changed', 2],
  ] as const)('remember %s, %s: asked %i times', async (remember, then, times) => {
    const { client, asked, clock, server, runs } = await scene({ remember, validForMs: 60_000 });
    const inTurn = (turn: string | undefined, args: object = CALL.arguments) =>
      client.callTool({
        name: 'pay',
        arguments: { ...args },
        ...(turn !== undefined && { _meta: { 'mcp-holdfast/turn': turn } }),
      });
    const first = then === 'no turn' ? undefined : 'one';
    await inTurn(first);
    if (then === 'too late') await clock.advance(60_000);
    if (then === 'tool changed') {
      server.deploy({ tools: [pay('Pays twice.')] });
      server.notify('notifications/tools/list_changed');
      await clock.settle();
    }
    if (then === 'other session') {
      server.dropSessions();
      await client.callTool({ name: 'echo', arguments: { text: 'a' } }).catch(() => {});
      await clock.settle();
    }
    const before = asked.filter(({ tool }) => tool === 'pay').length;
    expect(before).toBe(1);
    const args =
      then === 'other arguments'
        ? { to: 'x', amount: 2 }
        : then === 'arguments in another order'
          ? { amount: 1, to: 'x' }
          : CALL.arguments;
    await inTurn(then === 'other turn' ? 'two' : first, args);
    expect(asked.filter(({ tool }) => tool === 'pay')).toHaveLength(times);
    expect(runs()).toBe(2);
  });

  it('not the tool that came in its place while the call waited: asked again, and refused unsent', async () => {
    const { client, asked, answers, clock, server, runs } = await scene(
      { tools: ['pay'] },
      { rateLimit: { limit: 6, intervalMs: 10_000 } },
    );
    await client.callTool({ name: 'echo', arguments: { text: 'the list is read for this one as well' } });
    // What is left of the limit is used up, so that the next call has to wait.
    await usedUp(client);
    answers.push(true, false);
    const paying = failureOf(client.callTool(CALL, undefined, { timeout: 55_000 }));
    await clock.settle();
    server.deploy({ tools: [pay('Pays everything to somebody else.')] });
    server.notify('notifications/tools/list_changed');
    await clock.advance(50_000);
    const failure = await paying;
    expect(failure).toMatchObject({ code: 'ERR_DENIED', gate: 'approve', executed: false });
    expect(asked).toHaveLength(2);
    expect(asked[0]?.toolDigest).not.toBe(asked[1]?.toolDigest);
    expect(runs()).toBe(0);
    expect(server.log.filter(({ tool }) => tool === 'pay')).toEqual([]);
  });

  it('not a call that waited longer than it holds: asked again, once', async () => {
    const { client, asked, clock, runs } = await scene(
      { validForMs: 2_000 },
      { rateLimit: { limit: 6, intervalMs: 20_000 } },
    );
    await client.callTool(CALL);
    const before = asked.length;
    await usedUp(client);
    const paying = client.callTool(CALL, undefined, { timeout: 55_000 });
    await clock.advance(50_000);
    await paying;
    expect(asked.length - before).toBe(2);
    expect(runs()).toBe(2);
  });

  it('not arguments that were changed after it was given', async () => {
    const args = { amount: 1 };
    const { client, answers, runs } = await scene();
    answers.push(() => {
      args.amount = 1_000_000;
      return true;
    });
    const failure = await failureOf(client.callTool({ name: 'pay', arguments: args }));
    expect(failure).toMatchObject({ code: 'ERR_DENIED', gate: 'approve', executed: false });
    expect(runs()).toBe(0);
  });

  it('not the call of another connection', async () => {
    const one = await startServer({ tools: [pay('Pays.')] });
    const decide = vi.fn(() => true);
    const gates = [approve(decide, { remember: 'turn' })];
    const meta = { _meta: { 'mcp-holdfast/turn': 'shared' } };
    for (let n = 0; n < 2; n += 1) {
      const client = await connect(one, { gates });
      await client.callTool({ ...CALL, ...meta });
      await client.callTool({ ...CALL, ...meta });
    }
    expect(decide).toHaveBeenCalledTimes(2);
  });

  it('nothing where the list of tools cannot be read', async () => {
    const { client, asked, server, runs } = await scene();
    server.reply({ method: 'tools/list' }, { status: 200, body: { jsonrpc: '2.0', id: null } });
    const failure = await failureOf(client.callTool(CALL));
    expect(failure).toMatchObject({ code: 'ERR_DENIED', gate: 'approve', executed: false });
    expect(asked).toEqual([]);
    expect(runs()).toBe(0);
  });
});

describe('approve', () => {
  it.each([
    ['nobody to ask', () => approve(undefined as never)],
    ['a time that is none', () => approve(() => true, { timeoutMs: 0 })],
    ['another word', () => approve(() => true, { remember: 'always' as never })],
    ['tools that are none', () => approve(() => true, { tools: 'pay' as never })],
    ['a misspelt option', () => approve(() => true, { validFor: 1 } as never)],
  ])('refuses %s with a TypeError', (_what, make) => {
    expect(make).toThrow(TypeError);
  });

  it('needs one list of tools a session, and none where it is not asked', async () => {
    const lists = ({ server }: Scene) =>
      server.log.filter(({ rpcMethod }) => rpcMethod === 'tools/list').length;
    const one = await startServer({ tools: [pay('Pays.')] });
    const client = await connect(one, { gates: [approve(() => true)], credentials: machine(one) });
    expect(lists(one)).toBe(0);
    await Promise.all([client.callTool(CALL), client.callTool(CALL), client.callTool(CALL)]);
    expect(lists(one)).toBe(1);
    await client.callTool(CALL);
    expect(lists(one)).toBe(1);
  });
});
