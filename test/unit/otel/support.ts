/**
 * OpenTelemetry's SDK with its in-memory exporters, and what they have got.
 */
import { type BaggageEntry, context, propagation, ROOT_CONTEXT, type Span, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { CompositePropagator, W3CBaggagePropagator, W3CTraceContextPropagator } from '@opentelemetry/core';
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { afterAll, beforeAll } from 'vitest';

/** The active context follows promises, as in an app with OpenTelemetry's Node SDK. */
export function useContextManager(): void {
  beforeAll(() => {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  });
  afterAll(() => {
    context.disable();
  });
}

export interface Point {
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly value: unknown;
}

export class Sdk {
  readonly exported = new InMemorySpanExporter();
  readonly tracerProvider = new BasicTracerProvider({
    spanProcessors: [new SimpleSpanProcessor(this.exported)],
  });
  readonly propagator = new CompositePropagator({
    propagators: [new W3CTraceContextPropagator(), new W3CBaggagePropagator()],
  });
  readonly #metrics = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  readonly #reader = new PeriodicExportingMetricReader({
    exporter: this.#metrics,
    exportIntervalMillis: 1_000_000,
  });
  readonly meterProvider = new MeterProvider({ readers: [this.#reader] });

  /** Options for `otel()`. */
  get options() {
    const { tracerProvider, meterProvider, propagator } = this;
    return { tracerProvider, meterProvider, propagator };
  }

  get spans(): ReadableSpan[] {
    return this.exported.getFinishedSpans();
  }

  /** The spans of this name, in the order of their ends. */
  named(name: string): ReadableSpan[] {
    return this.spans.filter((span) => span.name === name);
  }

  /** Runs `fn` within a span of the app's own, and with baggage. */
  async inSpan<T>(name: string, fn: (span: Span) => Promise<T>, baggage?: Record<string, BaggageEntry>) {
    const span = this.tracerProvider.getTracer('app').startSpan(name);
    let active = trace.setSpan(ROOT_CONTEXT, span);
    if (baggage !== undefined) active = propagation.setBaggage(active, propagation.createBaggage(baggage));
    try {
      return await context.with(active, () => fn(span));
    } finally {
      span.end();
    }
  }

  /** All points of each metric, as the reader has them now. */
  async metrics(): Promise<Record<string, { unit: string; points: Point[] }>> {
    this.#metrics.reset();
    await this.#reader.forceFlush();
    const found: Record<string, { unit: string; points: Point[] }> = {};
    for (const { scopeMetrics } of this.#metrics.getMetrics())
      for (const { metrics } of scopeMetrics)
        for (const { descriptor, dataPoints } of metrics)
          found[descriptor.name] = { unit: descriptor.unit, points: dataPoints as Point[] };
    return found;
  }

  /** Everything that has left, as text. */
  async everything(): Promise<string> {
    const spans = this.spans.map(({ name, attributes, events, links, status, resource, kind }) => ({
      ...{ name, attributes, events, links, status, kind },
      resource: resource.attributes,
    }));
    return JSON.stringify([spans, await this.metrics()]);
  }

  async shutdown(): Promise<void> {
    await this.tracerProvider.shutdown();
    await this.meterProvider.shutdown();
  }
}

/** The names of a span's events, in order. */
export function eventsOf(span: ReadableSpan | undefined): string[] {
  return (span?.events ?? []).map((event) => event.name);
}

/** What `traceparent` says for a span that is sampled. */
export function traceparentOf(span: ReadableSpan | undefined): string {
  const { traceId, spanId } = span?.spanContext() ?? { traceId: '', spanId: '' };
  return `00-${traceId}-${spanId}-01`;
}
