/**
 * What every part of the examination is given.
 */
import type { Clock } from '../../clock.js';
import type { Progress } from '../progress.js';
import type { Aim, Line } from './line.js';
import type { Report } from './report.js';

export interface Stage {
  readonly aim: Aim;
  readonly line: Line;
  readonly report: Report;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly progress: Progress;
  readonly env: Readonly<Record<string, string | undefined>>;
}
