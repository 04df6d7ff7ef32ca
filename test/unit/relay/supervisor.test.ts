/**
 * The supervisor, over processes that do as they are told.
 */
import { describe, expect, it } from 'vitest';
import { HostedMcpError, type HostedMcpErrorCode } from '../../../src/index.js';
import type { JsonRpcMessage, JsonRpcRequest } from '../../../src/json-rpc.js';
import { GENERATION, split } from '../../../src/relay/messages.js';
import { superviseServer } from '../../../src/relay/supervise.js';
import { manualClock } from '../../../src/testing/index.js';
import { type FakeChild, fakeSupervisor, never, toolCall, turns } from './support.js';

const WITHIN = { deadlineMs: 10_000, signal: never };
const result = (id: unknown, more: object = {}) => ({ jsonrpc: '2.0', id, result: { content: [], ...more } });
const initialize = (id: number, more: object = {}): JsonRpcRequest => ({
  jsonrpc: '2.0',
  id,
  method: 'initialize',
  params: {
    protocolVersion: '2025-06-18',
    capabilities: {},
    clientInfo: { name: 'c', version: '1' },
    ...more,
  },
});

async function refusal(promise: Promise<unknown>): Promise<HostedMcpError> {
  const error = await promise.then(
    () => new Error('expected a failure'),
    (each: unknown) => each,
  );
  if (!HostedMcpError.isInstance(error)) throw error;
  return error;
}
const last = (child: FakeChild | undefined) => child?.requests().at(-1) as JsonRpcRequest;

