import fc from 'fast-check';
import { expect, it } from 'vitest';
import { canonicalJson } from '../../../src/contract/canonical.js';
import { diffContracts } from '../../../src/contract/diff.js';
import { formatDiff } from '../../../src/contract/format-diff.js';
import { makeSnapshot } from '../../../src/contract/snapshot.js';
import { formatSnapshot, parseSnapshot } from '../../../src/contract/snapshot-text.js';
import type { ContractSnapshot } from '../../../src/contract/types.js';
import { applyDiff, parts, partsOf, twoContracts, twoTools, withoutDuplicateTools } from './support.js';

const RUNS = { numRuns: 400 };
const pairs = fc.oneof(twoContracts, twoTools);

/** The contract without the circumstances of its taking, lists in one order: told apart without the library's digests. */
function essence(snapshot: ContractSnapshot): string {
  const { takenAt, environment, url, ...rest } = partsOf(snapshot);
  const list = (entries: readonly unknown[] | undefined) =>
    entries?.map((entry) => canonicalJson(entry)).sort();
  return canonicalJson({
    ...rest,
    tools: list(rest.tools),
    resources: list(rest.resources),
    prompts: list(rest.prompts),
  });
}

it('a diff is empty exactly when the contracts are equal up to order', () => {
  const seen = { equal: 0, different: 0 };
  fc.assert(
    fc.property(pairs, ([one, other]) => {
      const [from, to] = [makeSnapshot(one), makeSnapshot(other)];
      const equal = essence(from) === essence(to);
      seen[equal ? 'equal' : 'different']++;
      const diff = diffContracts(from, to);
      expect(diff.identical).toBe(equal);
      expect(diff.changes.length === 0).toBe(equal);
      expect(diff.level === undefined).toBe(equal);
      expect(from.digest === to.digest).toBe(equal);
    }),
    RUNS,
  );
  expect(Math.min(seen.equal, seen.different)).toBeGreaterThan(5);
});

it('the same contract in another order, keys shuffled, has no diff', () => {
  const shuffled = (value: unknown): unknown => {
    if (typeof value !== 'object' || value === null) return value;
    if (Array.isArray(value)) return value.map(shuffled);
    return Object.fromEntries(
      Object.entries(value)
        .reverse()
        .map(([key, item]) => [key, shuffled(item)]),
    );
  };
  fc.assert(
    fc.property(parts, (given) => {
      const other = shuffled(given) as typeof given;
      const reversed = {
        ...other,
        tools: [...other.tools].reverse(),
        ...(other.resources && { resources: [...other.resources].reverse() }),
        ...(other.prompts && { prompts: [...other.prompts].reverse() }),
      };
      const [from, to] = [makeSnapshot(given), makeSnapshot(reversed)];
      expect(diffContracts(from, to).changes).toEqual([]);
      expect(to.digest).toBe(from.digest);
    }),
    RUNS,
  );
});

it('applying the listed changes to the first gives the second', () => {
  fc.assert(
    fc.property(pairs, ([one, other]) => {
      const [from, to] = [makeSnapshot(one), makeSnapshot(other)];
      expect(essence(applyDiff(from, diffContracts(from, to)))).toBe(essence(to));
    }),
    { numRuns: 1_000 },
  );
});

it('a snapshot written and read is the same snapshot', () => {
  fc.assert(
    fc.property(parts, (given) => {
      const snapshot = makeSnapshot(withoutDuplicateTools(given));
      const text = formatSnapshot(snapshot);
      const read = parseSnapshot(text);
      expect(read).toEqual(snapshot);
      expect(canonicalJson(read)).toBe(canonicalJson(snapshot));
      expect(formatSnapshot(read)).toBe(text);
      // Nothing that an editor or a review page would hide.
      expect(text.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}\p{Cs}\p{Default_Ignorable_Code_Point}]/u);
    }),
    RUNS,
  );
});

it('showing a diff never throws and never passes on what a terminal obeys or hides', () => {
  fc.assert(
    fc.property(pairs, ([one, other]) => {
      const diff = diffContracts(makeSnapshot(one), makeSnapshot(other), { ignore: ['tools.*.title'] });
      for (const as of ['text', 'markdown'] as const) {
        const shown = formatDiff(diff, { as });
        expect(shown.replaceAll('\n', '')).not.toMatch(
          /[\p{Cc}\p{Cf}\p{Cs}\p{Default_Ignorable_Code_Point}]/u,
        );
      }
      expect(JSON.parse(JSON.stringify(diff)).changes.length).toBe(diff.changes.length);
    }),
    RUNS,
  );
});
