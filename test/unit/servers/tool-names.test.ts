import fc from 'fast-check';
import { expect, it } from 'vitest';
import { pairOf, toolName } from '../../../src/servers/tool-names.js';

const part = fc.oneof(
  fc.stringMatching(/^[a-c_-]{1,6}$/),
  fc.stringMatching(/^[a-c_]{0,4}--[0-9a-f]{12}$/),
  fc.string({ minLength: 1, maxLength: 80 }),
  fc.stringMatching(/^[a-z]{28,40}$/),
);

it('no two pairs have one name, and every name is fit', () => {
  const seen = new Map<string, string>();
  fc.assert(
    fc.property(part, part, (server, tool) => {
      const name = toolName(server, tool);
      expect(name).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
      const pair = JSON.stringify([server, tool]);
      expect(seen.get(name) ?? pair).toBe(pair);
      seen.set(name, pair);
      expect(pairOf(name) ?? { server, tool }).toEqual({ server, tool });
    }),
    { numRuns: 20_000, seed: 7 },
  );
  expect(seen.size).toBeGreaterThan(10_000);
});

it.each([
  ['github', 'search_issues', 'github__search_issues'],
  ['a', '_b', 'a___b'],
  ['a_', 'b', expect.stringMatching(/^a___b--[0-9a-f]{12}$/)],
  ['a__b', 'c', expect.stringMatching(/^a__b__c--[0-9a-f]{12}$/)],
  ['mein server', 'größe', expect.stringMatching(/^mein_server__gr__e--[0-9a-f]{12}$/)],
  ['x', 'y--0123456789ab', expect.stringMatching(/^x__y--0123456789ab--[0-9a-f]{12}$/)],
])('%s and %s', (server, tool, name) => {
  expect(toolName(server, tool)).toEqual(name);
});
