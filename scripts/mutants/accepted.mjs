// Mutants that no test can tell from the code, each with the reason: by file, then by the mutant's key.
const NO_STATUS =
  'An exchange that did not fail has a status: the fallback is there for the type, and any number below 100 would do.';
/** Held until the call ends, which is soon. */
const WAITED =
  'Rejecting a promise that is settled does nothing: what is left is a few bytes until the call ends.';
const NO_TOKEN = 'Without a token nothing is due, whatever its lifetime would be.';
const LOOKED_UP = 'Decides how fast a call is found by its id, not which one is found.';

export const ACCEPTED = {
  'src/connection/classify.ts': {
    'classify: facts.status ?? 0 → (facts.status)': NO_STATUS,
    'classify: 0 → 1': NO_STATUS,
    'classifyOwn: facts.status ?? 0 → (facts.status)': NO_STATUS,
    'classifyOwn: 0 → 1': NO_STATUS,
    'classifySession: facts.status ?? 0 → (facts.status)': NO_STATUS,
    'classifySession: 0 → 1': NO_STATUS,
    'classifyRest: facts.status ?? 0 → (facts.status)': NO_STATUS,
    'classifyRest: 0 → 1': NO_STATUS,
    "classifyFailure: throw new RangeError('no failure to classify'); → (dropped)":
      'Its one caller has looked already: the line is there for the type.',
    'classifyFailure: failure.status ?? 0 → (failure.status)':
      'Only asked whether it is 307 or 308, which no number and no other number is either.',
    'classifyFailure: 0 → 1': 'Only asked whether it is 307 or 308.',
  },
  'src/connection/ledger.ts': {
    'constructor: true → false':
      'The listener is removed at the end of the call, which the first event brings about; where it does not, a signal aborts once only.',
    'MOST_LOOKED_THROUGH: 32 → 64': LOOKED_UP,
    'get: this.#byId === undefined && this.#calls.size <= MOST_LOOKED_THROUGH → this.#byId === undefined || this.#calls.size <= MOST_LOOKED_THROUGH':
      LOOKED_UP,
    'get: this.#byId === undefined → this.#byId !== undefined': LOOKED_UP,
    'get: this.#calls.size <= MOST_LOOKED_THROUGH → this.#calls.size < MOST_LOOKED_THROUGH': LOOKED_UP,
    'get: return this.all().findLast((call) => call.id === id); → (dropped)': LOOKED_UP,
    'get: this.#byId ??= new Map(this.all().map((call) => [call.id, call])) → this.#byId = new Map(this.all().map((call) => [call.id, call]))':
      LOOKED_UP,
    'remove: this.#calls.size === 0 → this.#calls.size !== 0': LOOKED_UP,
    'remove: this.#byId = undefined; → (dropped)': LOOKED_UP,
    'get: return undefined; → (dropped)': 'No call has such an id: it would be looked for and not found.',
    '#finish: this.#onEnd = undefined; → (dropped)':
      'A call ends once, as `ended` says: this only lets go of what the function holds.',
    'waitFor: waiting.delete(reject); → (dropped)': WAITED,
    'waitFor: waiting.delete(reject); → (dropped) (2)': WAITED,
  },
  'src/session/keeper.ts': {
    "ready: this.state === 'unstable' && this.#rest !== undefined → this.state === 'unstable' || this.#rest !== undefined":
      'A rest is set with that state, and over or taken away when another state follows.',
    "ready: this.#rest.error.reason ?? '' → (this.#rest.error.reason)":
      'The error of a rest has a reason: the fallback is there for the type.',
    'verify: credential.generation < session.acceptedGeneration → credential.generation <= session.acceptedGeneration':
      'The line before has returned where they are equal.',
    'rest: return undefined; → (dropped) (2)':
      'A session that nothing replaces stands in the state ready alone, after which idle may follow.',
    'close: return undefined; → (dropped)':
      'The second time there is no session to give, and what was ended is ended.',
    "#learn: this.#bound ||= this.#parts.options.boundToToken === 'detect' → this.#bound = this.#parts.options.boundToToken === 'detect'":
      'Where it is known already nothing is learned: the session is replaced without a question.',
    '#install: this.#rest = undefined; → (dropped)':
      'Read in the state unstable alone, which comes with a rest of its own.',
    "#failed: failure.reason ?? 'the set-up of the session failed' → (failure.reason)":
      'Such a failure has a reason: the fallback is there for the type.',
    '#drop: return; → (dropped)': 'Both callers have looked already, in the same turn.',
    '#open: return this.#opening; → (dropped)': 'Every caller has looked already, in the same turn.',
    '#open: return Promise.reject(closedError()); → (dropped)':
      'Every caller has seen that the connection is not closed, and from every other state a session may be opened.',
    '#establish: 1 → 2 (2)': 'Two set-ups are all: three is as much over as two.',
    '#replace: return this.#opening; → (dropped)': 'Both ways on give the session that is being opened, too.',
  },
  'src/credentials/refresher.ts': {
    'constructor: this.#holding.token?.lifetimeMs ?? 0 → (this.#holding.token?.lifetimeMs)': NO_TOKEN,
    'constructor: 0 → 1': NO_TOKEN,
    '#run: this.#latches.outage() ?? problemError(result.problem) → (this.#latches.outage())':
      'The line before has noted the outage: the fallback is there for the type.',
    '#load: throw error; → (dropped)':
      'What a store throws is made ours before it comes here: nothing else is thrown, unless by a defect.',
    '#isStillDead: return true; → (dropped)':
      'Without a store the look fails, which comes to the same answer.',
    '#run: break; → (dropped) (5)': 'The last of its switch.',
    '#run: this.#background.disarm(); → (dropped)':
      'While a renewal runs nothing is due: the timer would do nothing, and is set anew at its end.',
    '#bind: this.#target = target; → (dropped)': 'Only makes the next look shorter.',
    '#bind: return; → (dropped)': 'A shorter way to the same answer.',
  },
  'src/credentials/renewal.ts': {
    "#settle: return failureOf(storeError('gave a lease that ended too soon')); → (dropped)":
      'Where requests are made this outcome is dealt with already: the line is there for the type.',
    'disarmSave: this.#saveTimer = undefined; → (dropped)':
      'A timer that has run or was cleared is cleared once more, which does nothing.',
  },
  'src/session/breaker.ts': {
    'REMEMBERED: 10 → 11': 'Five losses are one too many, and then four are kept: there are never ten.',
    '#trips: 0 → 1': 'Set back to 0 before it is read, for there is no loss yet.',
    'lost: LOST_USELESS_IN_ROW - 1 → LOST_USELESS_IN_ROW + 1':
      'Only compared with three after one was added or it was set to 0: two and four come to the same.',
    'lost: this.#losses = this.#losses.slice(-(LOST_OF_REMEMBERED - 1)); → (dropped)':
      'The next loss is one too many where four others are not forgotten, however many more there are.',
    'lost: LOST_OF_REMEMBERED - 1 → LOST_OF_REMEMBERED + 1':
      'The next loss is one too many where four others are not forgotten, however many more there are.',
    'useful: this.#forget(this.#clock.monotonic()); → (dropped)':
      'Whatever is forgotten here is forgotten at the next loss, before anything is read.',
  },
};
