/** What a seed fixes. */
import { describe, expect, it } from 'vitest';
import { callOf, catalogue, FACES, KINDS, makePlan } from '../../scripts/storm/plan.mjs';
import { shrink, withFaults } from '../../scripts/storm/shrink.mjs';

describe('a plan', () => {
  it('is the same for the same seed, and another for another seed or face', () => {
    const plan = (seed: number, face = 'v1') => JSON.stringify(makePlan({ seed, face, calls: 500 }));
    expect(plan(5)).toBe(plan(5));
    expect(new Set([plan(5), plan(6), plan(5, 'v2'), plan(5, 'relay')]).size).toBe(4);
  });

  it('with more calls begins as the one with fewer', () => {
    const { faults } = makePlan({ seed: 9, face: 'fetch', calls: 300 });
    const more = makePlan({ seed: 9, face: 'fetch', calls: 900 }).faults;
    expect(more.slice(0, faults.length)).toEqual(faults);
    expect(more.length).toBeGreaterThan(2 * faults.length);
  });

  it('names each call by its seed, face and number', () => {
    const tags = FACES.flatMap((face) => [0, 1, 10].map((at) => callOf({ seed: 2, face }, at).tag));
    expect(new Set(tags).size).toBe(tags.length);
    expect(callOf({ seed: 2, face: 'v1' }, 10)).toEqual(callOf({ seed: 2, face: 'v1' }, 10));
  });

  it('draws every kind of fault that there is, on each face where it can be', () => {
    const drawn = new Set<string>();
    for (const face of FACES) {
      const onFace = new Set<string>();
      for (let seed = 1; seed <= 10; seed += 1)
        for (const { kind } of makePlan({ seed, face, calls: 2_000 }).faults) onFace.add(kind);
      const { ofACall, ofTheWorld } = catalogue(face, {});
      expect([...onFace].sort()).toEqual([...ofACall, ...ofTheWorld].map(({ kind }) => kind).sort());
      for (const kind of onFace) drawn.add(kind);
    }
    expect([...drawn].sort()).toEqual([...new Set(KINDS)].sort());
  });

  it('has kinds that can be told apart', () => {
    expect(new Set(KINDS).size).toBe(KINDS.length);
    // By which the command tells them apart.
    expect(KINDS.filter((kind) => kind.includes(','))).toEqual([]);
  });

  it('has only the kinds that were asked for', () => {
    const kinds = ['cut in the body', 'tokens expire'];
    const { faults } = makePlan({ seed: 4, face: 'hosted-client', calls: 1_000, kinds });
    expect(new Set(faults.map(({ kind }) => kind))).toEqual(new Set(kinds));
  });
});

describe('shrinking', () => {
  const ALL = Array.from({ length: 64 }, (_, at) => ({ at, kind: `fault ${at}` }));
  const has = (list: readonly { at: number }[], ...wanted: number[]) =>
    wanted.every((at) => list.some((each) => each.at === at));

  it('finds the one fault that it takes', async () => {
    const { faults } = await shrink(ALL, async (list) => has(list, 37));
    expect(faults?.map(({ at }) => at)).toEqual([37]);
  });

  it('finds three that it takes together, far apart', async () => {
    const { faults } = await shrink(ALL, async (list) => has(list, 2, 31, 60));
    expect(faults?.map(({ at }) => at)).toEqual([2, 31, 60]);
  });

  it('finds that none is needed', async () => {
    const { faults } = await shrink(ALL, async () => true);
    expect(faults).toEqual([]);
  });

  it('a list holds if it goes wrong in one of five runs', async () => {
    let runs = 0;
    const seldom = async (list: readonly { at: number }[]) => {
      runs += 1;
      return runs % 5 === 0 && has(list, 11, 12);
    };
    const { faults } = await shrink(ALL, seldom);
    expect(faults?.map(({ at }) => at)).toEqual([11, 12]);
  });

  it('says so where the whole list does not go wrong again, after five runs', async () => {
    expect(await shrink(ALL, async () => false)).toEqual({ faults: undefined, runs: 5 });
  });

  it('makes no more calls than the last fault needs', () => {
    const plan = makePlan({ seed: 1, face: 'v1', calls: 2_000 });
    expect(withFaults(plan, [{ at: 40, kind: 'tokens expire' }])).toMatchObject({
      calls: 140,
      faults: [{ at: 40, kind: 'tokens expire' }],
    });
    expect(withFaults(plan, plan.faults).calls).toBe(2_000);
  });
});
