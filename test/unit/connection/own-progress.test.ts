import { describe, expect, it } from 'vitest';
import { isOwnProgress, OwnProgress } from '../../../src/connection/own-progress.js';
import type { ToolCallContext } from '../../../src/testing/index.js';
import { FACES } from '../../wire/faces.js';
import { connectStock } from '../../wire/stock.js';
import { startStreams } from '../../wire/streams.js';
import { connect } from '../../wire/support.js';

const call = (params?: Record<string, unknown>) =>
  ({ jsonrpc: '2.0', id: 1, method: 'tools/call', ...(params !== undefined && { params }) }) as const;

describe('OwnProgress', () => {
  it('asks for progress where the caller did not, under a new token each time', () => {
    const own = new OwnProgress();
    const message = call({ name: 'x', arguments: {}, _meta: { trace: 't' } });
    expect(own.ask(message).params).toEqual({
      name: 'x',
      arguments: {},
      _meta: { trace: 't', progressToken: 'holdfast:1' },
    });
    expect(own.ask(call({ name: 'x' })).params?._meta).toEqual({ progressToken: 'holdfast:2' });
    expect(message.params).toEqual({ name: 'x', arguments: {}, _meta: { trace: 't' } });
  });

  it.each([
    ['a token of the caller', call({ _meta: { progressToken: 0 } })],
    ['another method', { ...call({}), method: 'tools/list' }],
    ['a _meta that is none', call({ _meta: 'x' })],
    ['null as _meta', call({ _meta: null })],
    ['an array as _meta', call({ _meta: [] })],
  ])('leaves alone: %s', (_name, message) => {
    expect(new OwnProgress().ask(message)).toBe(message);
  });

  it('knows its own again, and nothing else', () => {
    const progress = (progressToken: unknown, method = 'notifications/progress') =>
      isOwnProgress({ jsonrpc: '2.0', method, params: { progressToken, progress: 1 } });
    expect(progress('holdfast:1')).toBe(true);
    expect([progress(1), progress('1'), progress(undefined), progress(null)]).toEqual([
      false,
      false,
      false,
      false,
    ]);
    expect(progress('holdfast:1', 'notifications/message')).toBe(false);
    expect(isOwnProgress({ jsonrpc: '2.0', method: 'notifications/progress' })).toBe(false);
    expect(isOwnProgress({ jsonrpc: '2.0', id: 1, result: {} })).toBe(false);
  });
});

const reporting = {
  name: 'reporting',
  handler: async (_args: unknown, context: ToolCallContext) => {
    for (let n = 1; n <= 5; n += 1) {
      await context.wait(20_000);
      context.progress(n);
    }
    return 'done';
  },
};

describe('a tool that reports, behind an intermediary that cuts after 30 s', () => {
  for (const face of FACES) {
    it(`${face}: answered in one stream, though the caller asked for no progress; nobody hears of it`, async () => {
      const scene = await startStreams({ tools: [reporting], idleCutMs: 30_000, answer: 'sse' });
      const { server, clock } = scene;
      const errors: unknown[] = [];
      const other: unknown[] = [];
      const client =
        face === 'HostedClient'
          ? await connect(scene, { streams: { listen: false } })
          : (await connectStock(scene, face)).client;
      Object.assign(client, {
        onerror: (error: unknown) => errors.push(error),
        fallbackNotificationHandler: async (message: unknown) => other.push(message),
      });
      const result = (client as { callTool(params: object, ...rest: unknown[]): Promise<unknown> }).callTool(
        { name: 'reporting' },
        ...(face === 'v2' ? [{ timeout: 200_000 }] : [undefined, { timeout: 200_000 }]),
      );
      await clock.advance(101_000);
      expect(await result).toMatchObject({ content: [{ text: 'done' }] });
      expect(errors).toEqual([]);
      expect(other).toEqual([]);
      expect(server.counts).toMatchObject({ executions: { reporting: 1 }, resumes: 0, initializes: 1 });
    });
  }

  it('progress that the caller asked for is the caller’s, and lengthens its time', async () => {
    const scene = await startStreams({ tools: [reporting], answer: 'sse' });
    const { clock } = scene;
    const client = await connect(scene);
    const seen: number[] = [];
    const result = client.callTool({ name: 'reporting' }, undefined, {
      timeout: 30_000,
      resetTimeoutOnProgress: true,
      onprogress: ({ progress }) => seen.push(progress),
    });
    await clock.advance(101_000);
    expect(await result).toMatchObject({ content: [{ text: 'done' }] });
    expect(seen).toEqual([1, 2, 3, 4, 5]);
  });

  it('progress that nobody asked for lengthens nobody’s time', async () => {
    const scene = await startStreams({ tools: [reporting], answer: 'sse' });
    const { clock } = scene;
    const client = await connect(scene);
    const result = client.callTool({ name: 'reporting' }, undefined, { timeout: 30_000 }).catch((e) => e);
    await clock.advance(31_000);
    expect(await result).toMatchObject({ code: 'ERR_TIMEOUT', executed: 'unknown' });
  });
});
