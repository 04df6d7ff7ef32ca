import { describe, expect, it } from 'vitest';
import { HostedMcpError } from '../../../src/errors.js';
import type { Session } from '../../../src/session/session.js';
import { code, credential, later, OVERLOADED, REFUSED, scene, thrown } from './keeper-scene.js';

describe('opening', () => {
  it('is one handshake for all who ask, and says what it did', async () => {
    const { keeper, told, count, setUps, clock } = scene();
    expect([keeper.state, keeper.session, keeper.captured, keeper.failure]).toEqual([
      'idle',
      undefined,
      true,
      undefined,
    ]);
    await clock.advance(1_000);

    const opened = await Promise.all([keeper.ready(), keeper.ready(), keeper.ready()]);

    const [session] = opened;
    expect(opened).toEqual([session, session, session]);
    expect([keeper.session, keeper.ready(), session?.number, keeper.state]).toEqual([
      session,
      session,
      1,
      'ready',
    ]);
    expect([count('initialize'), count('notifications/initialized')]).toEqual([1, 1]);
    expect(told).toEqual([
      'idle>connecting',
      'connecting>ready',
      'established 1 after undefined: first session',
    ]);
    expect(setUps).toMatchObject([{ number: 1, previous: undefined, reason: 'first session' }]);
    expect(keeper.sinceMs).toBe(clock.now());
  });

  it('is tried three times at least where the server is away, with growing gaps, then fails for all', async () => {
    const { keeper, next, told, count, clock } = scene();
    next('initialize', OVERLOADED, OVERLOADED, OVERLOADED);
    const waiting = Promise.all([
      code(keeper.ready() as Promise<Session>),
      code(keeper.ready() as Promise<Session>),
    ]);

    await clock.advance(249 + 500);
    expect(await waiting).toEqual(['ERR_HTTP_STATUS', 'ERR_HTTP_STATUS']);

    expect(count('initialize')).toBe(3);
    expect([keeper.state, keeper.failure?.code]).toEqual(['idle', 'ERR_HTTP_STATUS']);
    expect(told).toEqual(['idle>connecting', 'connecting>idle:ERR_HTTP_STATUS']);

    await keeper.ready();
    expect([keeper.state, keeper.failure]).toEqual(['ready', undefined]);
  });

  it('makes as many tries as it is allowed to', async () => {
    const { keeper, next, count, clock } = scene({}, { maxAttempts: 5 });
    next('initialize', ...new Array(9).fill(OVERLOADED));
    const waiting = code(keeper.ready() as Promise<Session>);

    await clock.advance(20_000);

    expect(await waiting).toBe('ERR_HTTP_STATUS');
    expect(count('initialize')).toBe(5);
  });

  it('leaves gaps between them that double from half a second up to five', async () => {
    const { keeper, next, count, clock } = scene({}, { maxAttempts: 7 });
    clock.random = () => 1;
    next('initialize', ...new Array(9).fill(OVERLOADED));
    const waiting = code(keeper.ready() as Promise<Session>);
    await clock.settle();
    let made = 1;

    for (const gapMs of [500, 1_000, 2_000, 4_000, 5_000, 5_000]) {
      await clock.advance(gapMs - 1);
      expect(count('initialize')).toBe(made);
      await clock.advance(1);
      made += 1;
      expect(count('initialize')).toBe(made);
    }
    expect(await waiting).toBe('ERR_HTTP_STATUS');
  });

  it('begins no try when its time is up', async () => {
    const { keeper, next, count, clock } = scene({}, { maxElapsedMs: 1, maxAttempts: 9 });
    next('initialize', ...new Array(9).fill(OVERLOADED));
    const waiting = code(keeper.ready() as Promise<Session>);

    await clock.advance(20_000);

    expect(await waiting).toBe('ERR_HTTP_STATUS');
    expect(count('initialize')).toBe(1);
  });

  it.each([
    ['a refusal that will not pass', { status: 415, text: '' }, 'ERR_HTTP_STATUS', 'idle'],
    ['a credential refused', { status: 401, text: '' }, 'ERR_CREDENTIAL_REJECTED', 'blocked'],
  ])('is not tried again after %s', async (_name, reply, expected, state) => {
    const { keeper, next, count, clock } = scene();
    next('initialize', ...new Array(9).fill(reply));
    const waiting = code(keeper.ready() as Promise<Session>);

    await clock.advance(20_000);

    expect(await waiting).toBe(expected);
    expect(count('initialize')).toBe(expected === 'ERR_HTTP_STATUS' ? 1 : 2);
    expect([keeper.state, keeper.failure?.code]).toEqual([state, expected]);
  });

  it('is blocked where a person has to log in again', async () => {
    const refused = new HostedMcpError('ERR_REAUTHORIZATION_REQUIRED', 'Log in');
    const { keeper, clock } = scene(
      {},
      {
        credentials: { acquire: () => Promise.reject(refused) } as never,
      },
    );
    const waiting = code(keeper.ready() as Promise<Session>);
    await clock.advance(20_000);

    expect([await waiting, keeper.state]).toEqual(['ERR_REAUTHORIZATION_REQUIRED', 'blocked']);
  });

  it('says what went wrong where the error is not ours, and does not try again', async () => {
    const { keeper, next, count, clock } = scene();
    next('initialize', () => {
      throw new Error('foreign');
    });
    const waiting = code(keeper.ready() as Promise<Session>);
    await clock.advance(20_000);

    expect([await waiting, count('initialize')]).toEqual(['ERR_PROTOCOL', 1]);
    expect(keeper.failure?.cause).toBeDefined();
  });

  it('does not try again where the rate limit leaves no room', async () => {
    let asked = 0;
    const full = new HostedMcpError('ERR_RATE_WAIT_EXCEEDED', 'Full', { retryable: true });
    const { keeper, clock } = scene(
      {},
      {
        credentials: {
          acquire: () => {
            asked += 1;
            return Promise.reject(full);
          },
        } as never,
      },
    );
    const waiting = code(keeper.ready() as Promise<Session>);
    await clock.advance(20_000);

    expect([await waiting, asked]).toEqual(['ERR_RATE_WAIT_EXCEEDED', 1]);
  });

  it('needs to be told how', async () => {
    const { clock } = scene();
    const { SessionKeeper } = await import('../../../src/session/keeper.js');
    const bare = new SessionKeeper({
      clock,
      wire: { pay: () => undefined } as never,
      credentials: {} as never,
      target: new URL('https://mcp.example/'),
      options: { probe: 'ping', boundToToken: 'detect' } as never,
      maxAttempts: 1,
      maxElapsedMs: 1_000,
      onState: () => {},
      onMessage: () => {},
      setUp: async () => {},
      onEstablished: () => {},
      onSuspect: () => {},
      onLost: () => {},
    });

    expect(bare.captured).toBe(false);
    await expect(bare.ready()).rejects.toMatchObject({
      code: 'ERR_PROTOCOL',
      message: expect.stringContaining('Nothing was said yet of how to open a session'),
    });
  });
});

