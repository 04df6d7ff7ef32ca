import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { describe, expect, it } from 'vitest';
import type { HostedClient } from '../../src/client.js';
import {
  type CallChain,
  type ChainAlarmOptions,
  chainAlarm,
  denyTools,
  type Gate,
  maxCalls,
  TURN_KEY,
} from '../../src/gates/index.js';
import { HostedTransport } from '../../src/index.js';
import { closeLater, connect, failureOf, startServer } from './support.js';

const ECHO = { name: 'echo', arguments: { text: 'a' } };
const named = (turn: string | number) => ({ ...ECHO, _meta: { [TURN_KEY]: turn } });

describe('maxCalls', () => {
  it('counts each turn for itself; those that name none are one turn', async () => {
    const scene = await startServer();
    const client = await connect(scene, { gates: [maxCalls(2)] });
    for (const call of [named('one'), named('two'), ECHO, named(3)]) {
      await client.callTool(call);
      await client.callTool(call);
      const { requests } = scene.server.counts;
      const failure = await failureOf(client.callTool(call));
      expect(failure).toMatchObject({
        code: 'ERR_CALL_LIMIT',
        gate: 'maxCalls',
        executed: false,
        retryable: false,
        tool: 'echo',
      });
      expect(scene.server.counts.requests).toBe(requests);
    }
    expect(scene.server.counts.executions).toEqual({ echo: 8 });
    expect(client.connection.stats.calls.failed).toEqual({ ERR_CALL_LIMIT: 4 });
  });

  it('counts what leaves at the same time', async () => {
    const scene = await startServer();
    const client = await connect(scene, { gates: [maxCalls(5)] });
    const all = await Promise.allSettled(Array.from({ length: 20 }, () => client.callTool(named('one'))));
    expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(5);
    expect(scene.server.counts.executions).toEqual({ echo: 5 });
  });

  it('counts what was refused later, and not what was refused before it', async () => {
    const scene = await startServer();
    const cap = maxCalls(1);
    const no = denyTools(['echo']);
    const before = await connect(scene, { gates: [no, cap] });
    for (let n = 0; n < 3; n += 1)
      expect(await failureOf(before.callTool(ECHO))).toMatchObject({ code: 'ERR_DENIED' });
    const after = await connect(scene, { gates: [cap, no] });
    expect(await failureOf(after.callTool(ECHO))).toMatchObject({ code: 'ERR_DENIED' });
    expect(await failureOf(after.callTool(ECHO))).toMatchObject({ code: 'ERR_CALL_LIMIT' });
  });

  it('is the same under the stock Client, in words that a model can act on', async () => {
    const { server, clock } = await startServer();
    const gates = [maxCalls(1)];
    const transport = new HostedTransport(server.url, { credentials: server.issueToken(), clock, gates });
    const client = new Client({ name: 'stock', version: '1' });
    closeLater(() => client.close());
    await client.connect(transport as never);
    await client.callTool(named('one'));
    const failure = await failureOf(client.callTool(named('one')));
    const [{ text }] = failure.toToolResult().content;
    expect(text).toMatch(/^This turn may make one tool call, and has made them\. The call did not run\./);
    expect(text).toContain('finish with what is known');
    expect(server.counts.executions).toEqual({ echo: 1 });
  });

  it.each([-1, 1.5, Number.NaN, '3', undefined, Number.POSITIVE_INFINITY])('refuses %s', (count) => {
    expect(() => maxCalls(count as never)).toThrow(/maxCalls/);
  });
});

describe('client.turn()', () => {
  it('caps its own calls and nobody else’s', async () => {
    const scene = await startServer();
    const client = await connect(scene);
    const [one, two] = [client.turn({ maxCalls: 2 }), client.turn()];
    await one.listTools();
    await one.callTool(ECHO);
    await one.callTool(ECHO);
    const { requests } = scene.server.counts;
    expect(await failureOf(one.callTool(ECHO))).toMatchObject({
      code: 'ERR_CALL_LIMIT',
      gate: 'maxCalls',
      executed: false,
    });
    expect(scene.server.counts.requests).toBe(requests);
    expect([one.calls, two.calls]).toEqual([3, 0]);
    await two.callTool(ECHO);
    await two.callTool(ECHO);
    await two.callTool(ECHO);
    await client.callTool(ECHO);
    expect(two.calls).toBe(3);
    expect(scene.server.counts.executions).toEqual({ echo: 6 });
  });

  it('names its calls, so that gates on the connection know them; what the caller wrote stays', async () => {
    const scene = await startServer();
    const seen: unknown[] = [];
    const look: Gate = {
      name: 'look',
      before: (call) => {
        seen.push(call.meta);
        return 'allow';
      },
    };
    const client = await connect(scene, { gates: [look, maxCalls(1)] });
    const turn = client.turn({ maxCalls: 5 });
    const progress: unknown[] = [];
    await turn.callTool(
      { ...ECHO, _meta: { 'mcp-holdfast/callId': 'c' } },
      { onprogress: (notice) => progress.push(notice) },
    );
    expect(seen).toEqual([
      { 'mcp-holdfast/callId': 'c', [TURN_KEY]: turn.id, progressToken: expect.anything() },
    ]);
    expect(scene.server.counts.executionsById).toEqual({ c: 1 });
    // The connection's own cap is the narrower one.
    expect(await failureOf(turn.callTool(ECHO))).toMatchObject({ code: 'ERR_CALL_LIMIT' });
    expect(await client.turn().callTool(ECHO)).toBeDefined();
  });

  it('ends with its signal, every call of it, and no other', async () => {
    const scene = await startServer();
    const client = await connect(scene);
    const over = new AbortController();
    const turn = client.turn({ signal: over.signal });
    const slow = { name: 'slow', arguments: { ms: 60_000 } };
    const [first, second] = [failureOf(turn.callTool(slow)), failureOf(turn.callTool(slow))];
    const other = client.callTool({ name: 'slow', arguments: { ms: 1_000 } });
    await scene.clock.settle();
    over.abort();
    expect(await first).toMatchObject({ code: 'ERR_ABORTED', executed: 'unknown' });
    expect(await second).toMatchObject({ code: 'ERR_ABORTED' });
    const { requests } = scene.server.counts;
    expect(await failureOf(turn.callTool(ECHO))).toMatchObject({ code: 'ERR_ABORTED', executed: false });
    expect(await failureOf(turn.listTools())).toMatchObject({ code: 'ERR_ABORTED' });
    expect(scene.server.counts.requests).toBe(requests);
    await scene.clock.advance(1_000);
    await other;
  });

  it('refuses options that cannot be used', async () => {
    const client = await connect(await startServer());
    expect(() => client.turn({ maxCalls: -1 })).toThrow(TypeError);
    expect(() => client.turn({ max: 1 } as never)).toThrow(TypeError);
  });
});

