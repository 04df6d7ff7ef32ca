/**
 * Every face in a storm of all faults, each call held against the server's ledger; and storms that go wrong on
 * purpose, for one that cannot find anything shows nothing.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FACES, makePlan } from '../../scripts/storm/plan.mjs';
import { type Call, runStorm, type Storm } from '../../scripts/storm/run.mjs';
import { HostedMcpError } from '../../src/index.js';
import { SOURCES, stormRedis, told } from './support.js';

const CALLS = 120;
const SEEDS = [1, 2];
/** Real sockets and real processes on a machine that has other things to do. */
const TIMEOUT_MS = 120_000;

describe('in a storm', () => {
  let redis: Awaited<ReturnType<typeof stormRedis>>;
  beforeAll(async () => {
    redis = await stormRedis();
  });
  afterAll(() => redis.close());

  it.each(FACES.flatMap((face) => SEEDS.map((seed) => [face, seed] as const)))(
    '%s, seed %i: no call ran twice, and each was told the truth',
    async (face, seed) => {
      const plan = makePlan({ seed, face, calls: CALLS });
      const storm = await runStorm({ lib: SOURCES, plan, redis: face === 'relay' ? undefined : redis });
      expect(storm.violations, told(storm)).toEqual([]);
      expect(storm.figures.calls).toBeGreaterThanOrEqual(CALLS);
      expect(storm.figures.answered, told(storm)).toBeGreaterThan(CALLS / 5);
      expect(storm.figures.false + storm.figures.unknown).toBeGreaterThan(0);
    },
    TIMEOUT_MS,
  );
});

describe('a storm finds', () => {
  const CUTS = ['cut before the head after it ran', 'cut before it ran', 'streams cut'];
  /** Of few calls and these faults alone, with something of ours between the callers and the client. */
  const storm = (wrap: (call: Call) => Call, kinds: readonly string[] = CUTS, calls = 120): Promise<Storm> =>
    runStorm({ lib: SOURCES, plan: makePlan({ seed: 3, face: 'hosted-client', calls, kinds }), wrap });
  /** `call`, and something else where it fails. */
  const orElse =
    (otherwise: (error: HostedMcpError, again: () => Promise<unknown>) => unknown) =>
    (call: Call): Call =>
    async (...given) => {
      try {
        return await call(...given);
      } catch (error) {
        if (!HostedMcpError.isInstance(error)) throw error;
        return otherwise(error, () => call(...given));
      }
    };
  const finds = ({ violations }: Storm, what: RegExp) =>
    expect(violations.filter((text) => what.test(text))).not.toHaveLength(0);

  it('nothing where nothing is wrong with the same faults', async () => {
    const { violations, figures } = await storm((call) => call);
    expect(violations).toEqual([]);
    expect(figures.unknown).toBeGreaterThan(0);
  });

  it('a call that is repeated after a cut', async () => {
    finds(await storm(orElse((_, again) => again())), /it ran 2 times/);
  });

  it('a call that ran and is told not to have', async () => {
    const says = new HostedMcpError('ERR_NOT_SENT', 'Nothing left', { executed: false });
    finds(await storm(orElse(() => Promise.reject(says))), /ERR_NOT_SENT says it did not run, and it ran/);
  });

  it('a call that did not run and is told to have', async () => {
    const says = new HostedMcpError('ERR_RESULT_REFUSED', 'Refused here', { executed: true });
    finds(await storm(orElse(() => Promise.reject(says))), /ERR_RESULT_REFUSED says it ran, and it did not/);
  });

  it('an answer that was made up', async () => {
    const made = (tag: string) => ({ content: [{ type: 'text', text: tag }] });
    const wrap =
      (call: Call): Call =>
      (slot, tag, args, how) =>
        call(slot, tag, args, how).catch(() => made(tag));
    finds(await storm(wrap), /it was answered and never ran/);
  });

  it("another call's answer", async () => {
    let last: unknown;
    const wrap =
      (call: Call): Call =>
      async (...given) => {
        const before = last;
        last = await call(...given);
        return before ?? last;
      };
    finds(await storm(wrap, [], 40), /it got another call's answer/);
  });

  it('an error that says nothing of the call', async () => {
    const wrap = orElse(() => Promise.reject(new Error('it went wrong')));
    finds(await storm(wrap), /an error that says nothing: Error undefined it went wrong/);
  });

  it('a call that never ends, and a listener that is left', async () => {
    const wrap =
      (call: Call): Call =>
      (slot, tag, args, how) => {
        if (tag.endsWith('-19')) how.signal.addEventListener('abort', () => {});
        return tag.endsWith('-20') ? new Promise(() => {}) : call(slot, tag, args, how);
      };
    const found = await storm(wrap, [], 40);
    finds(found, /-20: it was pending after its time was up/);
    finds(found, /listeners are left on the callers' signal/);
  });

  it('a call of nobody', async () => {
    const wrap =
      (call: Call): Call =>
      async (slot, tag, args, how) => {
        if (tag.endsWith('-7')) await call(slot, 'not of this storm', args, how);
        return call(slot, tag, args, how);
      };
    finds(await storm(wrap, [], 40), /a call of nobody ran 1 times: not of this storm/);
  });
});
