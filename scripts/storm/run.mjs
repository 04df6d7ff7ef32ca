// One storm: a plan over a face, from the first call to the last look at what is left.
import { getEventListeners, setMaxListeners } from 'node:events';
import { openHosted } from './hosted.mjs';
import { sideBySide, tally, total, wrongWith } from './judge.mjs';
import { CALLERS, callOf, catalogue } from './plan.mjs';
import { openRelay } from './relay.mjs';
import { elapse, SPEED, soon } from './time.mjs';

/** Of the world's time, beyond a call's own: set on the same loop, so that a busy machine delays both. */
const PENDING_AFTER_MS = 1_500;
/** Whoever was refused does not come back in a loop without a pause. */
const PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 1_600;
/** What a fault leaves behind is still its doing for so long. */
const AFTER_EFFECT_MS = 2_000;
const HEAL_TIMEOUT_MS = 20_000;
/** Of the world's time. A server that could not keep sessions is given rests of up to 30 s of it. */
const HEALS_WITHIN_MS = 45_000;
/** Of the world's time. Whoever meets a lost session meets it at the same moment as the others. */
const ONE_HANDSHAKE_MS = 50;
/** Their answers may be cut, and then there is another one: that is none beside the first. */
const SPOILS_HANDSHAKES = new Set([
  'redeployed',
  'streams cut',
  'streams go silent',
  'idle limit of a proxy',
  'age limit of a proxy',
  'answers change their form',
]);
const SOCKETS_WITHIN_MS = 5_000;

