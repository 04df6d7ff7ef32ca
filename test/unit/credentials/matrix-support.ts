/**
 * Plays one answer of a token endpoint against one grant in one state, and tells what came of it.
 *
 * The token endpoint is a real one on loopback, strict about refresh tokens: it counts every request, takes the newest
 * refresh token only (with `grace` also the one before it), and ends the family when another one comes.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type CredentialProvider,
  type CredentialStore,
  clientCredentialsGrant,
  fileCredentialStore,
  jwtBearerGrant,
  memoryCredentialStore,
  type Rejection,
  refreshTokenGrant,
  tokenExchangeGrant,
} from '../../../src/credentials/index.js';
import { HostedMcpError } from '../../../src/errors.js';
import type { ManualClock } from '../../../src/testing/manual-clock.js';
import { bearerOf, skewedClock, TARGET } from './support.js';

export const GRANTS = [
  'refresh token, memory store',
  'refresh token, file store',
  'client credentials, memory store',
  'JWT bearer',
  'token exchange',
] as const;
export type GrantName = (typeof GRANTS)[number];

/** What is held when the caller comes: nothing; a token that is due; one that is over; one the MCP server refused. */
export const STATES = ['cold', 'in its soft window', 'expired', 'refused by 401'] as const;
export type State = (typeof STATES)[number];

export const spendsRefreshToken = (grant: GrantName) => grant.startsWith('refresh token');
export const hasStore = (grant: GrantName) => grant.endsWith('store');

export interface Act {
  readonly status?: number;
  readonly headers?: Record<string, string> | ((nowMs: number) => Record<string, string>);
  /** Text is sent as it is, anything else as JSON. */
  readonly body?: unknown | ((nowMs: number) => unknown);
  /** How the answer is broken off, if it is. */
  readonly cut?:
    | 'reset before the head'
    | 'reset in the body'
    | 'end in the body'
    | 'silence'
    | 'silent body';
  /** The refresh token was rotated, although the answer does not arrive. */
  readonly spends?: boolean;
}

export interface Played {
  readonly act: Act;
  /** Once, then ordinary answers; else until the time of `later`. */
  readonly once?: boolean | undefined;
  /** Nothing listens. */
  readonly away?: boolean | undefined;
  readonly grace?: boolean | undefined;
  readonly patienceMs: number;
  /** The first steps in which the clock is moved while somebody waits; undefined: nothing has to be waited for. */
  readonly stepsMs?: readonly number[] | undefined;
  /** How long after its start the caller comes a third time, with an ordinary server. */
  readonly laterMs: number;
}

export type Seen =
  /** How long it is good for is told of the odd answer's token only. */
  | { readonly token: string; readonly generation: number; readonly lifetimeMs?: number }
  | {
      readonly code: string;
      readonly retryable: boolean;
      readonly retryAfterMs: number | undefined;
      readonly reason: string | undefined;
      readonly status: number | undefined;
    };

export interface Outcome {
  /** What the caller gets. */
  readonly seen: Seen;
  /** Token requests until all is at rest. */
  readonly requests: number;
  /** `undefined`: no record; `'none'`: no store. */
  readonly stored: { access?: string; refresh?: string; gen: number } | undefined | 'none';
  /** What the caller after it gets at once (how long is left apart), and the token requests that makes. */
  readonly next: Seen;
  readonly nextRequests: number;
  /** The same at `laterMs`. */
  readonly later: Seen;
  readonly laterRequests: number;
  /** The refresh tokens sent, of all requests after the state was reached. */
  readonly sent: readonly string[];
}

export const LIFETIME_MS = 600_000;
const JITTER = 0.9;
/** By which a first failure is backed off. */
export const BACKOFF_MS = 450;
/** Between two tries with a refresh token that may have been spent. */
export const AGAIN_MS = 275;
export const TIMEOUT_MS = 1_000;
const STEP_MS = 25;
/** Where nothing waits for the clock, this many looks mean that something does after all. */
const MANY_LOOKS = 500;
/** Time for a token request and for a second look at a store, not for a back-off. */
export const HURRY_MS = 300;

export class StrictServer {
  readonly sent: string[] = [];
  act: Act | undefined;
  once = false;
  grace = false;
  /** What the act's answer brought. */
  oddAccess: string | undefined;
  #current = 'R0';
  #previous: string | undefined;
  #revoked = false;
  #issued = 0;
  #port = 0;
  readonly #server: Server;
  readonly #clock: ManualClock;

