/**
 * One hop of a relay: between two that are apart.
 *
 * Guarantees that it answers within the time it was given, that the next one gets less, and that every failure below
 * it goes up as an answer that names where it arose. Never repeats a message, never rejects.
 */
import { type Clock, systemClock } from '../clock.js';
import type { HostedMcpError } from '../errors.js';
import { isRequest, type JsonRpcMessage } from '../json-rpc.js';
import { OptionReader } from '../option-reader.js';
import { errorAnswer, toldError } from './carried.js';
import { ownTime } from './deadline.js';
import type { RelaySend } from './messages.js';

export interface RelayHopOptions {
  /** Names the hop in errors: letters, digits, `.`, `_`, `@`, `+`, `-`. */
  name: string;
  /** The longest it waits, whatever time it was given. No limit of its own. */
  timeoutMs?: number | undefined;
  /** What it takes off the given time for its own way back; of short times a tenth. 500. */
  marginMs?: number | undefined;
  clock?: Clock | undefined;
}

/**
 * Wraps the way to the next hop, at each place where messages change processes: an HTTP handler, the end of an exec
 * channel. Failures come back as JSON-RPC answers, which cross any wire; `relayTransport` makes errors of them again.
 *
 * @example
 * const hop = relayHop((message, options) => channel.send(message, options), { name: 'orchestrator' });
 * response.end(JSON.stringify(await hop(message, { deadlineMs, signal })));
 */
export function relayHop(send: RelaySend, options: RelayHopOptions): RelaySend {
  if (typeof send !== 'function') throw new TypeError('send must be a function');
  const read = new OptionReader('', options);
  const name = hopName(read.any('name'));
  const timeoutMs = read.duration('timeoutMs', 1);
  const marginMs = read.duration('marginMs');
  const clock = (read.any('clock') as Clock | undefined) ?? systemClock();
  read.done();
  return (message, given) => {
    const ownMs = ownTime(given.deadlineMs, { marginMs, timeoutMs });
    return new Promise((resolve) => {
      const controller = new AbortController();
      let ended = false;
      const end = (answer: JsonRpcMessage | readonly JsonRpcMessage[]) => {
        if (ended) return;
        ended = true;
        timer.clear();
        given.signal.removeEventListener('abort', onAbort);
        resolve(answer);
      };
      const fail = (failure: unknown) => end(isRequest(message) ? errorAnswer(message, failure, name) : []);
      const giveUp = (failure: HostedMcpError) => {
        fail(failure);
        controller.abort(failure);
      };
      const onAbort = () => giveUp(toldError(message, 'ERR_ABORTED', 'unknown', { hop: name }));
      const timer = clock.setTimeout(
        () => giveUp(toldError(message, 'ERR_TIMEOUT', 'unknown', { hop: name })),
        ownMs,
      );
      if (given.signal.aborted) {
        fail(toldError(message, 'ERR_ABORTED', false, { hop: name, retryable: true }));
        return;
      }
      given.signal.addEventListener('abort', onAbort, { once: true });
      ask(send, message, { deadlineMs: ownMs, signal: controller.signal }).then(end, fail);
    });
  };
}

/** What throws in its own turn has failed like one that rejects. */
async function ask(...[send, message, options]: [RelaySend, ...Parameters<RelaySend>]) {
  return send(message, options);
}

export function hopName(name: unknown): string {
  if (typeof name !== 'string' || !/^[\w.@+-]{1,60}$/.test(name))
    throw new TypeError('name must be 1 to 60 letters, digits or . _ @ + -');
  return name;
}
