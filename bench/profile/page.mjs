// The profile's top lines.
import { figure, percent, table } from '../kit/markdown.mjs';

const MODULES = 12;
const DONE = `What stood at the top before, when a call took 2.3 to 2.6 times the baseline, and what was done about it:

- garbage collection, a third of a call: a \`Set\` or \`Map\` that changes with every call leaves tables behind that keep ended calls alive
  until a full collection. What is under way is a linked list now.
- the SDK's bookkeeping and its schemas for every message: calls of HostedClient go to the engine; a result of text alone is checked by hand.
- promises for what was at hand: token, session, limiter and gates answer in the same turn where they can, so that a call waits once.
- a timer for each call: one keeps the time of all.
- parts of URLs, looks at headers that were good a moment ago, secrets that were learned before: kept.

What is left beside the baseline's own share is the ledger, the session and version headers, and undici's wrapper of a handler.`;

export function profilePage(rows) {
  const cells = rows.map(({ kind, concurrency, usPerCall, modules, lines }) => {
    const some = modules
      .slice(0, MODULES)
      .map(({ name, share, us }) => [name, percent(share, 1), us.toFixed(1)]);
    const top = lines.map(({ name, file, share, us }) => [
      `\`${name}\``,
      file,
      percent(share, 1),
      us.toFixed(1),
    ]);
    return `### ${kind.toUpperCase()}, ${concurrency} at once

Under the profiler ${figure(usPerCall)} µs of a call.

${table(['belongs to', 'self time', 'µs a call'], some)}

${table(['function', 'in', 'self time', 'µs a call'], top)}`;
  });
  return `${DONE}

Self time of calls through HostedClient, everything on, by Node's sampling profiler; waiting is left out. \`writev\` is the
system call that sends a request; "V8" are functions that are built in. Garbage collection is the profiler's own line, whoever made
the garbage.

${cells.join('\n\n')}`;
}
