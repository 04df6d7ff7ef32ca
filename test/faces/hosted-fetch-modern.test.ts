/** `hostedFetch` under SDK v2's Client that negotiates, against a server of protocol 2026-07-28. */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { describe, expect, it, vi } from 'vitest';
import type { HostedFetch } from '../../src/hosted-fetch.js';
import type { HostedOptions } from '../../src/index.js';
import type { HostedServerOptions, ScriptedReply } from '../../src/testing/index.js';
import { closeLater, type Scene, startServer } from '../wire/support.js';
import { carriedBy, connectFace, count, makeFetch, methods } from './hosted-fetch-clients.js';
import { AUTO, expectModernOnly, INFO, PIN, VERSION } from './modern.js';

const CALL = { method: 'tools/call' } as const;
const modern = (options: HostedServerOptions = {}) => startServer({ protocolVersion: VERSION, ...options });

async function over(scene: Scene, fetch: HostedFetch, options = AUTO, connect: object = {}) {
  const client = new Client(INFO, options);
  const errors: Error[] = [];
  client.onerror = (error) => errors.push(error);
  closeLater(() => client.close());
  const statuses: number[] = [];
  const watch = async (input: string | URL, init?: RequestInit) => {
    const response = await fetch(input, init);
    statuses.push(response.status);
    return response;
  };
  const transport = new StreamableHTTPClientTransport(new URL(scene.server.url), { fetch: watch });
  await client.connect(transport, connect);
  await scene.clock.settle();
  return { client, transport, errors, statuses };
}

async function connected(scene: Scene, options: HostedOptions = {}, client = AUTO) {
  const fetch = makeFetch(scene, options);
  return { fetch, ...(await over(scene, fetch, client)) };
}

const echo = (client: Client, callId: string, options?: { signal: AbortSignal }) =>
  client.callTool(
    { name: 'echo', arguments: { text: callId }, _meta: { 'mcp-holdfast/callId': callId } },
    options,
  );

describe('hostedFetch and a server without sessions', () => {
  it.each([
    ['auto', 'json', AUTO],
    ['auto', 'sse', AUTO],
    ['pin', 'json', PIN],
  ] as const)('%s: discovers, lists and calls (answers as %s)', async (_mode, answer, options) => {
    const scene = await modern({ answer });
    const { fetch, client, errors, transport } = await connected(scene, {}, options);

    expect((await client.listTools()).tools.map(({ name }) => name)).toContain('echo');
    expect(await echo(client, 'a')).toMatchObject({ content: [{ type: 'text', text: 'a' }] });

    expect(client.getNegotiatedProtocolVersion()).toBe(VERSION);
    expect(fetch.connection.session).toMatchObject({ era: 'stateless', protocolVersion: VERSION });
    expect(transport.sessionId).toBe(undefined);
    expect(methods(scene)).toEqual(['server/discover', 'tools/list', 'tools/call']);
    expectModernOnly(scene);
    expect(errors).toEqual([]);
  });

  it('a Client that knows the server from before asks nothing', async () => {
    const scene = await modern();
    const first = await connected(scene);
    const discover = first.client.getDiscoverResult();
    scene.server.reset();

    const { client, errors } = await over(scene, makeFetch(scene), AUTO, {
      prior: { kind: 'modern', discover },
    });
    await echo(client, 'a');

    expect(methods(scene)).toEqual(['tools/call']);
    expectModernOnly(scene);
    expect(errors).toEqual([]);
  });

  it('a second Client on the same fetch', async () => {
    const scene = await modern();
    const { fetch, client } = await connected(scene);
    const second = await over(scene, fetch);

    await Promise.all([echo(client, 'a'), echo(second.client, 'b')]);

    expect(scene.server.counts.executionsById).toEqual({ a: 1, b: 1 });
    expectModernOnly(scene);
    expect(second.errors).toEqual([]);
  });

  it.each<[string, ScriptedReply]>([
    ['reset', { tool: 'run', cut: 'reset' }],
    ['closed', { tool: 'run', cut: 'fin', afterBytes: 20 }],
    ['a stream without an answer', { tool: 'run', chunks: [': x\n\n'] }],
    ['503', { tool: 'run', status: 503, body: '' }],
  ])('the tool ran and the answer is gone (%s): told at once, not run again', async (_name, reply) => {
    const scene = await modern({ answer: 'sse' });
    const { client, statuses, errors } = await connected(scene);
    scene.server.replyOnce(CALL, reply);

    expect(await carriedBy(echo(client, 'cut'))).toMatchObject({ executed: 'unknown', retryable: false });
    await scene.clock.advance(2_000);
    await echo(client, 'after');

    expect(scene.server.counts.executionsById).toEqual({ cut: 1, after: 1 });
    expect(statuses.every((status) => status === 200)).toBe(true);
    expect(errors).toEqual([]);
  });

  it('the life of its tokens is not the framework’s matter', async () => {
    const scene = await modern();
    const { client, statuses } = await connected(scene);
    for (let n = 0; n < 15; n += 1) {
      await echo(client, `c${n}`);
      await scene.clock.advance(10_000);
    }

    expect(Object.values(scene.server.counts.executionsById)).toEqual(Array(15).fill(1));
    expect(scene.server.counts.tokenRequests).toBeGreaterThanOrEqual(3);
    expect(statuses.every((status) => status === 200)).toBe(true);
    expectModernOnly(scene);
  });

  it('an abort closes the call’s stream at the server; no cancel is sent', async () => {
    const scene = await modern({ answer: 'sse' });
    const { fetch, client, errors } = await connected(scene);
    const caller = new AbortController();
    const ended = client
      .callTool({ name: 'slow', arguments: { ms: 1_000 } }, { signal: caller.signal })
      .catch(() => 'taken back');
    await scene.clock.advance(100);
    expect(scene.server.counts.streamsOpen).toBe(1);

    caller.abort();
    expect(await ended).toBe('taken back');
    await scene.clock.settle();

    expect(scene.server.counts.streamsOpen).toBe(0);
    expect(count(scene, 'notifications/cancelled')).toBe(0);
    expect(fetch.connection.stats.calls.failed).toEqual({ ERR_ABORTED: 1 });
    expect(errors).toEqual([]);
  });

  it.each(['fin', 'eof', 'reset'] as const)(
    'a subscription spans the server’s cuts (%s): one stream for the framework, under its own id',
    async (shape) => {
      const scene = await modern();
      const onChanged = vi.fn();
      const listening = {
        ...AUTO,
        listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged } },
      };
      const { client, errors } = await connected(scene, {}, listening as typeof AUTO);
      const closed = vi.fn();
      client.autoOpenedSubscription?.closed.then(closed);
      scene.server.notify('notifications/tools/list_changed');
      await expect.poll(() => onChanged.mock.calls.length).toBe(1);
      await scene.clock.advance(10_000);

      scene.server.cutStreams(shape);
      await scene.clock.advance(100);
      await expect.poll(() => onChanged.mock.calls.length).toBe(2);
      scene.server.notify('notifications/tools/list_changed');
      await expect.poll(() => onChanged.mock.calls.length).toBe(3);

      expect(closed).not.toHaveBeenCalled();
      expect(scene.server.counts.subscriptions).toBe(2);
      expectModernOnly(scene);
      expect(errors).toEqual([]);
    },
  );

  it('two Clients that subscribe under the same id hear each their own', async () => {
    const scene = await modern();
    const { fetch, client } = await connected(scene);
    const second = await over(scene, fetch);
    const heard: string[] = [];
    for (const [name, each] of [
      ['prompts', client],
      ['tools', second.client],
    ] as const) {
      for (const list of ['prompts', 'tools'] as const)
        each.setNotificationHandler(`notifications/${list}/list_changed`, () => {
          heard.push(`${name} heard ${list}`);
        });
    }
    await client.listen({ promptsListChanged: true });
    await second.client.listen({ toolsListChanged: true });

    scene.server.notify('notifications/tools/list_changed');
    scene.server.notify('notifications/prompts/list_changed');

    await expect.poll(() => heard.length).toBe(2);
    expect([...heard].sort()).toEqual(['prompts heard prompts', 'tools heard tools']);
  });

  it('a subscription that is closed is closed at the server', async () => {
    const scene = await modern();
    const { client, errors } = await connected(scene);
    const subscription = await client.listen({ toolsListChanged: true });
    expect(scene.server.counts.streamsOpen).toBe(1);

    await subscription.close();
    await scene.clock.settle();

    expect(scene.server.counts).toMatchObject({ streamsOpen: 0, subscriptions: 1 });
    expect(errors).toEqual([]);
  });
});

