import { beforeEach, describe, expect, it } from 'vitest';
import { Call, Ledger, type RequestOptions } from '../../../src/connection/ledger.js';
import type { HostedMcpError } from '../../../src/errors.js';
import type { JsonRpcResponse } from '../../../src/json-rpc.js';
import type { Session } from '../../../src/session/session.js';
import { type ManualClock, manualClock } from '../../../src/testing/index.js';

const ANSWER: JsonRpcResponse = { jsonrpc: '2.0', id: 7, result: {} };
const SESSION = { number: 1 } as Session;
const OTHER = { number: 2 } as Session;
const never = new Promise<never>(() => {});

let clock: ManualClock;

beforeEach(() => {
  clock = manualClock();
});

function call(options: RequestOptions = {}, id: string | number = 7, method = 'tools/call'): Call {
  const made = new Call(
    { jsonrpc: '2.0', id, method, params: { name: 'pay' } },
    options,
    clock,
    50_000,
    () => {},
  );
  made.promise.catch(() => {});
  return made;
}

function handle() {
  const made = { aborts: 0, abort: () => void made.aborts++, pause() {}, resume() {} };
  return made;
}

describe('Call', () => {
  it('begins with nothing counted', () => {
    const pay = call();

    expect(pay.waits).toEqual({ gatesMs: 0, sessionMs: 0, credentialMs: 0, rateMs: 0 });
    expect([pay.attempts, pay.tries, pay.heldBack]).toEqual([0, 1, 0]);
    expect([pay.takenBack, pay.ended, pay.mayHaveRun]).toEqual([false, false, false]);
  });

  it('stays in doubt once a try was neither refused nor answered, whatever befalls the later ones', () => {
    const pay = call();
    pay.markSent(SESSION);
    pay.tryAgain();
    pay.markSent(SESSION);
    pay.markRefused();
    pay.tryAgain();

    expect([pay.phase, pay.executed, pay.mayHaveRun]).toEqual(['queued', 'unknown', true]);
    expect(pay.error('ERR_RATE_LIMITED', 'No', { executed: false })).toMatchObject({
      executed: 'unknown',
      retryable: false,
    });
    expect(pay.error('ERR_PROTOCOL', 'No', { executed: true }).executed).toBe(true);
  });

  it('is in no doubt where every try was refused', () => {
    const pay = call();
    pay.markSent(SESSION);
    pay.markRefused();
    pay.tryAgain();

    expect([pay.executed, pay.mayHaveRun]).toEqual([false, false]);
    expect(pay.error('ERR_RATE_LIMITED', 'No').executed).toBe(false);
  });

  it('each reason for another round counts once, beside the others', () => {
    const pay = call();
    const asked = ['401', '429', '401', '429'].map((reason) => pay.isFirstRoundFor(reason));

    expect(asked).toEqual([true, true, false, false]);
  });

  it('has one signal, which ends with it', () => {
    const pay = call();
    const { signal } = pay;
    const error = new Error('given up');

    expect([pay.signal, signal.aborted]).toEqual([signal, false]);
    pay.fail(error);

    expect([signal.aborted, signal.reason]).toEqual([true, error]);
  });

  it('whose answer came leaves its signal alone', () => {
    const pay = call();
    const { signal } = pay;

    pay.succeed(ANSWER);

    expect(signal.aborted).toBe(false);
  });

  it('stays as it ended: what comes later neither answers it nor stops what goes on', () => {
    const failed = call();
    failed.fail(new Error('given up'));
    failed.succeed(ANSWER);
    expect([failed.phase, failed.executed]).toEqual(['queued', false]);

    const answered = call();
    const exchange = handle();
    const { signal } = answered;
    answered.attach(exchange);
    answered.markSent(SESSION);
    answered.succeed(ANSWER);
    answered.fail(new Error('late'));
    expect([exchange.aborts, signal.aborted]).toEqual([0, false]);
  });

  it('whose time was up before it began to wait ends at once', async () => {
    const pay = call();
    await clock.advance(60_000);
    const waiting = pay.waitFor(never, 'a session').catch((error: unknown) => error);

    await clock.advance(0);

    expect(await waiting).toMatchObject({ code: 'ERR_TIMEOUT' });
  });

  it('that is refused and waits again is bounded again', async () => {
    const pay = call();
    pay.waitFor(never, 'a session').catch(() => {});
    pay.markSent(SESSION);
    pay.markRefused();
    pay.waitFor(never, 'a session').catch(() => {});

    await clock.advance(50_000);

    await expect(pay.promise).rejects.toMatchObject({ code: 'ERR_TIMEOUT', executed: false });
  });

  it('ends every wait that it is in, and those alone', async () => {
    const pay = call();
    const done = pay.waitFor(Promise.resolve('in time'), 'a token');
    const waits = [pay.waitFor(never, 'a session'), pay.waitFor(never, 'a token')];
    const error = new Error('given up');
    await done;

    pay.fail(error);

    expect(await Promise.allSettled([done, ...waits])).toEqual([
      { status: 'fulfilled', value: 'in time' },
      { status: 'rejected', reason: error },
      { status: 'rejected', reason: error },
    ]);
  });
});

