import { context, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { beforeEach, describe, expect, it } from 'vitest';
import type { HostedClientOptions } from '../../src/client.js';
import { HostedTransport } from '../../src/index.js';
import { otel } from '../../src/otel/index.js';
import type { Telemetry } from '../../src/telemetry.js';
import type { HostedServer } from '../../src/testing/index.js';
import { eventsOf, Sdk, traceparentOf, useContextManager } from '../unit/otel/support.js';
import { connectOver, stockClient } from './stock.js';
import { closeLater, connect, echo, failureOf, type Scene, startServer, user } from './support.js';

const CALL = { http: 'POST', method: 'tools/call' } as const;
const BUCKETS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300];

useContextManager();
let sdk: Sdk;
beforeEach(() => {
  sdk = new Sdk();
  closeLater(() => sdk.shutdown());
});

/** What the tools of a server have got in `_meta`, in order. */
function metaSeen(server: HostedServer): Record<string, unknown>[] {
  const seen: Record<string, unknown>[] = [];
  server.reply(CALL, {
    tool: 'run',
    status: 200,
    headers: { 'content-type': 'application/json' },
    body: ({ message, answer }) => {
      const { _meta } = (message?.params ?? {}) as { _meta?: Record<string, unknown> };
      seen.push(_meta ?? {});
      return answer;
    },
  });
  return seen;
}

function traced(scene: Scene, options: Partial<HostedClientOptions> = {}) {
  return connect(scene, { telemetry: otel(sdk.options), ...options });
}

/** The attributes of every span and metric of a connection. */
function about({ server }: Scene) {
  return {
    'network.transport': 'tcp',
    'network.protocol.name': 'http',
    'network.protocol.version': '1.1',
    'server.address': '127.0.0.1',
    'server.port': Number(new URL(server.url).port),
  };
}

