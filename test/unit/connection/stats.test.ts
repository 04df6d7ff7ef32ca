import { describe, expect, it } from 'vitest';
import { Stats } from '../../../src/connection/stats.js';

describe('Stats', () => {
  it('counts answers, by tool too, and failures by code', () => {
    const stats = new Stats();
    stats.answered('search', 10);
    stats.answered('search', 20);
    stats.answered(undefined, 30);
    stats.failed('ERR_TIMEOUT');
    stats.failed('ERR_TIMEOUT');
    stats.failed('ERR_DENIED');

    expect(stats.calls).toEqual({ answered: 3, failed: { ERR_TIMEOUT: 2, ERR_DENIED: 1 } });
    expect(stats.latency.count).toBe(3);
    expect(stats.latency.maxMs).toBe(30);
    expect(Object.keys(stats.latencyByTool)).toEqual(['search']);
    expect(stats.latencyByTool.search?.count).toBe(2);
  });

  it('records what each gate took', () => {
    const stats = new Stats();
    stats.gate('policy', 5);
    stats.gate('policy', 7);

    expect(stats.waits.gates.policy?.maxMs).toBe(7);
  });

  it('a server that invents tool names does not grow it', () => {
    const stats = new Stats();
    for (let tool = 0; tool < 1_500; tool += 1) stats.answered(`tool-${tool}`, 1);
    stats.answered('tool-0', 1);

    expect(Object.keys(stats.latencyByTool)).toHaveLength(1_000);
    expect(stats.latencyByTool['tool-0']?.count).toBe(2);
    expect(stats.calls.answered).toBe(1_501);
  });

  it.each(['__proto__', 'constructor', 'toString'])('a tool called %s is a tool', (name) => {
    const stats = new Stats();
    stats.answered(name, 1);
    stats.gate(name, 1);

    expect(stats.latencyByTool[name]?.count).toBe(1);
    expect(stats.waits.gates[name]?.count).toBe(1);
    expect(({} as { count?: unknown }).count).toBeUndefined();
  });
});
