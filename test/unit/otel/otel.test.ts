import { context, metrics, propagation, SpanStatusCode, trace } from '@opentelemetry/api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ATTRIBUTE, EVENT, METRIC } from '../../../src/otel/conventions.js';
import { otel } from '../../../src/otel/index.js';
import type { ConnectionTelemetry, TelemetryEnd, TelemetryServer } from '../../../src/telemetry.js';
import { eventsOf, Sdk, traceparentOf } from './support.js';

const SERVER: TelemetryServer = { transport: 'tcp', address: 'mcp.example.com', port: 443 };
const START = 1_767_225_600_000;
const END: TelemetryEnd = { durationMs: 1_250, executed: true, attempts: 1 };

let sdk: Sdk;
beforeEach(() => {
  sdk = new Sdk();
});
afterEach(async () => {
  trace.disable();
  metrics.disable();
  propagation.disable();
  await sdk.shutdown();
});

function ping(connection: ConnectionTelemetry, startedAtMs = START) {
  const request = connection.request({ requestId: 1, method: 'ping', startedAtMs });
  if (request === undefined) throw new Error('no request');
  return request;
}

describe('otel()', () => {
  it('takes its times from the connection, to the millisecond, whatever the clock began with', () => {
    const connection = otel(sdk.options).connection(SERVER);
    for (const startedAtMs of [START + 1.5, 5, 0]) {
      const request = ping(connection, startedAtMs);
      request.event({ type: 'credential-wait', durationMs: 40 }, startedAtMs + 250);
      request.end(END);
    }
    const times = sdk.spans.map(({ startTime, endTime, events, duration }) => [
      startTime,
      endTime,
      events[0]?.time,
      duration,
    ]);
    expect(times).toEqual([
      [
        [1_767_225_600, 1_500_000],
        [1_767_225_601, 251_500_000],
        [1_767_225_600, 251_500_000],
        [1, 250_000_000],
      ],
      [
        [0, 5_000_000],
        [1, 255_000_000],
        [0, 255_000_000],
        [1, 250_000_000],
      ],
      [
        [0, 0],
        [1, 250_000_000],
        [0, 250_000_000],
        [1, 250_000_000],
      ],
    ]);
  });

  it.each([
    [
      'tools/call',
      { tool: 'search' },
      'tools/call search',
      { 'gen_ai.tool.name': 'search', 'gen_ai.operation.name': 'execute_tool' },
    ],
    ['prompts/get', { prompt: 'review' }, 'prompts/get review', { 'gen_ai.prompt.name': 'review' }],
    ['resources/read', { resourceUri: 'file:///a' }, 'resources/read', { 'mcp.resource.uri': 'file:///a' }],
    ['tools/list', {}, 'tools/list', {}],
  ] as const)('%s: named, and described, after the conventions', async (method, parts, name, attributes) => {
    const connection = otel(sdk.options).connection(SERVER);
    connection.request({ requestId: 'a-7', method, startedAtMs: START, ...parts })?.end(END);
    const common = {
      'mcp.method.name': method,
      'network.transport': 'tcp',
      'network.protocol.name': 'http',
      'server.address': 'mcp.example.com',
      'server.port': 443,
    };
    const [span] = sdk.spans;
    expect(span?.name).toBe(name);
    expect(span?.attributes).toEqual({
      ...common,
      ...attributes,
      'jsonrpc.request.id': 'a-7',
      'mcp_holdfast.attempts': 1,
      'mcp_holdfast.executed': 'true',
    });
    // What has a value of its own for each request is no attribute of a metric.
    const { 'mcp.resource.uri': _, ...few } = { 'mcp.resource.uri': '', ...attributes };
    expect((await sdk.metrics())[METRIC.operation]?.points.map((point) => point.attributes)).toEqual([
      { ...common, ...few },
    ]);
  });

  it('a local process has no address and no HTTP', () => {
    ping(otel(sdk.options).connection({ transport: 'pipe' })).end(END);
    expect(sdk.spans[0]?.attributes).toEqual({
      'mcp.method.name': 'ping',
      'network.transport': 'pipe',
      'jsonrpc.request.id': '1',
      'mcp_holdfast.attempts': 1,
      'mcp_holdfast.executed': 'true',
    });
  });

  it('a failure is an error status with its type; nothing else is', () => {
    const connection = otel(sdk.options).connection(SERVER);
    ping(connection).end(END);
    ping(connection).end({ ...END, failure: { type: 'ERR_TIMEOUT', description: 'Late.' } });
    ping(connection).end({ ...END, failure: { type: '-32601', rpcCode: -32601 } });
    expect(
      sdk.spans.map(({ status, attributes }) => [
        status,
        attributes[ATTRIBUTE.error],
        attributes[ATTRIBUTE.rpcStatus],
      ]),
    ).toEqual([
      [{ code: SpanStatusCode.UNSET }, undefined, undefined],
      [{ code: SpanStatusCode.ERROR, message: 'Late.' }, 'ERR_TIMEOUT', undefined],
      [{ code: SpanStatusCode.ERROR }, '-32601', '-32601'],
    ]);
  });

  it.each([
    [undefined, undefined],
    ['fingerprint', 'f1'],
    ['plain', 'the-id'],
  ] as const)('sessionId %s: the span shows %s, a metric never', async (sessionId, shown) => {
    const telemetry = otel({ ...sdk.options, sessionId });
    expect(telemetry.wantsSessionId).toBe(sessionId === 'plain');
    ping(telemetry.connection(SERVER)).end({ ...END, session: 3, fingerprint: 'f1', sessionId: 'the-id' });
    expect(sdk.spans[0]?.attributes[ATTRIBUTE.sessionId]).toBe(shown);
    expect(JSON.stringify(await sdk.metrics())).not.toMatch(/the-id|f1/);
  });

  it('every kind of event has a name of ours, and says when', () => {
    const request = ping(otel(sdk.options).connection(SERVER));
    request.event({ type: 'session-lost', session: 1 }, START);
    request.event({ type: 'session-replaced', previous: 1, current: 2 }, START);
    request.event({ type: 'session-wait', durationMs: 10 }, START);
    request.event({ type: 'credential-wait', durationMs: 10 }, START);
    request.event({ type: 'rate-wait', durationMs: 10 }, START);
    request.event({ type: 'stream-cut', ageMs: 2_000, idleMs: 1_000 }, START);
    request.event({ type: 'stream-resumed' }, START);
    request.end(END);
    const [span] = sdk.spans;
    expect(eventsOf(span)).toEqual(Object.values(EVENT));
    expect(span?.events[5]?.attributes).toEqual({ [ATTRIBUTE.ageS]: 2, [ATTRIBUTE.idleS]: 1 });
  });

  it('connections share the instruments: two of one server are one point', async () => {
    const telemetry = otel(sdk.options);
    for (let each = 0; each < 2; each++) {
      const connection = telemetry.connection(SERVER);
      ping(connection).end(END);
      connection.event({ type: 'session-ended', durationMs: 90_000, protocolVersion: 'x', lost: false });
      connection.event({ type: 'credential-adopted' });
      connection.event({ type: 'stream-cut', stream: 'listen' });
      connection.event({ type: 'session-replaced', cause: 'server' });
      ping(connection).event({ type: 'rate-wait', durationMs: 500 }, START);
    }
    const found = await sdk.metrics();
    expect(Object.keys(found).sort()).toEqual(Object.values(METRIC).sort());
    const counts = Object.values(found).map(({ points }) =>
      points.map(({ value }) => (typeof value === 'number' ? value : (value as { count: number }).count)),
    );
    expect(counts).toEqual(Object.values(METRIC).map(() => [2]));
  });

  it('uses what is registered globally: a meter provider as of the first connection, a tracer provider even later', async () => {
    const telemetry = otel();
    metrics.setGlobalMeterProvider(sdk.meterProvider);
    const connection = telemetry.connection(SERVER);
    trace.setGlobalTracerProvider(sdk.tracerProvider);
    propagation.setGlobalPropagator(sdk.propagator);
    const request = ping(connection);
    request.end(END);
    expect(sdk.spans.map((span) => span.name)).toEqual(['ping']);
    expect(request.context).toEqual({ traceparent: traceparentOf(sdk.spans[0]) });
    expect((await sdk.metrics())[METRIC.operation]?.points).toHaveLength(1);
  });

  it('without any SDK it does nothing, and calls run all the same', () => {
    const request = ping(otel().connection(SERVER));
    let ran = 0;
    request.within(() => {
      ran += 1;
    });
    request.event({ type: 'stream-resumed' }, START);
    request.end(END);
    expect(ran).toBe(1);
    expect(request.context).toEqual({});
    expect(trace.getSpan(context.active())).toBeUndefined();
  });

  it('the propagator is asked once a request, with the span of that request', () => {
    const asked: string[] = [];
    const propagator: NonNullable<Parameters<typeof otel>[0]>['propagator'] = {
      inject(active, carrier, setter) {
        const id = trace.getSpanContext(active)?.spanId ?? '';
        asked.push(id);
        setter.set(carrier, 'uber-trace-id', id);
      },
    };
    const connection = otel({ ...sdk.options, propagator }).connection(SERVER);
    const contexts = [ping(connection), ping(connection)].map((request) => {
      request.end(END);
      return request.context;
    });
    const ids = sdk.spans.map((span) => span.spanContext().spanId);
    expect(asked).toEqual(ids);
    expect(contexts).toEqual(ids.map((id) => ({ 'uber-trace-id': id })));
  });
});
