/** Protocol 2026-07-28: `subscriptions/listen` of SDK v2's Client, cut and kept, judged at the server. */
import type { ClientOptions } from '@modelcontextprotocol/client';
import { describe, expect, it, vi } from 'vitest';
import type { ConnectionEvents, HostedTransport } from '../../src/index.js';
import type { ScriptedRequest } from '../../src/testing/index.js';
import { AUTO, atEndpoint, connect, count, echo, expectModernOnly, methods, modern } from './modern.js';

const SUBSCRIPTION_ID = 'io.modelcontextprotocol/subscriptionId';

/** Those events of a connection, in order. */
function record(transport: HostedTransport, ...names: (keyof ConnectionEvents)[]) {
  const seen: string[] = [];
  for (const name of names) transport.connection.on(name, () => seen.push(name));
  return seen;
}

/** The beginning of a subscription's stream, and whatever else. */
const acknowledged = ({ message }: ScriptedRequest, ...more: object[]) => {
  const _meta = { [SUBSCRIPTION_ID]: message?.id };
  const { notifications } = (message?.params ?? {}) as { notifications?: object };
  const method = 'notifications/subscriptions/acknowledged';
  return [{ jsonrpc: '2.0', method, params: { notifications, _meta } }, ...more].map(
    (each) => `data: ${JSON.stringify(each)}\n\n`,
  );
};

