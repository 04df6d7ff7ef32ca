/** Whose time a profile says it was. */
import { describe, expect, it } from 'vitest';
import { selfTimes } from '../../../bench/profile/self-times.mjs';

const node = (id: number, functionName: string, url: string) => ({
  id,
  callFrame: { functionName, url, lineNumber: 0, columnNumber: 0 },
});

const PROFILE = {
  nodes: [
    node(1, '(idle)', ''),
    node(2, 'parse', 'file:///app/node_modules/@scope/name/lib/a.js'),
    node(3, 'read', 'node:net'),
    node(4, '', 'file:///app/node_modules/undici/index.js'),
    node(5, 'parse', 'file:///app/node_modules/@scope/name/lib/a.js'),
    node(6, 'writev', ''),
    // The inspector's own; a function of that name elsewhere is work.
    node(7, 'dispatch', ''),
    node(8, 'dispatch', 'file:///app/node_modules/undici/index.js'),
  ],
  samples: [1, 2, 3, 4, 5, 6, 7, 8],
  timeDeltas: [1_000, 40, 20, 10, 20, 5, 5_000, 5],
};

describe('self times', () => {
  const found = selfTimes(PROFILE, { lines: 3, calls: 10 });

  it('leave out waiting and the profiler itself', () => {
    expect(found.usPerCall).toBe(10);
    expect(found.modules.reduce((sum, { share }) => sum + share, 0)).toBeCloseTo(1, 10);
  });

  it('add up one function that was called from several places', () => {
    expect(found.lines[0]).toEqual({ name: 'parse', file: '@scope/name/lib/a.js', share: 0.6, us: 6 });
    expect(found.lines).toHaveLength(3);
  });

  it('belong to a package, to Node, or to V8', () => {
    expect(found.modules.map(({ name, share }) => [name, share])).toEqual([
      ['@scope/name', 0.6],
      ['Node', 0.2],
      ['undici', 0.15],
      ['V8', 0.05],
    ]);
  });
});