describe('the process', () => {
  it('is started by the first request, kept, and asked the handshake once', async () => {
    const { supervisor, children } = fakeSupervisor({ clock: manualClock() });
    expect(children).toHaveLength(0);
    expect(supervisor.generation).toBe(0);

    const first = await supervisor.handle(initialize(7), WITHIN);
    const [one, two] = await Promise.all([1, 2].map((id) => supervisor.handle(initialize(id), WITHIN)));
    await supervisor.handle({ jsonrpc: '2.0', method: 'notifications/initialized' }, WITHIN);

    expect(children).toHaveLength(1);
    expect(children[0]?.received.map((each) => 'method' in each && each.method)).toEqual([
      'initialize',
      'notifications/initialized',
    ]);
    expect(split(first).answer).toMatchObject({ id: 7, result: { _meta: { [GENERATION]: 1 } } });
    expect([one, two].map((each) => split(each).answer?.id)).toEqual([1, 2]);
    expect(supervisor.generation).toBe(1);
  });

  it('is greeted by the supervisor itself where nobody else has', async () => {
    const { supervisor, children } = fakeSupervisor({ clock: manualClock() });
    const asked = supervisor.handle(toolCall('echo'), WITHIN);
    await turns(30);
    children[0]?.say(result(last(children[0]).id));
    await asked;
    expect(children[0]?.received[0]).toMatchObject({ method: 'initialize', params: { capabilities: {} } });
  });

  it('is told of no ability that a relay cannot carry', async () => {
    const { supervisor, children } = fakeSupervisor({ clock: manualClock() });
    const capabilities = { sampling: {}, elicitation: {}, roots: {}, tasks: {}, experimental: { x: {} } };
    await supervisor.handle(initialize(1, { capabilities }), WITHIN);
    expect(children[0]?.received[0]).toMatchObject({ params: { protocolVersion: '2025-06-18' } });
    expect((children[0]!.received[0] as JsonRpcRequest).params?.capabilities).toEqual({
      experimental: { x: {} },
    });
  });

  it('gets no more than its list of variables and its own', async () => {
    const { supervisor, children } = fakeSupervisor({ clock: manualClock(), inherit: ['PATH', 'NO_SUCH'] });
    await supervisor.handle(initialize(1), WITHIN);
    expect({ ...children[0]?.line.env }).toEqual({ PATH: process.env.PATH, API_KEY: 'sk-canary-0123456789' });
  });

  it('that ended is followed by one more, for the next request, after a pause that grows', async () => {
    const clock = manualClock();
    const { supervisor, children } = fakeSupervisor({ clock, restartDelayMs: 100 });
    const exits: unknown[] = [];
    supervisor.on('exit', (exit) => exits.push(exit));
    const gaps: number[] = [];
    for (let round = 1; round <= 4; round += 1) {
      const asked = refusal(supervisor.handle(toolCall('die'), WITHIN));
      const from = clock.monotonic();
      await clock.settle();
      while (children.length < round) await clock.advance(10);
      gaps.push(clock.monotonic() - from);
      await turns(30);
      children.at(-1)?.crash();
      expect(await asked).toMatchObject({
        code: 'ERR_OUTCOME_UNKNOWN',
        executed: 'unknown',
        retryable: false,
        tool: 'die',
        reason: 'child-ended',
      });
    }
    expect(gaps).toEqual([0, 100, 200, 400]);
    // Each call was written once: nothing was played again to a later process.
    expect(children.map((child) => child.requests().length)).toEqual([1, 1, 1, 1]);
    expect(exits).toEqual(
      [1, 2, 3, 4].map((generation) => ({ server: 'fake', generation, code: 'SIGKILL', expected: false })),
    );
    // No time for the pause: said at once, and when to come again.
    const short = await refusal(supervisor.handle(toolCall('die'), { deadlineMs: 300, signal: never }));
    expect(short).toMatchObject({
      code: 'ERR_NOT_SENT',
      executed: false,
      retryable: true,
      retryAfterMs: 800,
    });
    expect(children).toHaveLength(4);
    // A life long enough: as if it were the first crash.
    const asked = refusal(supervisor.handle(toolCall('die'), { deadlineMs: 60_000, signal: never }));
    await clock.advance(800);
    await clock.advance(10_000);
    children.at(-1)?.crash();
    await asked;
    const again = supervisor.handle(initialize(1), WITHIN);
    await clock.advance(100);
    await again;
    expect(children).toHaveLength(6);
  });

  it('that says nothing to three requests in a row is ended', async () => {
    const clock = manualClock();
    const { supervisor, children } = fakeSupervisor({ clock, restartDelayMs: 0 });
    await supervisor.handle(initialize(1), WITHIN);
    const codes: string[] = [];
    for (let round = 0; round < 3; round += 1) {
      const asked = refusal(supervisor.handle(toolCall('hang'), { deadlineMs: 1_000, signal: never }));
      await clock.advance(1_000);
      codes.push((await asked).code);
      // A sign of life, and it begins anew.
      if (round === 0) children[0]?.say({ jsonrpc: '2.0', method: 'notifications/message', params: {} });
    }
    expect(codes).toEqual(Array(3).fill('ERR_TIMEOUT'));
    expect(children[0]?.wasEnded).toBe(false);
    const asked = refusal(supervisor.handle(toolCall('hang'), { deadlineMs: 1_000, signal: never }));
    await clock.advance(1_000);
    await asked;
    expect(children[0]?.wasEnded).toBe(true);
    await supervisor.handle(initialize(1), WITHIN);
    expect(children).toHaveLength(2);
  });

  it.each<[string, (child: FakeChild) => void, HostedMcpErrorCode, RegExp]>([
    ['ends in the handshake', (child) => child.crash('EXIT_3'), 'ERR_NOT_SENT', /EXIT_3/],
    [
      'refuses it',
      (child) =>
        child.say({
          jsonrpc: '2.0',
          id: (child.received[0] as JsonRpcRequest).id,
          error: { code: -32099, message: 'no' },
        }),
      'ERR_PROTOCOL',
      /refused/,
    ],
  ])('that %s: the call did not run', async (_, act, code, words) => {
    const { supervisor, children } = fakeSupervisor({ clock: manualClock() }, { answersHandshake: false });
    const asked = refusal(supervisor.handle(toolCall('echo'), WITHIN));
    await turns(30);
    act(children[0] as FakeChild);
    const failure = await asked;
    expect(failure).toMatchObject({ code, executed: false });
    expect(failure.message).toMatch(words);
    expect(children[0]?.requests()).toHaveLength(0);
  });

  it('that never answers it is ended, and the caller has long been told', async () => {
    const clock = manualClock();
    const { supervisor, children } = fakeSupervisor(
      { clock, startTimeoutMs: 5_000 },
      { answersHandshake: false },
    );
    const asked = refusal(supervisor.handle(toolCall('echo'), { deadlineMs: 2_000, signal: never }));
    const longer = refusal(supervisor.handle(initialize(1), { deadlineMs: 9_000, signal: never }));
    await clock.advance(1_999);
    expect(await asked).toMatchObject({ code: 'ERR_TIMEOUT', executed: false, retryable: true });
    expect(children[0]?.wasEnded).toBe(false);
    await clock.advance(4_000);
    expect(await longer).toMatchObject({ code: 'ERR_NOT_SENT', executed: false, reason: 'start' });
    expect(children[0]?.wasEnded).toBe(true);
  });

  it('its refusal of the handshake is the answer of whoever asked for it', async () => {
    const { supervisor, children } = fakeSupervisor({ clock: manualClock() }, { answersHandshake: false });
    const asked = supervisor.handle(initialize(5), WITHIN);
    await turns(30);
    const { id } = children[0]!.received[0] as JsonRpcRequest;
    children[0]?.say({ jsonrpc: '2.0', id, error: { code: -32099, message: 'not sk-canary-0123456789' } });
    expect(await asked).toEqual({
      jsonrpc: '2.0',
      id: 5,
      error: { code: -32099, message: 'not [redacted]' },
    });
  });
});

