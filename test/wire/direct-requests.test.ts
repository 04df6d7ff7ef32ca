/**
 * Calls of a HostedClient go past the SDK's bookkeeping, save for those that ask it for something: both give the same.
 */
import { McpError, UrlElicitationRequiredError } from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, it } from 'vitest';
import { HostedMcpError } from '../../src/index.js';
import { connect, type Scene, startServer } from './support.js';

/** A request for progress is what the SDK keeps account of. */
const BY_THE_SDK = { onprogress: () => {} };

/** The next call of a tool is answered with this in place of its result. */
function answerOnce({ server }: Scene, part: object): void {
  server.replyOnce(
    { method: 'tools/call' },
    {
      status: 200,
      headers: { 'Content-Type': 'application/json' },
      body: ({ message }) => JSON.stringify({ jsonrpc: '2.0', id: message?.id, ...part }),
    },
  );
}

const text = (words: string, more: object = {}) => ({ type: 'text', text: words, ...more });
const ANSWERS: [string, object][] = [
  ['text', { result: { content: [text('a'), text('b')] } }],
  ['an error of the tool', { result: { content: [text('no')], isError: true } }],
  ['nothing', { result: { content: [] } }],
  ['no content at all', { result: {} }],
  ['structured content', { result: { content: [text('{}')], structuredContent: { a: [1] } } }],
  ['a field that nobody knows', { result: { content: [text('a')], later: { b: 1 } } }],
  ['a field in a block that nobody knows', { result: { content: [text('a', { later: 1 })] } }],
  ['annotations', { result: { content: [text('a', { annotations: { audience: ['user'] } })] } }],
  ['an image', { result: { content: [{ type: 'image', data: 'YQ==', mimeType: 'image/png' }] } }],
  ['_meta', { result: { content: [text('a')], _meta: { a: 1 } } }],
  ['a name of the prototype', { result: JSON.parse('{"content":[],"__proto__":{"a":1}}') }],
  ['content that is none', { result: { content: 'a' } }],
  ['a block without its text', { result: { content: [{ type: 'text' }] } }],
  ['a kind of block that nobody knows', { result: { content: [{ type: 'smell', text: 'a' }] } }],
  ['isError that is no word on it', { result: { content: [], isError: 'yes' } }],
  ['an error', { error: { code: -32_602, message: 'no such thing', data: { a: 1 } } }],
  [
    'an error that wants a page opened',
    {
      error: {
        code: -32_042,
        message: 'open this',
        data: { elicitations: [{ mode: 'url', url: 'https://a.example', elicitationId: '1', message: 'b' }] },
      },
    },
  ],
];

async function outcome(made: Promise<unknown>) {
  try {
    return { result: await made };
  } catch (error) {
    if (HostedMcpError.isInstance(error)) {
      const { code, executed, message, method, tool } = error;
      return { kind: 'ours', code, executed, message, method, tool };
    }
    const { code, message, data } = error as McpError;
    return { kind: (error as Error).constructor.name, code, message, data };
  }
}

describe('a call of a HostedClient', () => {
  it.each(ANSWERS)('ends the same with and without the SDK: %s', async (_, part) => {
    const scene = await startServer();
    const client = await connect(scene);
    const params = { name: 'echo', arguments: { text: 'x' } };
    answerOnce(scene, part);
    const direct = await outcome(client.callTool(params));
    answerOnce(scene, part);
    const bySdk = await outcome(client.callTool(params, undefined, BY_THE_SDK));
    expect(direct).toEqual(bySdk);
    expect(scene.server.counts.executions).toEqual({});
  });

  it('errors are of the classes that the SDK has for them', async () => {
    const scene = await startServer();
    const client = await connect(scene);
    const errors: unknown[] = [];
    for (const [, part] of ANSWERS.slice(-2)) {
      answerOnce(scene, part);
      await client.callTool({ name: 'echo' }).catch((error: unknown) => errors.push(error));
    }
    expect(errors[0]).toBeInstanceOf(McpError);
    expect(errors[1]).toBeInstanceOf(UrlElicitationRequiredError);
  });

  it('has an id that no other call has, whichever way it goes', async () => {
    const scene = await startServer();
    const client = await connect(scene);
    const call = (options?: typeof BY_THE_SDK) =>
      client.callTool({ name: 'echo', arguments: { text: 'x' } }, undefined, options);
    await Promise.all(Array.from({ length: 20 }, (_, n) => call(n % 2 === 0 ? BY_THE_SDK : undefined)));
    await client.ping();
    const ids = scene.server.log.flatMap(({ rpcId }) => (rpcId === undefined ? [] : [rpcId]));
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.length).toBeGreaterThan(21);
  });
});

describe('its time', () => {
  it.each([
    ['timeout', { timeout: 5_000 }, 5_000],
    ['maxTotalTimeout', { timeout: 60_000, maxTotalTimeout: 3_000 }, 3_000],
    ['the default', {}, 60_000],
  ])('%s: the call ends then, and the server is told', async (_, options, ms) => {
    const scene = await startServer({ tokenLifetimeMs: 3_600_000 });
    const client = await connect(scene);
    const made = outcome(client.callTool({ name: 'slow', arguments: { ms: 600_000 } }, undefined, options));
    await scene.clock.advance(ms - 1);
    await scene.clock.advance(1);
    expect(await made).toMatchObject({ kind: 'ours', code: 'ERR_TIMEOUT', executed: 'unknown' });
    await scene.clock.settle();
    expect(scene.server.log.filter(({ rpcMethod }) => rpcMethod === 'notifications/cancelled')).toHaveLength(
      1,
    );
  });

  it('given up before it began: nothing is sent', async () => {
    const scene = await startServer();
    const client = await connect(scene);
    const sent = scene.server.log.length;
    const made = client.callTool({ name: 'echo' }, undefined, { signal: AbortSignal.abort() });
    expect(await outcome(made)).toMatchObject({ kind: 'ours', code: 'ERR_ABORTED' });
    expect(scene.server.log).toHaveLength(sent);
  });

  it('given up on its way: the server is told, and the caller at once', async () => {
    const scene = await startServer();
    const client = await connect(scene);
    const caller = new AbortController();
    const made = outcome(
      client.callTool({ name: 'slow', arguments: { ms: 600_000 } }, undefined, { signal: caller.signal }),
    );
    await scene.clock.advance(10);
    caller.abort();
    expect(await made).toMatchObject({ code: 'ERR_ABORTED', executed: 'unknown' });
    await scene.clock.settle();
    expect(scene.server.log.filter(({ rpcMethod }) => rpcMethod === 'notifications/cancelled')).toHaveLength(
      1,
    );
  });
});

describe('what the SDK has a say in', () => {
  it('with enforceStrictCapabilities its own rules hold', async () => {
    const scene = await startServer();
    const client = await connect(scene, { enforceStrictCapabilities: true });
    await expect(
      client.complete({ ref: { type: 'ref/prompt', name: 'a' }, argument: { name: 'b', value: 'c' } }),
    ).rejects.toThrow(/does not support completions/);
    const result = await client.callTool({ name: 'echo', arguments: { text: 'on' } });
    expect(result.content).toEqual([{ type: 'text', text: 'on' }]);
  });
});