describe('the set-up of a session', () => {
  it('that fails once is made again on another session, the first one deleted', async () => {
    const numbers: number[] = [];
    const setUp = async (session: Session) => {
      numbers.push(session.number);
      if (numbers.length === 1) throw new Error('no project');
    };
    const { keeper, deleted, told } = scene({}, { setUp });

    const session = await keeper.ready();

    expect([numbers, session.number, deleted]).toEqual([[1, 2], 2, [1]]);
    expect(told.at(-1)).toBe('established 2 after undefined: first session');
  });

  it('that fails twice makes the connection unstable for five seconds', async () => {
    const made: Session[] = [];
    const setUp = async (session: Session) => {
      made.push(session);
      throw new Error('no project');
    };
    const { keeper, deleted, clock, count } = scene({}, { setUp });

    expect(await code(keeper.ready() as Promise<Session>)).toBe('ERR_SESSION_UNSTABLE');

    expect([keeper.state, deleted, made.map(({ phase }) => phase)]).toEqual([
      'unstable',
      [1, 2],
      ['ended', 'ended'],
    ]);
    expect(keeper.failure).toMatchObject({ reason: 'onEstablished threw', retryAfterMs: 5_000 });
    await clock.advance(4_999);
    expect(await thrown(() => keeper.ready())).toBe('ERR_SESSION_UNSTABLE');
    expect(count('initialize')).toBe(2);
    await clock.advance(1);
    expect(await code(keeper.ready() as Promise<Session>)).toBe('ERR_SESSION_UNSTABLE');
    expect(count('initialize')).toBe(4);
  });

  it('that is under way at the end of the connection fails for that reason', async () => {
    let begin = () => {};
    const begun = new Promise<void>((resolve) => {
      begin = resolve;
    });
    const setUp = (_session: Session, _previous: Session | undefined, _reason: string, signal: AbortSignal) =>
      new Promise<void>((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(new Error('stopped')));
        begin();
      });
    const { keeper, deleted, count, held } = scene({}, { setUp });
    const waiting = code(keeper.ready() as Promise<Session>);
    await begun;

    expect(keeper.close(false)).toBeUndefined();

    expect([await waiting, deleted, count('initialize'), held.asked]).toEqual(['ERR_CLOSED', [1], 1, 1]);
  });
});

