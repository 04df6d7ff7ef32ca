/** What the server says on a call's own stream stays with that call, and with the client that made it. */
import { describe, expect, it } from 'vitest';
import type { ToolDefinition } from '../../src/testing/index.js';
import { startServer } from '../wire/support.js';
import {
  call,
  connectFace,
  frameworkOver,
  INITIALIZE,
  KINDS,
  makeFetch,
  messagesOf,
  post,
} from './hosted-fetch-clients.js';

const SAYS: ToolDefinition = {
  name: 'says',
  handler: ({ text }, context) => {
    context.notify('notifications/message', { level: 'info', data: text });
    return String(text);
  },
};

/** Asks, once everybody who is to ask has begun. */
function asking(times: number): ToolDefinition {
  let begun = 0;
  let all!: () => void;
  const together = new Promise<void>((resolve) => {
    all = resolve;
  });
  return {
    name: 'ask',
    handler: async ({ text }, context) => {
      begun += 1;
      if (begun === times) all();
      await together;
      const requestedSchema = { type: 'object', properties: {} };
      await context.request('elicitation/create', { message: String(text), requestedSchema });
      return 'asked';
    },
  };
}

describe('hostedFetch: what belongs to a call', () => {
  it('comes on its own stream, before its answer, although a listen stream is open', async () => {
    const scene = await startServer({ tools: [SAYS] });
    const fetch = makeFetch(scene);
    const { url } = scene.server;
    const opened = await post(fetch, url, INITIALIZE);
    const headers = { 'mcp-session-id': opened.headers.get('mcp-session-id') ?? '' };
    const listening = messagesOf(await fetch(url, { headers: { accept: 'text/event-stream', ...headers } }));
    const params = { name: 'says', arguments: { text: 'mine' } };

    const stream = messagesOf(
      await post(fetch, url, { jsonrpc: '2.0', id: 1, method: 'tools/call', params }, headers),
    );

    expect(await stream.next()).toMatchObject({ method: 'notifications/message', params: { data: 'mine' } });
    expect(await stream.next()).toMatchObject({ id: 1, result: {} });
    expect(await stream.next()).toBe(undefined);
    await fetch.close();
    expect(await listening.next()).toBe(undefined);
  });

  it.each(KINDS)('a question is put to the client whose call it is, of eight under %s', async (kind) => {
    const scene = await startServer({ tools: [asking(8)] });
    const fetch = makeFetch(scene);
    const all = [];
    for (let n = 0; n < 8; n += 1) all.push(await frameworkOver(scene, kind, fetch));

    await Promise.all(all.map((each, n) => call(each, `c${n}`, 'ask', { text: `for ${n}` })));

    expect(all.map(({ questions }) => questions)).toEqual(all.map((_, n) => [`for ${n}`]));
    expect(all.flatMap(({ errors }) => errors)).toEqual([]);
  });

  it.each(KINDS)('a notification reaches only the client whose call it is, under %s', async (kind) => {
    const scene = await startServer({ tools: [SAYS] });
    const face = await connectFace(scene, kind);
    const other = await frameworkOver(scene, kind, face.fetch);
    const heard: unknown[] = [];
    for (const [name, { client }] of [
      ['caller', face],
      ['other', other],
    ] as const)
      client.fallbackNotificationHandler = async ({ method }) => {
        heard.push([name, method]);
      };

    await call(face, 'a', 'says', { text: 'x' });
    await scene.clock.settle();

    await expect.poll(() => heard).toEqual([['caller', 'notifications/message']]);
  });
});
