/**
 * What the server's answers say of its limits, and whose limits they are.
 *
 * Guarantees at most ten requests of its own, none after the server has said that nothing is left, and "cannot
 * tell" wherever headers prove nothing. Never drives a limit to its end on purpose.
 */
import type { ResponseHead } from '../../http/exchange.js';
import { type PublishedLimit, rateLimitPolicy } from '../../rate-limit/server-hints.js';
import type { Session } from '../../session/session.js';
import { shown, span } from './report.js';
import type { Stage } from './stage.js';

type Whose = 'credential' | 'tenant' | 'shared' | 'cannot tell';

interface Seen {
  readonly limits: readonly PublishedLimit[];
  readonly atMs: number;
  readonly status: number;
}

const MOST_PINGS = 10;
/** What is left for the agent beside us. */
const LEAVE = 2;
const OF_TENANT = /tenant|org|team|account|workspace|project|customer/i;
const OF_CREDENTIAL = /user|token|key|client|credential|subject|caller/i;

/** Collects what heads say, from here on. */
export class LimitWatch {
  readonly #seen: Seen[] = [];
  readonly #strangers: Seen[];
  readonly #stop: () => void;
  readonly #clock: Stage['clock'];
  readonly #redactor: Stage['line']['redactor'];

  constructor({ line, clock }: Stage, strangers: readonly ResponseHead[]) {
    this.#clock = clock;
    this.#redactor = line.redactor;
    this.#strangers = strangers.map((head) => this.#read(head));
    this.#stop = line.onHead((head) => this.#seen.push(this.#read(head)));
  }

  get own(): readonly Seen[] {
    return this.#seen;
  }
  get strangers(): readonly Seen[] {
    return this.#strangers;
  }
  /** Requests left in the scarcest of the limits; infinite where nothing is said. */
  get left(): number {
    const counted = (this.#seen.at(-1)?.limits ?? []).flatMap(({ remaining }) => remaining ?? []);
    return Math.min(...counted, Number.POSITIVE_INFINITY);
  }
  get isRefused(): boolean {
    return this.#seen.some(({ status }) => status === 429);
  }

  stop(): void {
    this.#stop();
  }

  #read(head: ResponseHead): Seen {
    const nowMs = this.#clock.now();
    // Before a name is cut short: a part of a secret would not be known again.
    const headers = this.#redactor.value(head.headers) as ResponseHead['headers'];
    return {
      limits: rateLimitPolicy({ ...head, headers }, nowMs),
      atMs: this.#clock.monotonic(),
      status: head.status,
    };
  }
}

/** A few requests in a row, to see what they take from what is left. */
export async function drawOn(
  { line, progress, signal }: Stage,
  session: Session,
  watch: LimitWatch,
): Promise<void> {
  progress.step('looking at the limits');
  for (let made = 0; made < MOST_PINGS && watch.left > LEAVE && !watch.isRefused; made += 1) {
    await line.ping(session, { signal });
    signal.throwIfAborted();
  }
}

export function tellLimits({ report, aim }: Stage, watch: LimitWatch): void {
  const last = watch.own.findLast(({ limits }) => limits.length > 0);
  const refused = watch.own.filter(({ status }) => status === 429).length;
  const hasCredential = aim.credentials.id !== 'none';
  const told = (last?.limits ?? []).map((limit) => ({ limit, whose: whoseIs(limit, watch, hasCredential) }));
  report.note('limits', {
    requests: watch.own.length,
    refused,
    published: told.map(({ limit, whose }) => ({
      name: limit.name === undefined ? null : shown(limit.name),
      limit: limit.limit ?? null,
      windowMs: limit.windowMs ?? null,
      remaining: limit.remaining ?? null,
      resetMs: limit.resetMs ?? null,
      unit: limit.unit === undefined ? 'requests' : shown(limit.unit),
      per: whose,
    })),
  });
  if (refused > 0) {
    report.add({
      section: 'limits',
      name: 'refused',
      level: 'finding',
      measured: `${refused} of ${watch.own.length} requests were refused with status 429`,
      meaning: 'somebody uses the limit up: agents wait, or fail',
      set: 'rateLimit.limit and rateLimit.intervalMs below the limit of the server, with rateLimit.store for replicas',
    });
  }
  if (told.length === 0) {
    report.add({
      section: 'limits',
      name: 'limit',
      level: 'note',
      measured: `${watch.own.length} answers say nothing of a limit: cannot tell whether there is one`,
      meaning: 'a limit would be met for the first time as a refusal (status 429)',
    });
  }
  for (const { limit, whose } of told) {
    report.add({
      section: 'limits',
      name: 'limit',
      level: 'ok',
      measured: `${inWords(limit)}; ${WHOSE_WORDS[whose]}`,
      ...(limit.limit !== undefined && { set: settingFor(limit, whose) }),
    });
  }
}