describe('a call that keeps its caller’s time', () => {
  const takenBack: { call: Call; error: HostedMcpError }[] = [];
  const takeBack = (each: Call, error: HostedMcpError) => void takenBack.push({ call: each, error });
  beforeEach(() => void takenBack.splice(0));

  it('keeps it from its beginning to its end', () => {
    const pay = call({ takeBack });
    expect(pay.keepsTime).toBe(true);
    pay.succeed(ANSWER);

    expect([pay.keepsTime, call().keepsTime]).toEqual([false, false]);
  });

  it('stands still while it is held, however often, and goes on with what was left', async () => {
    const pay = call({ takeBack, deadlineMs: 1_000 });
    const moved: number[] = [];
    pay.deadlines = { moved: ({ deadlineMs }: Call) => moved.push(deadlineMs) } as never;
    await clock.advance(100);
    const first = pay.hold();
    const second = pay.hold();
    expect(pay.keepsTime).toBe(false);
    await clock.advance(50);
    first();
    expect(pay.keepsTime).toBe(false);
    second();

    expect(pay.keepsTime).toBe(true);
    expect([pay.deadlineMs, moved]).toEqual([1_100, [1_050, 1_100]]);
  });

  it('is told when it is up, and not ended: whoever keeps it does that', async () => {
    await clock.advance(700);
    const pay = call({ takeBack });
    await clock.advance(1_500);
    pay.timeIsUp();

    expect(takenBack).toMatchObject([
      { call: pay, error: { code: 'ERR_TIMEOUT', executed: false, retryable: true } },
    ]);
    expect(takenBack[0]?.error.message).toContain('No answer within 1500 ms');
    expect(pay.ended).toBe(false);
  });

  it('and when the caller gives it up', () => {
    const caller = new AbortController();
    const pay = call({ takeBack, signal: caller.signal });
    pay.markSent(SESSION);
    caller.abort();

    expect(takenBack).toMatchObject([
      { call: pay, error: { code: 'ERR_ABORTED', executed: 'unknown', retryable: false } },
    ]);
    expect(pay.ended).toBe(false);
  });

  it('where nobody keeps it, it ends then', async () => {
    const pay = call();
    const goOn = pay.hold();
    await clock.advance(10);
    goOn();
    pay.timeIsUp();

    expect([pay.deadlineMs, pay.ended]).toEqual([50_000, true]);
    await expect(pay.promise).rejects.toMatchObject({ code: 'ERR_TIMEOUT', retryable: false });
  });

  it('where the owner has a way of its own to hold it, that is taken', () => {
    const told: string[] = [];
    const hold = () => {
      told.push('held');
      return () => told.push('goes on');
    };
    const pay = call({ takeBack, hold });
    pay.hold()();

    expect([told, pay.keepsTime, pay.deadlineMs]).toEqual([['held', 'goes on'], true, 50_000]);
  });
});

describe('an answer on another stream', () => {
  it('ends what carries the call and what asks for its answer', () => {
    const pay = call();
    const exchange = handle();
    pay.attach(exchange);
    pay.resumption = new AbortController();
    pay.markSent(SESSION);

    pay.answeredElsewhere(ANSWER);

    expect(pay.elsewhere).toBe(ANSWER);
    expect([exchange.aborts, pay.resumption.signal.aborted]).toEqual([1, true]);
  });

  it('counts once', () => {
    const pay = call();
    const exchange = handle();
    pay.attach(exchange);
    pay.markSent(SESSION);

    pay.answeredElsewhere(ANSWER);
    pay.answeredElsewhere({ ...ANSWER, result: { second: true } });

    expect([pay.elsewhere, exchange.aborts]).toEqual([ANSWER, 1]);
  });

  it('is nothing to a call that has not left', () => {
    const pay = call();
    const exchange = handle();
    pay.attach(exchange);

    pay.answeredElsewhere(ANSWER);

    expect([pay.elsewhere, exchange.aborts]).toEqual([undefined, 0]);
  });

  it('nor to one that has ended', () => {
    const pay = call();
    const exchange = handle();
    pay.attach(exchange);
    pay.markSent(SESSION);
    pay.fail(new Error('given up'));

    pay.answeredElsewhere(ANSWER);

    expect([pay.elsewhere, exchange.aborts]).toEqual([undefined, 1]);
  });

  it('finds the call that left on that session, and no other', () => {
    const ledger = new Ledger();
    const pay = call();
    ledger.add(pay);
    pay.markSent(SESSION);

    ledger.answered(ANSWER, OTHER);
    expect(pay.elsewhere).toBeUndefined();
    ledger.answered({ ...ANSWER, id: 8 }, SESSION);
    expect(pay.elsewhere).toBeUndefined();

    ledger.answered(ANSWER, SESSION);
    expect(pay.elsewhere).toBe(ANSWER);
  });
});

