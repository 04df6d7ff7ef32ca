import { describe, expect, it } from 'vitest';
import type { Session } from '../../../src/session/session.js';
import {
  credential,
  later,
  OVERLOADED,
  REFUSED,
  STRONG,
  STRONG_ANSWER,
  scene,
  VAGUE,
  VAGUE_ANSWER,
} from './keeper-scene.js';

describe('a suspect answer', () => {
  it.each([
    ['refused', REFUSED, 'lost'],
    ['answered', undefined, 'kept'],
    ['undecided', OVERLOADED, 'kept'],
  ] as const)('asks once; %s', async (_name, reply, expected) => {
    const { keeper, open, next, count, told } = scene();
    const session = await open();
    keeper.succeeded(session, credential(1));
    if (reply !== undefined) next('ping', reply);

    const decided = await Promise.all([
      keeper.decide(session, credential(1), VAGUE),
      keeper.decide(session, credential(1), STRONG),
    ]);

    expect([decided, count('ping'), session.suspects]).toEqual([[expected, expected], 1, 2]);
    expect(told).toContain('suspect 1: vague');
    expect(session.phase).toBe(expected === 'lost' ? 'ended' : 'current');
    expect((await open()).number).toBe(expected === 'lost' ? 2 : 1);
  });

  it('is not asked about again for five seconds after an acquittal', async () => {
    const { keeper, open, count, clock } = scene();
    const session = await open();
    await keeper.decide(session, credential(1), VAGUE);
    session.suspects = 0;
    await clock.advance(4_999);
    expect(await keeper.decide(session, credential(1), VAGUE)).toBe('kept');
    expect(count('ping')).toBe(1);

    session.suspects = 0;
    await clock.advance(1);
    expect(await keeper.decide(session, credential(1), VAGUE)).toBe('kept');
    expect(count('ping')).toBe(2);
  });

  it('the third in a row replaces the session whatever the ping says; a success between begins anew', async () => {
    const { keeper, open } = scene();
    const session = await open();
    const decide = () => keeper.decide(session, credential(1), VAGUE);
    expect([await decide(), await decide()]).toEqual(['kept', 'kept']);
    keeper.succeeded(session, credential(1));
    expect([await decide(), await decide(), keeper.session]).toEqual(['kept', 'kept', session]);

    expect([await decide(), session.phase]).toEqual(['lost', 'ended']);
    expect((await open()).number).toBe(2);
  });

  it('within a caller’s own answer does not count up, save where it names the session', async () => {
    const { keeper, open } = scene();
    const session = await open();
    for (let times = 1; times <= 5; times += 1)
      expect(await keeper.decide(session, credential(1), VAGUE_ANSWER)).toBe('kept');
    expect(session.suspects).toBe(0);

    await keeper.decide(session, credential(1), STRONG_ANSWER);

    expect(session.suspects).toBe(1);
  });

  it('about a session that is no more: lost where it ended, kept where it only retired', async () => {
    const { keeper, open, told } = scene();
    const session = await open();
    keeper.lost(session, 'gone', false);
    await open();
    const before = told.length;

    expect(await keeper.decide(session, credential(1), STRONG)).toBe('lost');
    session.phase = 'retired';
    expect(await keeper.decide(session, credential(1), STRONG)).toBe('kept');
    expect(told.length).toBe(before);
  });

  it.each(['ended', 'retired'] as const)('while the ping is under way the session %s', async (phase) => {
    const { keeper, open, next } = scene();
    const session = await open();
    const slow = later();
    next('ping', slow.reply);
    const deciding = keeper.decide(session, credential(1), VAGUE);

    keeper.lost(session, 'gone', false);
    session.phase = phase;
    slow.give(REFUSED);

    expect(await deciding).toBe(phase === 'ended' ? 'lost' : 'kept');
    expect((await open()).number).toBe(2);
  });

  it('without a ping: a strong one is enough, a vague one is not', async () => {
    const { keeper, open, count } = scene({ probe: 'off' });
    const session = await open();

    expect(await keeper.decide(session, credential(1), VAGUE)).toBe('kept');
    expect(await keeper.decide(session, credential(1), STRONG)).toBe('lost');

    expect([count('ping'), session.phase]).toEqual([0, 'ended']);
    expect((await open()).number).toBe(2);
  });

  it('a fresh session that refuses its ping as the old one did proves that pings say nothing', async () => {
    const { keeper, open, next, count } = scene();
    const first = await open();
    next('ping', ...new Array(10).fill(REFUSED));
    expect(await keeper.decide(first, credential(1), VAGUE)).toBe('lost');
    const second = await open();

    expect(await keeper.decide(second, credential(1), VAGUE)).toBe('kept');
    expect([count('ping'), keeper.session]).toEqual([2, second]);

    expect(await keeper.decide(second, credential(1), VAGUE)).toBe('kept');
    expect([count('ping'), second.phase]).toEqual([2, 'current']);
  });

  it('on a session that took the place of a doubtful one, untried, is not enough by number', async () => {
    const { keeper, open, next } = scene();
    const first = await open();
    next('ping', REFUSED);
    await keeper.decide(first, credential(1), VAGUE);
    const second = await open();

    for (let times = 1; times <= 4; times += 1)
      expect(await keeper.decide(second, credential(1), VAGUE)).toBe('kept');

    keeper.succeeded(second, credential(1));
    const decided = [];
    for (let times = 1; times <= 3; times += 1)
      decided.push(await keeper.decide(second, credential(1), VAGUE));
    expect(decided).toEqual(['kept', 'kept', 'lost']);
  });

  it('but its own layer naming the session there is enough at once, ping or none', async () => {
    const { keeper, open, next, count } = scene();
    const first = await open();
    next('ping', REFUSED);
    await keeper.decide(first, credential(1), VAGUE);
    const second = await open();

    expect(await keeper.decide(second, credential(1), STRONG)).toBe('lost');
    expect([count('ping'), second.phase]).toEqual([1, 'ended']);
  });

  it('where it is the caller’s answer that names the session, a ping decides there, too', async () => {
    const { keeper, open, next, count } = scene();
    const first = await open();
    next('ping', REFUSED);
    await keeper.decide(first, credential(1), VAGUE);
    const second = await open();

    expect(await keeper.decide(second, credential(1), STRONG_ANSWER)).toBe('kept');
    expect(count('ping')).toBe(2);
  });

  it('a session after a plain loss is not doubtful', async () => {
    const { keeper, open, next } = scene();
    const first = await open();
    next('ping', REFUSED);
    await keeper.decide(first, credential(1), VAGUE);
    keeper.lost(await open(), 'gone', false, { counts: false });
    const third = await open();
    next('ping', REFUSED);

    expect(await keeper.decide(third, credential(1), VAGUE)).toBe('lost');
  });

  it('twice given up on a ping’s word: the next fresh session is asked what pings are worth', async () => {
    const { keeper, open, next, count, clock } = scene();
    next('ping', REFUSED, REFUSED, REFUSED);
    const first = await open();
    keeper.succeeded(first, credential(1));
    await keeper.decide(first, credential(1), VAGUE);
    const second = await open();
    await clock.settle();
    expect(count('ping')).toBe(1);
    keeper.succeeded(second, credential(1));
    expect(await keeper.decide(second, credential(1), VAGUE)).toBe('lost');
    const third = await open();
    await clock.settle();
    expect(count('ping')).toBe(3);
    keeper.succeeded(third, credential(1));

    expect([await keeper.decide(third, credential(1), VAGUE), count('ping')]).toEqual(['kept', 3]);
  });

  it('unless one was ever answered', async () => {
    const { keeper, open, next, count, clock } = scene();
    const zeroth = await open();
    await keeper.decide(zeroth, credential(1), VAGUE);
    await clock.advance(6_000);
    next('ping', REFUSED, REFUSED);
    for (let times = 1; times <= 2; times += 1) {
      const session = await open();
      keeper.succeeded(session, credential(1));
      expect(await keeper.decide(session, credential(1), VAGUE)).toBe('lost');
    }
    await open();
    await clock.settle();

    expect(count('ping')).toBe(3);
  });

  it('given up, and no other to be had: nothing is left unhandled', async () => {
    const { keeper, open, next, clock } = scene();
    const session = await open();
    next('ping', REFUSED);
    next('initialize', { status: 415, text: '' });

    expect(await keeper.decide(session, credential(1), VAGUE)).toBe('lost');
    await clock.settle();

    expect(keeper.state).toBe('idle');
  });

  it('given up twice on a ping’s word, and no other to be had: nothing is asked, nothing left unhandled', async () => {
    const { keeper, open, next, count, clock } = scene();
    next('ping', REFUSED, REFUSED);
    const first = await open();
    keeper.succeeded(first, credential(1));
    await keeper.decide(first, credential(1), VAGUE);
    const second = await open();
    keeper.succeeded(second, credential(1));
    next('initialize', { status: 415, text: '' });

    expect(await keeper.decide(second, credential(1), VAGUE)).toBe('lost');
    await clock.settle();

    expect([count('ping'), keeper.state]).toEqual([2, 'idle']);
  });

  it('leads to a DELETE of its session unless the server itself has called it unknown', async () => {
    const forgotten: boolean[] = [];
    const asked = scene();
    const first = await asked.open();
    asked.next('ping', REFUSED);
    await asked.keeper.decide(first, credential(1), VAGUE);
    const second = await asked.open();
    await asked.keeper.decide(second, credential(1), STRONG);
    forgotten.push(first.isForgotten, second.isForgotten);

    const counted = scene();
    const third = await counted.open();
    for (let times = 1; times <= 3; times += 1) await counted.keeper.decide(third, credential(1), VAGUE);
    forgotten.push(third.isForgotten);

    for (const suspicion of [STRONG, STRONG_ANSWER]) {
      const off = scene({ probe: 'off' });
      const session = await off.open();
      expect(await off.keeper.decide(session, credential(1), suspicion)).toBe('lost');
      forgotten.push(session.isForgotten);
    }

    expect(forgotten).toEqual([true, true, false, true, false]);
  });

  it('one that makes the connection unstable opens nothing', async () => {
    const { keeper, open, count } = scene({ probe: 'off' });
    for (let lost = 1; lost <= 2; lost += 1) keeper.lost(await open(), 'gone', false);
    const session = await open();

    expect(await keeper.decide(session, credential(1), STRONG)).toBe('lost');

    expect([keeper.state, count('initialize')]).toEqual(['unstable', 3]);
  });
});

