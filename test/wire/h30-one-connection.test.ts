import { Agent } from 'undici';
import { describe, expect, it } from 'vitest';
import { connectFace, FACES } from './faces.js';
import { gatedTool, listening, outcomeOf, startStreams, tell } from './streams.js';
import { closeLater, echo } from './support.js';

function dispatcher(connections: number | null) {
  const agent = new Agent({ connections, pipelining: 1 });
  closeLater(() => agent.destroy());
  return agent;
}

describe('H30 the app gives a dispatcher with one connection', () => {
  for (const face of FACES) {
    it(`${face}: the listen stream does not starve the calls`, async () => {
      const scene = await startStreams();
      const { server, clock } = scene;
      const caller = await connectFace(face, scene, {
        streams: { listen: true },
        http: { dispatcher: dispatcher(1) },
      });
      await clock.settle();
      const said: unknown[] = [];
      caller.connection.on('stream-unavailable', (event) => said.push(event));

      const first = caller.echo('first');
      await clock.advance(2_000);
      await first;
      for (const id of ['second', 'third']) {
        const before = clock.now();
        await caller.echo(id);
        expect(clock.now()).toBe(before);
      }
      await clock.advance(60_000);
      await caller.echo('later');

      expect(server.counts.executionsById).toEqual({ first: 1, second: 1, third: 1, later: 1 });
      expect(server.counts).toMatchObject({ initializes: 1, listens: 1 });
      expect(said).toMatchObject([{ final: true }]);
    });
  }

  it('several calls at once all get their turn', async () => {
    const scene = await startStreams();
    const { server, clock } = scene;
    const { client } = await listening(scene, { http: { dispatcher: dispatcher(1) } });
    const calls = Promise.all(['a', 'b', 'c', 'd'].map((id) => echo(client, id)));
    await clock.advance(2_000);
    await calls;
    expect(server.counts.executionsById).toEqual({ a: 1, b: 1, c: 1, d: 1 });
  });

  it.each([2, null])('%s connections: the stream stays, nobody waits', async (connections) => {
    const scene = await startStreams();
    const { server, clock } = scene;
    const { client, heard } = await listening(scene, { http: { dispatcher: dispatcher(connections) } });
    const before = clock.now();
    await echo(client, 'a');
    expect(clock.now()).toBe(before);
    await clock.advance(10_000);
    tell(scene, 'heard');
    await clock.settle();
    expect(heard).toEqual(['heard']);
    expect(server.counts).toMatchObject({ listens: 1, streamsOpen: 1, executionsById: { a: 1 } });
  });

  it('room for two, and a call that waits for another call: the stream stays', async () => {
    const { tool, open } = gatedTool();
    const scene = await startStreams({ tools: [tool, { name: 'echo' }] });
    const { server, clock } = scene;
    const { client } = await listening(scene, { http: { dispatcher: dispatcher(2) } });
    const long = outcomeOf(client.callTool({ name: 'gated' }));
    await clock.settle();
    const waiting = outcomeOf(echo(client, 'a'));
    await clock.advance(5_000);
    expect(server.counts).toMatchObject({ streamsOpen: 1, listens: 1 });
    open();
    expect(await long).toMatchObject({ result: { content: [{ text: 'done' }] } });
    expect(await waiting).toMatchObject({ result: {} });
    expect(server.counts.executionsById).toEqual({ a: 1 });
  });

  it('our own agents: a hundred streams and calls do not meet', async () => {
    const scene = await startStreams();
    const { server, clock } = scene;
    const { client } = await listening(scene);
    await Promise.all(Array.from({ length: 100 }, (_, n) => echo(client, `c${n}`)));
    await clock.settle();
    expect(Object.values(server.counts.executionsById)).toHaveLength(100);
    expect(server.counts).toMatchObject({ listens: 1, streamsOpen: 1 });
  });
});
