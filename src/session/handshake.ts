/**
 * The handshake, made as often as needed from one captured `initialize`.
 *
 * Guarantees that it carries neither a session id nor a version header, that only its own answer can set
 * a session id, that a token refused on the way is renewed once, that a server of protocol 2024-11-05 is found
 * where it refuses the POST, and that a session that was given and comes to nothing is released. Never sends a tool call.
 */
import { type Clock, untilAborted } from '../clock.js';
import type { Challenge } from '../connection/challenge.js';
import { classify, PLAIN_CONTEXT, type Verdict } from '../connection/classify.js';
import type { StreamFacts } from '../connection/route.js';
import type { Wire } from '../connection/wire.js';
import type { Credential, CredentialProvider, Rejection } from '../credentials/provider.js';
import { HostedMcpError } from '../errors.js';
import { CookieJar } from '../http/headers.js';
import { isResult, type JsonRpcError, type JsonRpcMessage, type JsonRpcRequest } from '../json-rpc.js';
import { LIMITS } from '../limits.js';
import { randomBytes } from '../runtime/digest.js';
import { LegacyRoad } from '../streams/legacy-sse.js';
import { Bound } from './handshake-bound.js';
import { handshakeError, refusalOf } from './handshake-failures.js';
import { Releases } from './release.js';
import { Session, type SessionParts } from './session.js';

export interface HandshakeParts {
  readonly wire: Wire;
  readonly credentials: CredentialProvider;
  readonly target: URL;
  readonly clock: Clock;
  /** Its own where not given. */
  readonly releases?: Releases | undefined;
  onMessage(message: JsonRpcMessage, session: Session | undefined): void;
}

export { InitializeRefused } from './handshake-failures.js';

/** `initialized` meets another node than `initialize` did: the socket often leads to the right one at the next try. */
const INITIALIZED_TRIES = 5;
/** What a server of protocol 2024-11-05 says to a POST where its stream is (MCP 2025-11-25, transports, "Backwards Compatibility"). */
const NO_POST_HERE: ReadonlySet<number> = new Set([400, 404, 405]);
/** What a server takes a request without a version for (MCP 2025-11-25, transports, "Protocol Version Header"). */
const ASSUMED_VERSION = '2025-03-26';

/** What came of asking for a session once. */
interface Asked {
  readonly facts: StreamFacts;
  readonly cookies: CookieJar;
  /** The stream that carries the session. */
  readonly road?: LegacyRoad;
  /** Neither protocol was spoken. */
  readonly triedBoth?: boolean;
}

/** Who waits for an answer to `initialize`, and until when. */
interface Waiting {
  readonly cookies: CookieJar;
  readonly credential: Credential;
  readonly number: number;
  readonly signal: AbortSignal;
}

export class Handshake {
  readonly #parts: HandshakeParts;
  readonly releases: Releases;
  /** Fingerprints of this connection's sessions cannot be joined with another's. */
  readonly #fingerprintKey = randomBytes(32);
  #made = 0;
  /** Found: this server speaks HTTP+SSE. */
  #isLegacy = false;

  constructor(parts: HandshakeParts) {
    this.#parts = parts;
    this.releases = parts.releases ?? new Releases(parts);
  }

  /**
   * Opens a session, by `untilMs` on the monotonic clock; rejects with a `HostedMcpError`, retryable where nothing reached the
   * server or it was briefly away.
   */
  async open(
    initialize: JsonRpcRequest,
    number: number,
    ended: AbortSignal,
    attempt: number,
    untilMs: number,
  ): Promise<Session> {
    const bound = new Bound(this.#parts, ended, attempt, untilMs);
    try {
      return await this.#open(initialize, number, bound);
    } catch (error) {
      throw bound.signal.aborted ? bound.signal.reason : error;
    } finally {
      bound.release();
    }
  }

  async #open(initialize: JsonRpcRequest, number: number, bound: Bound): Promise<Session> {
    const { credentials, target } = this.#parts;
    const { signal } = bound;
    let credential = await bound.aside(credentials.acquire(target, { signal }));
    // Each reason to ask for another credential counts once: none was sent, its proof lacked a nonce, it was refused.
    for (const renewedFor = new Set<string>(); ; ) {
      const sentWith: Credential = credential;
      const asked = await this.#ask(initialize, sentWith, number, bound);
      const { facts } = asked;
      let session: Session | undefined;
      try {
        if (signal.aborted) throw signal.reason;
        const verdict = classify(facts, PLAIN_CONTEXT);
        const reason = renewalReason(verdict, sentWith, facts);
        if (reason === undefined || renewedFor.has(reason)) {
          if (verdict.kind !== 'answer') throw handshakeError(verdict, facts, asked.triedBoth);
          if (!isResult(verdict.message)) throw refusalOf(verdict.message as JsonRpcError);
          session = this.#session(verdict.message.result, asked, sentWith, number);
          await this.#announce(session, bound);
          return session;
        }
        renewedFor.add(reason);
      } catch (error) {
        if (session === undefined) this.#leave(asked, sentWith, number);
        else this.releases.release(session);
        throw error;
      }
      this.#leave(asked, sentWith, number);
      const rejected = rejectionOf(sentWith, facts);
      const scope = rejected.status === 403 ? rejected.scope : undefined;
      credential = await bound.aside(credentials.acquire(target, { signal, rejected, scope }));
    }
  }

