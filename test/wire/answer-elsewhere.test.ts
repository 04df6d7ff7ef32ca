import { ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, it } from 'vitest';
import type { HostedClientOptions } from '../../src/client.js';
import type { HostedServerOptions } from '../../src/testing/index.js';
import { advanceUntil, cursors, GET, gatedTool, outcomeOf, startStreams } from './streams.js';
import { connect } from './support.js';

const found = { content: [{ type: 'text', text: 'found' }] };

/** A call under way, its answer's stream cut or not, and a listen stream that opens when `listen` is called. */
async function start(options: HostedServerOptions = {}, given: Partial<HostedClientOptions> = {}) {
  const { tool, open } = gatedTool();
  const scene = await startStreams({ tools: [tool], answer: 'sse', eventStore: true, ...options });
  const client = await connect(scene, given);
  const outcome = outcomeOf(client.callTool({ name: 'gated' }));
  await scene.clock.settle();
  const { rpcId } = scene.server.log.find(({ rpcMethod }) => rpcMethod === 'tools/call') ?? {};
  const event = (message: object) => `data: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`;
  const listen = async () => {
    client.setNotificationHandler(ToolListChangedNotificationSchema, () => {});
    await scene.clock.settle();
  };
  return { scene, client, outcome, open, rpcId, event, listen };
}

describe('a server gives the answer of a call to the stream of the session', () => {
  it('whose own stream was cut: it is taken from there, and not asked for again', async () => {
    const { scene, outcome, rpcId, event, listen } = await start();
    const { server } = scene;
    server.cutStreams();
    server.replyOnce(GET, { chunks: [event({ id: rpcId, result: found })] });
    await listen();
    expect(await outcome).toMatchObject({ result: found });
    await scene.clock.advance(60_000);
    expect(cursors(scene).filter((cursor) => cursor !== undefined)).toEqual([]);
    expect(server.counts).toMatchObject({ executions: { gated: 1 }, resumes: 0, initializes: 1 });
    expect(server.log.filter(({ rpcMethod }) => rpcMethod === 'tools/call')).toHaveLength(1);
  });

  it('while the resumed stream is open and silent', async () => {
    const { scene, outcome, rpcId, event, listen } = await start({ eventStore: 'deaf' });
    const { server, clock } = scene;
    server.cutStreams();
    await clock.advance(1_000);
    server.replyOnce(GET, { chunks: [event({ id: rpcId, result: found })] });
    await listen();
    expect(await outcome).toMatchObject({ result: found });
    expect(server.counts).toMatchObject({ executions: { gated: 1 }, resumes: 1 });
  });

  it('whose own stream is still open; what comes on that one later changes nothing', async () => {
    const { scene, client, outcome, open, rpcId, event, listen } = await start();
    const { server, clock } = scene;
    server.replyOnce(GET, { chunks: [event({ id: rpcId, result: found })] });
    await listen();
    expect(await outcome).toMatchObject({ result: found });
    open();
    await clock.settle();
    expect(server.counts.executions).toEqual({ gated: 1 });
    await expect(client.ping()).resolves.toEqual({});
  });

  it('as an error: the caller gets the error', async () => {
    const { scene, outcome, rpcId, event, listen } = await start();
    scene.server.cutStreams();
    scene.server.replyOnce(GET, { chunks: [event({ id: rpcId, error: { code: -32602, message: 'No' } })] });
    await listen();
    expect(await outcome).toMatchObject({ error: { code: -32602 } });
    expect(scene.server.counts.executions).toEqual({ gated: 1 });
  });

  it('past the gates: what may not be delivered is not', async () => {
    const gates = [{ name: 'closed', after: () => ({ deny: 'no' }) }];
    const { scene, outcome, rpcId, event, listen } = await start({}, { gates });
    scene.server.cutStreams();
    scene.server.replyOnce(GET, { chunks: [event({ id: rpcId, result: found })] });
    await listen();
    expect(await outcome).toMatchObject({ error: { code: 'ERR_RESULT_REFUSED', executed: true } });
  });

  it.each([
    ['another id', () => 'another'],
    ['no id', () => null],
    ['the id as another type', (id: unknown) => (typeof id === 'number' ? String(id) : Number(id))],
  ])('%s: it is nobody’s', async (_name, idOf) => {
    const { scene, outcome, open, rpcId, event, listen } = await start();
    scene.server.replyOnce(GET, { chunks: [event({ id: idOf(rpcId), result: found })] });
    await listen();
    open();
    await advanceUntil(scene, outcome, 1_000);
    expect(await outcome).toMatchObject({ result: { content: [{ text: 'done' }] } });
  });
});
