import { getEventListeners } from 'node:events';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { askAfter, askBefore } from '../../../src/gates/ask.js';
import {
  type BeforeVerdict,
  type CallFacts,
  checkGates,
  type Gate,
  type ToolResult,
} from '../../../src/gates/gate.js';
import { HostedMcpError } from '../../../src/index.js';
import { type ManualClock, manualClock } from '../../../src/testing/index.js';
import { connect, failureOf, startServer } from '../../wire/support.js';
import { askerOf, CALL, gate } from './support.js';

const RESULT: ToolResult = { content: [{ type: 'text', text: 'paid' }] };
const never = new Promise<never>(() => {});

let clock: ManualClock;
let caller: AbortController;

beforeEach(() => {
  clock = manualClock();
  caller = new AbortController();
});

const onBefore = async (...gates: Gate[]) => askBefore(gates, CALL, askerOf(clock, caller.signal));
const onAfter = async (...gates: Gate[]) => askAfter(gates, CALL, RESULT, askerOf(clock, caller.signal));

describe('askBefore', () => {
  it('nobody to ask: the caller’s own arguments', async () => {
    expect(await onBefore()).toBe(CALL.arguments);
    expect(await onBefore(gate('after only', { after: () => 'allow' }))).toBe(CALL.arguments);
  });

  it('asks in order, each with what the one before left', async () => {
    const seen: unknown[] = [];
    const rewrite = (to: object) => ({
      before: (call: CallFacts): BeforeVerdict => {
        seen.push(call.arguments);
        return { arguments: { ...to } };
      },
    });
    const allow = async (call: CallFacts): Promise<BeforeVerdict> => {
      seen.push(call.arguments);
      return 'allow';
    };

    const args = await onBefore(
      gate('a', rewrite({ amount: 2 })),
      gate('b', { before: allow }),
      gate('c', rewrite({})),
    );

    expect(seen).toEqual([{ amount: 1 }, { amount: 2 }, { amount: 2 }]);
    expect(args).toEqual({});
    expect(CALL.arguments).toEqual({ amount: 1 });
  });

  it('a denial ends it: nobody after it is asked', async () => {
    const next = vi.fn(() => 'allow' as const);

    await expect(
      onBefore(gate('policy', { before: () => ({ deny: 'too much' }) }), gate('b', { before: next })),
    ).rejects.toMatchObject({
      code: 'ERR_DENIED',
      executed: false,
      retryable: false,
      gate: 'policy',
      reason: 'too much',
    });
    expect(next).not.toHaveBeenCalled();
  });

  it.each([
    [
      'throws',
      () => {
        throw new Error('secret-42');
      },
    ],
    ['rejects', () => Promise.reject(new Error('secret-42'))],
    ['gives nothing', () => undefined],
    ['gives null', () => null],
    ['gives true', () => true],
    ['gives another word', () => 'deny'],
    ['gives an empty object', () => ({})],
    ['denies without a reason', () => ({ deny: true })],
    ['gives arguments that are a list', () => ({ arguments: [1] })],
    ['gives a result', () => ({ result: RESULT })],
  ])('a gate that %s denies', async (_name, answer) => {
    const error = await onBefore(gate('policy', { before: answer as never })).catch(
      (thrown: unknown) => thrown,
    );

    expect(error).toMatchObject({ code: 'ERR_DENIED', executed: false, retryable: false, gate: 'policy' });
    expect(JSON.stringify(error) + String(error)).not.toContain('secret-42');
  });

  it.each([
    ['its own time', 100],
    ['30 s', undefined],
  ])('a gate that is silent for %s denies, and its signal ends', async (_name, timeoutMs) => {
    let asked: AbortSignal | undefined;
    const silent = gate('person', {
      timeoutMs,
      before: (_call, { signal }) => {
        asked = signal;
        return never;
      },
    });
    const denied = onBefore(silent).catch((thrown: unknown) => thrown);

    await clock.advance((timeoutMs ?? 30_000) - 1);
    expect(asked?.aborted).toBe(false);
    await clock.advance(1);

    expect(await denied).toMatchObject({ code: 'ERR_DENIED', gate: 'person', executed: false });
    expect(asked?.aborted).toBe(true);
    expect(clock.pendingTimers).toBe(0);
  });

  it('an error of ours from within a gate is passed on', async () => {
    const own = new HostedMcpError('ERR_DENIED', 'Ask again tomorrow', { reason: 'night' });

    await expect(onBefore(gate('policy', { before: () => Promise.reject(own) }))).rejects.toBe(own);
  });

  it('ends with the caller, at once, though the gate does not listen', async () => {
    const waiting = onBefore(gate('person', { before: () => never })).catch((thrown: unknown) => thrown);
    const reason = new Error('given up');

    caller.abort(reason);

    expect(await waiting).toBe(reason);
    expect(clock.pendingTimers).toBe(0);
  });

  it('a caller who has left is asked for nothing', async () => {
    caller.abort(new Error('given up'));
    const asked = vi.fn(() => 'allow' as const);

    await expect(onBefore(gate('policy', { before: asked }))).rejects.toThrow('given up');
  });

  it('leaves no timer and no listener behind, and tells how long each took', async () => {
    const asker = askerOf(clock, caller.signal);
    const slow = gate('slow', { before: () => clockSleep(clock, 250).then(() => 'allow' as const) });
    const done = askBefore([slow], CALL, asker);

    await clock.advance(250);
    await done;

    expect(asker.told).toEqual([['slow', 'before', 'allow', 250]]);
    expect(clock.pendingTimers).toBe(0);
    expect(getEventListeners(caller.signal, 'abort')).toEqual([]);
  });
});