describe('a new credential', () => {
  it('is asked about once for all, and then known', async () => {
    const { keeper, open, count } = scene();
    const session = await open();
    expect(keeper.verify(session, credential(1))).toBeUndefined();
    expect(keeper.verify(session, credential(0))).toBeUndefined();

    await Promise.all([keeper.verify(session, credential(2)), keeper.verify(session, credential(2))]);

    expect([count('ping'), session.acceptedGeneration, keeper.session]).toEqual([1, 2, session]);
    expect(keeper.verify(session, credential(2))).toBeUndefined();
  });

  it('undecided: the session stays, and it is not asked again for this one', async () => {
    const { keeper, open, next, count } = scene();
    const session = await open();
    next('ping', OVERLOADED);

    await keeper.verify(session, credential(2));

    expect([session.acceptedGeneration, keeper.verify(session, credential(2)), count('ping')]).toEqual([
      2,
      undefined,
      1,
    ]);
  });

  it('an answer that comes late does not take back a newer one', async () => {
    const { keeper, open, next } = scene();
    const session = await open();
    const slow = later();
    next('ping', slow.reply);
    const verifying = keeper.verify(session, credential(2));
    keeper.succeeded(session, credential(5));
    slow.give(OVERLOADED);
    await verifying;

    expect(session.acceptedGeneration).toBe(5);
  });

  it('says nothing about a session that is not the current one, or has no name', async () => {
    const { keeper, open, stateless } = scene();
    const session = await open();
    keeper.lost(session, 'gone', false);
    await open();

    expect(keeper.verify(session, credential(2))).toBeUndefined();
    keeper.adopt(stateless);
    expect(keeper.verify(keeper.session as Session, credential(2))).toBeUndefined();
  });

  it('refused: replaced beside the old one, which retires', async () => {
    const { keeper, open, next, told, held, deleted } = scene();
    const session = await open();
    keeper.succeeded(session, credential(1));
    held.current = credential(2);
    next('ping', REFUSED);

    await keeper.verify(session, credential(2));

    const reason = 'the session did not survive a change of token';
    expect([keeper.session?.number, session.phase, deleted]).toEqual([2, 'retired', []]);
    expect(told.slice(-4)).toEqual([
      'ready>recovering',
      'recovering>ready',
      `lost 1 (credential): ${reason}`,
      `established 2 after 1: ${reason}`,
    ]);
  });

  it('refused twice in a row: the server is known to bind, and no ping is asked any more', async () => {
    const { keeper, open, next, count, held, clock, told } = scene();
    await open();
    for (const generation of [2, 3]) {
      held.current = credential(generation);
      next('ping', REFUSED);
      await keeper.verify(keeper.session as Session, held.current);
      await clock.settle();
    }
    // The second time the fresh session was asked, and lives.
    expect([keeper.session?.number, count('ping')]).toEqual([3, 3]);

    held.current = credential(4);
    await keeper.verify(keeper.session as Session, held.current);

    expect([keeper.session?.number, count('ping')]).toEqual([4, 3]);
    expect(told.at(-1)).toBe('established 4 after 3: the session is bound to the token it was opened with');
  });

  it('refused, accepted, refused: not known to bind', async () => {
    const { keeper, open, next, count, held, clock } = scene();
    await open();
    for (const [generation, reply] of [
      [2, REFUSED],
      [3, undefined],
      [4, REFUSED],
    ] as const) {
      held.current = credential(generation);
      if (reply !== undefined) next('ping', reply);
      await keeper.verify(keeper.session as Session, held.current);
      await clock.settle();
    }
    held.current = credential(5);
    await keeper.verify(keeper.session as Session, held.current);

    expect([count('ping'), keeper.session?.number]).toEqual([4, 3]);
  });

  it('refused, undecided, refused: known to bind', async () => {
    const { keeper, open, next, count, held, clock } = scene();
    await open();
    for (const [generation, reply] of [
      [2, REFUSED],
      [3, OVERLOADED],
      [4, REFUSED],
    ] as const) {
      held.current = credential(generation);
      next('ping', reply);
      await keeper.verify(keeper.session as Session, held.current);
      await clock.settle();
    }
    const asked = count('ping');
    held.current = credential(5);
    await keeper.verify(keeper.session as Session, held.current);

    expect([count('ping'), keeper.session?.number]).toEqual([asked, 4]);
  });

  it('refused twice, and by the fresh session as well: pings say nothing, and nothing is known', async () => {
    const { keeper, open, next, count, held, clock } = scene();
    await open();
    next('ping', REFUSED, REFUSED, REFUSED);
    for (const generation of [2, 3]) {
      held.current = credential(generation);
      await keeper.verify(keeper.session as Session, held.current);
      await clock.settle();
    }
    expect([keeper.session?.number, count('ping')]).toEqual([3, 3]);
    held.current = credential(4);

    expect(keeper.verify(keeper.session as Session, held.current)).toBeUndefined();
    expect(count('ping')).toBe(3);
  });

  it('of callers that learn of one death together, one counts', async () => {
    const { keeper, open, next, count, held, clock } = scene();
    await open();
    held.current = credential(2);
    next('ping', REFUSED);
    const session = keeper.session as Session;
    await Promise.all([1, 2, 3].map(() => keeper.verify(session, held.current)));
    await clock.settle();
    expect([keeper.session?.number, count('ping'), count('initialize')]).toEqual([2, 1, 2]);

    held.current = credential(3);
    await keeper.verify(keeper.session as Session, held.current);
    expect([keeper.session?.number, count('ping')]).toEqual([2, 2]);
  });

  it.each([
    [true, 0, 2],
    [false, 0, 1],
  ])('as the app says: bound %s', async (boundToToken, pings, number) => {
    const { keeper, open, count, held } = scene({ boundToToken });
    const session = await open();
    held.current = credential(2);

    await keeper.verify(session, held.current);

    expect([count('ping'), keeper.session?.number]).toEqual([pings, number]);
  });

  it('with probe off, nothing is asked', async () => {
    const { keeper, open, count } = scene({ probe: 'off' });

    expect([keeper.verify(await open(), credential(2)), count('ping')]).toEqual([undefined, 0]);
  });

  it('while it is refused the session is lost in another way: callers get the one that is opened', async () => {
    const { keeper, open, next, count } = scene();
    const session = await open();
    const slow = later();
    next('ping', slow.reply);
    const verifying = keeper.verify(session, credential(2));
    keeper.lost(session, 'gone', false);
    slow.give(REFUSED);

    expect(await verifying).toMatchObject({ number: 2 });
    expect(count('initialize')).toBe(2);
  });

  it('and stands already', async () => {
    const { keeper, open, next, count } = scene();
    const session = await open();
    const slow = later();
    next('ping', slow.reply);
    const verifying = keeper.verify(session, credential(2));
    keeper.lost(session, 'gone', false);
    const second = await open();
    slow.give(REFUSED);

    expect(await verifying).toBe(second);
    expect(count('initialize')).toBe(2);
  });
});