describe('requests', () => {
  it.each([
    [undefined, 1],
    [1, 1],
    [3, 3],
  ])('at concurrency %s: %i at once, in the order of coming', async (concurrency, most) => {
    const { supervisor, children } = fakeSupervisor({ clock: manualClock(), concurrency });
    await supervisor.handle(initialize(1), WITHIN);
    const asked = [1, 2, 3, 4, 5].map((n) => supervisor.handle(toolCall(`t${n}`), WITHIN));
    const child = children[0] as FakeChild;
    for (let done = 0; done < 5; done += 1) {
      await turns(30);
      expect(child.requests()).toHaveLength(Math.min(5, done + most));
      child.say(result(child.requests()[done]?.id, { n: done + 1 }));
    }
    const answers = (await Promise.all(asked)) as unknown as { result: { n: number } }[];
    expect(answers.map((each) => each.result.n)).toEqual([1, 2, 3, 4, 5]);
    expect(child.requests().map(({ params }) => params?.name)).toEqual(['t1', 't2', 't3', 't4', 't5']);
  });

  it('a ping goes past the line', async () => {
    const { supervisor, children } = fakeSupervisor({ clock: manualClock() });
    void supervisor.handle(toolCall('slow'), WITHIN).catch(() => {});
    await turns(30);
    const ping = supervisor.handle({ jsonrpc: '2.0', id: 'p', method: 'ping' }, WITHIN);
    await turns(30);
    children[0]?.say({ jsonrpc: '2.0', id: last(children[0]).id, result: {} });
    expect(await ping).toEqual({ jsonrpc: '2.0', id: 'p', result: {} });
    await supervisor.close();
  });

  it('each in its time: what was written is unknown and taken back, what waited did not run', async () => {
    const clock = manualClock();
    const { supervisor, children } = fakeSupervisor({ clock });
    await supervisor.handle(initialize(1), WITHIN);
    const first = refusal(supervisor.handle(toolCall('slow'), { deadlineMs: 10_000, signal: never }));
    const second = refusal(supervisor.handle(toolCall('late'), { deadlineMs: 5_000, signal: never }));
    await clock.advance(4_499);
    expect(clock.pendingTimers).toBe(2);
    await clock.advance(1);
    // 500 ms before whoever asked stops waiting.
    expect(await second).toMatchObject({
      code: 'ERR_TIMEOUT',
      executed: false,
      retryable: true,
      tool: 'late',
    });
    await clock.advance(5_000);
    expect(await first).toMatchObject({
      code: 'ERR_TIMEOUT',
      executed: 'unknown',
      retryable: false,
      reason: 'hop:fake',
    });
    expect(children[0]?.requests().map(({ params }) => params?.name)).toEqual(['slow']);
    expect(children[0]?.notified('notifications/cancelled')).toMatchObject([
      { params: { requestId: last(children[0]).id } },
    ]);
    // Its late answer is nobody's.
    children[0]?.say(result(last(children[0]).id, { of: 'slow' }));
    const next = supervisor.handle(toolCall('next'), WITHIN);
    await turns(30);
    children[0]?.say(result(last(children[0]).id, { of: 'next' }));
    expect(await next).toMatchObject({ result: { of: 'next' } });
    expect(clock.pendingTimers).toBe(0);
  });

  it('are given up by signal or by notice, one that is unmistakable', async () => {
    const { supervisor, children } = fakeSupervisor({ clock: manualClock(), concurrency: 4 });
    await supervisor.handle(initialize(1), WITHIN);
    const controller = new AbortController();
    const one = refusal(
      supervisor.handle({ ...toolCall('a'), id: 1 }, { deadlineMs: 9_000, signal: controller.signal }),
    );
    const two = refusal(supervisor.handle({ ...toolCall('b'), id: 2 }, WITHIN));
    const three = supervisor.handle({ ...toolCall('c'), id: 3 }, WITHIN);
    const four = supervisor.handle({ ...toolCall('d'), id: 3 }, WITHIN);
    await turns(30);
    controller.abort();
    const notice = (requestId: number): JsonRpcMessage => ({
      jsonrpc: '2.0',
      method: 'notifications/cancelled',
      params: { requestId },
    });
    await supervisor.handle(notice(2), WITHIN);
    await supervisor.handle(notice(3), WITHIN);
    expect(await one).toMatchObject({ code: 'ERR_ABORTED', executed: 'unknown', tool: 'a' });
    expect(await two).toMatchObject({ code: 'ERR_ABORTED', executed: 'unknown', tool: 'b' });
    for (const { id, params } of children[0]?.requests() ?? [])
      children[0]?.say(result(id, { of: params?.name }));
    expect([await three, await four]).toMatchObject([{ result: { of: 'c' } }, { result: { of: 'd' } }]);
    const before = new AbortController();
    before.abort();
    const never = supervisor.handle(toolCall('e'), { deadlineMs: 9_000, signal: before.signal });
    expect(await refusal(never)).toMatchObject({ code: 'ERR_ABORTED', executed: false });
    expect(children[0]?.requests()).toHaveLength(4);
  });

  it('for a process that is no more are refused unread', async () => {
    const { supervisor, children } = fakeSupervisor({ clock: manualClock(), restartDelayMs: 0 });
    await supervisor.handle(initialize(1), WITHIN);
    children[0]?.crash();
    const meant = (generation: number) =>
      toolCall('echo', {}, { _meta: { [GENERATION]: generation, keep: 1 } });
    expect(await refusal(supervisor.handle(meant(1), WITHIN))).toMatchObject({
      code: 'ERR_SESSION_LOST',
      executed: false,
      retryable: true,
    });
    expect(children).toHaveLength(1);
    await supervisor.handle(initialize(2), WITHIN);
    expect((await refusal(supervisor.handle(meant(1), WITHIN))).code).toBe('ERR_SESSION_LOST');
    const asked = supervisor.handle(meant(2), WITHIN);
    await turns(30);
    // The mark is ours, and nothing of the server's.
    expect(last(children[1]).params?._meta).toEqual({ keep: 1 });
    children[1]?.say(result(last(children[1]).id));
    await asked;
  });

  it('a line that is too long is refused where its ends tell whose it was', async () => {
    const { supervisor, children } = fakeSupervisor({ clock: manualClock(), concurrency: 2 });
    const asked = [toolCall('a'), toolCall('b')].map((each) => supervisor.handle(each, WITHIN));
    await turns(30);
    const [a, b] = children[0]?.requests() ?? [];
    children[0]?.tooLong(`{"jsonrpc":"2.0","id":${a?.id},"result":{`, '"}}');
    children[0]?.say(result(b?.id));
    expect(await refusal(asked[0] as Promise<unknown>)).toMatchObject({
      code: 'ERR_MESSAGE_TOO_LARGE',
      executed: true,
    });
    await asked[1];
  });
});

