// What was promised, held against what the server has seen.

/** The figures of one play. */
export function figuresOf({ opened, calls, initializes, tokenRequests }) {
  const failed = calls.filter(({ done }) => done !== true);
  return {
    opened: opened.done === true,
    asked: calls.length,
    answered: calls.length - failed.length,
    failed: failed.length,
    unanswered: calls.filter(({ silent }) => silent === true).length,
    ranTwice: calls.filter(({ runs }) => runs > 1).length,
    initializes,
    tokenRequests,
  };
}

/** Each is `{ text, holds, found }`. */
export function claimsOnRun(play, { expiries, redeploys }) {
  const { calls } = play;
  const failed = calls.filter(({ done }) => done !== true);
  return [
    ...claimsOnAnyPlay(play),
    claim(
      redeploys === 0 ? 'every call is answered' : 'every call is answered, save at most one per redeploy',
      failed.length <= redeploys,
      `${calls.length - failed.length} of ${calls.length}${listed(failed)}`,
    ),
    claim(
      'one token request to begin with, and one for each expiry',
      play.tokenRequests === 1 + expiries.length,
      `${play.tokenRequests} requests`,
    ),
  ];
}

/** `names`: of the calls whose answers are lost; each is followed by one that is `-later`. */
export function claimsOnCuts(play, names) {
  const of = (ticket) => play.calls.find((call) => call.ticket === ticket);
  return [
    ...claimsOnAnyPlay(play),
    ...names.flatMap((name) => {
      const lost = of(name);
      const next = of(`${name}-later`);
      return [
        claim(`${name}: the tool ran once`, lost?.runs === 1, `runs: ${lost?.runs}; ${outcomeOf(lost)}`),
        claim(`${name}: the next call is answered`, next?.done === true, outcomeOf(next)),
      ];
    }),
  ];
}

function claimsOnAnyPlay({ opened, calls, closed, unhandled }) {
  const failed = calls.filter(({ done }) => done !== true);
  const twice = calls.filter(({ runs }) => runs > 1);
  const without = calls.filter(({ done, runs }) => done === true && runs === 0);
  const unsaid = failed.filter(({ failure }) => failure?.executed === undefined);
  const untrue = failed.filter((call) => !isTrue(call));
  return [
    claim('it connects, and closes', opened.done === true && closed, outcomeOf(opened)),
    claim('no tool ran twice', twice.length === 0, twice.length === 0 ? 'none' : listed(twice)),
    claim(
      'every answer has its run',
      without.length === 0,
      without.length === 0 ? 'all of them' : listed(without),
    ),
    claim(
      'every failure says whether the call was executed',
      unsaid.length === 0,
      unsaid.length === 0 ? `${failed.length} failed` : listed(unsaid),
    ),
    claim('and that is true', untrue.length === 0, untrue.length === 0 ? 'of all' : listed(untrue)),
    claim(
      'no rejection without a handler',
      unhandled.length === 0,
      unhandled.length === 0 ? 'none' : unhandled.join('; '),
    ),
  ];
}

function isTrue({ failure, runs }) {
  if (failure?.executed === false) return runs === 0;
  if (failure?.executed === true) return runs > 0;
  return true;
}

export function outcomeOf(call) {
  if (call === undefined) return 'not made';
  if (call.done === true) return 'answered';
  if (call.silent === true) return 'no answer';
  const { code, executed, name, message } = call.failure;
  return code === undefined ? `${name}: ${message}` : `${code}, executed: ${executed}`;
}

function listed(calls) {
  return calls.map((call) => `; ${call.ticket}: ${outcomeOf(call)}, runs: ${call.runs}`).join('');
}

function claim(text, holds, found) {
  return { text, holds, found };
}
