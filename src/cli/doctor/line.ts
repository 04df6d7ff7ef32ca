/**
 * The engine's own wire and handshake, asked step by step rather than through a connection that heals itself.
 *
 * Guarantees that what is measured is what the library does on this way, that each session opened here is
 * deleted by `close()`, also after Ctrl-C, and that every secret sent is known to the redactor. Never repeats a
 * request, never waits longer than it says.
 */
import { type Clock, untilAborted } from '../../clock.js';
import { routeOf } from '../../connection/outgoing.js';
import type { StreamFacts } from '../../connection/route.js';
import { Wire } from '../../connection/wire.js';
import type { Credential, CredentialProvider } from '../../credentials/provider.js';
import { HostedMcpError } from '../../errors.js';
import { createHttpClient } from '../../http/create.js';
import type { HttpClient, ResponseHead } from '../../http/exchange.js';
import { CookieJar } from '../../http/headers.js';
import type { ResolvedHttpOptions } from '../../http/options.js';
import { isResult, type JsonRpcRequest } from '../../json-rpc.js';
import { Redactor } from '../../redactor.js';
import { Handshake } from '../../session/handshake.js';
import { Session } from '../../session/session.js';

/** What is examined: an address, and what is needed to speak to it. */
export interface Aim {
  readonly url: URL;
  /** Without what may be a secret in it. */
  readonly shownUrl: string;
  readonly credentials: CredentialProvider;
  readonly http: ResolvedHttpOptions;
}

export interface AskOptions {
  /** The session's own by default. */
  readonly credential?: Credential | undefined;
  readonly signal?: AbortSignal | undefined;
}

export const MODERN_VERSION = '2026-07-28';
const PROTOCOL_VERSION = '2025-11-25';
const CLIENT_INFO = Object.freeze({ name: 'mcp-holdfast-doctor', version: '1' });
const META = 'io.modelcontextprotocol/';
const MODERN_META = Object.freeze({
  [`${META}protocolVersion`]: MODERN_VERSION,
  [`${META}clientInfo`]: CLIENT_INFO,
  [`${META}clientCapabilities`]: {},
});
/** As the engine's first try has it: what does not answer by then is not going to for an agent either. */
const HANDSHAKE_MS = 15_000;
const ANSWER_MS = 30_000;
/** A person who pressed Ctrl-C waits no longer than this for sessions to be deleted. */
const GOODBYE_MS = 3_000;
/** Credentials that are given as they are: `bearerToken`, `headerCredential`. */
const FIXED = /^(?:bearer$|header:)/;
/** Nothing is held back here: the server's own limit is one of the things looked at. */
const NO_TOLL = Object.freeze({ pausedMs: 0, pay: () => undefined });

export class Line {
  readonly redactor = new Redactor();
  readonly #aim: Aim;
  readonly #clock: Clock;
  readonly #http: HttpClient;
  readonly #wire: Wire;
  readonly #handshake: Handshake;
  readonly #sessions = new Set<Session>();
  /** Handshakes under way: a session that is given out after Ctrl-C is still to be deleted. */
  readonly #opening = new Set<Promise<unknown>>();
  readonly #heads = new Set<(head: ResponseHead) => void>();
  #made = 0;
  lastHead: ResponseHead | undefined;

