/**
 * One request of HostedClient under its caller's own timer.
 *
 * Guarantees that the caller hears of the end of its time, or of its signal, at once and by our error with the ledger's
 * word; and that a gate which waits for somebody stops the timer meanwhile. Leaves no timer or listener behind.
 */
import type { RequestOptions } from '@modelcontextprotocol/sdk/shared/protocol.js';
import { McpError } from '@modelcontextprotocol/sdk/types.js';
import type { Clock, Timer } from './clock.js';
import { HostedMcpError } from './errors.js';
import type { CallLink } from './hosted-transport.js';
import { refusedResult } from './output-validator.js';

/** Whether a tool call was answered: what fails after that was refused here. */
export interface CallState {
  answered: boolean;
}

/** The SDK's own default. */
export const REQUEST_TIMEOUT_MS = 60_000;
/** The SDK's timer is set so far away that ours always comes first. */
const NEVER_MS = 2 ** 31 - 1;

export interface TimedCall {
  readonly clock: Clock;
  readonly method: string;
  readonly options: RequestOptions;
  readonly state: CallState | undefined;
  /** Hands it to the SDK; `hasEnded`: its caller has given up meanwhile. */
  send(link: CallLink, options: RequestOptions, hasEnded: () => boolean): Promise<unknown>;
}

export function underTimer({ clock, method, options, state, send }: TimedCall): Promise<unknown> {
  const {
    timeout = REQUEST_TIMEOUT_MS,
    maxTotalTimeout,
    resetTimeoutOnProgress,
    signal,
    onprogress,
  } = options;
  const startedMs = clock.monotonic();
  let lastMs = maxTotalTimeout === undefined ? Number.POSITIVE_INFINITY : startedMs + maxTotalTimeout;
  const link: CallLink = { deadlineMs: Math.min(startedMs + timeout, lastMs) };
  return new Promise((resolve, reject) => {
    let timer: Timer | undefined;
    let ended = false;
    let holds = 0;
    const stop = () => {
      ended = true;
      timer?.clear();
      signal?.removeEventListener('abort', onAbort);
    };
    const giveUp = (code: 'ERR_TIMEOUT' | 'ERR_ABORTED', what: string) => {
      stop();
      const fields = { method, retryable: true };
      const error = link.call?.error(code, what, fields) ?? new HostedMcpError(code, what, fields);
      reject(error);
      link.takeBack?.(error);
    };
    const onAbort = () => giveUp('ERR_ABORTED', 'The caller gave the call up');
    const arm = () => {
      timer?.clear();
      if (ended || holds > 0) return;
      timer = clock.setTimeout(
        () => giveUp('ERR_TIMEOUT', `No answer within ${Math.round(clock.monotonic() - startedMs)} ms`),
        Math.max(0, link.deadlineMs - clock.monotonic()),
      );
    };
    const moveTo = (deadlineMs: number) => {
      link.deadlineMs = deadlineMs;
      if (link.call !== undefined) link.call.deadlineMs = deadlineMs;
      arm();
    };
    link.hold = () => {
      const heldMs = clock.monotonic();
      holds += 1;
      timer?.clear();
      return () => {
        holds -= 1;
        const forMs = clock.monotonic() - heldMs;
        lastMs += forMs;
        moveTo(link.deadlineMs + forMs);
      };
    };
    if (signal?.aborted === true) {
      onAbort();
      return;
    }
    signal?.addEventListener('abort', onAbort, { once: true });
    arm();
    const progress: RequestOptions['onprogress'] =
      onprogress &&
      ((notice) => {
        if (resetTimeoutOnProgress === true) moveTo(Math.min(clock.monotonic() + timeout, lastMs));
        onprogress(notice);
      });
    // The SDK gets no time and no signal of its own: the call is taken back at the engine, which knows whether it left.
    const { maxTotalTimeout: _total, resetTimeoutOnProgress: _reset, signal: _signal, ...others } = options;
    const passed = {
      ...others,
      timeout: NEVER_MS,
      ...(progress !== undefined && { onprogress: progress }),
    };
    send(link, passed, () => ended).then(
      (result) => {
        stop();
        if (state !== undefined) state.answered = true;
        resolve(result);
      },
      (error) => {
        stop();
        const isOurs = HostedMcpError.isInstance(error) || error instanceof McpError;
        const isRefused = link.call?.phase === 'answered' && !isOurs;
        reject(isRefused ? refusedResult(error, method, link.call?.tool) : error);
      },
    );
  });
}