describe('chainAlarm', () => {
  const TOOLS = [
    { name: 'read_mail', annotations: { readOnlyHint: true, openWorldHint: true } },
    { name: 'send_mail', annotations: { readOnlyHint: false } },
    { name: 'add', annotations: { readOnlyHint: true, openWorldHint: false } },
    { name: 'unsaid' },
  ];

  async function alarmed(options?: ChainAlarmOptions) {
    const scene = await startServer({ tools: TOOLS });
    const client = await connect(scene, { gates: [chainAlarm(options)] });
    await client.listTools();
    const chains: CallChain[] = [];
    client.connection.on('call-chain', (chain) => chains.push(chain));
    return { client, chains };
  }
  const call = (client: Pick<HostedClient, 'callTool'>, name: string, args: object = {}) =>
    client.callTool({ name, arguments: { ...args } });

  it('tells the same call five times in a row, at each multiple, in each turn for itself', async () => {
    const { client, chains } = await alarmed({ newTool: false });
    const turn = client.turn();
    for (let n = 0; n < 4; n += 1) await call(client, 'add', { a: 1, b: 2 });
    for (let n = 0; n < 4; n += 1) await call(turn, 'add', { b: 2, a: 1 });
    await call(client, 'add', { a: 1, b: 3 });
    for (let n = 0; n < 4; n += 1) await call(client, 'add', { a: 1, b: 2 });
    expect(chains).toEqual([]);
    await call(client, 'add', { b: 2, a: 1 });
    expect(chains).toEqual([{ gate: 'chainAlarm', kind: 'repeated', tool: 'add', count: 5 }]);
    await call(turn, 'add', { a: 1, b: 2 });
    expect(chains.at(-1)).toEqual({
      gate: 'chainAlarm',
      kind: 'repeated',
      tool: 'add',
      count: 5,
      turn: turn.id,
    });
    for (let n = 0; n < 5; n += 1) await call(client, 'add', { a: 1, b: 2 });
    expect(chains.map(({ count }) => count)).toEqual([5, 5, 10]);
  });

  it('tells a tool never used before, after a result from outside', async () => {
    const { client, chains } = await alarmed({ readThenSend: false });
    await call(client, 'add');
    await call(client, 'unsaid');
    // What comes from outside came after it.
    expect(chains).toEqual([]);
    await call(client, 'read_mail');
    await call(client, 'add');
    expect(chains).toEqual([{ gate: 'chainAlarm', kind: 'new-tool', tool: 'read_mail', after: 'unsaid' }]);
    await call(client, 'read_mail');
    await call(client, 'send_mail');
    await call(client, 'send_mail');
    expect(chains.slice(1)).toEqual([
      { gate: 'chainAlarm', kind: 'new-tool', tool: 'send_mail', after: 'read_mail' },
    ]);
  });

  it('tells a send after a read, once a turn', async () => {
    const { client, chains } = await alarmed({ newTool: false, repeats: 0 });
    const [one, two] = [client.turn(), client.turn()];
    await call(one, 'send_mail');
    await call(two, 'read_mail');
    expect(chains).toEqual([]);
    await call(two, 'unsaid');
    await call(two, 'send_mail');
    await call(two, 'send_mail');
    await call(one, 'send_mail');
    expect(chains).toEqual([
      { gate: 'chainAlarm', kind: 'read-then-send', tool: 'send_mail', after: 'read_mail', turn: two.id },
    ]);
  });

  it('takes the app’s word over the server’s, and its thresholds', async () => {
    const { client, chains } = await alarmed({
      repeats: 2,
      newToolAfter: 3,
      isSend: (asked) => asked.tool === 'unsaid',
      isRead: (asked) => asked.tool === 'add',
      isOutside: () => true,
    });
    await call(client, 'add');
    await call(client, 'add');
    await call(client, 'send_mail');
    await call(client, 'unsaid');
    expect(chains.map(({ kind, tool }) => `${kind} ${tool}`)).toEqual([
      'repeated add',
      'new-tool unsaid',
      'read-then-send unsaid',
    ]);
    expect(JSON.stringify(chains)).not.toContain('arguments');
  });

  it('refuses options that cannot be used', () => {
    expect(() => chainAlarm({ repeats: -1 })).toThrow(TypeError);
    expect(() => chainAlarm({ isSend: true as never })).toThrow(TypeError);
    expect(() => chainAlarm({ threshold: 5 } as never)).toThrow(TypeError);
  });
});