describe('what the server says', () => {
  it('questions are answered at once, and no call waits for them', async () => {
    const { supervisor, children } = fakeSupervisor({ clock: manualClock() });
    await supervisor.handle(initialize(1), WITHIN);
    children[0]?.say({ jsonrpc: '2.0', id: 'q1', method: 'ping' });
    children[0]?.say({ jsonrpc: '2.0', id: 'q2', method: 'sampling/createMessage', params: {} });
    const answers = children[0]?.received.slice(2);
    expect(answers).toMatchObject([
      { id: 'q1', result: {} },
      { id: 'q2', error: { code: -32601 } },
    ]);
  });

  it.each(['discard', 'forward'] as const)('notifications: %s', async (notifications) => {
    const { supervisor, children } = fakeSupervisor({ clock: manualClock(), notifications });
    const heard: unknown[] = [];
    supervisor.on('notification', ({ generation, message }) => heard.push([generation, message.method]));
    const asked = supervisor.handle(toolCall('echo'), WITHIN);
    await turns(30);
    const child = children[0] as FakeChild;
    for (let n = 1; n <= 300; n += 1)
      child.say({
        jsonrpc: '2.0',
        method: 'notifications/message',
        params: { n, key: 'sk-canary-0123456789' },
      });
    child.say(result(last(child).id));
    const came = await asked;
    expect(heard).toHaveLength(300);
    if (notifications === 'discard') {
      expect(came).toMatchObject({ result: { content: [] } });
    } else {
      const { notifications: before, answer } = split(came);
      expect(before.map(({ params }) => params?.n)).toEqual(Array.from({ length: 256 }, (_, at) => at + 45));
      expect(before[0]?.params?.key).toBe('[redacted]');
      expect(answer).toMatchObject({ result: { content: [] } });
    }
  });

  it('holds no secret of its own, and looks like no word of ours', async () => {
    const { supervisor, children } = fakeSupervisor({ clock: manualClock(), concurrency: 2 });
    const lines: unknown[] = [];
    supervisor.on('stderr', (line) => lines.push(line));
    const asked = [toolCall('a'), toolCall('b')].map((each) => supervisor.handle(each, WITHIN));
    await turns(30);
    const child = children[0] as FakeChild;
    const [a, b] = child.requests();
    child.complain('with sk-canary-0123456789');
    const encoded = Buffer.from('x:sk-canary-0123456789').toString('base64');
    child.say(result(a?.id, { key: 'sk-canary-0123456789', encoded }));
    const holdfast = { code: 'ERR_NOT_SENT', executed: false, retryable: true };
    child.say({
      jsonrpc: '2.0',
      id: b?.id,
      error: { code: -32000, message: 'sk-canary-0123456789', data: { holdfast } },
    });
    const answers = await Promise.all(asked);
    expect(JSON.stringify([answers, lines])).not.toMatch(/canary/);
    expect(answers[0]).toMatchObject({ result: { key: '[redacted]' } });
    expect(JSON.stringify(answers[0])).not.toContain(encoded);
    expect(answers[1]).toMatchObject({ error: { code: -32000, message: '[redacted]' } });
    expect(JSON.stringify(answers[1])).not.toContain('holdfast');
    expect(lines).toEqual([{ server: 'fake', generation: 1, line: 'with [redacted]' }]);
  });
});

