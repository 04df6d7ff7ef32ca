import { describe, expect, it } from 'vitest';
import type { HostedMcpError } from '../../src/index.js';
import { call, connectStock, SDKS, type StockClient } from './stock.js';
import { connect, type Scene, startServer } from './support.js';

const ROUND_MS = 20_000;
const ROUNDS = 60;

interface Rounds {
  answered: string[];
  failures: HostedMcpError[];
}

/** One call every 20 s, as an agent makes them. */
async function agent(
  scene: Scene,
  client: unknown,
  rounds = ROUNDS,
  eachRound = async () => {},
): Promise<Rounds> {
  const answered: string[] = [];
  const failures: HostedMcpError[] = [];
  for (let i = 0; i < rounds; i += 1) {
    const id = `c${i}`;
    await call(client as StockClient, id).then(
      () => answered.push(id),
      (error) => failures.push(error),
    );
    await scene.clock.advance(ROUND_MS);
    await eachRound();
  }
  return { answered, failures };
}

/** Somebody else's request takes a turn at the nodes. */
const passerBy = (scene: Scene) => async () => {
  await fetch(scene.server.url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      authorization: `Bearer ${scene.server.issueToken()}`,
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }),
  });
};

function expectHonest({ server }: Scene, { answered, failures }: Rounds): void {
  const ran = Object.entries(server.counts.executionsById);
  expect(ran.every(([, times]) => times === 1)).toBe(true);
  expect(ran.map(([id]) => id).sort()).toEqual([...answered].sort());
  for (const { code, executed } of failures) {
    expect(executed).toBe(code.startsWith('ERR_SESSION') ? false : 'unknown');
  }
  const unstable = failures.filter((failure) => failure.code === 'ERR_SESSION_UNSTABLE');
  expect(unstable.length).toBeGreaterThan(0);
  for (const failure of unstable) {
    expect(failure.message).toContain('session affinity');
    expect(failure.retryable).toBe(true);
    expect(failure.retryAfterMs).toBeGreaterThan(0);
  }
}

describe('H34 two nodes and no affinity, one call every 20 s', () => {
  for (const status of [404, 400, 401, 200] as const) {
    it(`unknown sessions are refused with ${status}: said by name, few handshakes, well again with affinity`, async () => {
      const scene = await startServer({
        nodesWithoutAffinity: 2,
        sessionLostStatus: status,
        challenge: 'none',
        tokenLifetimeMs: 86_400_000,
      });
      const { server, clock } = scene;
      const client = await connect(scene);
      const callsBefore: number[] = [];
      client.connection.on('state', ({ current }) => {
        const calls = server.log.filter((entry) => entry.rpcMethod === 'tools/call');
        if (current === 'unstable') callsBefore.push(calls.length);
      });

      const rounds = await agent(scene, client);

      expectHonest(scene, rounds);
      // Three useless sessions; where a ping finds the other node alive, the first of them takes three calls.
      expect(callsBefore[0]).toBe(status === 404 ? 3 : 5);
      expect(client.connection.state).toBe('unstable');
      expect(client.connection.health()).toMatchObject({ ok: false, code: 'ERR_SESSION_UNSTABLE' });
      // 60 calls, each of them lost, would have been 61.
      expect(server.counts.initializes).toBeLessThan(20);

      server.set({ nodesWithoutAffinity: undefined });
      await clock.advance(5 * 60_000);
      const { answered } = await agent(scene, client, 10);
      expect(answered).toHaveLength(10);
      expect(client.connection.state).toBe('ready');
    });
  }

  it('every second call meets the right node: still said by name, and not half of the calls for ever', async () => {
    const scene = await startServer({ nodesWithoutAffinity: 2, tokenLifetimeMs: 86_400_000 });
    const { server } = scene;
    const client = await connect(scene);
    let turn = 0;

    const rounds = await agent(scene, client, ROUNDS, async () => {
      turn += 1;
      if (turn % 2 === 1) await passerBy(scene)();
    });

    expect(rounds.answered.length).toBeGreaterThan(0);
    expectHonest(scene, rounds);
    expect(server.counts.initializes).toBeLessThan(20);
  });

  it('an HTML 404 from the wrong node: the same', async () => {
    const scene = await startServer({ nodesWithoutAffinity: 2, tokenLifetimeMs: 86_400_000 });
    const { server } = scene;
    const client = await connect(scene);
    server.reply(
      { http: 'POST', method: 'tools/call' },
      { status: 404, headers: { 'content-type': 'text/html' }, body: '<html>no such session</html>' },
    );

    const { failures } = await agent(scene, client);

    const unstable = failures.filter((failure) => failure.code === 'ERR_SESSION_UNSTABLE');
    expect(unstable.length).toBeGreaterThan(0);
    expect(unstable[0]?.message).toContain('session affinity');
    expect(server.counts.initializes).toBeLessThan(30);
  });

  for (const sdk of SDKS) {
    it(`under the stock ${sdk} Client: the same`, async () => {
      const scene = await startServer({ nodesWithoutAffinity: 2, tokenLifetimeMs: 86_400_000 });
      const { server, clock } = scene;
      const { client, transport } = await connectStock(scene, sdk);

      const rounds = await agent(scene, client, 30);

      expectHonest(scene, rounds);
      expect(server.counts.initializes).toBeLessThan(15);
      server.set({ nodesWithoutAffinity: 1 });
      await clock.advance(5 * 60_000);
      expect((await agent(scene, client, 5)).answered).toHaveLength(5);
      expect(transport.connection.state).toBe('ready');
    });
  }

  it('losses long ago do not count: after a quiet day the first rest is short again', async () => {
    const scene = await startServer({ nodesWithoutAffinity: 2, tokenLifetimeMs: 7 * 86_400_000 });
    const { server, clock } = scene;
    const client = await connect(scene);
    await agent(scene, client);
    server.set({ nodesWithoutAffinity: 1 });
    await clock.advance(5 * 60_000);
    await agent(scene, client, 3);
    await clock.advance(86_400_000);
    await call(client as unknown as StockClient, 'next day');
    server.reset();

    server.set({ nodesWithoutAffinity: 2 });
    const { failures } = await agent(scene, client, 10);

    const first = failures.find((failure) => failure.code === 'ERR_SESSION_UNSTABLE');
    expect(first?.retryAfterMs).toBeLessThanOrEqual(20_000);
  });

  it('deploys now and then are no reason to rest', async () => {
    const scene = await startServer({ tokenLifetimeMs: 86_400_000 });
    const { server, clock } = scene;
    const client = await connect(scene);
    for (let i = 0; i < 20; i += 1) {
      await call(client as unknown as StockClient, `good${i}`);
      server.deploy({ restart: true });
      await call(client as unknown as StockClient, `lost${i}`).catch(() => {});
      await clock.advance(5 * 60_000);
    }

    expect(client.connection.state).toBe('ready');
    expect(server.counts.initializes).toBe(21);
    expect(Object.values(server.counts.executionsById)).toEqual(Array(20).fill(1));
  });
});