describe('a loss', () => {
  it('opens the next session at once, its number one higher, told with what it follows', async () => {
    const { keeper, told, open, setUps } = scene();
    const first = await open();
    keeper.succeeded(first, credential(1));

    keeper.lost(first, 'gone', false);

    expect([keeper.state, keeper.session, first.phase]).toEqual(['recovering', undefined, 'ended']);
    const second = await open();
    expect([second.number, keeper.state]).toEqual([2, 'ready']);
    expect(told.slice(3)).toEqual([
      'lost 1 (server): gone',
      'ready>recovering',
      'recovering>ready',
      'established 2 after 1: gone',
    ]);
    expect(setUps.at(-1)).toMatchObject({ number: 2, previous: 1, reason: 'gone' });
  });

  it('that comes late changes nothing', async () => {
    const { keeper, told, open, count } = scene();
    const first = await open();
    keeper.lost(first, 'gone', false);
    const second = await open();
    const before = told.length;

    keeper.lost(first, 'gone', false);
    keeper.lost(first, 'gone', true);

    expect([keeper.session, count('initialize'), told.length]).toEqual([second, 2, before]);
  });

  it('that nobody wants mended yet leaves the connection idle', async () => {
    const { keeper, open, count } = scene();
    const first = await open();

    keeper.lost(first, 'gone', false, { opens: false });

    expect([keeper.state, count('initialize')]).toEqual(['idle', 1]);
    expect((await open()).number).toBe(2);
  });

  it('is for good or not, as it is said', async () => {
    const { keeper, open } = scene();
    const first = await open();
    keeper.lost(first, 'gone', true);
    expect(first.isForgotten).toBe(false);
    const second = await open();
    keeper.lost(second, 'gone', false);

    expect(second.isForgotten).toBe(true);
  });

  it('is told in the order it happened where the next one opens on demand', async () => {
    const { keeper, open, told } = scene();
    keeper.lost(await open(), 'gone', false, { opens: false });
    await open();

    expect(told.slice(-2)).toEqual(['recovering>ready', 'established 2 after 1: no session stands']);
  });

  it('tentative: the old one stays until the new one stands', async () => {
    const { keeper, told, open } = scene();
    const first = await open();

    keeper.lost(first, 'gone', true);

    expect([keeper.session, first.phase, keeper.state]).toEqual([first, 'current', 'recovering']);
    const second = await open();
    expect([keeper.session, first.phase, second.number]).toEqual([second, 'ended', 2]);
    expect(told.slice(-2)).toEqual(['lost 1 (server): gone', 'established 2 after 1: gone']);
  });

  it('tentative, and no new one to be had: the old one serves on', async () => {
    const { keeper, told, open, next, clock } = scene();
    const first = await open();
    next('initialize', { status: 415, text: '' });

    keeper.lost(first, 'gone', true);
    expect(await code(keeper.ready() as Promise<Session>)).toBe('ERR_HTTP_STATUS');
    await clock.settle();

    expect([keeper.session, keeper.ready(), keeper.state, first.phase]).toEqual([
      first,
      first,
      'ready',
      'current',
    ]);
    expect(told.at(-1)).toBe('recovering>ready');
  });

  it('for good while a tentative one is being mended: the next one is the same', async () => {
    const { keeper, open, next, count } = scene();
    const first = await open();
    const slow = later();
    next('initialize', slow.reply);
    keeper.lost(first, 'gone', true);

    keeper.lost(first, 'gone for good', false);
    slow.give({
      status: 200,
      relation: 'own',
      message: { jsonrpc: '2.0', id: 0, result: { protocolVersion: '2025-11-25' } },
      sessionIds: ['x'],
    });

    expect([(await open()).number, count('initialize'), first.phase]).toEqual([2, 2, 'ended']);
  });

  it('three in a row before any answer make the connection unstable, and the time runs', async () => {
    const { keeper, open, clock, told } = scene();
    for (let lost = 1; lost <= 3; lost += 1) keeper.lost(await open(), `gone ${lost}`, false);

    expect([keeper.state, keeper.session, keeper.failure?.code]).toEqual([
      'unstable',
      undefined,
      'ERR_SESSION_UNSTABLE',
    ]);
    expect(told.at(-1)).toBe('recovering>unstable:ERR_SESSION_UNSTABLE'.replace('recovering', 'ready'));
    await clock.advance(2_000);
    const refusal = await (async () => await keeper.ready())().catch((error: HostedMcpError) => error);
    expect(refusal).toMatchObject({ code: 'ERR_SESSION_UNSTABLE', retryAfterMs: 3_000, reason: 'gone 3' });
    await clock.advance(3_000);
    expect((await open()).number).toBe(4);
    expect([keeper.state, keeper.failure]).toEqual(['ready', undefined]);
  });

  it.each(['counts', 'answered'])('does not where it is not the server’s (%s)', async (how) => {
    const { keeper, open } = scene();
    for (let lost = 1; lost <= 4; lost += 1) {
      const session = await open();
      if (how === 'answered') keeper.succeeded(session, credential(1));
      keeper.lost(session, 'gone', false, how === 'counts' ? { counts: false } : {});
    }

    expect(keeper.state).toBe('recovering');
  });

  it('tentative ones count, too: the new session is given back and the old one is over', async () => {
    const { keeper, open, deleted, told, next, clock } = scene();
    for (let lost = 1; lost <= 2; lost += 1) keeper.lost(await open(), 'gone', false);
    const third = await open();

    keeper.lost(third, 'gone', true);

    expect(await code(keeper.ready() as Promise<Session>)).toBe('ERR_SESSION_UNSTABLE');
    expect([keeper.state, keeper.session, third.phase, deleted]).toEqual([
      'unstable',
      undefined,
      'ended',
      [4],
    ]);
    expect(told.slice(-2)).toEqual(['lost 3 (server): gone', 'recovering>unstable:ERR_SESSION_UNSTABLE']);
    await clock.advance(5_000);
    const slow = later();
    next('initialize', slow.reply);
    const again = code(keeper.ready() as Promise<Session>);
    expect([keeper.state, keeper.failure]).toEqual(['recovering', undefined]);
    slow.give({ status: 415, text: '' });
    expect(await again).toBe('ERR_HTTP_STATUS');
  });

  it('is told once, although the new session was being opened for a tentative one', async () => {
    const { keeper, open, next, told, clock } = scene();
    for (let lost = 1; lost <= 2; lost += 1) keeper.lost(await open(), 'gone', false);
    const third = await open();
    const slow = later();
    next('initialize', slow.reply);
    keeper.lost(third, 'gone', true);
    await clock.settle();
    keeper.lost(third, 'gone for good', false);
    slow.give({
      status: 200,
      relation: 'own',
      message: { jsonrpc: '2.0', id: 0, result: { protocolVersion: '2025-11-25' } },
      sessionIds: ['x'],
    });
    await clock.settle();

    expect(keeper.state).toBe('unstable');
    expect(told.filter((each) => each.startsWith('lost 3'))).toEqual(['lost 3 (server): gone for good']);
  });

  it('and where that one cannot be had, the rest is all that is said, until it is over', async () => {
    const { keeper, open, next, clock } = scene();
    for (let lost = 1; lost <= 2; lost += 1) keeper.lost(await open(), 'gone', false);
    const third = await open();
    const [first, second] = [later(), later()];
    next('initialize', first.reply, second.reply);
    keeper.lost(third, 'gone', true);
    await clock.settle();
    keeper.lost(third, 'gone for good', false);
    first.give({ status: 415, text: '' });
    await clock.settle();
    expect([keeper.state, keeper.failure?.code]).toEqual(['unstable', 'ERR_SESSION_UNSTABLE']);

    await clock.advance(5_000);
    const again = code(keeper.ready() as Promise<Session>);
    expect([keeper.state, keeper.failure]).toEqual(['recovering', undefined]);
    second.give({ status: 415, text: '' });
    expect(await again).toBe('ERR_HTTP_STATUS');
  });

  it('within the handshake counts as well', async () => {
    const { keeper, next, clock } = scene();
    next('notifications/initialized', ...new Array(100).fill(REFUSED));
    const failures: string[] = [];
    const states: string[] = [];
    for (let tries = 1; tries <= 3; tries += 1) {
      const waiting = code(keeper.ready() as Promise<Session>);
      await clock.advance(20_000);
      failures.push(await waiting);
      states.push(keeper.state);
    }

    expect(failures).toEqual(['ERR_SESSION_LOST', 'ERR_SESSION_LOST', 'ERR_SESSION_LOST']);
    expect(states).toEqual(['idle', 'idle', 'unstable']);
    expect(keeper.failure).toMatchObject({ code: 'ERR_SESSION_UNSTABLE' });
  });
});