describe('subscriptions', () => {
  const EVENTS = ['stream-cut', 'stream-reopened', 'stream-gap', 'stream-unavailable'] as const;
  const listening = (onChanged: () => void): ClientOptions => ({
    ...AUTO,
    listChanged: { tools: { autoRefresh: true, debounceMs: 0, onChanged } },
  });

  it.each(['fin', 'eof', 'reset'] as const)('cut (%s): back at once, the list read again', async (shape) => {
    const scene = await modern();
    const onChanged = vi.fn();
    const { client, transport, connection, errors } = await connect(scene, { client: listening(onChanged) });
    const events = record(transport, ...EVENTS);
    expect(scene.server.counts).toMatchObject({ subscriptions: 1, streamsOpen: 1 });
    await scene.clock.advance(10_000);
    const reopened = connection.once('stream-reopened');
    const closed = vi.fn();
    client.autoOpenedSubscription?.closed.then(closed);

    scene.server.cutStreams(shape);
    await scene.clock.advance(20);

    expect((await reopened).gapMs).toBeLessThanOrEqual(20);
    await expect.poll(() => onChanged.mock.calls.length).toBe(1);
    expect(scene.server.counts).toMatchObject({ subscriptions: 2, streamsOpen: 1 });
    expect(count(scene, 'tools/list')).toBe(1);
    expect(events).toEqual(['stream-cut', 'stream-reopened', 'stream-gap']);
    scene.server.notify('notifications/tools/list_changed');
    await expect.poll(() => onChanged.mock.calls.length).toBe(2);
    expect(closed).not.toHaveBeenCalled();
    expectModernOnly(scene);
    expect(errors).toEqual([]);
  });

  it('over a fetch of the app’s as well', async () => {
    const scene = await modern({ answer: 'sse' });
    const onChanged = vi.fn();
    const { client } = await connect(scene, { client: listening(onChanged), transport: { fetch } });
    scene.server.cutStreams();
    await scene.clock.advance(1_000);

    await expect.poll(() => onChanged.mock.calls.length).toBe(1);
    await echo(client, 'a');
    expect(scene.server.counts).toMatchObject({ subscriptions: 2, streamsOpen: 1, executionsById: { a: 1 } });
    expectModernOnly(scene);
  });

  it('the Client sees one acknowledgement, one subscription id, and only what it asked for', async () => {
    const scene = await modern();
    const { client, transport } = await connect(scene);
    const { onmessage } = transport;
    const seen: { method: string; params: { uri?: string; _meta?: Record<string, unknown> } }[] = [];
    transport.onmessage = (message, extra) => {
      if (message.method !== undefined) seen.push(message);
      onmessage?.(message, extra);
    };
    const filter = { promptsListChanged: true as const, resourceSubscriptions: ['memo://welcome'] };
    const subscription = await client.listen(filter);
    scene.server.cutStreams();
    await scene.clock.advance(1_000);
    scene.server.notify('notifications/prompts/list_changed');
    scene.server.notify('notifications/tools/list_changed');
    await scene.clock.settle();

    expect(subscription.honoredFilter).toEqual(filter);
    expect(seen.map(({ method, params }) => [method, params.uri])).toEqual([
      ['notifications/subscriptions/acknowledged', undefined],
      ['notifications/prompts/list_changed', undefined],
      ['notifications/resources/updated', 'memo://welcome'],
      ['notifications/prompts/list_changed', undefined],
    ]);
    expect(new Set(seen.map(({ params }) => params._meta?.[SUBSCRIPTION_ID])).size).toBe(1);
    const ids = atEndpoint(scene).flatMap(({ rpcMethod, rpcId }) =>
      rpcMethod === 'subscriptions/listen' ? [rpcId] : [],
    );
    expect(new Set(ids).size).toBe(2);
  });

  it('ended by the server itself, with its last word: reopened all the same', async () => {
    const scene = await modern();
    const result = { resultType: 'complete', _meta: {} };
    scene.server.replyOnce(
      { method: 'subscriptions/listen' },
      {
        chunks: (request) =>
          acknowledged(request, { jsonrpc: '2.0', id: request.message?.id, result } as object),
      },
    );
    const { client } = await connect(scene);
    const closed = vi.fn();
    const subscription = await client.listen({ toolsListChanged: true });
    subscription.closed.then(closed);
    await scene.clock.advance(100);

    expect(scene.server.counts).toMatchObject({ subscriptions: 2, streamsOpen: 1 });
    expect(closed).not.toHaveBeenCalled();
  });

  it('a server that ends each at once is asked ever more rarely', async () => {
    const scene = await modern();
    scene.server.reply({ method: 'subscriptions/listen' }, { chunks: (request) => acknowledged(request) });
    const { client } = await connect(scene);
    await client.listen({ toolsListChanged: true });

    await scene.clock.advance(60_000);

    expect(scene.server.counts.subscriptions).toBeGreaterThan(4);
    expect(scene.server.counts.subscriptions).toBeLessThan(9);
  });

  it('outlives a server that is away, and a token that has expired meanwhile', async () => {
    const scene = await modern();
    const { client, transport, errors } = await connect(scene);
    const events = record(transport, ...EVENTS);
    const heard = vi.fn();
    client.setNotificationHandler('notifications/tools/list_changed', heard);
    await client.listen({ toolsListChanged: true });
    scene.server.reply({ method: 'subscriptions/listen' }, { status: 503 }, { times: 2 });
    scene.server.reply({ method: 'subscriptions/listen' }, { status: 404, body: 'no route' }, { times: 1 });
    scene.server.expireTokens();
    scene.server.cutStreams();
    await scene.clock.advance(30_000);

    expect(scene.server.counts).toMatchObject({ streamsOpen: 1, initializes: 0, tokenRequests: 2 });
    expect(events).toEqual(['stream-cut', 'stream-reopened', 'stream-gap']);
    expect(heard).toHaveBeenCalledOnce();
    expectModernOnly(scene);
    expect(errors).toEqual([]);
  });

  it('a server that takes it and then says nothing is asked again', async () => {
    const scene = await modern();
    const { client, connection } = await connect(scene);
    await client.listen({ toolsListChanged: true });
    scene.server.replyOnce({ method: 'subscriptions/listen' }, { silence: true });
    scene.server.replyOnce({ method: 'subscriptions/listen' }, { chunks: [{ pauseMs: 3_600_000 }] });
    const reopened = connection.once('stream-reopened');
    scene.server.cutStreams();
    await scene.clock.advance(65_000);

    expect((await reopened).gapMs).toBeGreaterThan(60_000);
    expect(scene.server.counts).toMatchObject({ subscriptions: 4, streamsOpen: 1 });
  });

  it('a pause that the server asked for holds for it, too', async () => {
    const scene = await modern();
    const { client } = await connect(scene);
    await client.listen({ toolsListChanged: true });
    scene.server.throttle(5_000);
    scene.server.cutStreams();
    await scene.clock.advance(4_900);
    expect(scene.server.counts).toMatchObject({ subscriptions: 2, streamsOpen: 0, rejectedByLimit: 1 });

    await scene.clock.advance(1_000);

    expect(scene.server.counts).toMatchObject({ subscriptions: 3, streamsOpen: 1 });
  });

  it('refused for good when it would come back: the Client hears of its end', async () => {
    const scene = await modern();
    const { client, transport } = await connect(scene);
    const events = record(transport, ...EVENTS);
    const subscription = await client.listen({ toolsListChanged: true });
    scene.server.reply({ method: 'subscriptions/listen' }, { status: 405 });
    scene.server.cutStreams();
    await scene.clock.advance(100);

    expect(await subscription.closed).toBe('remote');
    await scene.clock.advance(60_000);
    expect(events).toEqual(['stream-cut', 'stream-unavailable']);
    expect(scene.server.counts.subscriptions).toBe(2);
    await echo(client, 'a');
  });

  it('a first opening that is refused is the Client’s own matter', async () => {
    const scene = await modern();
    const { client } = await connect(scene);
    const error = { code: -32000, message: 'too many subscriptions' };
    scene.server.replyOnce(
      { method: 'subscriptions/listen' },
      { status: 400, body: ({ message }) => ({ jsonrpc: '2.0', id: message?.id, error }) },
    );

    await expect(client.listen({ toolsListChanged: true })).rejects.toThrow('too many subscriptions');

    expect(scene.server.counts.subscriptions).toBe(1);
  });

  it.each(['subscription', 'client'] as const)('ends with its %s, in a gap as well', async (owner) => {
    const scene = await modern({ auth: false });
    const authProvider = { token: async () => 'any' };
    const { client, connection } = await connect(scene, { transport: { authProvider } });
    const open = await client.listen({ toolsListChanged: true });
    const inGap = await client.listen({ promptsListChanged: true });
    const end = () => (owner === 'client' ? client.close() : Promise.all([open.close(), inGap.close()]));
    scene.server.replyOnce({ method: 'subscriptions/listen' }, { status: 503 });
    scene.server.replyOnce({ method: 'subscriptions/listen' }, { status: 503 });
    scene.server.cutStreams();
    await scene.clock.advance(100);

    await end();
    await scene.clock.advance(60_000);

    expect(scene.server.counts).toMatchObject({ subscriptions: 4, streamsOpen: 0 });
    expect(count(scene, 'notifications/cancelled')).toBe(0);
    if (owner === 'client') expect(scene.clock.pendingTimers).toBe(0);
    else expect(connection.state).toBe('ready');
  });

  it('closed while it stands: the server sees its stream closed, and no message', async () => {
    const scene = await modern();
    const { client, errors } = await connect(scene);
    const subscription = await client.listen({ toolsListChanged: true });

    await subscription.close();
    await expect.poll(() => scene.server.counts.streamsOpen).toBe(0);
    await scene.clock.advance(60_000);

    expect(methods(scene)).toEqual(['server/discover', 'subscriptions/listen']);
    expect(errors).toEqual([]);
  });

  it('does not hide the agent’s think-time, nor count as a call', async () => {
    const scene = await modern({ tokenLifetimeMs: 3_600_000 });
    const { client, connection } = await connect(scene);
    const subscription = await client.listen({ toolsListChanged: true });
    await echo(client, 'a');
    await scene.clock.advance(74_000);
    await echo(client, 'b');
    await subscription.close();
    await scene.clock.settle();

    expect(connection.stats.longestIdleGapMs).toBeGreaterThanOrEqual(74_000);
    expect(connection.stats.calls).toEqual({ answered: 3, failed: {} });
  });
});