describe('hostedFetch and the question which era a server speaks', () => {
  it.each([400, 404, 405, 501])('status %d to it, from an earlier server', async (status) => {
    const scene = await startServer();
    scene.server.replyOnce({ method: 'server/discover' }, { status, body: 'what?' });
    const connecting = connectFace(scene, 'v2 auto').then(
      ({ client }) => client,
      (error: unknown) => error,
    );
    await scene.clock.advance(10_000);
    const outcome = await connecting;

    // 5xx is no evidence, whatever it says.
    if (status === 501) expect((await carriedBy(Promise.reject(outcome))).code).toBe('ERR_HTTP_STATUS');
    else expect(outcome).toBeInstanceOf(Client);
    expect(scene.server.counts.initializes).toBe(status === 501 ? 0 : 1);
  });

  it.each([401, 403, 429, 500, 502, 503])(
    'status %d to it is no evidence: nothing is downgraded',
    async (status) => {
      const scene = await modern();
      scene.server.reply({ method: 'server/discover' }, { status, body: 'no' });

      const connecting = carriedBy(connected(scene));
      await scene.clock.advance(200_000);

      expect((await connecting).code).toMatch(/^ERR_(CREDENTIAL_REJECTED|HTTP_STATUS|RATE_LIMITED)$/);
      expect(count(scene, 'initialize')).toBe(0);
    },
  );

  it('a matter of the credential reaches connect() as our own error', async () => {
    const scene = await modern();
    scene.server.reply(
      { method: 'server/discover' },
      { status: 401, headers: { 'www-authenticate': 'Bearer' }, body: '' },
    );

    await expect(connected(scene)).rejects.toMatchObject({
      name: 'HostedMcpError',
      code: 'ERR_CREDENTIAL_REJECTED',
    });
  });

  it('a limit is waited for', async () => {
    const scene = await modern();
    scene.server.throttle(2_000);

    const connecting = connected(scene);
    await scene.clock.advance(5_000);

    expect((await connecting).fetch.connection.session?.era).toBe('stateless');
    expect(scene.server.counts).toMatchObject({ rejectedByLimit: 1, initializes: 0 });
  });
});
