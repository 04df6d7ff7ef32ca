/**
 * The handshake, made as often as needed from one captured `initialize`.
 *
 * Guarantees that it carries neither a session id nor a version header, that only its own answer can set
 * a session id, that a token refused on the way is renewed once, and that a server of protocol 2024-11-05 is
 * found where it refuses the POST. Never sends a tool call.
 */
import type { Clock } from '../clock.js';
import type { Challenge } from '../connection/challenge.js';
import { classify, PLAIN_CONTEXT, type Verdict } from '../connection/classify.js';
import type { StreamFacts } from '../connection/route.js';
import type { Wire } from '../connection/wire.js';
import type { Credential, CredentialProvider, Rejection } from '../credentials/provider.js';
import { cleanServerText, HostedMcpError } from '../errors.js';
import { CookieJar } from '../http/headers.js';
import { isResult, type JsonRpcError, type JsonRpcMessage, type JsonRpcRequest } from '../json-rpc.js';
import { LIMITS } from '../limits.js';
import { randomBytes } from '../runtime/digest.js';
import { LegacyRoad } from '../streams/legacy-sse.js';
import { Bound } from './handshake-bound.js';
import { Session } from './session.js';

export interface HandshakeParts {
  readonly wire: Wire;
  readonly credentials: CredentialProvider;
  readonly target: URL;
  readonly clock: Clock;
  onMessage(message: JsonRpcMessage, session: Session | undefined): void;
}

/** The server answered `initialize` with a JSON-RPC error: for the Client that asked, as it is. */
export class InitializeRefused extends HostedMcpError {
  readonly answer: JsonRpcError;
  constructor(answer: JsonRpcError) {
    super('ERR_PROTOCOL', 'The server refused to open a session', {
      serverText: cleanServerText(answer.error.message),
    });
    this.answer = answer;
  }
}

/** `initialized` meets another node than `initialize` did: the socket often leads to the right one at the next try. */
const INITIALIZED_TRIES = 5;
/** What a server of protocol 2024-11-05 says to a POST where its stream is (MCP 2025-11-25, transports, "Backwards Compatibility"). */
const NO_POST_HERE: ReadonlySet<number> = new Set([400, 404, 405]);
/** Method not found, unsupported protocol version (2026-07-28). */
const WITHOUT_INITIALIZE: ReadonlySet<number> = new Set([-32601, -32022]);

/** What came of asking for a session once. */
interface Asked {
  readonly facts: StreamFacts;
  readonly cookies: CookieJar;
  /** The stream that carries the session. */
  readonly road?: LegacyRoad;
  /** Neither protocol was spoken. */
  readonly triedBoth?: boolean;
}

export class Handshake {
  readonly #parts: HandshakeParts;
  /** Fingerprints of this connection's sessions cannot be joined with another's. */
  readonly #fingerprintKey = randomBytes(32);
  #made = 0;
  /** Found: this server speaks HTTP+SSE. */
  #isLegacy = false;