  constructor(aim: Aim, clock: Clock) {
    this.#aim = aim;
    this.#clock = clock;
    this.#http = createHttpClient(aim.http, clock);
    this.#wire = new Wire({
      url: aim.url,
      http: this.#http,
      clock,
      redactor: this.redactor,
      headers: aim.http.headers,
      maxMessageBytes: aim.http.maxMessageBytes,
      affinityCookies: aim.http.affinityCookies,
      toll: NO_TOLL,
      onHead: (head) => {
        this.lastHead = head;
        for (const listener of this.#heads) listener(head);
      },
      onExchange: () => {},
      onCut: () => {},
    });
    this.#handshake = new Handshake({
      wire: this.#wire,
      credentials: aim.credentials,
      target: aim.url,
      clock,
      onMessage: () => {},
    });
  }

  /** Hears every answer's head, until the function it gives is called. */
  onHead(listener: (head: ResponseHead) => void): () => void {
    this.#heads.add(listener);
    return () => this.#heads.delete(listener);
  }

  /**
   * What is fixed and may have been seen by the server before is known to the redactor before the server is heard.
   * No I/O: a token that is fetched is new to everybody.
   */
  async learnFixed(signal: AbortSignal): Promise<void> {
    const { credentials, http, url } = this.#aim;
    const values = Object.values(http.headers);
    if (FIXED.test(credentials.id)) {
      // Where it cannot be read, that is told in its own place.
      const credential = await this.credential(signal).catch(() => undefined);
      values.push(...Object.values((await credential?.headers({ method: 'POST', url })) ?? {}));
    }
    for (const value of values) this.redactor.add(value.replace(/^[a-z]+ +/i, ''));
  }

  credential(signal: AbortSignal): Promise<Credential> {
    return this.#aim.credentials.acquire(this.#aim.url, { signal });
  }

  /** Another one than this, as after a refusal; rejects where the source has none. */
  renewed(before: Credential, signal: AbortSignal): Promise<Credential> {
    const rejected = { generation: before.generation, status: 401 };
    return this.#aim.credentials.acquire(this.#aim.url, { signal, rejected });
  }

  /** Opens a session in whichever era the server speaks. Rejects with a `HostedMcpError`. */
  async open(signal: AbortSignal): Promise<Session> {
    const params = { protocolVersion: PROTOCOL_VERSION, capabilities: {}, clientInfo: CLIENT_INFO };
    const initialize = { jsonrpc: '2.0', id: 'initialize', method: 'initialize', params } as const;
    // Not ended by the signal: its session would be left behind.
    const untilMs = this.#clock.monotonic() + HANDSHAKE_MS;
    const never = new AbortController().signal;
    const opening = this.#handshake
      .open(initialize, ++this.#made, never, 1, untilMs)
      .then((session) => {
        this.#sessions.add(session);
        return session;
      })
      .finally(() => this.#opening.delete(opening));
    this.#opening.add(opening);
    try {
      return await untilAborted(opening, signal);
    } catch (error) {
      if (signal.aborted || !HostedMcpError.isInstance(error, 'ERR_PROTOCOL')) throw error;
      const modern = await this.#discover(signal);
      if (modern === undefined) throw error;
      return modern;
    }
  }

  /** One request of the session's era. Rejects only with the signal's reason or what the credential throws. */
  ask(
    session: Session,
    method: string,
    params: JsonRpcRequest['params'] = {},
    { credential = session.credential, signal }: AskOptions = {},
  ): Promise<StreamFacts> {
    const isModern = session.info.era === 'stateless';
    const request: JsonRpcRequest = {
      jsonrpc: '2.0',
      id: `holdfast-doctor-${++this.#made}`,
      method,
      params: isModern ? { ...params, _meta: MODERN_META } : params,
    };
    return this.#within(signal, method === 'subscriptions/listen' ? undefined : ANSWER_MS, (ended) =>
      this.#wire.send(request, {
        session,
        credential,
        signal: ended,
        ...(isModern && routeOf(request, undefined)),
        onMessage: () => {},
      }),
    );
  }

  /** A question that costs the server nothing: `ping`, or `server/discover` where there is none. */
  ping(session: Session, options?: AskOptions): Promise<StreamFacts> {
    return this.ask(session, session.info.era === 'stateless' ? 'server/discover' : 'ping', {}, options);
  }

  /** The same outside of any session: is the credential itself still taken? */
  pingOutside(credential: Credential, signal: AbortSignal): Promise<StreamFacts> {
    const id = `holdfast-doctor-${++this.#made}`;
    return this.#within(signal, ANSWER_MS, (ended) =>
      this.#wire.send(
        { jsonrpc: '2.0', id, method: 'ping' },
        { credential, signal: ended, onMessage: () => {} },
      ),
    );
  }

  /** Holds a stream on which nothing is asked for; resolves when it has ended, by whomever. */
  hold(
    session: Session,
    signal: AbortSignal,
    heard: { onOpen(): void; onBytes(): void },
  ): Promise<StreamFacts> {
    if (session.info.era === 'stateless') {
      heard.onOpen();
      return this.ask(session, 'subscriptions/listen', { notifications: {} }, { signal });
    }
    return this.#within(signal, undefined, (ended) =>
      this.#wire.stream({
        method: 'GET',
        // A server of 2024-11-05 opens a new session with each stream, which ends with it.
        ...(session.road === undefined && { session }),
        credential: session.credential,
        signal: ended,
        onMessage: () => {},
        onEvent: () => {},
        ...heard,
      }),
    );
  }

  /** Deletes every session and ends everything. Never rejects. */
  async close(): Promise<void> {
    const ended = new AbortController();
    const timer = this.#clock.setTimeout(() => ended.abort(new Error('no time left')), GOODBYE_MS);
    try {
      await untilAborted(Promise.allSettled([...this.#opening]), ended.signal).catch(() => {});
      await untilAborted(this.#handshake.releases.settled(), ended.signal).catch(() => {});
      await Promise.allSettled([...this.#sessions].map((session) => this.#end(session, ended.signal)));
    } finally {
      timer.clear();
      this.#wire.dropLingering();
      await this.#http.close();
      await this.#aim.credentials.close?.({ drainMs: GOODBYE_MS }).catch(() => {});
    }
  }

  async #end(session: Session, signal: AbortSignal): Promise<void> {
    this.#sessions.delete(session);
    session.phase = 'ended';
    if (session.road !== undefined) session.road.end();
    else if (session.hasId)
      await this.#wire.delete({ session, credential: session.credential, signal, onMessage: () => {} });
  }

  async #discover(signal: AbortSignal): Promise<Session | undefined> {
    const credential = await this.credential(signal);
    const stand = (result: Readonly<Record<string, unknown>>) =>
      new Session({
        number: ++this.#made,
        id: undefined,
        era: 'stateless',
        protocolVersion: MODERN_VERSION,
        result: { ...result, serverInfo: namedServer(result) },
        credential,
        cookies: new CookieJar(this.#clock),
        establishedAtMs: this.#clock.now(),
        fingerprintKey: new Uint8Array(),
      });
    const { message, relation } = await this.ask(stand({}), 'server/discover', {}, { signal });
    if (relation !== 'own' || !isResult(message)) return undefined;
    const { supportedVersions } = message.result;
    const isSpoken = Array.isArray(supportedVersions) && supportedVersions.includes(MODERN_VERSION);
    return isSpoken ? stand(message.result) : undefined;
  }

  /** One exchange, ended by the signal or when its time is up; nothing of it is left behind. */
  async #within(
    signal: AbortSignal | undefined,
    ms: number | undefined,
    run: (ended: AbortSignal) => Promise<StreamFacts>,
  ): Promise<StreamFacts> {
    signal?.throwIfAborted();
    const ended = new AbortController();
    const onAbort = () => ended.abort(signal?.reason);
    signal?.addEventListener('abort', onAbort, { once: true });
    const timer = ms === undefined ? undefined : this.#clock.setTimeout(() => ended.abort(), ms);
    try {
      return await run(ended.signal);
    } finally {
      timer?.clear();
      signal?.removeEventListener('abort', onAbort);
    }
  }
}

function namedServer(result: Readonly<Record<string, unknown>>): unknown {
  const meta = result._meta;
  if (typeof meta !== 'object' || meta === null) return undefined;
  return (meta as Record<string, unknown>)[`${META}serverInfo`];
}