/** `wrap`: puts something else in the place of the world's `call`, for tests of the storm itself. */
export async function runStorm({ lib, plan, redis, wrap }) {
  const watch = watchProcess();
  const sockets = socketsOpen();
  const startedAt = performance.now();
  const world = await (plan.face === 'relay' ? openRelay : openHosted)({ lib, plan, redis });
  const call = wrap === undefined ? world.call : wrap(world.call);
  const weather = new Weather(world, plan);
  const given = new AbortController();
  // Of all callers; a leak shows at the end.
  setMaxListeners(4 * CALLERS, given.signal);
  const calls = [];
  const problems = [];
  let next = 0;

  async function caller(slot) {
    let pauseMs = PAUSE_MS;
    while (next < plan.calls) {
      const at = next;
      next += 1;
      weather.begin(at);
      const record = await one(slot, callOf(plan, at), weather.ofCall(at));
      const wasRefused = record.outcome.end === 'failed' && record.outcome.executed === false;
      if (wasRefused) await elapse(pauseMs);
      pauseMs = wasRefused ? Math.min(LONGEST_PAUSE_MS, pauseMs * 2) : PAUSE_MS;
    }
  }

  async function one(slot, { tag, args, timeoutMs }, fault) {
    const change = fault?.definition.call?.(fault.params) ?? {};
    const way = {
      args: { ...args, ...change.args, tag },
      timeoutMs: change.timeoutMs ?? timeoutMs,
      abortAfterMs: change.abortAfterMs,
    };
    const takeAway = fault === undefined ? () => {} : world.lay(slot, fault.definition, fault.params, tag);
    const fromMs = performance.now();
    const spell =
      fault?.definition.befallsOthers === true ? weather.befalls(fault.definition.kind) : undefined;
    const shared = leavesListeners(plan) ? undefined : given.signal;
    const outcome = await outcomeOf(call, slot, tag, way, shared);
    takeAway();
    spell?.();
    if (outcome.end === 'failed') world.failed(outcome);
    const met = weather.between(fromMs, performance.now());
    const record = { tag, outcome, fault: fault?.definition.kind, met };
    calls.push(record);
    return record;
  }

  await Promise.all(Array.from({ length: CALLERS }, (_, slot) => caller(slot)));
  await weather.clear();
  const stuck = await world.restore();
  if (stuck !== undefined) problems.push(stuck);
  const healing = performance.now();
  let healed = 0;
  const heals = async (slot) => {
    for (let attempt = 0; performance.now() - healing < HEALS_WITHIN_MS; attempt += 1) {
      const tag = `${plan.face}-${plan.seed}-after-${slot}-${attempt}`;
      const { outcome } = await one(slot, { tag, args: {}, timeoutMs: HEAL_TIMEOUT_MS }, undefined);
      if (outcome.end === 'answered') {
        healed += 1;
        return;
      }
      await elapse(PAUSE_MS * 5);
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, (_, slot) => heals(slot)));
  const healMs = performance.now() - healing;
  if (healed < CALLERS) problems.push(`${CALLERS - healed} callers are not served again after the storm`);
  const listeners = getEventListeners(given.signal, 'abort').length;
  if (listeners > 0) problems.push(`${listeners} listeners are left on the callers' signal`);

  const { ledger, timers, requests, isQuiet, handshakes } = await world.close();
  if (!isQuiet) problems.push('the server still works on calls that nobody waits for');
  if (timers > 0) problems.push(`${timers} timers are left`);
  if (!(await soon(() => socketsOpen() <= sockets, SOCKETS_WITHIN_MS)))
    problems.push(`${socketsOpen() - sockets} sockets are left`);
  problems.push(...watch.end());
  const isCalm = (fromMs, untilMs) =>
    weather.between(fromMs, untilMs).every((kind) => !SPOILS_HANDSHAKES.has(kind));
  for (const client of sideBySide(handshakes, { withinMs: ONE_HANDSHAKE_MS, isCalm }))
    problems.push(`two handshakes side by side: ${client}`);

  const tags = new Set(calls.map(({ tag }) => tag));
  for (const [tag, runs] of ledger)
    if (!tags.has(tag)) problems.push(`a call of nobody ran ${runs} times: ${tag}`);
  for (const each of calls) {
    each.runs = ledger.get(each.tag) ?? 0;
    each.heard = world.heard.get(each.tag);
    const wrong = wrongWith(each);
    if (wrong === undefined) continue;
    const faults = [each.fault, ...each.met].filter((kind) => kind !== undefined);
    problems.push(`${each.tag}: ${wrong} (${faults.join(', ') || 'no fault'})`);
  }
  return {
    violations: problems,
    figures: total(calls),
    rows: tally(calls),
    codes: codesOf(calls),
    requests,
    healMs,
    durationMs: performance.now() - startedAt,
  };
}

/** SDK v1's own Client never takes its listener off a signal that it was given. */
function leavesListeners({ face, setting }) {
  return face === 'v1' || (face === 'fetch' && setting.framework === 'v1');
}

/** Never rejects. */
async function outcomeOf(call, slot, tag, { args, timeoutMs, abortAfterMs }, shared) {
  const own = abortAfterMs === undefined && shared !== undefined ? undefined : new AbortController();
  const signal = own?.signal ?? shared;
  const fromMs = performance.now();
  const giveUp = () => own.abort(new Error('given up'));
  const aborting = abortAfterMs === undefined ? undefined : setTimeout(giveUp, abortAfterMs / SPEED);
  let watchdog;
  const late = new Promise((resolve) => {
    watchdog = setTimeout(() => resolve({ end: 'pending' }), timeoutMs / SPEED + PENDING_AFTER_MS);
  });
  const ended = Promise.resolve()
    .then(() => call(slot, tag, args, { timeoutMs, signal }))
    .then(
      (result) => ({ end: 'answered', text: String(result?.content?.[0]?.text ?? '') }),
      (error) => failureOf(error, signal, performance.now() - fromMs >= timeoutMs / SPEED - 5),
    );
  const outcome = await Promise.race([ended, late]);
  clearTimeout(watchdog);
  clearTimeout(aborting);
  return outcome;
}

const CARRIED = Symbol.for('mcp-holdfast.HostedMcpError');

