/**
 * What reached the simulator: counters, and a log without secrets.
 *
 * Guarantees that a token, a cookie or a session id shows only as a label, the same one for the life of the
 * server. Never forgets a request, whatever became of it.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { ServerCounts, ServerLogEntry } from './types.js';

type Writable<T> = { -readonly [K in keyof T]: T[K] };
export type LogEntry = Writable<ServerLogEntry>;
type Counts = Writable<Omit<ServerCounts, 'streamsOpen'>> & Pick<ServerCounts, 'streamsOpen'>;

export class RequestLog {
  counts: Counts;
  entries: LogEntry[] = [];
  /** Those to the MCP endpoint, in the order in which they were judged. */
  #toEndpoint: LogEntry[] = [];
  readonly #streamsOpen: () => number;

  constructor(streamsOpen: () => number) {
    this.#streamsOpen = streamsOpen;
    this.counts = emptyCounts(streamsOpen);
  }

  reset(): void {
    this.counts = emptyCounts(this.#streamsOpen);
    this.entries = [];
    this.#toEndpoint = [];
  }

  /** A request to the MCP endpoint is there as a whole. */
  arrived(entry: LogEntry, atMs: number): void {
    entry.atMs = atMs;
    this.counts.requests += 1;
    this.#toEndpoint.push(entry);
  }

  mostIn(windowMs: number, which?: ((entry: ServerLogEntry) => boolean) | undefined): number {
    if (!(windowMs > 0)) throw new TypeError('mostIn: windowMs must be a number above 0');
    const counted = which === undefined ? this.#toEndpoint : this.#toEndpoint.filter(which);
    let most = 0;
    let first = 0;
    for (const [last, { atMs }] of counted.entries()) {
      while (atMs - (counted[first]?.atMs ?? atMs) >= windowMs) first += 1;
      most = Math.max(most, last - first + 1);
    }
    return most;
  }

  countExecution(tool: string, callId: unknown): void {
    increment(this.counts.executions, tool);
    if (typeof callId === 'string') increment(this.counts.executionsById, callId);
  }
}

function emptyCounts(streamsOpen: () => number): Counts {
  return {
    executions: {},
    executionsById: {},
    initializes: 0,
    tokenRequests: 0,
    listens: 0,
    gets: 0,
    resumes: 0,
    subscriptions: 0,
    get streamsOpen() {
      return streamsOpen();
    },
    deletes: 0,
    pings: 0,
    requests: 0,
    rejectedByLimit: 0,
  };
}

function increment(counters: Record<string, number>, key: string): void {
  const value = Object.hasOwn(counters, key) ? (counters[key] ?? 0) : 0;
  // defineProperty, for a tool may be called __proto__.
  Object.defineProperty(counters, key, {
    value: value + 1,
    enumerable: true,
    writable: true,
    configurable: true,
  });
}

/** Names for secrets. */
export class Labels {
  readonly #byValue = new Map<string, string>();
  readonly #lastOfKind = new Map<string, number>();

  /** The label of a value that the server gave out. */
  issued(kind: 'token' | 'session', value: string): string {
    return this.#label(kind, kind, value);
  }

  /** The label of a value that came in: the one it was given out under, or that of a stranger. */
  seen(kind: 'token' | 'session' | 'cookie', value: string): string {
    return this.#byValue.get(`${kind}:${value}`) ?? this.#label(kind, `unknown-${kind}`, value);
  }

  cookie(value: string): string {
    return this.#label('cookie', 'cookie', value);
  }

  #label(kind: string, name: string, value: string): string {
    const known = this.#byValue.get(`${kind}:${value}`);
    if (known !== undefined) return known;
    const count = (this.#lastOfKind.get(name) ?? 0) + 1;
    this.#lastOfKind.set(name, count);
    const label = `${name}#${count}`;
    this.#byValue.set(`${kind}:${value}`, label);
    return label;
  }
}

/** The access token of a request, if it brought one: of either scheme, or of the one that is meant. */
export function tokenOf(
  authorization: string | undefined,
  scheme?: 'bearer' | 'dpop' | undefined,
): string | undefined {
  const [, given, token] = /^(bearer|dpop) +(\S+)$/i.exec(authorization ?? '') ?? [];
  return scheme === undefined || given?.toLowerCase() === scheme ? token : undefined;
}

/** Request headers with the secrets replaced. */
export function loggedHeaders(headers: IncomingHttpHeaders, labels: Labels): Record<string, string> {
  const logged: Record<string, string> = {};
  for (const [name, raw] of Object.entries(headers)) {
    const value = Array.isArray(raw) ? raw.join(', ') : (raw ?? '');
    logged[name] = loggedValue(name, value, labels);
  }
  return logged;
}

function loggedValue(name: string, value: string, labels: Labels): string {
  if (name === 'cookie') return labels.cookie(value);
  if (name === 'mcp-session-id') return labels.seen('session', value);
  if (name !== 'authorization') return value;
  const token = tokenOf(value);
  // The scheme stays: whether it is written with a capital B is something a test may want to see.
  const scheme = value.split(' ', 1)[0] ?? '';
  return token === undefined ? `${scheme} [redacted]` : `${scheme} ${labels.seen('token', token)}`;
}
