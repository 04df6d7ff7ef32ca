/**
 * The instruments that measurements go into.
 *
 * Guarantees the conventions' units and buckets. Never makes one twice: connections share them.
 */
import type { Counter, Histogram, Meter } from '@opentelemetry/api';
import { BUCKETS_S, METRIC } from './conventions.js';

export interface Instruments {
  readonly operation: Histogram;
  readonly session: Histogram;
  readonly refreshes: Counter;
  readonly recoveries: Counter;
  readonly cuts: Counter;
  readonly rateWait: Histogram;
}

export function makeInstruments(meter: Meter): Instruments {
  const seconds = (name: string, description: string) =>
    meter.createHistogram(name, {
      unit: 's',
      description,
      advice: { explicitBucketBoundaries: [...BUCKETS_S] },
    });
  const count = (name: string, unit: string, description: string) =>
    meter.createCounter(name, { unit, description });
  return {
    operation: seconds(METRIC.operation, 'From the hand-in of an MCP request to its end.'),
    session: seconds(METRIC.session, 'How long an MCP session stood.'),
    refreshes: count(
      METRIC.refreshes,
      '{refresh}',
      'Credentials that were refreshed, adopted, or could not be.',
    ),
    recoveries: count(METRIC.recoveries, '{session}', 'Sessions that took the place of another.'),
    cuts: count(METRIC.cuts, '{stream}', 'Streams that were cut off.'),
    rateWait: seconds(METRIC.rateWait, 'How long requests have waited for the rate limit.'),
  };
}
