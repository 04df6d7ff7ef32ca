import { ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, it } from 'vitest';
import type { ConnectionEvents } from '../../src/index.js';
import { connect, echo, startServer } from './support.js';

async function listening(options: Parameters<typeof startServer>[0], streams = {}) {
  const scene = await startServer({ tokenLifetimeMs: 3_600_000, ...options });
  const client = await connect(scene, { streams: { ...streams } });
  const learned: ConnectionEvents['idle-limit-learned'][] = [];
  const risks: ConnectionEvents['idle-risk'][] = [];
  client.connection.on('idle-limit-learned', (event) => learned.push(event));
  client.connection.on('idle-risk', (event) => risks.push(event));
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => {});
  await scene.clock.settle();
  return { ...scene, client, learned, risks };
}

describe('the limits of a way are learned from its cuts', () => {
  it('silence of 60 s is cut: told after the third cut, with the longest gap of the agent beside it', async () => {
    const { clock, client, server, learned, risks } = await listening({ idleCutMs: 60_000 });
    await echo(client, 'before');
    await clock.advance(74_000);
    await echo(client, 'after a gap');
    expect(client.connection.stats).toMatchObject({ longestIdleGapMs: 74_000, idleRisk: false });
    expect(learned).toEqual([]);

    await clock.advance(200_000);

    expect(learned).toEqual([{ kind: 'idle', limitMs: 60_000 }]);
    expect(client.connection.stats).toMatchObject({ idleLimitMs: 60_000, idleRisk: true });
    expect(risks).toEqual([{ longestIdleGapMs: 74_000, idleLimitMs: 60_000 }]);
    expect(server.counts.initializes).toBe(1);
    expect(server.counts.executionsById).toEqual({ before: 1, 'after a gap': 1 });
  });

  it('an age of 300 s is cut although the server sends: a limit on age, which is no limit on silence', async () => {
    const { clock, client, learned, risks } = await listening({ ageCutMs: 300_000, heartbeatMs: 7_000 });
    await clock.advance(1_000_000);
    expect(learned).toEqual([{ kind: 'age', limitMs: 300_000 }]);
    expect(client.connection.stats.idleLimitMs).toBeUndefined();
    expect(risks).toEqual([]);
  });

  it('a limit that the app knows is warned of at the first gap beyond it', async () => {
    const { clock, client, risks } = await listening({}, { idleLimitMs: 50_000 });
    await echo(client, 'before');
    await clock.advance(74_000);
    await echo(client, 'after');
    expect(risks).toEqual([{ longestIdleGapMs: 74_000, idleLimitMs: 50_000 }]);
    expect(client.connection.stats).toMatchObject({ idleLimitMs: 50_000, idleRisk: true });
  });

  it('deploys at odd times teach nothing', async () => {
    const { clock, server, learned } = await listening({});
    for (const pause of [11_000, 47_000, 23_000, 90_000]) {
      await clock.advance(pause);
      server.cutStreams('fin');
      await clock.settle();
    }
    expect(learned).toEqual([]);
  });
});
