/**
 * The word for what a runtime, or a bundle for it, has left out.
 *
 * Guarantees that a missing part is named when what needs it is set up, not by a stray "is not a function" in the
 * middle of a call. Never looks at which runtime it is: only at whether the part is there.
 */
import { HostedMcpError, type HostedMcpErrorCode } from '../errors.js';

/** Throws, with the reason `runtime`, unless `part` is there. `feature`: as the app knows it; `instead`: what to do. */
export function needsPart(
  code: HostedMcpErrorCode,
  feature: string,
  name: string,
  part: unknown,
  instead?: string | undefined,
): void {
  if (part !== undefined) return;
  const advice = instead === undefined ? '' : `: ${instead}`;
  throw new HostedMcpError(code, `${feature} needs ${name}, which this runtime does not have${advice}`, {
    reason: 'runtime',
  });
}
