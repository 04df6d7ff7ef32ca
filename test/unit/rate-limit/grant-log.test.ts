import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { GrantLog } from '../../../src/rate-limit/grant-log.js';

const step = fc.oneof(
  fc.record({ do: fc.constant('push' as const), ms: fc.integer({ min: 0, max: 20 }) }),
  fc.record({ do: fc.constant('forget' as const), ms: fc.integer({ min: 0, max: 60 }) }),
  fc.record({ do: fc.constant('drop' as const), ms: fc.integer({ min: 0, max: 3 }) }),
);

describe('GrantLog', () => {
  it('is a list of instants, whatever is done to it', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120 }), fc.integer({ min: 1, max: 40 }), (steps, maxSize) => {
        const log = new GrantLog(maxSize);
        let model: number[] = [];
        let now = 0;
        for (const each of steps) {
          if (each.do === 'push') {
            now += each.ms;
            log.push(now);
            model = [...model, now].slice(-maxSize);
          } else if (each.do === 'forget') {
            log.forget(now - each.ms);
            model = model.filter((at) => at > now - each.ms);
          } else {
            log.drop(each.ms);
            model = model.slice(each.ms);
          }
          expect(log.size).toBe(model.length);
          expect(log.agoMs(now)).toEqual(model.map((at) => now - at));
          expect(log.countAfter(now - 10)).toBe(model.filter((at) => at > now - 10).length);
          expect([log.oldest(0), log.newest(0), log.newest(2)]).toEqual([
            model[0],
            model.at(-1),
            model.at(-3),
          ]);
        }
      }),
    );
  });

  it('keeps order: an instant before the last counts as the last', () => {
    const log = new GrantLog();
    log.push(100);
    log.push(40);
    expect(log.agoMs(100)).toEqual([0, 0]);
  });
});
