/**
 * `approve`: a call waits for somebody's word. Who that is and how it is asked for is the app's; what the word covers
 * is kept here.
 *
 * Guarantees that an approval covers one tool in the very definition that was shown, with the very arguments, for a
 * bounded time: if the tool or the arguments change afterwards, also by a later gate, or the time is up before the call
 * leaves, there is no approval. Never takes a late answer, and nothing but `true`, for one.
 */
import { OptionReader } from '../option-reader.js';
import type { CallFacts, Gate, GateContext } from './gate.js';
import { type ToolChoice, toolTest, withAnswer } from './tool-names.js';
import { turnOf } from './turn.js';
import { wireDigest } from './wire-digest.js';

export interface ApproveOptions {
  /** Which calls need it. All. */
  tools?: ToolChoice | undefined;
  /**
   * How long an answer may take. 30,000. Under `HostedClient` the call's own time does not run meanwhile; a transport
   * on its own cannot see to that and takes at most `retry.maxElapsedMs`.
   */
  timeoutMs?: number | undefined;
  /** For which later calls of the same tool with the same arguments an approval counts. `'never'`. */
  remember?: 'never' | 'turn' | 'session' | undefined;
  /** How long an approval counts, for the call that waits as for later ones. 300,000. */
  validForMs?: number | undefined;
}

const TIMEOUT_MS = 30_000;
/** A person who said yes did so for what was known then. */
const VALID_FOR_MS = 300_000;
/** Approvals that one connection remembers. */
const REMEMBERED = 1_000;

interface Approval {
  readonly covers: string;
  readonly untilMs: number;
}

/**
 * Asks `decide` before a call goes out; only `true` lets it. A changed tool needs a new approval.
 *
 * @example
 * gates: [approve((call, { signal }) => askPerson(call.tool, call.arguments, signal), {
 *   tools: ['transfer'], timeoutMs: 600_000, remember: 'turn',
 * })]
 *
 * Throws `TypeError` for an option that cannot be used.
 */
export function approve(
  decide: (call: CallFacts, options: { signal: AbortSignal }) => boolean | Promise<boolean>,
  options: ApproveOptions = {},
): Gate {
  if (typeof decide !== 'function') throw new TypeError('approve needs a function that decides');
  const read = new OptionReader('approve', options);
  const choice = read.any('tools') as ToolChoice | undefined;
  const isConcerned = choice === undefined ? () => true : toolTest(choice, 'approve.tools');
  const timeoutMs = read.duration('timeoutMs', 1) ?? TIMEOUT_MS;
  const remember = read.oneOf('remember', ['never', 'turn', 'session'] as const) ?? 'never';
  const validForMs = read.duration('validForMs', 1) ?? VALID_FOR_MS;
  read.done();
  const given = new WeakMap<object, Approval | 'not concerned'>();
  const remembered = new WeakMap<object, Map<string, number>>();

  const decided = async (call: CallFacts, context: GateContext) => {
    const covers = coveredBy(call);
    const { clock, connection, key } = context;
    const known = given.get(key);
    const isStill =
      known !== 'not concerned' && known?.covers === covers && clock.monotonic() < known.untilMs;
    if (isStill) return 'allow' as const;
    const scope = scopeOf(call, remember);
    const store = remembered.get(connection) ?? new Map<string, number>();
    const rememberedUntilMs = scope === undefined ? undefined : store.get(`${scope} ${covers}`);
    if (rememberedUntilMs !== undefined && clock.monotonic() < rememberedUntilMs) {
      given.set(key, { covers, untilMs: rememberedUntilMs });
      return 'allow' as const;
    }
    const answer = await decide(call, context);
    if (answer !== true || context.signal.aborted) return { deny: 'it was not approved' };
    const untilMs = clock.monotonic() + validForMs;
    given.set(key, { covers, untilMs });
    if (scope === undefined) return 'allow' as const;
    remembered.set(connection, store);
    store.delete(`${scope} ${covers}`);
    store.set(`${scope} ${covers}`, untilMs);
    if (store.size > REMEMBERED) store.delete(store.keys().next().value as string);
    return 'allow' as const;
  };

  return {
    name: 'approve',
    timeoutMs,
    stopsTimer: true,
    needsTools: true,
    before: (call, context) =>
      withAnswer(isConcerned(call), (concerns) => {
        if (concerns !== false) return decided(call, context);
        given.set(context.key, 'not concerned');
        return 'allow';
      }),
    stands(call, { key, clock }) {
      const approval = given.get(key);
      if (approval === undefined || approval === 'not concerned') return approval !== undefined;
      return clock.monotonic() < approval.untilMs && approval.covers === coveredBy(call);
    },
  };
}

function coveredBy({ method, tool, toolDigest, arguments: given }: CallFacts): string {
  return wireDigest([method, tool, toolDigest ?? null, given ?? null]);
}

/** Undefined: for no other call. */
function scopeOf(call: CallFacts, remember: 'never' | 'turn' | 'session'): string | undefined {
  if (remember === 'turn') {
    const turn = turnOf(call);
    return turn === undefined ? undefined : `turn ${JSON.stringify(turn)}`;
  }
  return remember === 'session' && call.session !== undefined ? `session ${call.session.number}` : undefined;
}