function failureOf(error, signal, isLate) {
  const carried = error?.[CARRIED] === true ? error : error?.data?.holdfast;
  if (carried?.executed !== undefined)
    return { end: 'failed', executed: carried.executed, code: carried.code };
  if (error?.code === 4242) return { end: 'answered' };
  if (signal.aborted) return { end: 'untyped', because: 'aborted' };
  if (isLate) return { end: 'untyped', because: 'timeout' };
  const { name, code, message } = error ?? {};
  return { end: 'strange', what: `${name} ${code} ${message}`.slice(0, 160) };
}

/** The faults of a plan, as their calls come. */
class Weather {
  #world;
  #ofCalls = new Map();
  #ofTheWorld = new Map();
  #spells = [];
  #under = new Set();
  #redisIsAway = false;

  constructor(world, { face, setting, faults }) {
    this.#world = world;
    const { ofACall, ofTheWorld } = catalogue(face, { era: setting.era });
    for (const { at, kind, ...params } of faults) {
      const one = ofACall.find((each) => each.kind === kind);
      if (one !== undefined) this.#ofCalls.set(at, { definition: one, params });
      else {
        const definition = ofTheWorld.find((each) => each.kind === kind);
        if (definition === undefined) continue;
        this.#ofTheWorld.set(at, [...(this.#ofTheWorld.get(at) ?? []), { definition, params }]);
      }
    }
  }

  ofCall(at) {
    return this.#ofCalls.get(at);
  }

  begin(at) {
    for (const { definition, params } of this.#ofTheWorld.get(at) ?? []) {
      const isOfRedis = definition.redis === true;
      // There is one Redis: what holds or ends it twice at once would start it twice.
      if (isOfRedis && (this.#world.redis === undefined || this.#redisIsAway)) continue;
      if (isOfRedis) this.#redisIsAway = true;
      const under = this.#spell(definition, params).finally(() => {
        this.#under.delete(under);
        if (isOfRedis) this.#redisIsAway = false;
      });
      this.#under.add(under);
    }
  }

  /** What was begun has ended. */
  async clear() {
    while (this.#under.size > 0) await Promise.all(this.#under);
  }

  /** Kinds that were in the world between two moments. */
  between(fromMs, untilMs) {
    const met = this.#spells.filter((each) => each.fromMs <= untilMs && each.untilMs >= fromMs);
    return [...new Set(met.map(({ kind }) => kind))];
  }

  /** Gives what ends it. */
  befalls(kind) {
    const spell = { kind, fromMs: performance.now(), untilMs: Number.POSITIVE_INFINITY };
    this.#spells.push(spell);
    return () => {
      spell.untilMs = performance.now() + AFTER_EFFECT_MS / SPEED;
    };
  }

  async #spell({ kind, begin }, params) {
    const isOver = this.befalls(kind);
    const end = await begin(this.#world, params);
    if (params.forMs !== undefined) await elapse(params.forMs);
    await end?.();
    isOver();
  }
}

function socketsOpen() {
  return process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length;
}

/** Warnings and rejections that nobody hears are problems, too. */
function watchProcess() {
  const seen = [];
  const onWarning = (warning) => {
    if (warning.name === 'MaxListenersExceededWarning') seen.push(`a warning: ${warning.message}`);
  };
  const onRejection = (error) =>
    seen.push(`a rejection that nobody heard: ${error?.stack ?? error}`.slice(0, 400));
  process.on('warning', onWarning);
  process.on('unhandledRejection', onRejection);
  return {
    end() {
      process.off('warning', onWarning);
      process.off('unhandledRejection', onRejection);
      return seen;
    },
  };
}

function codesOf(calls) {
  const codes = {};
  for (const { outcome } of calls) {
    const name = outcome.end === 'failed' ? `${outcome.code} ${outcome.executed}` : outcome.end;
    codes[name] = (codes[name] ?? 0) + 1;
  }
  return codes;
}