  /** Asks in the protocol that was found; where that is refused as unknown, in the other one. */
  async #ask(
    initialize: JsonRpcRequest,
    credential: Credential,
    number: number,
    bound: Bound,
  ): Promise<Asked> {
    const { signal } = bound;
    const wasLegacy = this.#isLegacy;
    this.#isLegacy = false;
    const first = await this.#askIn(wasLegacy, initialize, credential, number, bound);
    const { status = 0, relation } = first.facts;
    const isElsewhere = first.road === undefined && relation !== 'own' && NO_POST_HERE.has(status);
    if (!isElsewhere || signal.aborted) {
      this.#isLegacy = wasLegacy && (first.road !== undefined || status >= 400);
      return first;
    }
    const asking = this.#askIn(!wasLegacy, initialize, credential, number, bound);
    const second = await asking.catch((error: unknown) => {
      // That nothing came of it in time says less than the refusal.
      if (HostedMcpError.isInstance(error) && error.code === 'ERR_TIMEOUT') return undefined;
      throw error;
    });
    if (second?.road !== undefined) this.#isLegacy = true;
    const isAnswer = second?.road !== undefined || second?.facts.relation === 'own';
    return second !== undefined && (isAnswer || mayPass(second.facts))
      ? second
      : { ...first, triedBoth: true };
  }

  async #askIn(
    isLegacy: boolean,
    initialize: JsonRpcRequest,
    credential: Credential,
    number: number,
    bound: Bound,
  ): Promise<Asked> {
    await bound.pay();
    const { signal } = bound;
    const { wire, clock, target, onMessage } = this.#parts;
    const request = { ...initialize, id: `holdfast-initialize-${++this.#made}` };
    const cookies = new CookieJar(clock);
    const way = {
      credential,
      cookies,
      signal,
      ...(!isLegacy && { toll: 'paid' as const }),
      onMessage: (each: JsonRpcMessage) => onMessage(each, undefined),
    };
    if (!isLegacy) {
      // Who looks at the moment of sending has no nonce mended on the way.
      const hook = credential.answered === undefined ? 'onSent' : 'attach';
      const sent = (stop: AbortSignal, left: () => void) =>
        wire.send(request, { ...way, signal: stop, [hook]: left });
      return this.#heard(sent, { cookies, credential, number, signal });
    }
    const road = new LegacyRoad({ clock, wire, url: target, cookies, onMessage });
    const refusal = await road.open(credential, signal);
    if (refusal !== undefined) return { facts: refusal, cookies };
    try {
      return { facts: await road.send(request, way), cookies, road };
    } catch (error) {
      road.end();
      throw error;
    }
  }

  /** Whoever stops waiting for the answer has not taken the request back: it may bring a session all the same. */
  async #heard(
    send: (stop: AbortSignal, left: () => void) => Promise<StreamFacts>,
    { cookies, credential, number, signal }: Waiting,
  ): Promise<Asked> {
    const stop = new AbortController();
    let hasLeft = false;
    const answer = send(stop.signal, () => {
      hasLeft = true;
    });
    try {
      return { facts: await untilAborted(answer, signal), cookies };
    } catch (error) {
      if (!signal.aborted) throw error;
      if (!hasLeft) {
        stop.abort();
        answer.catch(() => {});
        throw error;
      }
      const looked = answer.then((facts) => this.#leave({ facts, cookies }, credential, number));
      this.releases.late(looked, () => stop.abort());
      throw error;
    }
  }

  /** Nothing comes of what was asked: what the server has given us all the same is given back. */
  #leave({ facts, cookies, road }: Asked, credential: Credential, number: number): void {
    road?.end();
    const { status = 0, sessionIds } = facts;
    // What a refusal calls a session is none of ours.
    if (road !== undefined || status < 200 || status >= 300) return;
    let id: string | undefined;
    try {
      id = checkedSessionId(sessionIds);
    } catch {
      // Of two ids one may be somebody else's.
    }
    if (id === undefined) return;
    const session = this.#make({ number, id, protocolVersion: ASSUMED_VERSION, credential, cookies });
    this.releases.release(session);
  }

  /** A session known by its id only, from before a restart. */
  resume(id: string, protocolVersion: string, credential: Credential, number: number): Session {
    const cookies = new CookieJar(this.#parts.clock);
    return this.#make({ number, id: checkedSessionId([id]), protocolVersion, credential, cookies });
  }

  #make(known: Omit<SessionParts, 'result' | 'establishedAtMs' | 'fingerprintKey'> & Partial<SessionParts>) {
    const fingerprintKey = this.#fingerprintKey;
    return new Session({ result: {}, establishedAtMs: this.#parts.clock.now(), fingerprintKey, ...known });
  }

  #session(
    result: Readonly<Record<string, unknown>>,
    { facts, cookies, road }: Asked,
    credential: Credential,
    number: number,
  ): Session {
    const { protocolVersion } = result;
    if (
      typeof protocolVersion !== 'string' ||
      protocolVersion === '' ||
      /[^\x21-\x7e]/.test(protocolVersion)
    ) {
      throw new HostedMcpError(
        'ERR_PROTOCOL',
        'The server opened a session without naming a protocol version',
      );
    }
    const id = checkedSessionId(facts.sessionIds);
    const session = this.#make({ number, id, protocolVersion, result, credential, cookies, road });
    road?.carry(session);
    return session;
  }

  async #announce(session: Session, bound: Bound): Promise<void> {
    const { wire } = this.#parts;
    const { signal } = bound;
    for (let left = INITIALIZED_TRIES; ; left -= 1) {
      await bound.pay();
      const sent = wire.send(
        { jsonrpc: '2.0', method: 'notifications/initialized' },
        {
          session,
          credential: session.credential,
          toll: 'paid',
          signal,
          onMessage: (message) => this.#parts.onMessage(message, session),
        },
      );
      // Whatever else holds it up.
      const facts = await untilAborted(sent, signal);
      if (signal.aborted) throw signal.reason;
      const verdict = classify(facts, PLAIN_CONTEXT);
      if (verdict.kind === 'accepted') return;
      const elsewhere = verdict.kind === 'session-lost' || verdict.kind === 'session-suspect';
      if (!elsewhere || left <= 1) {
        session.isForgotten = verdict.kind === 'session-lost' && !verdict.tentative;
        throw handshakeError(verdict, facts);
      }
    }
  }
}