  constructor(clock: ManualClock) {
    this.#clock = clock;
    this.#server = createServer((request, response) => {
      let text = '';
      request.on('data', (chunk) => {
        text += chunk;
      });
      request.on('end', () => this.#answer(new URLSearchParams(text), request, response));
    });
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(this.#port, '127.0.0.1', resolve));
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  get tokenEndpoint(): string {
    return `http://127.0.0.1:${this.#port}/token`;
  }

  #answer(form: URLSearchParams, request: IncomingMessage, response: ServerResponse): void {
    this.sent.push(form.get('refresh_token') ?? '-');
    const act = this.act;
    if (act === undefined) {
      const { status, body } = this.#ordinary(form);
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
      return;
    }
    if (this.once) this.act = undefined;
    const nowMs = this.#clock.now();
    const body = typeof act.body === 'function' ? act.body(nowMs) : act.body;
    this.#note(body);
    if (act.spends === true) this.#rotate('R-lost');
    if (act.cut === 'silence') return;
    if (act.cut === 'reset before the head') {
      request.socket.resetAndDestroy();
      return;
    }
    const text = typeof body === 'string' ? body : JSON.stringify(body ?? {});
    const headers = typeof act.headers === 'function' ? act.headers(nowMs) : act.headers;
    response.sendDate = false;
    response.writeHead(act.status ?? 200, {
      'content-type': typeof body === 'string' ? 'text/html' : 'application/json',
      'content-length': String(Buffer.byteLength(text)),
      ...headers,
    });
    if (act.cut === undefined) {
      response.end(text);
      return;
    }
    response.write(text.slice(0, text.length / 2), () => {
      if (act.cut === 'end in the body') request.socket.end();
      // After the half was read: a reset may overtake what was written.
      else if (act.cut === 'reset in the body') setImmediate(() => request.socket.resetAndDestroy());
    });
  }