describe('Ledger', () => {
  it('tells of each call before it begins its way', () => {
    const ledger = new Ledger();
    const told: Call[] = [];
    ledger.onAdd = (each) => told.push(each);
    const pay = call();

    ledger.add(pay);

    expect(told).toEqual([pay]);
  });

  it('tells of calls whose time is up, in their order, on one timer; closed, it has none and makes none', async () => {
    const ledger = new Ledger();
    const told: unknown[] = [];
    const takeBack = (each: Call) => {
      told.push(each.id);
      ledger.remove(each);
      each.fail(new Error('taken back'));
    };
    const calls = [300, 100, 200].map((deadlineMs) => call({ takeBack, deadlineMs }, deadlineMs));
    for (const each of calls) ledger.add(each);
    ledger.add(call({}, 'no time of its own'));
    expect(clock.pendingTimers).toBe(1);

    await clock.advance(100);
    expect(told).toEqual([100]);
    await clock.advance(100);
    expect(told).toEqual([100, 200]);
    ledger.remove(calls[0] as Call);
    expect((calls[0] as Call).deadlines).toBeUndefined();
    expect(clock.pendingTimers).toBe(0);
    await clock.advance(200);
    expect(told).toEqual([100, 200]);

    ledger.add(call({ takeBack, deadlineMs: 900 }, 'before'));
    expect(clock.pendingTimers).toBe(1);
    ledger.close();
    expect(clock.pendingTimers).toBe(0);
    ledger.add(call({ takeBack, deadlineMs: 800 }, 'after'));
    expect(clock.pendingTimers).toBe(0);
  });

  it('does not count a subscription among those that somebody waits for', () => {
    const ledger = new Ledger();
    const [pay, standing] = [call(), call({}, 8, 'subscriptions/listen')];
    ledger.add(pay);
    ledger.add(standing);
    expect([ledger.size, ledger.waiting]).toEqual([2, 1]);

    ledger.remove(pay);
    expect([ledger.size, ledger.waiting]).toEqual([1, 0]);
    ledger.remove(standing);
    expect([ledger.size, ledger.waiting]).toEqual([0, 0]);
  });

  it.each([3, 32, 33, 100])('finds each of %i calls by its id, while they come and go', (count) => {
    const ledger = new Ledger();
    const calls = Array.from({ length: count }, (_, id) => call({}, id));
    for (const each of calls) ledger.add(each);
    const found = () => calls.map(({ id }) => ledger.get(id));
    expect(found()).toEqual(calls);

    for (const each of calls.slice(1)) ledger.remove(each);
    expect(found()).toEqual([calls[0], ...new Array(count - 1).fill(undefined)]);
    const late = call({}, 1);
    ledger.add(late);
    expect([ledger.get(0), ledger.get(1), ledger.size]).toEqual([calls[0], late, 2]);

    ledger.remove(calls[0] as Call);
    ledger.remove(late);
    expect([ledger.get(0), ledger.get(1), ledger.size]).toEqual([undefined, undefined, 0]);
    ledger.add(calls[0] as Call);
    expect([ledger.get(0), ledger.get(1)]).toEqual([calls[0], undefined]);
  });

  it.each([2, 40])(
    'of two calls with one id, among %i, the newer one is found, and outlives the older',
    (count) => {
      const ledger = new Ledger();
      for (let id = 100; id < 100 + count; id += 1) ledger.add(call({}, id));
      const [old, newer] = [call(), call()];
      ledger.add(old);
      expect(ledger.get(7)).toBe(old);
      ledger.add(newer);
      expect(ledger.get(7)).toBe(newer);

      ledger.remove(old);

      expect(ledger.get(7)).toBe(newer);
    },
  );
});
