// What a loss, a token change and a refresh cost, as tables and promises.
import { figure, table } from '../kit/markdown.mjs';

/** After a refresh calls may be slower by so much. */
const MOST_AFTER_REFRESH = 1.2;

export function recoveryPage({ loss, tokenChange }) {
  const { callers, changes, calls, failed, executedOnce, executedTwice, tokenRequests, probes, initializes } =
    tokenChange;
  return `From the call that met the loss of its session to the next one that was answered, in requests counted at the server: there are no
more round trips than that. What goes on beside them (the old session's DELETE, a listen stream) delays nothing.

${table(
  ['in use beside the session', 'requests', 'promised', 'which'],
  loss.map(({ title, requests, expected, methods }) => [title, requests, expected, methods.join(', ')]),
)}

A session bound to its token, ${callers} callers, the token replaced ${changes} times ahead of its expiry: ${figure(calls)} calls, ${failed} failed;
at the server ${figure(executedOnce)} run once, ${executedTwice} twice, ${tokenRequests} token requests, ${probes} probes, ${initializes} handshakes.`;
}

export function recoveryTargets({ loss, tokenChange }) {
  const worst = loss.toSorted((a, b) => b.requests - b.expected - (a.requests - a.expected))[0];
  return [
    {
      text: 'after a loss 3 round trips to the next answered call, one more each for contract, log level, subscriptions',
      found: loss.map(({ requests }) => requests).join(', '),
      holds: worst.requests <= worst.expected,
    },
    {
      text: 'with the probe, no failed call at a token change',
      found: `${tokenChange.failed} of ${figure(tokenChange.calls)}`,
      holds: tokenChange.failed === 0 && tokenChange.executedTwice === 0,
    },
  ];
}

export function refreshPage({ refreshes, after, rest }) {
  const row = (title, { calls, p50Ms, p99Ms }) => [title, figure(calls), p50Ms.toFixed(2), p99Ms.toFixed(2)];
  return `A steady stream of calls, ${refreshes} refreshes, milliseconds as the callers saw them:

${table(['calls that began', 'calls', 'p50, ms', 'p99, ms'], [row('in the second after a refresh', after), row('at any other time', rest)])}`;
}

export function refreshTargets({ after, rest }) {
  const found = after.p99Ms / rest.p99Ms;
  return [
    {
      text: `p99 in the second after a refresh within ${MOST_AFTER_REFRESH}x of the rest (an aim)`,
      found: `${found.toFixed(2)}x`,
      holds: found <= MOST_AFTER_REFRESH,
    },
  ];
}
