import { describe, expect, it } from 'vitest';
import type { Route, StreamFacts } from '../../../src/connection/route.js';
import type { Credential } from '../../../src/credentials/provider.js';
import { CookieJar } from '../../../src/http/headers.js';
import type { PayOptions } from '../../../src/rate-limit/toll.js';
import { Releases } from '../../../src/session/release.js';
import { Session } from '../../../src/session/session.js';
import { manualClock } from '../../../src/testing/index.js';

const credential = { generation: 1, headers: () => ({}) } as Credential;
const DONE: StreamFacts = {
  method: 'DELETE',
  expectsAnswer: false,
  sent: true,
  sessionSent: true,
  events: 0,
  sessionIds: [],
  status: 200,
};

/** `deletes`: what becomes of each; `pays`: how each is paid for. */
function scene({
  deletes = () => Promise.resolve(DONE),
  pays = () => undefined,
}: {
  deletes?: (way: Route) => Promise<StreamFacts>;
  pays?: (options: PayOptions) => Promise<unknown> | undefined;
} = {}) {
  const clock = manualClock();
  const sent: Route[] = [];
  const paid: PayOptions[] = [];
  const wire = {
    delete: (way: Route) => {
      sent.push(way);
      return deletes(way);
    },
    pay: (_urgency: string, options: PayOptions) => {
      paid.push(options);
      return pays(options);
    },
  };
  const session = (id: string | undefined = 'an-id') =>
    new Session({
      number: 1,
      id,
      protocolVersion: '2025-11-25',
      result: {},
      credential,
      establishedAtMs: 0,
      fingerprintKey: new Uint8Array(32),
      cookies: new CookieJar(clock),
    });
  return { clock, sent, paid, session, releases: new Releases({ clock, wire }) };
}

/** Rejects when the signal of the payment ends. */
const untilCut = ({ signal }: PayOptions) =>
  new Promise<never>((_, reject) => {
    (signal as AbortSignal | undefined)?.addEventListener('abort', () => reject(new Error('cut')));
  });

describe('Releases', () => {
  it('one DELETE for a session, by its own credential, however often it is released', async () => {
    const { sent, session, releases, clock } = scene();
    const left = session();

    await Promise.all([releases.release(left), releases.release(left, true)]);
    await releases.release(left);

    expect(sent.map((way) => [way.session, way.credential, way.toll])).toEqual([[left, credential, 'paid']]);
    expect(left.phase).toBe('ended');
    expect(releases.isSettled).toBe(true);
    expect(clock.pendingTimers).toBe(0);
  });

  it('none without an id, and none where the server has forgotten it', async () => {
    const { sent, session, releases } = scene();
    const forgotten = session();
    forgotten.isForgotten = true;
    const nameless = new Session({ ...partsOf(session()), id: undefined });

    await Promise.all([releases.release(forgotten), releases.release(nameless)]);

    expect(sent).toEqual([]);
    expect([forgotten.phase, nameless.phase]).toEqual(['ended', 'ended']);
  });

  it.each([
    ['that fails', () => Promise.reject(new Error('no'))],
    [
      'that throws',
      () => {
        throw new Error('no');
      },
    ],
  ])('a DELETE %s is not sent again, and nobody hears of it', async (_name, deletes) => {
    const { sent, session, releases, clock } = scene({ deletes });

    await releases.release(session());
    await clock.advance(600_000);

    expect(sent).toHaveLength(1);
    expect(clock.pendingTimers).toBe(0);
  });

  it('a DELETE that hangs is given up after two seconds, whether it heeds its signal or not', async () => {
    const { sent, session, releases, clock } = scene({ deletes: () => new Promise(() => {}) });
    let isOver = false;
    const over = releases.release(session()).then(() => {
      isOver = true;
    });

    await clock.advance(1_999);
    expect([isOver, releases.isSettled, sent[0]?.signal?.aborted]).toEqual([false, false, false]);
    await clock.advance(1);
    await over;

    expect([releases.isSettled, sent[0]?.signal?.aborted]).toEqual([true, true]);
  });

  it('who waits for it is not kept by a rate limit; where nobody waits it has a minute', async () => {
    const { paid, session, releases, clock } = scene();
    await clock.advance(5_000);

    await releases.release(session(), true);
    await releases.release(session());
    releases.close(false);
    await releases.release(session());

    expect(paid.map(({ untilMs }) => untilMs)).toEqual([5_000, 65_000, 5_000]);
  });

  it('one that waits for the rate limit when the connection is closed goes at once or not at all', async () => {
    let isFree = true;
    const pays = (options: PayOptions) => {
      if (options.signal !== undefined) return untilCut(options);
      return isFree ? undefined : Promise.reject(new Error('not now'));
    };
    const { sent, session, releases } = scene({ pays });
    void releases.release(session());
    releases.close(true);
    await releases.settled();
    expect(sent).toHaveLength(1);

    isFree = false;
    await releases.release(session());
    expect(sent).toHaveLength(1);
  });

  it('settled() waits for what comes while it waits', async () => {
    const { sent, session, releases } = scene();
    let end = () => {};
    const opening = new Promise<void>((_, reject) => {
      end = () => {
        void releases.release(session());
        reject(new Error('closed'));
      };
    });
    const settled = releases.settled(opening);

    end();
    await settled;

    expect(sent).toHaveLength(1);
    expect(releases.isSettled).toBe(true);
  });

  it('a late answer is stopped at once, or a second after a close that listens', async () => {
    const { releases, clock } = scene();
    const stopped: string[] = [];
    const never = new Promise<void>(() => {});
    releases.late(never, () => stopped.push('at once'));
    expect(stopped).toEqual(['at once']);

    releases.close(true);
    releases.late(never, () => stopped.push('later'));
    await clock.advance(999);
    expect(stopped).toHaveLength(1);
    await clock.advance(1);
    expect(stopped).toEqual(['at once', 'later']);

    releases.late(Promise.reject(new Error('cut')), () => stopped.push('too late'));
    await clock.settle();
    expect(clock.pendingTimers).toBe(0);
  });
});

function partsOf(session: Session) {
  const { number, credential: own, cookies } = session;
  const { protocolVersion, establishedAtMs } = session.info;
  const fingerprintKey = new Uint8Array(32);
  return { number, credential: own, cookies, protocolVersion, establishedAtMs, result: {}, fingerprintKey };
}
