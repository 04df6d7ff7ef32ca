/**
 * One MCP session as the engine knows it.
 *
 * Guarantees that the id, a secret, is readable only by code that puts it on the wire; events and errors
 * get `info`, which has a fingerprint. Never decides anything: the keeper does.
 */
import type { Credential } from '../credentials/provider.js';
import type { CookieJar } from '../http/headers.js';
import { hmacHex } from '../runtime/digest.js';
import type { LegacyRoad } from '../streams/legacy-sse.js';

/** What an app may know of a session. */
export interface SessionInfo {
  /** 1 for the first session of a connection; each later one has a higher number, none has it twice. */
  readonly number: number;
  /** Tells sessions apart in logs; never the id. */
  readonly fingerprint?: string;
  readonly protocolVersion: string;
  readonly era: 'initialize' | 'stateless';
  readonly serverInfo: Readonly<Record<string, unknown>>;
  readonly capabilities: Readonly<Record<string, unknown>>;
  readonly instructions?: string;
  readonly establishedAtMs: number;
}

export interface SessionParts {
  number: number;
  id: string | undefined;
  protocolVersion: string;
  /** The server's whole answer to `initialize`; empty for a session resumed by id. */
  result: Readonly<Record<string, unknown>>;
  credential: Credential;
  establishedAtMs: number;
  fingerprintKey: Uint8Array;
  cookies: CookieJar;
  /** `'initialize'` where not given. */
  era?: 'initialize' | 'stateless' | undefined;
  /** Where the server speaks HTTP+SSE. */
  road?: LegacyRoad | undefined;
}

export class Session {
  readonly number: number;
  readonly info: SessionInfo;
  readonly result: Readonly<Record<string, unknown>>;
  /** Affinity cookies: sent back with this session only. */
  readonly cookies: CookieJar;
  /** The stream that carries it, at a server of protocol 2024-11-05: there is no session without that stream. */
  readonly road: LegacyRoad | undefined;
  /** The generation last seen to be accepted with this session. */
  acceptedGeneration: number;
  /** Of the credential under which a call was answered last. */
  answeredGeneration: number | undefined;
  /** The credential last seen to be accepted; what a session bound to its token is spoken to with, to its end. */
  credential: Credential;
  /** Calls it has answered: a session lost before the first one was of no use. */
  answered = 0;
  /** Messages under way to it that want no answer: it is not deleted before they have arrived. */
  posts = 0;
  /** Suspect answers since the last success. */
  suspects = 0;
  /** JSON-RPC errors under an HTTP error status since the last success. */
  errorsInRow = 0;
  /** Until when (monotonic) a ping's acquittal holds. */
  acquittedUntilMs = 0;
  /** `current` takes new calls; `retired` finishes those under way; `ended` answers nobody any more. */
  phase: 'current' | 'retired' | 'ended' = 'current';
  /** The server has said itself that it knows it no more: there is nothing left to delete. */
  isForgotten = false;
  readonly #id: string | undefined;

  constructor(parts: SessionParts) {
    this.number = parts.number;
    this.#id = parts.id;
    this.result = parts.result;
    this.cookies = parts.cookies;
    this.road = parts.road;
    this.credential = parts.credential;
    this.acceptedGeneration = parts.credential.generation;
    const { serverInfo, capabilities, instructions } = parts.result;
    this.info = Object.freeze({
      number: parts.number,
      ...(parts.id !== undefined && {
        fingerprint: hmacHex(parts.fingerprintKey, parts.id).slice(0, 12),
      }),
      protocolVersion: parts.protocolVersion,
      era: parts.era ?? 'initialize',
      serverInfo: asRecord(serverInfo),
      capabilities: asRecord(capabilities),
      ...(typeof instructions === 'string' && { instructions }),
      establishedAtMs: parts.establishedAtMs,
    });
  }

  get hasId(): boolean {
    return this.#id !== undefined;
  }

  /** Whether its requests say which session they belong to: by the id, or by the address they go to. */
  get isNamed(): boolean {
    return this.hasId || this.road !== undefined;
  }

  /** For the wire only (and `transport.sessionId`, which the SDK's interface has). */
  revealId(): string | undefined {
    return this.#id;
  }
}

function asRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {};
}
