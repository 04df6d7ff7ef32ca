/**
 * Which era a server speaks: one with sessions, opened by `initialize`, or the later one, in which every
 * request stands for itself (MCP 2026-07-28).
 *
 * Guarantees that only a server's own word decides: its answer to `server/discover`, or what a Client knows
 * from an earlier one. A server that is away, limits or refuses the credential is never taken for an
 * earlier one. Sends nothing itself.
 */
import type { Clock } from '../clock.js';
import type { Credential } from '../credentials/provider.js';
import { CookieJar } from '../http/headers.js';
import { isErrorResponse, isResult, type JsonRpcResponse, type RequestId } from '../json-rpc.js';
import type { SessionKeeper } from '../session/keeper.js';
import { Session } from '../session/session.js';
import type { ExchangeFacts } from './facts.js';
import type { Call } from './ledger.js';
import { isStateless, versionOf } from './outgoing.js';

const SERVER_INFO_KEY = 'io.modelcontextprotocol/serverInfo';
/** Outside the range that the specification reserves: to v2's Client a sign to go on with `initialize`. */
const DISCOVERY_REFUSED = -32019;
/** Names the versions that the server does speak. */
const UNSUPPORTED_VERSION = -32022;
/** Statuses that say nothing about the era: the credential, the permission, a proxy's own, haste, the limit. */
const NO_EVIDENCE: ReadonlySet<number> = new Set([401, 403, 407, 408, 425, 429]);
/** Until a request has been answered nobody knows one; nothing is ever sent with it. */
const NO_CREDENTIAL: Credential = Object.freeze({ generation: 0, headers: () => ({}) });

export class Discovery {
  readonly #keeper: SessionKeeper;
  readonly #clock: Clock;
  /** The server's last answer, and the stand-in session it came on. */
  #answer: { result: Readonly<Record<string, unknown>>; probe?: Session } | undefined;

  constructor(keeper: SessionKeeper, clock: Clock) {
    this.#keeper = keeper;
    this.#clock = clock;
  }

  /** What the question which era it is travels on. Nothing for other calls, and where the era is known. */
  probeFor(call: Call): Session | undefined {
    if (call.method !== 'server/discover' || this.#keeper.session !== undefined || this.#keeper.captured)
      return undefined;
    return this.#session(1, versionOf(call.message) ?? '', {});
  }

  answered(probe: Session, call: Call, answer: JsonRpcResponse): void {
    if (!isResult(answer)) return;
    this.#answer = { result: answer.result, probe };
    const { supportedVersions: versions, capabilities } = answer.result;
    const asked = versionOf(call.message);
    // Anything else is no answer by which a Client would choose the later era.
    if (!Array.isArray(versions) || typeof capabilities !== 'object' || capabilities === null) return;
    if (asked !== undefined && versions.includes(asked)) this.negotiated(asked);
  }

  /** The Client has chosen a version: after `server/discover`, or from what it knew before. */
  negotiated(version: string): void {
    if (!isStateless(version)) return;
    const info = this.#keeper.session?.info;
    if (info?.era === 'stateless' && info.protocolVersion === version) return;
    const { result, probe } = this.#answer ?? { result: {} };
    this.#keeper.adopt((number) => this.#session(number, version, result, probe));
  }

  #session(
    number: number,
    version: string,
    result: Readonly<Record<string, unknown>>,
    probe?: Session | undefined,
  ): Session {
    const meta = result._meta;
    const named = typeof meta === 'object' && meta !== null && Object.hasOwn(meta, SERVER_INFO_KEY);
    return new Session({
      number,
      id: undefined,
      era: 'stateless',
      protocolVersion: version,
      result: named ? { ...result, serverInfo: (meta as Record<string, unknown>)[SERVER_INFO_KEY] } : result,
      credential: probe?.credential ?? NO_CREDENTIAL,
      cookies: probe?.cookies ?? new CookieJar(this.#clock),
      establishedAtMs: this.#clock.now(),
      fingerprintKey: new Uint8Array(),
    });
  }
}

/**
 * The answer that v2's Client understands as "an earlier server", where the facts say so: another error class
 * than its own would end its negotiation. Nothing where they say something else.
 */
export function refusalInBand(facts: ExchangeFacts, id: RequestId): JsonRpcResponse | undefined {
  const { status = 0, message, relation } = facts;
  if (facts.failure !== undefined || NO_EVIDENCE.has(status) || status >= 500) return undefined;
  if (status >= 300 && status < 400) return undefined;
  if (isErrorResponse(message) && (relation === 'own' || message.error.code === UNSUPPORTED_VERSION))
    return { ...message, id };
  if (status < 400 && !isErrorResponse(message)) return undefined;
  const error = { code: DISCOVERY_REFUSED, message: 'The server opens sessions with initialize.' };
  return { jsonrpc: '2.0', id, error };
}
