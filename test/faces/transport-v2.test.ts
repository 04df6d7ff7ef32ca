import { Client, ProtocolError } from '@modelcontextprotocol/client';
import { describe, expect, it, vi } from 'vitest';
import { HostedMcpError, HostedTransport, type HostedTransportOptions } from '../../src/index.js';
import type { ToolCallContext } from '../../src/testing/index.js';
import { closeLater, failureOf, machine, type Scene, startServer } from '../wire/support.js';

async function connect(scene: Scene, options: HostedTransportOptions = {}) {
  const transport = new HostedTransport(scene.server.url, {
    clock: scene.clock,
    ...(options.authProvider === undefined && { credentials: machine(scene) }),
    ...options,
  });
  const client = new Client(
    { name: 'v2', version: '1.0.0' },
    { capabilities: { elicitation: {}, sampling: {}, roots: {} } },
  );
  const errors: Error[] = [];
  client.onerror = (error) => errors.push(error);
  closeLater(() => client.close());
  await client.connect(transport);
  await scene.clock.settle();
  return { client, transport, errors };
}

const echo = (client: Client, callId: string, options?: Parameters<Client['callTool']>[1]) =>
  client.callTool(
    { name: 'echo', arguments: { text: callId }, _meta: { 'mcp-holdfast/callId': callId } },
    options,
  );
const methods = (scene: Scene) => scene.server.log.map((entry) => entry.rpcMethod ?? entry.http);