describe('telemetry', () => {
  it('spans and metrics of calls around a recovery, within the spans of the app', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    const client = await traced(scene);
    const baggage = { tenant: { value: 'blue' } };
    await sdk.inSpan('step', () => echo(client, 'before'), baggage);
    await clock.advance(4_000);
    server.dropSessions();

    await sdk.inSpan('lossy step', () => failureOf(echo(client, 'lost')));
    await clock.advance(3_000);
    const seen = metaSeen(server);
    await sdk.inSpan('next step', () => echo(client, 'after'), baggage);

    expect(server.counts.executionsById).toEqual({ before: 1, after: 1 });
    expect(server.counts.initializes).toBe(2);
    const [before, lost, after] = sdk.named('tools/call echo');
    const call = {
      ...about(scene),
      'mcp.method.name': 'tools/call',
      'gen_ai.tool.name': 'echo',
      'gen_ai.operation.name': 'execute_tool',
      'mcp.protocol.version': '2025-11-25',
    };
    expect(before?.kind).toBe(SpanKind.CLIENT);
    expect(before?.status).toEqual({ code: SpanStatusCode.UNSET });
    expect(before?.attributes).toEqual({
      ...call,
      'jsonrpc.request.id': expect.stringMatching(/^\d+$/),
      'mcp_holdfast.attempts': 1,
      'mcp_holdfast.executed': 'true',
      'mcp_holdfast.session.number': 1,
    });
    expect(lost?.status).toEqual({
      code: SpanStatusCode.ERROR,
      message: expect.stringContaining('The server does not know the session any more.'),
    });
    expect(lost?.attributes).toMatchObject({
      'error.type': 'ERR_SESSION_LOST',
      'mcp_holdfast.executed': 'false',
      'mcp_holdfast.session.number': 1,
    });
    expect(lost?.attributes).not.toHaveProperty('rpc.response.status_code');
    expect(eventsOf(lost)).toEqual(['mcp_holdfast.session.lost']);
    expect(after?.attributes).toMatchObject({ 'mcp_holdfast.session.number': 2 });
    expect(after?.status).toEqual({ code: SpanStatusCode.UNSET });

    for (const [child, name] of [
      [before, 'step'],
      [lost, 'lossy step'],
      [after, 'next step'],
    ] as const) {
      const [parent] = sdk.named(name);
      expect(child?.parentSpanContext?.spanId).toBe(parent?.spanContext().spanId);
      expect(child?.spanContext().traceId).toBe(parent?.spanContext().traceId);
    }
    expect(seen).toEqual([
      {
        'mcp-holdfast/callId': 'after',
        traceparent: traceparentOf(after),
        baggage: 'tenant=blue',
        progressToken: expect.any(String),
      },
    ]);
    expect(sdk.named('initialize')).toHaveLength(1);
    expect(sdk.named('initialize')[0]?.attributes).toMatchObject({ 'mcp.protocol.version': '2025-11-25' });

    await clock.advance(5_000);
    await client.close();
    const metrics = await sdk.metrics();
    const operations = metrics['mcp.client.operation.duration'];
    expect(operations?.unit).toBe('s');
    const calls = operations?.points.filter((point) => point.attributes['gen_ai.tool.name'] === 'echo');
    expect(calls).toEqual([
      expect.objectContaining({
        attributes: call,
        value: expect.objectContaining({
          count: 2,
          buckets: { boundaries: BUCKETS, counts: expect.any(Array) },
        }),
      }),
      expect.objectContaining({
        attributes: { ...call, 'error.type': 'ERR_SESSION_LOST' },
        value: expect.objectContaining({ count: 1 }),
      }),
    ]);
    const sessions = metrics['mcp.client.session.duration'];
    const standing = { ...about(scene), 'mcp.protocol.version': '2025-11-25' };
    expect(sessions?.unit).toBe('s');
    expect(sessions?.points).toEqual([
      expect.objectContaining({
        attributes: { ...standing, 'error.type': 'ERR_SESSION_LOST' },
        value: expect.objectContaining({ count: 1, sum: 4 }),
      }),
      expect.objectContaining({
        attributes: standing,
        value: expect.objectContaining({ count: 1, sum: 8 }),
      }),
    ]);
    expect(metrics['mcp_holdfast.session.recoveries']?.points).toEqual([
      expect.objectContaining({
        attributes: { ...about(scene), 'mcp_holdfast.recovery.cause': 'server' },
        value: 1,
      }),
    ]);
  });

  it('one call that outlives its session is one span, with its waits, and one trace to both sessions', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    const client = await traced(scene, { retry: { safeTools: ['echo'] } });
    server.dropSessions();
    // The gateway is slow to say so, and the new session slow to come.
    server.replyOnce(
      { http: 'POST', method: 'initialize' },
      { status: 503, headers: { 'retry-after': '1' }, body: 'deploying' },
    );
    const seen = metaSeen(server);

    const calling = echo(client, 'safe');
    await clock.advance(20_000);
    await calling;

    const [span, ...others] = sdk.named('tools/call echo');
    expect(others).toEqual([]);
    expect(span?.status.code).toBe(SpanStatusCode.UNSET);
    expect(span?.attributes).toMatchObject({
      'mcp_holdfast.attempts': 2,
      'mcp_holdfast.session.number': 2,
    });
    expect(eventsOf(span)).toEqual([
      'mcp_holdfast.session.lost',
      'mcp_holdfast.session.replaced',
      'mcp_holdfast.session.wait',
    ]);
    const [lost, replaced, wait] = span?.events ?? [];
    expect(lost?.attributes).toEqual({ 'mcp_holdfast.session.number': 1 });
    expect(replaced?.attributes).toEqual({
      'mcp_holdfast.session.number': 2,
      'mcp_holdfast.session.previous_number': 1,
    });
    const waitedS = wait?.attributes?.['mcp_holdfast.wait.duration'] as number;
    expect(waitedS).toBeGreaterThan(0);
    expect(span?.duration[0] ?? 0).toBe(Math.floor(waitedS));
    expect(seen.map((meta) => meta.traceparent)).toEqual([traceparentOf(span)]);
    expect(server.counts.executionsById).toEqual({ safe: 1 });
  });

  it("a server's own errors: the code, and its words without secrets and without what the call said", async () => {
    const scene = await startServer({
      tools: [
        {
          name: 'pay',
          handler: ({ iban, amount, note }) => {
            const text = `cannot pay ${amount} to ${iban}: ${note}`;
            throw Object.assign(new Error(text), { code: -32050 });
          },
        },
        {
          name: 'fail',
          handler: () => {
            throw new Error('the tool says canary-result');
          },
        },
      ],
    });
    const client = await traced(scene);
    const note = `canary-note ${'x'.repeat(150)}`;
    const args = { iban: 'canary-iban-77', amount: 123_456, note };
    await expect(client.callTool({ name: 'pay', arguments: args })).rejects.toMatchObject({ code: -32050 });
    await client.callTool({ name: 'fail', arguments: {} });

    const [pay] = sdk.named('tools/call pay');
    expect(pay?.attributes).toMatchObject({ 'error.type': '-32050', 'rpc.response.status_code': '-32050' });
    expect(pay?.status).toEqual({ code: SpanStatusCode.ERROR, message: 'cannot pay … to …: …' });
    const [fail] = sdk.named('tools/call fail');
    expect(fail?.attributes['error.type']).toBe('tool_error');
    expect(fail?.attributes).not.toHaveProperty('rpc.response.status_code');
    expect(fail?.status).toEqual({ code: SpanStatusCode.ERROR });
    const { points = [] } = (await sdk.metrics())['mcp.client.operation.duration'] ?? {};
    expect(points.map(({ attributes }) => attributes['error.type']).filter(Boolean)).toEqual([
      '-32050',
      'tool_error',
    ]);
    expect(await sdk.everything()).not.toContain('canary');
  });

  it('nothing that is a secret leaves: token, session id, arguments, whatever the server says back', async () => {
    const scene = await startServer();
    const { server } = scene;
    const secrets = new Set(['canary-argument', 'canary-query', 'canary-user', server.client.secret]);
    const client = await traced(scene);
    for (const status of [200, 400, 403, 502]) {
      server.replyOnce(CALL, {
        status,
        body: ({ headers, message, sessionId = '' }) => {
          const token = (headers.authorization ?? '').replace('Bearer ', '');
          for (const secret of [token, sessionId]) secrets.add(secret);
          const told = `${token} ${sessionId} ${JSON.stringify(message?.params)} `;
          return { jsonrpc: '2.0', id: message?.id, error: { code: -32000, message: told } };
        },
      });
      await client.callTool({ name: 'echo', arguments: { text: 'canary-argument' } }).catch(() => {});
    }
    await client
      .readResource({ uri: 'file://canary-user:pw@host/a/b?key=canary-query#canary-query' })
      .catch(() => {});
    await client.close();

    expect(secrets.size).toBe(6);
    const all = await sdk.everything();
    for (const secret of secrets) {
      expect(secret.length).toBeGreaterThan(8);
      expect(all).not.toContain(secret);
    }
    // Something has left, or this shows nothing.
    expect(sdk.named('tools/call echo').map((span) => span.attributes['error.type'])).toContain('-32000');
    expect(sdk.named('resources/read')[0]?.attributes['mcp.resource.uri']).toBe('file://host/a/b');
    expect(all).not.toContain('mcp.session.id');
  });

  it.each(['fingerprint', 'plain'] as const)(
    'a session is named where that is asked for: %s',
    async (how) => {
      const scene = await startServer();
      const transport = new HostedTransport(scene.server.url, {
        clock: scene.clock,
        credentials: user(scene),
        telemetry: otel({ ...sdk.options, sessionId: how }),
      });
      const client = stockClient('v1');
      closeLater(() => client.close());
      await client.connect(transport as never);
      await client.ping();

      const id = transport.sessionId ?? '';
      const { fingerprint } = transport.connection.session ?? {};
      expect(id).not.toBe('');
      const [span] = sdk.named('ping');
      expect(span?.attributes['mcp.session.id']).toBe(how === 'plain' ? id : fingerprint);
      expect((await sdk.everything()).includes(id)).toBe(how === 'plain');
      expect(JSON.stringify(await sdk.metrics())).not.toContain('mcp.session.id');
    },
  );

  it.each(['v1', 'v2'] as const)(
    '%s: what the app wrote into _meta stays, and its message is not touched',
    async (face) => {
      const scene = await startServer();
      const seen = metaSeen(scene.server);
      const client = stockClient(face);
      await connectOver(scene, client, { telemetry: otel(sdk.options) });
      const own = { traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01` };
      const variants = [own, { tracestate: 'x=y' }, { baggage: 'mine=1' }, {}].map((_meta) =>
        Object.freeze({ name: 'echo', arguments: Object.freeze({ text: 'a' }), _meta: Object.freeze(_meta) }),
      );
      const before = JSON.stringify(variants);
      await sdk.inSpan(
        'app',
        async () => {
          for (const params of variants) await client.callTool(params);
        },
        { tenant: { value: 'blue' } },
      );

      const parents = sdk.named('tools/call echo').map(traceparentOf);
      expect(seen.map(({ traceparent, tracestate, baggage }) => [traceparent, tracestate, baggage])).toEqual([
        [own.traceparent, undefined, 'tenant=blue'],
        [undefined, 'x=y', 'tenant=blue'],
        [parents[2], undefined, 'mine=1'],
        [parents[3], undefined, 'tenant=blue'],
      ]);
      expect(JSON.stringify(variants)).toBe(before);
    },
  );

  it('a message handed to the transport itself is not changed, without _meta, without params, with a broken _meta', async () => {
    const scene = await startServer();
    const transport = new HostedTransport(scene.server.url, {
      clock: scene.clock,
      credentials: user(scene),
      telemetry: otel(sdk.options),
    });
    const client = stockClient('v1');
    closeLater(() => client.close());
    await client.connect(transport as never);
    const seen: unknown[] = [];
    scene.server.reply(
      { http: 'POST' },
      {
        tool: 'run',
        status: 200,
        headers: { 'content-type': 'application/json' },
        body: ({ message, answer }) => {
          seen.push(message?.params);
          return answer;
        },
      },
    );
    for (const params of [undefined, {}, { _meta: 'broken' }, { _meta: null }, { _meta: [] }]) {
      const message = Object.freeze({
        jsonrpc: '2.0',
        id: `x${seen.length}`,
        method: 'ping',
        ...(params !== undefined && { params: Object.freeze(params) }),
      });
      const text = JSON.stringify(message);
      await transport.send(message);
      expect(JSON.stringify(message)).toBe(text);
    }
    const parents = sdk.named('ping').map((span) => ({ _meta: { traceparent: traceparentOf(span) } }));
    expect(seen).toEqual([parents[0], parents[1], { _meta: 'broken' }, { _meta: null }, { _meta: [] }]);
  });

  it('waits for a refresh and for the rate limit stand on the span, and are counted', async () => {
    const scene = await startServer({ tokenDelayMs: 700 });
    const { server, clock } = scene;
    const connecting = traced(scene, {
      credentials: user(scene),
      rateLimit: { limit: 6, intervalMs: 10_000 },
    });
    await clock.advance(2_000);
    const client = await connecting;
    await clock.advance(10_000);
    server.expireTokens();

    const stale = echo(client, 'stale');
    await clock.advance(2_000);
    await stale;
    const crowd = Promise.all(['a', 'b', 'c', 'd', 'e', 'f', 'g'].map((id) => echo(client, id)));
    await clock.advance(30_000);
    await crowd;

    expect(server.counts.executions).toEqual({ echo: 8 });
    const spans = sdk.named('tools/call echo');
    const [first] = spans;
    expect(first?.attributes).toMatchObject({ 'mcp_holdfast.attempts': 2 });
    expect(eventsOf(first)).toContain('mcp_holdfast.credential.wait');
    const wait = first?.events.find((event) => event.name === 'mcp_holdfast.credential.wait');
    expect(wait?.attributes).toEqual({ 'mcp_holdfast.wait.duration': 0.7 });
    const waited = spans.filter((span) => eventsOf(span).includes('mcp_holdfast.rate_limit.wait'));
    expect(waited.length).toBeGreaterThan(0);
    const metrics = await sdk.metrics();
    expect(metrics['mcp_holdfast.rate_limit.wait.duration']).toMatchObject({
      unit: 's',
      points: [{ attributes: about(scene), value: { count: waited.length } }],
    });
    const refreshes = metrics['mcp_holdfast.credential.refreshes']?.points ?? [];
    expect(refreshes).toEqual([
      expect.objectContaining({
        attributes: { ...about(scene), 'mcp_holdfast.credential.outcome': 'refreshed' },
        value: server.counts.tokenRequests,
      }),
    ]);
  });

  it('a refresh that fails is counted by its code', async () => {
    const scene = await startServer();
    const client = await traced(scene, { credentials: user(scene) });
    scene.server.failTokenEndpoint({ status: 400, body: { error: 'invalid_grant' } });
    scene.server.revokeTokens();
    const failure = await failureOf(echo(client, 'a'));
    expect(failure.code).toBe('ERR_REAUTHORIZATION_REQUIRED');
    const { points = [] } = (await sdk.metrics())['mcp_holdfast.credential.refreshes'] ?? {};
    expect(points.find(({ attributes }) => 'error.type' in attributes)?.attributes).toEqual({
      ...about(scene),
      'mcp_holdfast.credential.outcome': 'failed',
      'error.type': 'ERR_REAUTHORIZATION_REQUIRED',
    });
    expect(sdk.named('tools/call echo')[0]?.attributes['error.type']).toBe('ERR_REAUTHORIZATION_REQUIRED');
  });

  it('an answer that was cut off and resumed: both on the span; the cuts of either stream are counted', async () => {
    const scene = await startServer({ answer: 'sse', eventStore: true });
    const { server, clock } = scene;
    const client = await traced(scene, { streams: { listen: true } });
    await clock.settle();
    const slow = client.callTool({ name: 'slow', arguments: { ms: 5_000 } });
    await clock.advance(1_000);
    server.cutStreams('fin');
    await clock.advance(30_000);
    await slow;

    const [span] = sdk.named('tools/call slow');
    expect(span?.status.code).toBe(SpanStatusCode.UNSET);
    expect(eventsOf(span)).toEqual(['mcp_holdfast.stream.cut', 'mcp_holdfast.stream.resumed']);
    expect(span?.events[0]?.attributes).toMatchObject({ 'mcp_holdfast.stream.age': 1 });
    const { points = [] } = (await sdk.metrics())['mcp_holdfast.stream.cuts'] ?? {};
    const kinds = points.map(({ attributes, value }) => [attributes['mcp_holdfast.stream.kind'], value]);
    expect(kinds.sort()).toEqual([
      ['listen', 1],
      ['response', 1],
    ]);
    expect(server.counts.executions).toEqual({ slow: 1 });
  });

  it("a session that goes with the token is a recovery of the credential's, not a loss", async () => {
    const scene = await startServer({ bindSession: 'token' });
    const { clock } = scene;
    const client = await traced(scene, { session: { boundToToken: true } });
    await echo(client, 'a');
    await clock.advance(70_000);
    await echo(client, 'b');
    const metrics = await sdk.metrics();
    const causes = metrics['mcp_holdfast.session.recoveries']?.points.map(({ attributes }) => attributes);
    expect(causes).toEqual([{ ...about(scene), 'mcp_holdfast.recovery.cause': 'credential' }]);
    const ended = metrics['mcp.client.session.duration']?.points ?? [];
    expect(ended.map(({ attributes }) => attributes['error.type'])).toEqual([undefined]);
    expect(sdk.spans.filter((span) => span.status.code === SpanStatusCode.ERROR)).toEqual([]);
  });

  it('what runs on the way of a call sees its span: gates, and whatever watches HTTP', async () => {
    const scene = await startServer();
    const active: unknown[] = [];
    const client = await traced(scene, {
      gates: [
        {
          name: 'door',
          before: () => {
            active.push(trace.getSpan(context.active())?.spanContext().spanId);
            return 'allow';
          },
        },
      ],
    });
    await Promise.all([echo(client, 'a'), echo(client, 'b')]);
    const ids = sdk.named('tools/call echo').map((span) => span.spanContext().spanId);
    expect(active.sort()).toEqual(ids.sort());
    expect(new Set(ids).size).toBe(2);
  });

  it('a call to what is closed, and one that was given up, end their spans', async () => {
    const scene = await startServer();
    const client = await traced(scene);
    const controller = new AbortController();
    scene.server.replyOnce(CALL, { silence: true });
    const aborted = failureOf(echo(client, 'aborted', { signal: controller.signal }));
    await scene.clock.settle();
    controller.abort();
    await aborted;
    await client.connection.close();
    await failureOf(echo(client, 'closed'));
    expect(sdk.named('tools/call echo').map((span) => span.attributes['error.type'])).toEqual([
      'ERR_ABORTED',
      'ERR_CLOSED',
    ]);
    expect(sdk.named('tools/call echo').map((span) => span.attributes['mcp_holdfast.executed'])).toEqual([
      'unknown',
      'false',
    ]);
  });

  it('a session taken up after a restart is measured from there; rest ends it', async () => {
    const scene = await startServer();
    const options = { clock: scene.clock, credentials: user(scene), streams: { listen: false } } as const;
    const first = new HostedTransport(scene.server.url, options);
    const client = stockClient('v1');
    await client.connect(first as never);
    const sessionId = first.sessionId as string;
    await client.close();

    const second = new HostedTransport(scene.server.url, {
      ...options,
      sessionId,
      telemetry: otel(sdk.options),
    });
    closeLater(() => second.close());
    await second.start();
    await scene.clock.advance(3_000);
    await second.terminateSession();
    const { points = [] } = (await sdk.metrics())['mcp.client.session.duration'] ?? {};
    expect(points).toMatchObject([{ value: { count: 1, sum: 3 } }]);
  });

  it("a telemetry of one's own is told what stands in its interface, and a session id only where it asks", async () => {
    for (const wantsSessionId of [undefined, false, true]) {
      const scene = await startServer();
      const told: unknown[] = [];
      const telemetry: Telemetry = {
        wantsSessionId,
        connection(server) {
          told.push(server);
          return {
            event: (event) => told.push(event),
            request(request) {
              told.push(request);
              return {
                context: { 'my-trace': 'my-value' },
                within: (fn) => fn(),
                event: (event) => told.push(event),
                end: (end) => told.push(end),
              };
            },
          };
        },
      };
      const transport = new HostedTransport(scene.server.url, {
        clock: scene.clock,
        credentials: user(scene),
        telemetry,
      });
      const client = stockClient('v1');
      closeLater(() => client.close());
      await client.connect(transport as never);
      const id = transport.sessionId as string;
      const seen = metaSeen(scene.server);
      await client.callTool({ name: 'echo', arguments: { text: 'canary-argument' } });

      expect(seen).toEqual([{ 'my-trace': 'my-value', progressToken: expect.any(String) }]);
      const text = JSON.stringify(told);
      expect(text).toContain('"tool":"echo"');
      expect(text).toContain('"attempts":1');
      expect(text).not.toContain('canary');
      expect(text.includes(id)).toBe(wantsSessionId === true);
    }
  });

  it('a telemetry that throws, or does nothing that it is asked for, harms no call', async () => {
    const boom = (): never => {
      throw new Error('boom');
    };
    const throwing = (what: 'request' | 'parts' | 'late'): Telemetry => ({
      connection: () => ({
        event: boom,
        request:
          what === 'request'
            ? boom
            : () => ({
                get context(): never {
                  return boom();
                },
                within:
                  what === 'late'
                    ? (fn) => {
                        fn();
                        fn();
                        boom();
                      }
                    : boom,
                event: boom,
                end: boom,
              }),
      }),
    });
    const silent: Telemetry = {
      connection: () => ({
        event() {},
        request: () => ({ context: {}, within() {}, event() {}, end() {} }),
      }),
    };
    for (const telemetry of [throwing('request'), throwing('parts'), throwing('late'), silent]) {
      const scene = await startServer();
      const client = await connect(scene, { telemetry, retry: { safeTools: ['echo'] } });
      await echo(client, 'a');
      scene.server.dropSessions();
      await echo(client, 'b');
      expect(scene.server.counts.executionsById).toEqual({ a: 1, b: 1 });
      await client.close();
    }
  });

  it('without it nothing goes into _meta', async () => {
    const scene = await startServer();
    const seen = metaSeen(scene.server);
    const client = await connect(scene);
    await sdk.inSpan('app', () => echo(client, 'a'));
    expect(seen).toEqual([{ 'mcp-holdfast/callId': 'a', progressToken: expect.any(String) }]);
    expect(sdk.spans.map((span) => span.name)).toEqual(['app']);
  });

  it('refuses what is no telemetry, and what is no option of otel, by name', () => {
    const make = (telemetry: unknown) => () =>
      new HostedTransport('http://127.0.0.1:1/mcp', { telemetry: telemetry as Telemetry });
    for (const none of [{}, null, 'otel', { connection: true }])
      expect(make(none)).toThrow(/^telemetry must have the method connection/);
    expect(() => otel({ tracerProvider: {} as never })).toThrow(/otel\.tracerProvider/);
    expect(() => otel({ meterProvider: null as never })).toThrow(/otel\.meterProvider/);
    expect(() => otel({ propagator: 'w3c' as never })).toThrow(/otel\.propagator/);
    expect(() => otel({ sessionId: true as never })).toThrow(/otel\.sessionId/);
    expect(() => otel({ sesionId: 'plain' } as never)).toThrow(/otel\.sesionId is not an option/);
  });
});
