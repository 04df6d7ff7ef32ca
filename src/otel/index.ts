/**
 * `mcp-holdfast/otel`: spans, metrics and trace context by OpenTelemetry, for the option `telemetry`.
 *
 * Guarantees that nothing is exported which is a secret here: no token, no argument, no result, a session id only
 * where it is asked for. Needs `@opentelemetry/api` and nothing else of OpenTelemetry; never starts an SDK.
 */
import {
  type Attributes,
  type MeterProvider,
  metrics,
  propagation,
  type TextMapPropagator,
  type Tracer,
  type TracerProvider,
  trace,
} from '@opentelemetry/api';
import { OptionReader } from '../option-reader.js';
import type { ConnectionTelemetry, Telemetry, TelemetryEvent, TelemetryServer } from '../telemetry.js';
import { ATTRIBUTE } from './conventions.js';
import { type Instruments, makeInstruments } from './instruments.js';
import { RequestSpan } from './request-span.js';

export type { Telemetry } from '../telemetry.js';

export interface OtelOptions {
  /** The globally registered one by default. */
  tracerProvider?: TracerProvider | undefined;
  /** The globally registered one by default, as it is when a connection is made. */
  meterProvider?: MeterProvider | undefined;
  /**
   * What writes the trace context into `params._meta`; the globally configured one by default. The server is
   * somebody else's: `new W3CTraceContextPropagator()` keeps your baggage at home.
   */
  propagator?: Pick<TextMapPropagator, 'inject'> | undefined;
  /**
   * What `mcp.session.id` of a span holds. Nothing by default: whoever knows a session's id may be able to use the session.
   * `'fingerprint'` tells sessions of a connection apart; `'plain'` is the id, as the server's own logs have it.
   */
  sessionId?: 'fingerprint' | 'plain' | undefined;
}

const SCOPE = 'mcp-holdfast';

/**
 * ```ts
 * new HostedClient(info, { url, credentials, telemetry: otel() });
 * ```
 *
 * One client span for each JSON-RPC request, named `tools/call search`, a child of what is active where the call is made;
 * `mcp.client.operation.duration` and `mcp.client.session.duration`; counters of refreshes, recoveries and cuts. Names are
 * those of the semantic conventions for MCP (status: Development), else begin with `mcp_holdfast.`. One may serve
 * any number of connections. Throws `TypeError` for an option that cannot be used.
 */
export function otel(options: OtelOptions = {}): Telemetry {
  const read = new OptionReader('otel', options);
  const tracerProvider = provider<TracerProvider>(read.any('tracerProvider'), 'tracerProvider', 'getTracer');
  const meterProvider = provider<MeterProvider>(read.any('meterProvider'), 'meterProvider', 'getMeter');
  const propagator = provider<TextMapPropagator>(read.any('propagator'), 'propagator', 'inject');
  const sessionId = read.oneOf('sessionId', ['fingerprint', 'plain'] as const);
  read.done();
  const tracer: Tracer = (tracerProvider ?? trace).getTracer(SCOPE);
  let instruments: Instruments | undefined;
  return {
    wantsSessionId: sessionId === 'plain',
    connection(server) {
      // Late: a global provider that is registered after its meters were asked for has no part in them.
      instruments ??= makeInstruments((meterProvider ?? metrics).getMeter(SCOPE));
      const attributes = serverAttributes(server);
      const parts = {
        tracer,
        instruments,
        attributes,
        sessionId,
        propagator: propagator ?? propagation,
      };
      return new OtelConnection(instruments, attributes, (request) => new RequestSpan(parts, request));
    },
  };
}

class OtelConnection implements ConnectionTelemetry {
  readonly #instruments: Instruments;
  readonly #attributes: Attributes;
  readonly request: ConnectionTelemetry['request'];

  constructor(instruments: Instruments, attributes: Attributes, request: ConnectionTelemetry['request']) {
    this.#instruments = instruments;
    this.#attributes = attributes;
    this.request = request;
  }

  event(event: TelemetryEvent): void {
    const { session, recoveries, refreshes, cuts } = this.#instruments;
    const about = (attributes: Attributes): Attributes => ({ ...this.#attributes, ...attributes });
    switch (event.type) {
      case 'session-ended':
        session.record(
          event.durationMs / 1000,
          about({
            [ATTRIBUTE.protocolVersion]: event.protocolVersion,
            ...(event.lost && { [ATTRIBUTE.error]: 'ERR_SESSION_LOST' }),
          }),
        );
        break;
      case 'session-replaced':
        recoveries.add(1, about({ [ATTRIBUTE.recoveryCause]: event.cause }));
        break;
      case 'stream-cut':
        cuts.add(1, about({ [ATTRIBUTE.stream]: event.stream }));
        break;
      case 'credential-failed':
        refreshes.add(1, about({ [ATTRIBUTE.credentialOutcome]: 'failed', [ATTRIBUTE.error]: event.code }));
        break;
      default:
        refreshes.add(1, about({ [ATTRIBUTE.credentialOutcome]: event.type.slice('credential-'.length) }));
    }
  }
}

function serverAttributes({ transport, address, port, httpVersion }: TelemetryServer): Attributes {
  return {
    [ATTRIBUTE.transport]: transport,
    ...(transport === 'tcp' && { [ATTRIBUTE.protocolName]: 'http' }),
    ...(httpVersion !== undefined && { [ATTRIBUTE.networkVersion]: httpVersion }),
    ...(address !== undefined && { [ATTRIBUTE.address]: address }),
    ...(port !== undefined && { [ATTRIBUTE.port]: port }),
  };
}

function provider<P>(value: unknown, name: string, method: string): P | undefined {
  if (value === undefined) return undefined;
  if (typeof (value as Record<string, unknown> | null)?.[method] !== 'function')
    throw new TypeError(`otel.${name} must have the method ${method}()`);
  return value as P;
}