describe('HostedTransport under the SDK v2 Client', () => {
  it.each(['json', 'sse'] as const)('connects, lists and calls (answers as %s)', async (answer) => {
    const scene = await startServer({ answer });
    const { client, transport, errors } = await connect(scene);

    expect((await client.listTools()).tools.map((tool) => tool.name)).toContain('echo');
    expect(await echo(client, 'a')).toMatchObject({ content: [{ type: 'text', text: 'a' }] });

    expect(transport.sessionId).toBeDefined();
    expect(transport.protocolVersion).toBe('2025-11-25');
    expect(scene.server.counts).toMatchObject({ initializes: 1, executionsById: { a: 1 } });
    expect(errors).toEqual([]);
  });

  it('the server’s own errors stay the SDK’s', async () => {
    const scene = await startServer();
    const { client } = await connect(scene);

    await expect(client.callTool({ name: 'none' })).rejects.toBeInstanceOf(ProtocolError);
  });

  it('a loss reaches the caller as our own object, and the next call goes out on a new session', async () => {
    const scene = await startServer();
    const { client, errors } = await connect(scene);
    scene.server.dropSessions();

    const failure = await failureOf(echo(client, 'lost'));

    expect(failure).toBeInstanceOf(HostedMcpError);
    expect(failure).toMatchObject({ code: 'ERR_SESSION_LOST', executed: false, retryable: true });
    await echo(client, 'after');
    expect(scene.server.counts).toMatchObject({ initializes: 2, executionsById: { after: 1 } });
    expect(errors).toEqual([]);
  });

  it('rejected calls make no noise in onerror, however many', async () => {
    const scene = await startServer();
    const { client, errors } = await connect(scene, {
      gates: [{ name: 'policy', before: () => ({ deny: 'no' }) }],
    });

    const failures = await Promise.all(
      Array.from({ length: 100 }, (_, call) => failureOf(echo(client, `${call}`))),
    );
    await scene.clock.settle();

    expect(failures.every(({ code }) => code === 'ERR_DENIED')).toBe(true);
    expect(errors).toEqual([]);
  });

  it('progress arrives for the caller who asked', async () => {
    const scene = await startServer();
    const { client } = await connect(scene);
    const seen: number[] = [];
    const done = client.callTool(
      { name: 'slow', arguments: { ms: 100 } },
      { onprogress: ({ progress }) => seen.push(progress) },
    );

    await scene.clock.advance(100);
    await done;

    expect(seen).toEqual([0, 50, 100]);
  });

  it('answers the server’s questions', async () => {
    const answers: unknown[] = [];
    const ask = async (_args: unknown, call: ToolCallContext) => {
      const requestedSchema = { type: 'object', properties: {} };
      answers.push(
        await call.request('elicitation/create', { message: 'Sure?', requestedSchema }),
        await call.request('roots/list'),
      );
      return 'asked';
    };
    const scene = await startServer({ tools: [{ name: 'ask', handler: ask }] });
    const { client, errors } = await connect(scene);
    client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: {} }));
    client.setRequestHandler('roots/list', () => ({ roots: [{ uri: 'file:///a' }] }));

    await client.callTool({ name: 'ask' });

    expect(answers).toMatchObject([{ action: 'accept' }, { roots: [{ uri: 'file:///a' }] }]);
    expect(errors).toEqual([]);
  });

  it('notifications of the server arrive', async () => {
    const scene = await startServer();
    const { client } = await connect(scene);
    const heard = vi.fn();
    client.setNotificationHandler('notifications/message', ({ params }) => heard(params.data));

    scene.server.notify('notifications/message', { level: 'info', data: 'hello' });
    await scene.clock.settle();

    expect(heard).toHaveBeenCalledExactlyOnceWith('hello');
  });

  it('a queued call that is taken back never reaches the wire, nor does its cancellation', async () => {
    const scene = await startServer();
    const { client, errors } = await connect(scene);
    scene.server.throttle(5_000);
    const first = echo(client, 'first');
    await scene.clock.settle();
    const caller = new AbortController();
    const queued = echo(client, 'queued', { signal: caller.signal }).catch(() => 'taken back');
    await scene.clock.settle();

    caller.abort();
    expect(await queued).toBe('taken back');
    await scene.clock.advance(6_000);
    await first;

    expect(scene.server.counts.executionsById).toEqual({ first: 1 });
    expect(methods(scene)).not.toContain('notifications/cancelled');
    expect(errors).toEqual([]);
  });

  it('a sent call that is taken back is cancelled once at the server', async () => {
    const scene = await startServer();
    const { client, errors } = await connect(scene);
    const caller = new AbortController();
    const sent = client
      .callTool({ name: 'slow', arguments: { ms: 1_000 } }, { signal: caller.signal })
      .catch(() => 'taken back');
    await scene.clock.advance(100);

    caller.abort();
    expect(await sent).toBe('taken back');
    await scene.clock.advance(2_000);

    expect(methods(scene).filter((method) => method === 'notifications/cancelled')).toHaveLength(1);
    expect(scene.server.counts.executions).toEqual({ slow: 1 });
    expect(errors).toEqual([]);
  });

  it('an AuthProvider’s token is read for each use; onUnauthorized is told once, and the call goes out again', async () => {
    const scene = await startServer();
    let current = scene.server.issueToken();
    const token = vi.fn(async () => current);
    const onUnauthorized = vi.fn(async () => {
      current = scene.server.issueToken();
    });
    const { client, errors } = await connect(scene, { authProvider: { token, onUnauthorized } });
    await echo(client, 'a');
    const reads = token.mock.calls.length;
    scene.server.expireTokens();

    await echo(client, 'b');

    expect(token.mock.calls.length).toBeGreaterThan(reads);
    expect(onUnauthorized).toHaveBeenCalledOnce();
    expect(scene.server.counts.executionsById).toEqual({ a: 1, b: 1 });
    expect(errors).toEqual([]);
  });

  it('an AuthProvider without a way to renew: a refusal is typed, once', async () => {
    const scene = await startServer();
    const token = scene.server.issueToken();
    const { client } = await connect(scene, { authProvider: { token: async () => token } });
    scene.server.expireTokens();

    expect(await failureOf(echo(client, 'a'))).toMatchObject({
      code: 'ERR_CREDENTIAL_REJECTED',
      executed: false,
    });
    expect(scene.server.log.filter((entry) => entry.tool === 'echo')).toHaveLength(1);
  });

  it('takes up a session after a restart without a handshake', async () => {
    const scene = await startServer();
    const first = await connect(scene);
    const { sessionId = '', protocolVersion = '' } = first.transport;
    await first.client.close();
    scene.server.reset();

    const { client } = await connect(scene, { sessionId, protocolVersion });
    await echo(client, 'resumed');

    expect(scene.server.counts).toMatchObject({ initializes: 0, executionsById: { resumed: 1 } });
  });

  it('close never rejects; a call under way ends as ERR_CLOSED', async () => {
    const scene = await startServer();
    const { client, transport } = await connect(scene);
    const sent = failureOf(client.callTool({ name: 'slow', arguments: { ms: 1_000 } }));
    await scene.clock.settle();

    await expect(client.close()).resolves.toBeUndefined();
    await expect(transport.close()).resolves.toBeUndefined();

    expect(await sent).toMatchObject({ code: 'ERR_CLOSED', executed: 'unknown' });
  });
});