describe('whether the server takes a credential', () => {
  it('is asked, and for five seconds known', async () => {
    const { keeper, open, count, next, clock } = scene();
    const session = await open();
    expect(await keeper.accepts(session, credential(1))).toBe(true);
    expect(await keeper.accepts(session, credential(1))).toBe(true);
    expect(count('ping')).toBe(1);

    next('ping', REFUSED);
    expect(await keeper.accepts(session, credential(2))).toBe(false);
    await clock.advance(5_000);
    next('ping', OVERLOADED);
    expect(await keeper.accepts(session, credential(1))).toBe(false);
    expect(count('ping')).toBe(3);
  });

  it('is no question where pings say nothing, or there is no session', async () => {
    const off = scene({ probe: 'off' });
    expect(await off.keeper.accepts(await off.open(), credential(1))).toBe(false);

    const later = scene();
    later.keeper.adopt(later.stateless);
    expect(await later.keeper.accepts(later.keeper.session as Session, credential(1))).toBe(false);
    expect([off.count('ping'), later.count('ping')]).toEqual([0, 0]);
  });
});

describe('an answered call', () => {
  it('counts, ends every doubt, and says which credential is good', async () => {
    const { keeper, open } = scene();
    const session = await open();
    session.suspects = 2;
    const [newer, same, older] = [credential(3), credential(3), credential(2)];

    keeper.succeeded(session, newer);
    expect([session.answered, session.suspects, session.acceptedGeneration]).toEqual([1, 0, 3]);
    expect(session.credential).toBe(newer);

    keeper.succeeded(session, same);
    expect(session.credential).toBe(same);
    keeper.succeeded(session, older);
    expect([session.answered, session.acceptedGeneration, session.credential]).toEqual([3, 3, same]);
  });

  it('makes earlier useless sessions count no more', async () => {
    const { keeper, open } = scene();
    for (let lost = 1; lost <= 2; lost += 1) keeper.lost(await open(), 'gone', false);
    const third = await open();
    keeper.succeeded(third, credential(1));
    third.answered = 0;

    keeper.lost(third, 'gone', false);

    expect(keeper.state).toBe('recovering');
  });

  it('only the first of a session does', async () => {
    const { keeper, open } = scene();
    const first = await open();
    keeper.succeeded(first, credential(1));
    for (let lost = 1; lost <= 2; lost += 1) keeper.lost(await open(), 'gone', false);
    // Late, on a session that had proved its worth before.
    first.answered = 1;
    keeper.succeeded(first, credential(1));
    keeper.lost(await open(), 'gone', false);

    expect(keeper.state).toBe('recovering');
  });
});