  /** What an answer brings, whichever way it is written. */
  #note(body: unknown): void {
    const text = typeof body === 'string' ? body : JSON.stringify(body ?? {});
    const brought = (name: string) =>
      new RegExp(`"${name}":"((?:[^"\\\\]|\\\\.)+)"`).exec(text)?.[1] ?? new URLSearchParams(text).get(name);
    this.oddAccess = brought('access_token')?.replace(/\\n$/, '');
    const refresh = brought('refresh_token');
    if (typeof refresh === 'string') this.#rotate(refresh);
  }

  #rotate(next: string): void {
    this.#previous = this.#current;
    this.#current = next;
  }

  #ordinary(form: URLSearchParams): { status: number; body: object } {
    const refresh = form.get('refresh_token');
    this.#issued += 1;
    const body = {
      access_token: `A${this.#issued}`,
      token_type: 'Bearer',
      expires_in: LIFETIME_MS / 1000,
    };
    if (refresh === null) return { status: 200, body };
    const isTaken = refresh === this.#current || (this.grace && refresh === this.#previous);
    if (!isTaken) this.#revoked = true;
    if (this.#revoked) return { status: 400, body: { error: 'invalid_grant' } };
    this.#rotate(`R${this.#issued}`);
    return { status: 200, body: { ...body, refresh_token: this.#current } };
  }
}

/** A store whose work on disk the clock waits for. */
function tracked(store: CredentialStore, clock: ManualClock): CredentialStore {
  const waited = async <T>(work: () => Promise<T>): Promise<T> => {
    const busy = clock.track();
    try {
      return await work();
    } finally {
      busy.dispose();
    }
  };
  return {
    read: (...given) => waited(() => store.read(...given)),
    compareAndSet: (...given) => waited(() => store.compareAndSet(...given)),
    async lease(...given) {
      const lease = await waited(() => store.lease(...given));
      return (
        lease && { remainingMs: () => lease.remainingMs(), release: () => waited(() => lease.release()) }
      );
    },
  };
}

function makeGrant(name: GrantName, tokenEndpoint: string, clock: ManualClock, store: CredentialStore) {
  const refresh = { background: 'never', tokenTimeoutMs: TIMEOUT_MS } as const;
  const common = { tokenEndpoint, clientId: 'client', clientSecret: 'secret', clock, refresh };
  const shared = { ...common, store, subject: 'user' };
  switch (name) {
    case 'refresh token, memory store':
    case 'refresh token, file store':
      return refreshTokenGrant({ ...shared, refreshToken: 'R0' });
    case 'client credentials, memory store':
      return clientCredentialsGrant(shared);
    case 'JWT bearer':
      return jwtBearerGrant({ ...common, assertion: 'ASSERTION' });
    case 'token exchange':
      return tokenExchangeGrant({
        ...common,
        subjectToken: 'SUBJECT',
        subjectTokenType: 'urn:ietf:params:oauth:token-type:access_token',
      });
  }
}

export interface Scene {
  readonly clock: ManualClock & { skewMs: number };
  readonly server: StrictServer;
  readonly provider: CredentialProvider;
  readonly store: CredentialStore;
}

/** A provider of this grant before a strict token endpoint, closed when `work` is done. */
export async function withScene<T>(grant: GrantName, work: (scene: Scene) => Promise<T>): Promise<T> {
  const clock = Object.assign(skewedClock(), { random: () => JITTER });
  const server = new StrictServer(clock);
  await server.listen();
  const dir =
    grant === 'refresh token, file store' ? await mkdtemp(join(tmpdir(), 'holdfast-matrix-')) : undefined;
  const store =
    dir === undefined
      ? memoryCredentialStore({ clock })
      : tracked(fileCredentialStore(dir, { clock }), clock);
  const provider = makeGrant(grant, server.tokenEndpoint, clock, store);
  try {
    return await work({ clock, server, provider, store });
  } finally {
    await provider.close?.({ drainMs: 0 });
    await server.close();
    if (dir !== undefined) await rm(dir, { recursive: true, force: true });
  }
}

export function play(grant: GrantName, state: State, played: Played): Promise<Outcome> {
  return withScene(grant, (scene) => playWith({ ...scene, grant, state, played }));
}

async function playWith(
  scene: Scene & { readonly grant: GrantName; readonly state: State; readonly played: Played },
): Promise<Outcome> {
  const { clock, server, provider, store, grant, state, played } = scene;
  const steps = [...(played.stepsMs ?? [])];
  let stepsTaken = 0;
  /** Every other step is a request's own time, which begins when the request has arrived. */
  const isEarly = () => steps.length > 0 && stepsTaken % 2 === 0 && server.sent.length <= stepsTaken / 2;

  /** Moves the clock only as far as somebody waits for it. */
  const driven = async <T>(promise: Promise<T>, waits = false): Promise<T> => {
    let isOver = false;
    const over = () => {
      isOver = true;
    };
    promise.then(over, over);
    for (let looks = 1; ; looks++) {
      await clock.settle();
      if (isOver) return await promise;
      // Modules and files take real time, which is none of this clock's.
      if (waits && isEarly()) continue;
      if (waits || looks > MANY_LOOKS) {
        stepsTaken += 1;
        await clock.advance(steps.shift() ?? STEP_MS);
      }
    }
  };
  const label = (token: string | undefined) => (token === server.oddAccess ? 'odd' : (token ?? '-'));
  const caller = async (maxWaitMs: number, rejected?: Rejection): Promise<Seen> => {
    try {
      const credential = await provider.acquire(TARGET, { maxWaitMs, rejected });
      const { generation, expiresAtMs } = credential;
      const token = label((await bearerOf(credential))?.slice('Bearer '.length));
      if (token !== 'odd' || expiresAtMs === undefined) return { token, generation };
      return { token, generation, lifetimeMs: expiresAtMs - clock.now() };
    } catch (error) {
      if (!HostedMcpError.isInstance(error)) throw error;
      const { code, retryable, retryAfterMs, reason } = error;
      // How much of the head a busy machine has read when the manual clock ends the wait is not ours to say.
      const status = played.act?.cut === 'silent body' ? undefined : error.status;
      return { code, retryable, retryAfterMs, reason, status };
    }
  };
  const settled = () =>
    new Promise<void>((resolve) => {
      const stop = provider.onEvent?.(() => {
        stop?.dispose();
        resolve();
      });
    });

  if (state !== 'cold') await provider.acquire(TARGET);
  if (state === 'in its soft window') await clock.advance(LIFETIME_MS * 0.9);
  if (state === 'expired') await clock.advance(LIFETIME_MS);
  if (state === 'refused by 401') await clock.advance(10_000);
  server.sent.length = 0;
  if (played.away === true) await server.close();
  else Object.assign(server, { act: played.act, once: played.once === true, grace: played.grace === true });

  const startedMs = clock.monotonic();
  const atRest = settled();
  const rejected = state === 'refused by 401' ? { generation: 1, status: 401 } : undefined;
  const seen = await driven(caller(played.patienceMs, rejected), played.stepsMs !== undefined);
  // In the soft window the renewal goes on without its caller.
  await driven(atRest, played.stepsMs !== undefined);
  const requests = server.sent.length;

  const record = hasStore(grant) ? await store.read(provider.id) : undefined;
  const data = record === undefined ? undefined : JSON.parse(record.data);
  const next = await driven(caller(HURRY_MS));
  await clock.settle();
  const nextRequests = server.sent.length - requests;

  if (played.away === true) await server.listen();
  server.act = undefined;
  await clock.advance(Math.max(0, played.laterMs - (clock.monotonic() - startedMs)));
  const before = server.sent.length;
  const later = await driven(caller(HURRY_MS));
  await clock.settle();
  return {
    seen,
    requests,
    stored: !hasStore(grant)
      ? 'none'
      : data && {
          ...(data.access === undefined ? {} : { access: label(data.access) }),
          ...(data.refresh === undefined ? {} : { refresh: data.refresh }),
          gen: data.gen,
        },
    next: 'code' in next ? { ...next, retryAfterMs: undefined } : next,
    nextRequests,
    later,
    laterRequests: server.sent.length - before,
    sent: [...server.sent],
  };
}
