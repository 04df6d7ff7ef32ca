import { getEventListeners } from 'node:events';
import { beforeEach, describe, expect, it } from 'vitest';
import { Call, Ledger, type RequestOptions } from '../../../src/connection/ledger.js';
import { HostedMcpError } from '../../../src/errors.js';
import type { JsonRpcResponse } from '../../../src/json-rpc.js';
import type { Session } from '../../../src/session/session.js';
import { type ManualClock, manualClock } from '../../../src/testing/index.js';

const ANSWER: JsonRpcResponse = { jsonrpc: '2.0', id: 7, result: {} };
const SESSION = { number: 1 } as Session;
const never = new Promise<never>(() => {});

let clock: ManualClock;
let ended: unknown[];

function call(options: RequestOptions = {}, id: string | number = 7): Call {
  const made = new Call(
    { jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'pay' } },
    options,
    clock,
    50_000,
    (_call, error) => ended.push(error),
  );
  made.promise.catch(() => {});
  return made;
}

/** What an exchange handle was told. */
function exchange() {
  const handle = { aborts: 0, abort: () => void handle.aborts++, pause() {}, resume() {} };
  return handle;
}

beforeEach(() => {
  clock = manualClock();
  ended = [];
});

describe('Call', () => {
  it('knows by its phase whether it ran', () => {
    const pay = call();
    expect([pay.phase, pay.executed, pay.attempts]).toEqual(['queued', false, 0]);

    pay.markSent(SESSION);
    expect([pay.phase, pay.executed, pay.attempts, pay.session]).toEqual(['sent', 'unknown', 1, SESSION]);

    pay.markRefused();
    expect([pay.phase, pay.executed, pay.attempts]).toEqual(['queued', false, 1]);

    pay.markSent(SESSION);
    pay.succeed(ANSWER);
    pay.markRefused();
    expect([pay.phase, pay.executed, pay.attempts]).toEqual(['answered', true, 2]);
  });

  it('makes errors that say what happened to it', () => {
    const pay = call();
    expect(pay.error('ERR_TIMEOUT', 'Late', { retryable: true })).toMatchObject({
      code: 'ERR_TIMEOUT',
      executed: false,
      retryable: true,
      method: 'tools/call',
      tool: 'pay',
    });
    pay.markSent(SESSION);
    expect(pay.error('ERR_TIMEOUT', 'Late', { retryable: true })).toMatchObject({
      executed: 'unknown',
      retryable: false,
    });
    expect(pay.error('ERR_RATE_LIMITED', 'No', { executed: false })).toMatchObject({ executed: false });
  });

  it('ends once: what comes later changes nothing', async () => {
    const pay = call();
    pay.markSent(SESSION);

    pay.succeed(ANSWER);
    pay.fail(new Error('late'));
    pay.succeed({ ...ANSWER, result: { late: true } });

    expect(await pay.promise).toBe(ANSWER);
    expect(ended).toEqual([undefined]);
  });

  it('a failure ends the exchange that carries it, also one that begins too late', async () => {
    const pay = call();
    const first = exchange();
    const late = exchange();
    const error = new Error('given up');
    pay.attach(first);

    pay.fail(error);
    pay.attach(late);

    await expect(pay.promise).rejects.toBe(error);
    expect([first.aborts, late.aborts]).toEqual([1, 1]);
    expect(ended).toEqual([error]);
  });

  it('an answer leaves its exchange alone: the server may end the stream itself', () => {
    const pay = call();
    const handle = exchange();
    pay.attach(handle);
    pay.markSent(SESSION);

    pay.succeed(ANSWER);

    expect(handle.aborts).toBe(0);
  });

  it('waits no longer than its time, and did not run then', async () => {
    const pay = call();
    const waiting = pay.waitFor(never, 'a session').catch((error: unknown) => error);

    await clock.advance(49_999);
    expect(pay.ended).toBe(false);
    await clock.advance(1);

    expect(await waiting).toMatchObject({ code: 'ERR_TIMEOUT', executed: false, retryable: true });
    await expect(pay.promise).rejects.toBe(await waiting);
    expect(clock.pendingTimers).toBe(0);
  });

  it('sets no timer where the caller’s own holds its time', async () => {
    await clock.advance(1_000);
    const pay = call({ deadlineMs: 1_500 });
    const waiting = pay.waitFor(never, 'a session').catch((error: unknown) => error);
    const error = new Error('the time is up');

    expect([pay.deadlineMs, clock.pendingTimers]).toEqual([1_500, 0]);
    pay.fail(error);

    expect(await waiting).toBe(error);
  });

  it('several waits share one timer, which ends when bytes leave', async () => {
    const pay = call();
    await pay.waitFor(Promise.resolve('a'), 'one');
    await expect(pay.waitFor(Promise.reject(new Error('b')), 'two')).rejects.toThrow('b');
    expect(clock.pendingTimers).toBe(1);

    pay.markSent(SESSION);

    expect(clock.pendingTimers).toBe(0);
    await clock.advance(60_000);
    expect(pay.ended).toBe(false);
  });

  it('a wait of a call that has ended ends at once, and nobody hears of what was waited for', async () => {
    const pay = call();
    const error = new Error('given up');
    pay.fail(error);

    await expect(pay.waitFor(Promise.reject(new Error('unheard')), 'a session')).rejects.toBe(error);

    expect(pay.signal.reason).toBe(error);
    expect(clock.pendingTimers).toBe(0);
  });

  it.each(['answer', 'failure', 'abort'])('leaves no timer and no listener behind (%s)', async (end) => {
    const caller = new AbortController();
    const pay = call({ signal: caller.signal });
    const { signal } = pay;
    pay.waitFor(never, 'a session').catch(() => {});
    expect([clock.pendingTimers, getEventListeners(caller.signal, 'abort').length]).toEqual([1, 1]);

    if (end === 'answer') pay.succeed(ANSWER);
    else if (end === 'failure') pay.fail(new Error('no'));
    else caller.abort();
    await pay.promise.catch(() => {});

    expect(clock.pendingTimers).toBe(0);
    expect(getEventListeners(caller.signal, 'abort')).toEqual([]);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('the caller’s signal takes it back, queued or sent, also if it had ended before', async () => {
    const caller = new AbortController();
    const queued = call({ signal: caller.signal });
    const sent = call({ signal: caller.signal }, 8);
    sent.markSent(SESSION);
    caller.abort();
    const born = call({ signal: caller.signal }, 9);

    await expect(queued.promise).rejects.toMatchObject({ code: 'ERR_ABORTED', executed: false });
    await expect(sent.promise).rejects.toMatchObject({ code: 'ERR_ABORTED', executed: 'unknown' });
    await expect(born.promise).rejects.toMatchObject({ code: 'ERR_ABORTED', executed: false });
    expect(ended.every((error) => HostedMcpError.isInstance(error, 'ERR_ABORTED'))).toBe(true);
  });
});

describe('Ledger', () => {
  it('finds calls by id, 1 and "1" apart', () => {
    const ledger = new Ledger();
    const [number, text] = [call({}, 1), call({}, '1')];
    ledger.add(number);
    ledger.add(text);

    expect([ledger.get(1), ledger.get('1'), ledger.get(null), ledger.get({})]).toEqual([
      number,
      text,
      undefined,
      undefined,
    ]);
    ledger.remove(number);
    expect([ledger.size, ledger.get(1)]).toEqual([1, undefined]);
  });

  it('does not forget a newer call of the same id', () => {
    const ledger = new Ledger();
    const [old, newer] = [call(), call()];
    ledger.add(old);
    ledger.add(newer);

    ledger.remove(old);

    expect(ledger.get(7)).toBe(newer);
  });

  it('names the calls that have left on a session and have no answer', () => {
    const ledger = new Ledger();
    const calls = [1, 2, 3, 4].map((id) => call({}, id));
    for (const each of calls) ledger.add(each);
    const [queued, sent, refused, elsewhere] = calls as [Call, Call, Call, Call];
    sent.markSent(SESSION);
    refused.markSent(SESSION);
    refused.markRefused();
    elsewhere.markSent({ number: 2 } as Session);

    expect(ledger.sentOn(SESSION)).toEqual([sent]);
    expect(ledger.all()).toContain(queued);
  });
});