function inWords({ name, limit, windowMs, unit, remaining, resetMs }: PublishedLimit): string {
  const what = unit === undefined ? 'requests' : shown(unit, 30);
  const size = limit === undefined ? `a limit on ${what}` : `${limit} ${what}`;
  const each = windowMs === undefined ? '' : ` in ${span(windowMs)}`;
  const left = remaining === undefined ? '' : `, ${remaining} left`;
  const until = resetMs === undefined ? '' : ` for ${span(resetMs)}`;
  return `${size}${each}${name === undefined ? '' : ` ("${shown(name, 40)}")`}${left}${remaining === undefined ? '' : until}`;
}

const WHOSE_WORDS: Readonly<Record<Whose, string>> = Object.freeze({
  credential: 'per credential',
  tenant: 'per tenant or address: requests without the credential count, too',
  shared: 'shared: more is taken from it than these requests take',
  'cannot tell': 'per credential or per tenant: cannot tell from the headers',
});

function settingFor({ limit, windowMs }: PublishedLimit, whose: Whose): string {
  const interval = windowMs === undefined ? '' : `, rateLimit.intervalMs: ${windowMs}`;
  const keyed = whose === 'credential' ? '' : ', one rateLimit.key for all who share it';
  return `rateLimit.limit: ${limit}${interval}${keyed}, with rateLimit.store for replicas`;
}

/**
 * Counted with strangers in one bucket, or apart from them; or named so by the server. What is taken by somebody
 * else within our own requests says that others share it, but not who they are.
 */
function whoseIs(limit: PublishedLimit, watch: LimitWatch, hasCredential: boolean): Whose {
  const stranger = last(watch.strangers, limit);
  const own = valuesOf(watch.own, limit);
  const [first] = own;
  if (stranger !== undefined && first !== undefined && hasCredential) {
    const isSameWindow = stranger.resetMs === undefined || first.atMs - stranger.atMs < stranger.resetMs;
    if (isSameWindow && first.remaining === stranger.remaining - 1) return 'tenant';
    if (isSameWindow && first.remaining >= stranger.remaining) return 'credential';
  }
  const name = limit.name ?? '';
  if (OF_TENANT.test(name)) return 'tenant';
  if (OF_CREDENTIAL.test(name)) return 'credential';
  return own.some((value, at) => value.remaining < (own[at - 1]?.remaining ?? 0) - value.requests)
    ? 'shared'
    : 'cannot tell';
}

interface Value {
  readonly remaining: number;
  readonly resetMs: number | undefined;
  readonly atMs: number;
  /** Requests of ours since the value before. */
  readonly requests: number;
}

function valuesOf(seen: readonly Seen[], { name, from, limit }: PublishedLimit): Value[] {
  const values: Value[] = [];
  let requests = 0;
  for (const { limits, atMs } of seen) {
    requests += 1;
    const found = limits.find((each) => each.name === name && each.from === from && each.limit === limit);
    if (found?.remaining === undefined) continue;
    values.push({ remaining: found.remaining, resetMs: found.resetMs, atMs, requests });
    requests = 0;
  }
  return values;
}

function last(seen: readonly Seen[], limit: PublishedLimit): Value | undefined {
  return valuesOf(seen, limit).at(-1);
}
