// What became of each call, held against the server's ledger. Pure functions.

/**
 * A call's end: `{ end: 'answered', text }`, `{ end: 'failed', executed, code }`, `{ end: 'untyped', because }` (given up by
 * the framework's own timer, or by its caller), `{ end: 'strange', what }` or `{ end: 'pending' }`.
 *
 * `runs`: how often the server ran it. `heard`: the verdict of the `call` event, where there is one. Gives what is wrong
 * with it, or nothing.
 */
export function wrongWith({ outcome, runs, heard, tag }) {
  if (runs > 1) return `it ran ${runs} times`;
  switch (outcome.end) {
    case 'answered':
      // What makes an answer large is blanks behind its tag.
      if (outcome.text !== undefined && outcome.text.trimEnd() !== tag) return "it got another call's answer";
      return runs === 1 ? undefined : 'it was answered and never ran';
    case 'failed':
      return (
        againstLedger(outcome.executed, runs, outcome.code) ??
        (heard === undefined || heard.executed === outcome.executed
          ? undefined
          : `its error says executed ${outcome.executed}, its event ${heard.executed}`)
      );
    case 'untyped':
      return heard === undefined ? undefined : againstLedger(heard.executed, runs, `event ${heard.code}`);
    case 'pending':
      return 'it was pending after its time was up';
    default:
      return `it ended in an error that says nothing: ${outcome.what}`;
  }
}

function againstLedger(executed, runs, code) {
  if (executed === false && runs !== 0) return `${code} says it did not run, and it ran`;
  if (executed === true && runs !== 1) return `${code} says it ran, and it did not`;
  if (executed !== false && executed !== true && executed !== 'unknown') return `${code} says nothing of it`;
  return undefined;
}

/** What a call's caller is told: an untyped end says nothing but what its event says. */
export function verdictOf({ outcome, heard }) {
  if (outcome.end === 'answered') return 'answered';
  if (outcome.end === 'failed') return String(outcome.executed);
  return outcome.end === 'untyped' ? String(heard?.executed ?? 'unknown') : 'wrong';
}

/**
 * Handshakes of one client that were begun while another was under way, `withinMs` of each other: `{ client, atMs, isEnd }` in
 * the order of arrival. `isCalm(fromMs, untilMs)`: nothing was in the world by which the first could have failed.
 */
export function sideBySide(handshakes, { withinMs, isCalm }) {
  const begun = new Map();
  const found = [];
  for (const { client, atMs, isEnd } of handshakes) {
    const sinceMs = begun.get(client);
    if (isEnd) begun.delete(client);
    else {
      if (sinceMs !== undefined && atMs - sinceMs <= withinMs && isCalm(sinceMs, atMs)) found.push(client);
      begun.set(client, atMs);
    }
  }
  return found;
}

export const NO_FAULT = 'no fault of its own time';

/**
 * By kind of fault: calls, and what they were told. A call counts for the fault that was laid on it, else for each that
 * befell the world in its time, else for none.
 */
export function tally(calls) {
  const rows = new Map();
  for (const call of calls) {
    const kinds = call.fault !== undefined ? [call.fault] : call.met.length > 0 ? call.met : [NO_FAULT];
    for (const kind of new Set(kinds)) {
      const row = rows.get(kind) ?? emptyRow();
      rows.set(kind, row);
      count(row, call);
    }
  }
  return rows;
}

export function total(calls) {
  const row = emptyRow();
  for (const call of calls) count(row, call);
  return row;
}

/** Adds the rows of `more` to those of `rows`. */
export function addUp(rows, more) {
  for (const [kind, figures] of more) {
    const row = rows.get(kind) ?? emptyRow();
    rows.set(kind, row);
    for (const name of Object.keys(row)) row[name] += figures[name];
  }
  return rows;
}

function count(row, call) {
  row.calls += 1;
  row[verdictOf(call)] += 1;
  if (verdictOf(call) === 'unknown' && call.runs === 0) row.notRun += 1;
}

function emptyRow() {
  return { calls: 0, answered: 0, false: 0, unknown: 0, true: 0, wrong: 0, notRun: 0 };
}