  constructor(parts: HandshakeParts) {
    this.#parts = parts;
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
      const asked = await this.#ask(initialize, sentWith, bound);
      const { facts, road } = asked;
      try {
        if (signal.aborted) throw signal.reason;
        const verdict = classify(facts, PLAIN_CONTEXT);
        const reason = renewalReason(verdict, sentWith, facts);
        if (reason === undefined || renewedFor.has(reason)) {
          if (verdict.kind !== 'answer') throw handshakeError(verdict, facts, asked.triedBoth);
          if (!isResult(verdict.message)) throw refusalOf(verdict.message as JsonRpcError);
          const session = this.#session(verdict.message.result, asked, sentWith, number);
          await this.#announce(session, bound);
          return session;
        }
        renewedFor.add(reason);
      } catch (error) {
        road?.end();
        throw error;
      }
      road?.end();
      const rejected = rejectionOf(sentWith, facts);
      const scope = rejected.status === 403 ? rejected.scope : undefined;
      credential = await bound.aside(credentials.acquire(target, { signal, rejected, scope }));
    }
  }

  /** Asks in the protocol that was found; where that is refused as unknown, in the other one. */
  async #ask(initialize: JsonRpcRequest, credential: Credential, bound: Bound): Promise<Asked> {
    const { signal } = bound;
    const wasLegacy = this.#isLegacy;
    this.#isLegacy = false;
    const first = await this.#askIn(wasLegacy, initialize, credential, bound);
    const { status = 0, relation } = first.facts;
    const isElsewhere = first.road === undefined && relation !== 'own' && NO_POST_HERE.has(status);
    if (!isElsewhere || signal.aborted) {
      this.#isLegacy = wasLegacy && (first.road !== undefined || status >= 400);
      return first;
    }
    const second = await this.#askIn(!wasLegacy, initialize, credential, bound).catch((error: unknown) => {
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
    if (!isLegacy) return { facts: await wire.send(request, way), cookies };
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

  /** A session known by its id only, from before a restart. */
  resume(id: string, protocolVersion: string, credential: Credential, number: number): Session {
    return new Session({
      number,
      id: checkedSessionId([id]),
      protocolVersion,
      result: {},
      credential,
      cookies: new CookieJar(this.#parts.clock),
      establishedAtMs: this.#parts.clock.now(),
      fingerprintKey: this.#fingerprintKey,
    });
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
    const session = new Session({
      number,
      id: checkedSessionId(facts.sessionIds),
      protocolVersion,
      result,
      credential,
      cookies,
      road,
      establishedAtMs: this.#parts.clock.now(),
      fingerprintKey: this.#fingerprintKey,
    });
    road?.carry(session);
    return session;
  }

  async #announce(session: Session, bound: Bound): Promise<void> {
    const { wire } = this.#parts;
    const { signal } = bound;
    for (let left = INITIALIZED_TRIES; ; left -= 1) {
      await bound.pay();
      const facts = await wire.send(
        { jsonrpc: '2.0', method: 'notifications/initialized' },
        {
          session,
          credential: session.credential,
          toll: 'paid',
          signal,
          onMessage: (message) => this.#parts.onMessage(message, session),
        },
      );
      if (signal.aborted) throw signal.reason;
      const verdict = classify(facts, PLAIN_CONTEXT);
      if (verdict.kind === 'accepted') return;
      const elsewhere = verdict.kind === 'session-lost' || verdict.kind === 'session-suspect';
      if (!elsewhere || left <= 1) {
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

/** A server without `initialize` speaks a later protocol only: that is said by name, not as "method not found". */
function refusalOf(answer: JsonRpcError): HostedMcpError {
  if (!WITHOUT_INITIALIZE.has(answer.error.code)) return new InitializeRefused(answer);
  return new HostedMcpError(
    'ERR_PROTOCOL',
    'The server does not open sessions with initialize: it speaks protocol 2026-07-28 or later only, which this client does not; a Client of SDK v2 that negotiates does, over HostedTransport',
    { method: 'initialize', serverText: cleanServerText(answer.error.message) },
  );
}

function handshakeError(verdict: Verdict, facts: StreamFacts, triedBoth = false): HostedMcpError {
  const fields = {
    method: 'initialize',
    status: facts.status,
    serverText: facts.text === undefined ? undefined : cleanServerText(facts.text),
    retryAfterMs: facts.retryAfterMs,
  };
  const away = facts.status !== undefined && facts.status >= 500;
  switch (verdict.kind) {
    case 'not-sent':
      return new HostedMcpError('ERR_NOT_SENT', 'The server could not be reached to open a session', {
        ...fields,
        retryable: true,
        cause: { code: verdict.code },
      });
    case 'cut':
      return new HostedMcpError('ERR_NOT_SENT', 'The handshake was cut off', {
        ...fields,
        retryable: true,
        cause: { code: verdict.code },
      });
    case 'credential':
      return new HostedMcpError(
        'ERR_CREDENTIAL_REJECTED',
        'The server refused the credential at the handshake',
        fields,
      );
    case 'scope':
      return new HostedMcpError('ERR_INSUFFICIENT_SCOPE', 'The credential may not open a session', {
        ...fields,
        requiredScope: verdict.requiredScope,
      });
    case 'limited':
      return new HostedMcpError('ERR_RATE_LIMITED', 'The server limits how often sessions are opened', {
        ...fields,
        retryable: true,
        retryAfterMs: verdict.retryAfterMs ?? 1_000,
      });
    case 'session-lost':
    case 'session-suspect':
      return new HostedMcpError(
        'ERR_SESSION_LOST',
        'The server forgot the session between two messages of the handshake',
        { retryable: true },
      );
    case 'failed':
      return new HostedMcpError(
        verdict.code,
        triedBoth
          ? `No session, neither by Streamable HTTP nor by HTTP+SSE (2024-11-05): ${verdict.reason}`
          : `No session: ${verdict.reason}`,
        { ...fields, retryable: away },
      );
    default:
      return new HostedMcpError('ERR_PROTOCOL', 'The server did not complete the handshake', {
        ...fields,
        retryable: away,
      });
  }
}