/** Refused for now, or for want of another credential: that says more than "not here" in the other protocol. */
function mayPass({ status }: StreamFacts): boolean {
  return status === undefined || status === 401 || status === 429 || (status >= 500 && status !== 501);
}

/** Why another credential would be of use; undefined: it would not. */
export function renewalReason(
  verdict: Verdict,
  sentWith: Credential,
  facts: StreamFacts,
): string | undefined {
  if (verdict.kind === 'scope') return verdict.requiredScope === undefined ? undefined : 'scope';
  if (verdict.kind !== 'credential') return undefined;
  if (sentWith.generation === 0) return 'none';
  return facts.dpopNonce === undefined ? 'refused' : rejectionOf(sentWith, facts).challenge;
}

/** What a refresh has to know of the refusal. */
export function rejectionOf(credential: Credential, facts: StreamFacts): Rejection {
  const { challenges = [], status = 401, dpopNonce } = facts;
  const first = <K extends keyof Challenge>(name: K) =>
    challenges.find((challenge) => challenge[name] !== undefined)?.[name];
  // Of several schemes the one that asks for a nonce names what is wrong with the request as it was made.
  const asksForNonce = dpopNonce !== undefined && challenges.some(({ error }) => error === 'use_dpop_nonce');
  return {
    generation: credential.generation,
    status,
    challenge: asksForNonce ? 'use_dpop_nonce' : first('error'),
    scope: first('scope'),
    resourceMetadata: first('resourceMetadata'),
    dpopNonce,
  };
}

/** A session id that may go back in a header (MCP 2025-11-25: visible ASCII); sent twice alike counts once. */
function checkedSessionId(values: readonly string[]): string | undefined {
  const distinct = new Set(values.flatMap((value) => value.split(/\s*,\s*/)));
  const [id] = distinct;
  if (id === undefined) return undefined;
  if (distinct.size > 1 || id.length === 0 || id.length > LIMITS.sessionIdBytes || /[^\x21-\x7e]/.test(id)) {
    throw new HostedMcpError('ERR_PROTOCOL', 'The server gave a session id that cannot be used');
  }
  return id;
}
