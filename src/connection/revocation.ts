/**
 * How a connection ends: by `close()`, or by `revoke()`, the kill switch.
 *
 * Guarantees that nothing goes out once the end has begun, save what ends things at the server; that every call hears
 * of it with the ledger's word; and that `close()` has done with the server within two seconds on the clock, `revoke()`
 * within one, whatever hangs. Never rejects.
 */
import type { Clock } from '../clock.js';
import type { CredentialProvider } from '../credentials/provider.js';
import type { HostedMcpError } from '../errors.js';
import type { ExchangeHandle, HttpClient } from '../http/exchange.js';
import type { SessionKeeper } from '../session/keeper.js';
import type { Session } from '../session/session.js';
import type { AuditUse } from './audit-use.js';
import type { Call, Ledger } from './ledger.js';
import type { Lifecycle } from './lifecycle.js';
import type { Posts } from './posts.js';
import type { Wire } from './wire.js';

/** What became of the token at its issuer, and of the session at the server. */
export interface Revocation {
  /** `failed`: it may still be good, until it expires. `unsupported`: its source has no way to take it back. */
  readonly token: 'revoked' | 'failed' | 'unsupported';
  readonly session: 'deleted' | 'failed' | 'none';
}

export interface EndingParts {
  readonly clock: Clock;
  readonly credentials: CredentialProvider;
  readonly wire: Wire;
  readonly http: HttpClient;
  readonly ledger: Ledger;
  readonly keeper: SessionKeeper;
  readonly lifecycle: Lifecycle;
  readonly posts: Posts;
  readonly audit: AuditUse | undefined;
  /** Whatever else is to end; in order. */
  readonly others: readonly { close(): void }[];
}

/** When each step of a revocation is over, from its beginning: the token, which matters most, gets what is left. */
const CANCELLED_BY_MS = 200;
const DELETED_BY_MS = 550;
const REVOKED_BY_MS = 1_000;
/** What `close()` still has to say to the server is a courtesy: nobody is kept longer for it. */
const CLOSED_BY_MS = 2_000;

export class Ending {
  readonly #parts: EndingParts;
  #closing: Promise<void> | undefined;
  #revoking: Promise<Revocation> | undefined;
  #reason: string | undefined;
  #stopped: { readonly session: Session | undefined } | undefined;
  /** That calls are cancelled, on their way to the server. */
  #notices: readonly Promise<void>[] = [];

  constructor(parts: EndingParts) {
    this.#parts = parts;
  }

  get hasBegun(): boolean {
    return this.#stopped !== undefined;
  }

  /** What a call hears that comes after the end, or is still there. */
  error(call: Call): HostedMcpError {
    return this.#revoking === undefined
      ? call.error('ERR_CLOSED', 'The connection was ended here')
      : call.error('ERR_CLOSED', 'The connection was revoked here', { reason: this.#reason });
  }

  close(deleteSession: boolean): Promise<void> {
    // It sees to the session itself, and ends in what this would do.
    return this.#revoking?.then(() => {}) ?? this.#end(deleteSession);
  }

  revoke(reason: string | undefined): Promise<Revocation> {
    this.#reason ??= reason;
    this.#revoking ??= Promise.resolve().then(() => this.#revoke(reason));
    // In the same turn: nothing goes out any more from here on.
    this.#stop();
    return this.#revoking;
  }

  #end(deleteSession: boolean): Promise<void> {
    this.#closing ??= this.#close(deleteSession).catch(() => {});
    return this.#closing;
  }

  async #close(deleteSession: boolean): Promise<void> {
    const { keeper, wire, http, others } = this.#parts;
    const { session } = this.#stop(deleteSession);
    if (session !== undefined && deleteSession) void keeper.releases.release(session, true);
    // A revocation has waited already, for as long as it may.
    if (this.#revoking === undefined) await this.#within(CLOSED_BY_MS, () => keeper.released());
    wire.dropLingering();
    for (const other of others) other.close();
    await http.close();
  }

  /** `listens`: for a session that is being opened just now. In any case those are given back that no app has the id of. */
  #stop(listens = false): { readonly session: Session | undefined } {
    if (this.#stopped !== undefined) return this.#stopped;
    const { keeper, lifecycle, ledger } = this.#parts;
    this.#stopped = { session: keeper.close(listens) };
    lifecycle.close();
    const sent = ledger.all().filter(({ phase }) => phase === 'sent');
    this.#notices = this.#revoking === undefined ? [] : sent.map((call) => this.#cancel(call));
    for (const call of ledger.all()) call.fail(this.error(call));
    ledger.close();
    return this.#stopped;
  }

  async #revoke(reason: string | undefined): Promise<Revocation> {
    const { clock, audit } = this.#parts;
    const startedMs = clock.monotonic();
    const leftMs = (untilMs: number) => startedMs + untilMs - clock.monotonic();
    await this.#within(leftMs(CANCELLED_BY_MS), () => Promise.all(this.#notices));
    const { session } = this.#stop();
    // While the token is good: a server that does not know it any more deletes nothing.
    const [deleted] = await Promise.all([
      this.#within(leftMs(DELETED_BY_MS), (signal) => this.#delete(session, signal)),
      this.#within(leftMs(DELETED_BY_MS), () => this.#parts.keeper.released()),
    ]);
    const token = await this.#within(leftMs(REVOKED_BY_MS), (signal) => this.#revokeToken(signal));
    const outcome = { token: token ?? 'failed', session: deleted ?? 'failed' } as const;
    audit?.revoked(reason, outcome);
    await this.#end(false);
    return outcome;
  }

  /** Undefined where it failed, or was not done in time. */
  #within<T>(ms: number, work: (signal: AbortSignal) => Promise<T>): Promise<T | undefined> {
    const over = new AbortController();
    return new Promise((resolve) => {
      const timer = this.#parts.clock.setTimeout(
        () => {
          over.abort();
          resolve(undefined);
        },
        Math.max(0, ms),
      );
      const done = (result: T | undefined) => {
        timer.clear();
        resolve(result);
      };
      Promise.resolve()
        .then(() => work(over.signal))
        .then(done, () => done(undefined));
    });
  }

  async #cancel({ id, session }: Call): Promise<void> {
    // In the later era the end of its stream says it.
    if (session === undefined || session.info.era !== 'initialize') return;
    const params = { requestId: id, reason: 'revoked' };
    await this.#parts.posts
      .send({ jsonrpc: '2.0', method: 'notifications/cancelled', params }, session)
      .catch(() => {});
  }

  async #delete(session: Session | undefined, signal: AbortSignal): Promise<Revocation['session']> {
    if (session === undefined || !session.isNamed) return 'none';
    session.road?.end();
    if (!session.hasId) return 'deleted';
    let handle: ExchangeHandle | undefined;
    signal.addEventListener('abort', () => handle?.abort(), { once: true });
    const { status = 0 } = await this.#parts.wire.delete({
      session,
      credential: session.credential,
      signal,
      toll: { urgency: 'reply', untilMs: this.#parts.clock.monotonic() },
      attach: (attached) => {
        handle = attached;
      },
      onMessage: () => {},
    });
    return (status >= 200 && status < 300) || status === 404 ? 'deleted' : 'failed';
  }

  async #revokeToken(signal: AbortSignal): Promise<Revocation['token']> {
    const { credentials } = this.#parts;
    if (credentials.revoke === undefined) return 'unsupported';
    const answer = await credentials.revoke({ signal });
    return answer === 'revoked' || answer === 'unsupported' ? answer : 'failed';
  }
}