describe('without a session', () => {
  it('what is known of the server is taken up, told and given back', async () => {
    const { keeper, told, stateless, count } = scene();

    keeper.adopt(stateless);

    expect([keeper.state, keeper.session?.number, keeper.ready()]).toEqual(['ready', 1, keeper.session]);
    expect(told).toEqual(['idle>ready', 'established 1 after undefined: the server needs no session']);
    keeper.adopt(stateless);
    expect(told.slice(2)).toEqual(['established 2 after 1: the server needs no session']);
    expect(count('initialize')).toBe(0);
  });

  it('until the Client opens one after all', async () => {
    const { keeper, stateless, open, told } = scene();
    keeper.adopt(stateless);

    keeper.capture({ jsonrpc: '2.0', id: 0, method: 'initialize', params: {} });
    expect(keeper.session).toBeUndefined();

    expect((await open()).number).toBe(2);
    keeper.capture({ jsonrpc: '2.0', id: 0, method: 'initialize', params: {} });
    expect(keeper.session?.number).toBe(2);
    expect(told.slice(-2)).toEqual([
      'lost 1 (server): no session stands',
      'established 2 after 1: no session stands',
    ]);
  });

  it('what took the place of a session retires it', async () => {
    const { keeper, stateless, open, told } = scene();
    const session = await open();

    keeper.adopt(stateless);

    expect([session.phase, keeper.session?.number]).toEqual(['retired', 2]);
    expect(told.slice(-2)).toEqual([
      'lost 1 (credential): the server needs no session',
      'established 2 after 1: the server needs no session',
    ]);
  });

  it('not while one is being opened, nor after the end', async () => {
    const { keeper, stateless, open } = scene();
    const opening = open();
    keeper.adopt(stateless);
    expect(keeper.session).toBeUndefined();
    await opening;
    keeper.close(false);
    keeper.adopt(stateless);

    expect([keeper.session, keeper.state]).toEqual([undefined, 'closed']);
  });

  it('a stateless server has no session to rest from', () => {
    const { keeper, stateless } = scene();
    keeper.adopt(stateless);

    expect([keeper.rest(), keeper.state]).toEqual([undefined, 'ready']);
  });
});