describe('close()', () => {
  it('tells everybody who waits, ends the process, and starts no other', async () => {
    const clock = manualClock();
    const { supervisor, children } = fakeSupervisor({ clock });
    await supervisor.handle(initialize(1), WITHIN);
    const asked = ['under way', 'in line'].map((tool) => refusal(supervisor.handle(toolCall(tool), WITHIN)));
    await turns(30);
    await Promise.all([supervisor.close(), supervisor.close()]);
    expect(await Promise.all(asked)).toMatchObject([
      { code: 'ERR_CLOSED', executed: 'unknown' },
      { code: 'ERR_CLOSED', executed: false },
    ]);
    expect(children[0]?.wasEnded).toBe(true);
    expect(await refusal(supervisor.handle(toolCall('x'), WITHIN))).toMatchObject({ code: 'ERR_CLOSED' });
    expect(children).toHaveLength(1);
    expect(clock.pendingTimers).toBe(0);
  });

  it('before anything was started, in a pause, and in a handshake', async () => {
    const idle = fakeSupervisor({ clock: manualClock() });
    await idle.supervisor.close();

    const clock = manualClock();
    const pausing = fakeSupervisor({ clock });
    await pausing.supervisor.handle(initialize(1), WITHIN);
    pausing.children[0]?.crash();
    const waiting = refusal(pausing.supervisor.handle(toolCall('x'), WITHIN));
    await turns(30);
    await pausing.supervisor.close();
    expect(await waiting).toMatchObject({ code: 'ERR_CLOSED', executed: false });
    expect(pausing.children).toHaveLength(1);
    expect(clock.pendingTimers).toBe(0);

    const greeting = fakeSupervisor({ clock }, { answersHandshake: false });
    const asked = refusal(greeting.supervisor.handle(toolCall('x'), WITHIN));
    await turns(30);
    await greeting.supervisor.close();
    expect(await asked).toMatchObject({ code: 'ERR_CLOSED', executed: false });
    expect(greeting.children[0]?.wasEnded).toBe(true);
    expect(clock.pendingTimers).toBe(0);
  });
});

describe('what cannot be used is refused before anything is started', () => {
  it.each<[string, object, object]>([
    ['no command', { url: 'https://example.com' }, {}],
    ['an unknown key', { command: 'x', secrets: {} }, {}],
    ['a secret in an argument, by its flag', { command: 'x', args: ['--api-key', 'abc'] }, {}],
    ['a secret in an argument, by its name', { command: 'x', args: [`\${API_TOKEN}`] }, {}],
    ['a secret in an argument, by its file', { command: 'x', args: [`--from=\${file:/run/secret}`] }, {}],
    ['a secret in an argument, assigned', { command: 'x', args: ['--password=abc'] }, {}],
    ['concurrency', { command: 'x' }, { concurrency: 0 }],
    ['inherit', { command: 'x' }, { inherit: 'PATH' }],
    ['notifications', { command: 'x' }, { notifications: 'drop' }],
    ['an option that is none', { command: 'x' }, { inherits: [] }],
    ['name', { command: 'x' }, { name: '' }],
  ])('%s', (_, entry, options) => {
    expect(() => superviseServer(entry as never, options as never)).toThrow(TypeError);
  });
});
