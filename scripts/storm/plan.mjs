// What a seed fixes: how the server is set, what each call is like, and which faults meet it.
import { OF_A_CALL } from './faults.mjs';
import { between, pick, randomOf, weighted } from './random.mjs';
import { RELAY_OF_A_CALL, RELAY_OF_THE_WORLD } from './relay-faults.mjs';
import { OF_THE_WORLD } from './world-faults.mjs';

export const FACES = ['hosted-client', 'v1', 'v2', 'fetch', 'relay'];
export const CALLERS = 16;
const TIMEOUT_MS = 10_000;
/** Of the calls. */
const CALLS_WITH_A_FAULT = 0.15;
const CALLS_THAT_TAKE_TIME = 0.25;
/** So many calls lie between two faults of the world, on average. */
const BETWEEN_FAULTS = 25;
/**
 * Between two that void tokens. A token that is refused as soon as it was made is taken for refused for good, and a
 * minute passes before the next: at this speed two such faults would look like that.
 */
const BETWEEN_TOKEN_FAULTS = 60;
/** Nothing happens to the first calls: they show that the setting works. */
const QUIET_CALLS = CALLERS;
/** An app does not keep a connection for ever: five sessions lost within minutes make it rest. */
const CALLS_OF_A_CLIENT = 150;

/** Faults of a call, and of the world, that there can be on a face; `kinds`: only these. */
export function catalogue(face, { era, kinds } = {}) {
  const isRelay = face === 'relay';
  const wanted = ({ kind }) => kinds === undefined || kinds.includes(kind);
  const fits = ({ sessions }) => !(sessions === true && era === 'stateless');
  const ofACall = isRelay
    ? [...OF_A_CALL.filter(({ everywhere }) => everywhere), ...RELAY_OF_A_CALL]
    : OF_A_CALL;
  const ofTheWorld = isRelay
    ? [...OF_THE_WORLD.filter(({ everywhere }) => everywhere), ...RELAY_OF_THE_WORLD]
    : OF_THE_WORLD;
  return {
    ofACall: ofACall.filter(wanted),
    ofTheWorld: ofTheWorld.filter((each) => wanted(each) && fits(each)),
  };
}

export const KINDS = [...OF_A_CALL, ...OF_THE_WORLD, ...RELAY_OF_A_CALL, ...RELAY_OF_THE_WORLD].map(
  ({ kind }) => kind,
);

export function makePlan({ seed, face, calls, kinds }) {
  const setting = settingOf(seed, face);
  const { ofACall, ofTheWorld } = catalogue(face, { era: setting.era, kinds });
  const random = randomOf(seed, face, 'faults');
  const faults = [];
  let tokensFreeFrom = 0;
  const add = (at, { kind, draw, voidsTokens }) => {
    const params = draw(random);
    if (voidsTokens === true && at < tokensFreeFrom) return;
    if (voidsTokens === true) tokensFreeFrom = at + BETWEEN_TOKEN_FAULTS;
    faults.push({ at, kind, ...params });
  };
  const replacing = kinds === undefined || kinds.includes('the client is replaced');
  for (let at = QUIET_CALLS; at < calls; at += 1) {
    if (ofACall.length > 0 && random() < CALLS_WITH_A_FAULT) add(at, weighted(random, ofACall));
    if (ofTheWorld.length > 0 && random() < 1 / BETWEEN_FAULTS) add(at, weighted(random, ofTheWorld));
    if (replacing && at % CALLS_OF_A_CLIENT === 0) faults.push({ at, kind: 'the client is replaced' });
  }
  return { seed, face, calls, setting, faults };
}

/** The call with this number, without the faults that are laid on it. */
export function callOf({ seed, face }, at) {
  const random = randomOf(seed, face, 'call', at);
  const takesTime = random() < CALLS_THAT_TAKE_TIME;
  return {
    tag: `${face}-${seed}-${at}`,
    args: takesTime ? { ms: between(random, 5, 600), progress: random() < 0.5 } : {},
    timeoutMs: TIMEOUT_MS,
  };
}

/** How the server is, and who asks it. */
function settingOf(seed, face) {
  const random = randomOf(seed, face, 'setting');
  const isModern = face === 'v2' && seed % 2 === 0;
  const server = {
    tokenLifetimeMs: pick(random, [20_000, 60_000, 3_600_000]),
    answer: pick(random, ['json', 'sse', undefined, undefined]),
    ...(isModern
      ? { protocolVersion: '2026-07-28' }
      : {
          eventStore: pick(random, [true, true, false, 'deaf']),
          bindSession: pick(random, ['none', 'none', 'token']),
          sessionLostStatus: pick(random, [400, 404, 404, 200]),
        }),
  };
  return {
    era: isModern ? 'stateless' : 'initialize',
    server,
    grant: pick(random, ['client', 'client', 'refresh']),
    /** Which of the frameworks' own transports is over `hostedFetch`. */
    framework: ['v1', 'v2'][seed % 2],
  };
}