describe('askAfter', () => {
  it('allow leaves the very result', async () => {
    expect(await onAfter(gate('a', { after: () => 'allow' }))).toBe(RESULT);
  });

  it('asks in order, each with what the one before left', async () => {
    const shown: unknown[] = [];
    const clean: ToolResult = { content: [] };
    const replaced = await onAfter(
      gate('a', { after: () => ({ result: clean }) }),
      gate('b', {
        after: (_call, result) => {
          shown.push(result);
          return 'allow';
        },
      }),
    );

    expect(shown).toEqual([clean]);
    expect(replaced).toBe(clean);
  });

  it.each([
    ['denies', () => ({ deny: 'a secret' })],
    [
      'throws',
      () => {
        throw new Error('no');
      },
    ],
    ['gives nonsense', () => 'ok'],
    ['gives a result that is a list', () => ({ result: [] })],
  ])('a gate that %s refuses the result of a tool that ran', async (_name, answer) => {
    await expect(onAfter(gate('inspect', { after: answer as never }))).rejects.toMatchObject({
      code: 'ERR_RESULT_REFUSED',
      executed: true,
      retryable: false,
      gate: 'inspect',
    });
  });

  it('a gate that is silent refuses', async () => {
    const refused = onAfter(gate('inspect', { timeoutMs: 50, after: () => never })).catch((e: unknown) => e);
    await clock.advance(50);

    expect(await refused).toMatchObject({ code: 'ERR_RESULT_REFUSED', executed: true });
  });
});

describe('checkGates', () => {
  it('takes none and good ones', () => {
    const good = [gate('a', { timeoutMs: 1, before: () => 'allow' })];

    expect(checkGates(undefined)).toEqual([]);
    expect(checkGates(good)).toBe(good);
  });

  it.each([
    [[{}], 'gates'],
    [[null], 'gates'],
    [[{ name: '' }], 'gates'],
    [[{ name: 'a', timeoutMs: 0 }], 'a'],
    [[{ name: 'a', timeoutMs: Number.POSITIVE_INFINITY }], 'a'],
    [[{ name: 'a', before: 'allow' }], 'a'],
    [[{ name: 'a', after: {} }], 'a'],
    ['policy', 'gates'],
  ])('refuses %j with a TypeError', (gates, name) => {
    expect(() => checkGates(gates as never)).toThrow(TypeError);
    expect(() => checkGates(gates as never)).toThrow(name);
  });
});

describe('on the wire', () => {
  it('a denied call sends nothing', async () => {
    const scene = await startServer();
    const client = await connect(scene, {
      gates: [gate('policy', { before: () => ({ deny: 'not today' }) })],
    });
    const { requests } = scene.server.counts;

    const failure = await failureOf(client.callTool({ name: 'echo', arguments: { text: 'hi' } }));

    expect(failure).toMatchObject({ code: 'ERR_DENIED', executed: false, gate: 'policy', tool: 'echo' });
    expect(scene.server.counts.requests).toBe(requests);
  });

  it('the server gets the rewritten arguments, and the rest of the call as it was', async () => {
    const got: unknown[] = [];
    const scene = await startServer({
      tools: [{ name: 'pay', handler: (args) => `paid ${got.push(args)}` }],
    });
    const client = await connect(scene, {
      gates: [gate('cap', { before: (call) => ({ arguments: { ...call.arguments, amount: 10 } }) })],
    });

    await client.callTool({
      name: 'pay',
      arguments: { amount: 99, to: 'x' },
      _meta: { 'mcp-holdfast/callId': 'p' },
    });

    expect(got).toEqual([{ amount: 10, to: 'x' }]);
    expect(scene.server.counts.executionsById).toEqual({ p: 1 });
  });

  it('a refused result: the tool ran, and the error says so', async () => {
    const scene = await startServer();
    const client = await connect(scene, {
      gates: [gate('inspect', { after: () => ({ deny: 'a key in it' }) })],
    });

    const failure = await failureOf(client.callTool({ name: 'echo', arguments: { text: 'hi' } }));

    expect(failure).toMatchObject({
      code: 'ERR_RESULT_REFUSED',
      executed: true,
      gate: 'inspect',
      tool: 'echo',
    });
    expect(scene.server.counts.executions).toEqual({ echo: 1 });
  });

  it('a replaced result is what the caller gets; reads pass no gate', async () => {
    const scene = await startServer();
    const asked = vi.fn(() => 'allow' as const);
    const client = await connect(scene, {
      gates: [
        gate('mask', {
          before: asked,
          after: () => ({ result: { content: [{ type: 'text', text: '***' }] } }),
        }),
      ],
    });

    await client.listTools();
    expect(asked).not.toHaveBeenCalled();
    const result = await client.callTool({ name: 'echo', arguments: { text: 'secret' } });

    expect(result).toMatchObject({ content: [{ type: 'text', text: '***' }] });
    expect(client.connection.stats.waits.gates.mask?.count).toBe(2);
  });

  it('the caller’s time runs while a gate thinks: nothing is sent after it', async () => {
    const scene = await startServer();
    const client = await connect(scene, { gates: [gate('person', { before: () => never })] });
    const { requests } = scene.server.counts;
    const failing = failureOf(
      client.callTool({ name: 'echo', arguments: { text: 'a' } }, { timeout: 1_000 }),
    );

    await scene.clock.advance(1_000);

    expect(await failing).toMatchObject({ code: 'ERR_TIMEOUT', executed: false });
    expect(scene.server.counts.requests).toBe(requests);
  });
});

function clockSleep(on: ManualClock, ms: number): Promise<void> {
  return new Promise((resolve) => on.setTimeout(resolve, ms));
}