describe('a session of before a restart', () => {
  it('is believed until the server says otherwise', async () => {
    const { keeper, told, count, open } = scene();

    const session = keeper.resume('from-before', '2025-11-25', credential(1));

    expect([session.number, session.revealId(), keeper.session, keeper.state]).toEqual([
      1,
      'from-before',
      session,
      'ready',
    ]);
    expect([await open(), count('initialize'), told]).toEqual([session, 0, ['idle>ready']]);
    keeper.lost(session, 'gone', false);
    expect((await open()).number).toBe(2);
    expect(told.slice(1, 3)).toEqual(['lost 1 (server): gone', 'ready>recovering']);
    expect(told.at(-1)).toBe('established 2 after 1: gone');
  });
});

describe('rest and end', () => {
  it('at rest nothing is kept; the next session follows none', async () => {
    const { keeper, open, told, setUps } = scene();
    const session = await open();

    expect(keeper.rest()).toBe(session);

    expect([keeper.state, keeper.session, session.phase]).toEqual(['idle', undefined, 'ended']);
    expect(keeper.rest()).toBeUndefined();
    await open();
    expect(told.at(-1)).toBe('established 2 after undefined: no session stands');
    expect(setUps.at(-1)?.previous).toBeUndefined();
  });

  it('there is no rest while a session is being opened', async () => {
    const { keeper, open } = scene();
    const session = await open();
    keeper.lost(session, 'gone', true);

    expect([keeper.rest(), keeper.state, session.phase]).toEqual([undefined, 'recovering', 'current']);
    await open();
  });

  it('closes once, and gives the session that stood', async () => {
    const { keeper, open, told } = scene();
    const session = await open();

    expect(keeper.close(false)).toBe(session);

    expect([keeper.close(false), keeper.session, session.phase, keeper.state]).toEqual([
      undefined,
      undefined,
      'ended',
      'closed',
    ]);
    expect(() => keeper.ready()).toThrow('The connection was ended here');
    keeper.lost(session, 'late', false);
    expect([told.at(-1), keeper.rest()]).toEqual(['ready>closed', undefined]);
  });

  it('ends the handshake under way, whose session is not used', async () => {
    const { keeper, next, count, clock } = scene();
    const slow = later();
    next('initialize', slow.reply);
    const waiting = code(keeper.ready() as Promise<Session>);
    await clock.settle();

    expect(keeper.close(false)).toBeUndefined();
    slow.give(OVERLOADED);

    expect([await waiting, keeper.state, keeper.session, count('initialize')]).toEqual([
      'ERR_CLOSED',
      'closed',
      undefined,
      1,
    ]);
    expect(keeper.failure).toBeUndefined();
  });

  it.each([0, 1, 2, 3, 4, 5, 6, 7, 8])(
    'a session that stands at the very end is given back (%i turns)',
    async (turns) => {
      const made = scene(
        {},
        {
          setUp: async () => {
            let turn = Promise.resolve();
            for (let left = turns; left > 0; left -= 1) turn = turn.then(() => {});
            void turn.then(() => made.keeper.close(false));
          },
        },
      );
      await code(made.keeper.ready() as Promise<Session>);
      await made.clock.settle();

      // Given back here, or by whoever closed.
      expect([made.deleted.length <= 1, made.keeper.session, made.keeper.state]).toEqual([
        true,
        undefined,
        'closed',
      ]);
      expect(made.deleted.length + made.told.filter((each) => each.startsWith('established')).length).toBe(1);
    },
  );

  it('a retired session that is lost says nothing', async () => {
    const { keeper, open, held, told } = scene({ boundToToken: true });
    const session = await open();
    held.current = credential(2);
    await keeper.verify(session, held.current);
    const before = told.length;

    keeper.lost(session, 'gone', false);

    expect([session.phase, told.length, keeper.session?.number]).toEqual(['retired', before, 2]);
  });

  it('lets no DELETE wait for a rate limit any more', async () => {
    let tries = 0;
    const setUp = async () => {
      tries += 1;
      if (tries === 1) throw new Error('no project');
    };
    const { keeper, hold, deleted, open, clock } = scene({}, { setUp });
    hold.pay = (urgency, signal) =>
      urgency === 'reply' && signal !== undefined
        ? new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
        : undefined;
    await open();
    await clock.settle();
    expect(deleted).toEqual([]);

    keeper.close(false);
    await clock.settle();

    expect(deleted).toEqual([1]);
  });

  it('is over when what was being opened and deleted has come to its end', async () => {
    const made = scene(
      {},
      {
        setUp: async () => {
          queueMicrotask(() => made.keeper.close(false));
        },
      },
    );
    let deleted = () => {};
    made.hold.deletes = new Promise((resolve) => {
      deleted = resolve;
    });
    const waiting = code(made.keeper.ready() as Promise<Session>);
    await made.clock.settle();
    let isOver = false;
    const over = made.keeper.released().then(() => {
      isOver = true;
    });
    await made.clock.settle();
    expect([isOver, made.deleted]).toEqual([false, [1]]);
    deleted();
    await over;

    expect(await waiting).toBe('ERR_CLOSED');
  });
});
