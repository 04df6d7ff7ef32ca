/**
 * One request as a client span and a measurement.
 *
 * Guarantees that the span's parent is what was active where the request was handed in, that it has a status ERROR
 * exactly where it has an `error.type`, and that what differs from one request to the next is on the span alone, not
 * on the metric. Never reads a clock: the connection's own says when.
 */
import {
  type Attributes,
  type Context,
  context,
  defaultTextMapSetter,
  type HrTime,
  type Span,
  SpanKind,
  SpanStatusCode,
  type TextMapPropagator,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import type {
  RequestTelemetry,
  TelemetryEnd,
  TelemetryRequest,
  TelemetryRequestEvent,
} from '../telemetry.js';
import { ATTRIBUTE, EVENT, EXECUTE_TOOL } from './conventions.js';
import type { Instruments } from './instruments.js';

export interface RequestSpanParts {
  readonly tracer: Tracer;
  readonly instruments: Instruments;
  readonly propagator: Pick<TextMapPropagator, 'inject'>;
  /** Of the connection. */
  readonly attributes: Attributes;
  /** What `mcp.session.id` holds, if anything. */
  readonly sessionId: 'fingerprint' | 'plain' | undefined;
}

export class RequestSpan implements RequestTelemetry {
  readonly context: Readonly<Record<string, string>>;
  readonly #parts: RequestSpanParts;
  readonly #span: Span;
  readonly #active: Context;
  readonly #startedAtMs: number;
  /** Few values each: fit for a metric. */
  readonly #attributes: Attributes;

  constructor(parts: RequestSpanParts, request: TelemetryRequest) {
    const { requestId, method, tool, prompt, resourceUri, startedAtMs } = request;
    this.#parts = parts;
    this.#startedAtMs = startedAtMs;
    this.#attributes = {
      ...parts.attributes,
      [ATTRIBUTE.method]: method,
      ...(tool !== undefined && { [ATTRIBUTE.tool]: tool, [ATTRIBUTE.operation]: EXECUTE_TOOL }),
      ...(prompt !== undefined && { [ATTRIBUTE.prompt]: prompt }),
    };
    const target = tool ?? prompt;
    const parent = context.active();
    this.#span = parts.tracer.startSpan(
      target === undefined ? method : `${method} ${target}`,
      {
        kind: SpanKind.CLIENT,
        startTime: hrTime(startedAtMs),
        attributes: {
          ...this.#attributes,
          [ATTRIBUTE.requestId]: String(requestId),
          ...(resourceUri !== undefined && { [ATTRIBUTE.resourceUri]: resourceUri }),
        },
      },
      parent,
    );
    this.#active = trace.setSpan(parent, this.#span);
    const carrier: Record<string, string> = {};
    parts.propagator.inject(this.#active, carrier, defaultTextMapSetter);
    this.context = carrier;
  }

  within(fn: () => void): void {
    context.with(this.#active, fn);
  }

  event(event: TelemetryRequestEvent, atMs: number): void {
    if (event.type === 'rate-wait')
      this.#parts.instruments.rateWait.record(event.durationMs / 1000, this.#parts.attributes, this.#active);
    this.#span.addEvent(EVENT[event.type], eventAttributes(event), hrTime(atMs));
  }

  end(end: TelemetryEnd): void {
    const { durationMs, protocolVersion, failure } = end;
    const atEnd: Attributes = {
      ...(protocolVersion !== undefined && { [ATTRIBUTE.protocolVersion]: protocolVersion }),
      ...(failure !== undefined && { [ATTRIBUTE.error]: failure.type }),
      ...(failure?.rpcCode !== undefined && { [ATTRIBUTE.rpcStatus]: String(failure.rpcCode) }),
    };
    const { instruments } = this.#parts;
    instruments.operation.record(durationMs / 1000, { ...this.#attributes, ...atEnd }, this.#active);
    this.#span.setAttributes({ ...atEnd, ...this.#ofSpanAlone(end) });
    if (failure !== undefined)
      this.#span.setStatus({
        code: SpanStatusCode.ERROR,
        ...(failure.description !== undefined && { message: failure.description }),
      });
    this.#span.end(hrTime(this.#startedAtMs + durationMs));
  }

  #ofSpanAlone({ attempts, executed, session, sessionId, fingerprint }: TelemetryEnd): Attributes {
    const shown = { fingerprint, plain: sessionId }[this.#parts.sessionId ?? 'plain'];
    return {
      [ATTRIBUTE.attempts]: attempts,
      [ATTRIBUTE.executed]: String(executed),
      ...(session !== undefined && { [ATTRIBUTE.session]: session }),
      ...(this.#parts.sessionId !== undefined && shown !== undefined && { [ATTRIBUTE.sessionId]: shown }),
    };
  }
}

function eventAttributes(event: TelemetryRequestEvent): Attributes {
  switch (event.type) {
    case 'session-lost':
      return { [ATTRIBUTE.session]: event.session };
    case 'session-replaced':
      return { [ATTRIBUTE.session]: event.current, [ATTRIBUTE.previousSession]: event.previous };
    case 'session-wait':
    case 'credential-wait':
    case 'rate-wait':
      return { [ATTRIBUTE.waitS]: event.durationMs / 1000 };
    case 'stream-cut':
      return { [ATTRIBUTE.ageS]: event.ageMs / 1000, [ATTRIBUTE.idleS]: event.idleMs / 1000 };
    default:
      return {};
  }
}

/** As a pair, since a bare number is taken for one of another clock where it is small. */
function hrTime(epochMs: number): HrTime {
  const seconds = Math.floor(epochMs / 1000);
  return [seconds, Math.round((epochMs - seconds * 1000) * 1e6)];
}
