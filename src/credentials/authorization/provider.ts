/**
 * A user's credential from the first consent on: discovery, registration, consent, refresh.
 *
 * Guarantees one authorization under way at a time; that a consent which any process with the same store finished is
 * taken up by all; that a server which names another authorization server than before is told of (`server-changed`) and
 * never gets what the old one gave; and that a user who said no, or a server that is never content, does not bring up
 * browser after browser. Never widens what was granted without the user, and never sends a user's token to a second
 * origin.
 */
import type { Clock } from '../../clock.js';
import type { Disposer } from '../../disposer.js';
import { HostedMcpError } from '../../errors.js';
import { foreignOriginError } from '../credential.js';
import { CredentialEvents } from '../credential-events.js';
import { within } from '../deadline.js';
import { abortedError, closedError } from '../problem.js';
import type {
  AcquireOptions,
  Credential,
  CredentialEvent,
  CredentialProvider,
  Rejection,
} from '../provider.js';
import type { Refresher } from '../refresher.js';
import { coversScope, isScope, unionScope } from '../scopes.js';
import { ANONYMOUS } from './anonymous.js';
import type { Callback } from './callback.js';
import { type ConsentParts, movedError, REST_MS, UserConsent } from './consent.js';
import type { DiscoveredServer } from './discovered-server.js';
import type { Authorized } from './flow.js';
import { Generations } from './generations.js';
import { PENDING_MS } from './pending.js';
import type { AuthorizationData } from './record.js';

/** A user's credential, and the way to the user. */
export interface AuthorizationCodeProvider extends CredentialProvider {
  /**
   * Begins an authorization: the address to send the user to. State and PKCE verifier are kept in the store for ten
   * minutes. Throws `ERR_DISCOVERY`, `ERR_TOKEN_ENDPOINT`, `ERR_STORE_UNAVAILABLE`.
   */
  authorizationUrl(target: string | URL): Promise<URL>;
  /**
   * Takes the callback, once, in this process or another one with the same store and options: the whole URL that the
   * browser was sent to. Throws a `TypeError` for what is no callback, `ERR_REAUTHORIZATION_REQUIRED` (refused,
   * forged, too old or used before), and as `authorizationUrl` does. `target`: the MCP server, where the callback is
   * known to be for it.
   */
  finishAuth(callback: Callback, target?: URL | undefined): Promise<void>;
  forget(): Promise<void>;
}

export interface AuthorizationCodeParts extends Omit<ConsentParts, 'closing' | 'taken' | 'failed'> {
  readonly id: string;
  /** Undefined where the client of the record is not ours. */
  holderOf(target: URL, data: AuthorizationData): Refresher | undefined;
}

/** A server that names ever new scopes must not send the user away for ever. */
const MAX_STEP_UPS = 2;
const STEP_UPS_WITHIN_MS = 10 * 60_000;
/** Longer than any caller's own time. */
const DEFAULT_WAIT_MS = PENDING_MS;

/** Who holds the token now, and what it rests on. */
interface Holder {
  readonly data: AuthorizationData;
  readonly refresher: Refresher;
  readonly events: Disposer;
}

export class AuthorizationProvider implements AuthorizationCodeProvider {
  readonly id: string;
  readonly #parts: AuthorizationCodeParts;
  readonly #clock: Clock;
  readonly #events = new CredentialEvents();
  readonly #generations = new Generations();
  readonly #closing = new AbortController();
  readonly #consent: UserConsent;
  #target: URL | undefined;
  #holder: Holder | undefined;
  #loading: Promise<void> | undefined;
  #looking: Promise<void> | undefined;
  #lookedFor = 0;
  #authorizedAtMs: number | undefined;
  #stepUps: number[] = [];
  #refusal: Rejection | undefined;
  #closed: Promise<void> | undefined;

  constructor(parts: AuthorizationCodeParts) {
    this.id = parts.id;
    this.#parts = parts;
    this.#clock = parts.clock;
    this.#consent = new UserConsent({
      ...parts,
      closing: this.#closing.signal,
      taken: (authorized) => this.#take(authorized),
      failed: (error) => this.#events.emit({ type: 'failed', id: this.id, error }),
    });
  }

  async acquire(target: URL, options: AcquireOptions = {}): Promise<Credential> {
    if (this.#closed !== undefined) throw closedError();
    if (options.signal?.aborted === true) throw abortedError();
    this.#bind(target);
    const obtaining = this.#obtain(target, options);
    const { maxWaitMs = DEFAULT_WAIT_MS, signal } = options;
    try {
      return await within(this.#clock, obtaining, maxWaitMs, () => this.#stillWaiting(), signal);
    } catch (error) {
      if (HostedMcpError.isInstance(error) || signal?.aborted !== true) throw error;
      throw abortedError();
    }
  }

  async authorizationUrl(target: string | URL): Promise<URL> {
    if (this.#closed !== undefined) throw closedError();
    const url = new URL(target);
    this.#bind(url);
    await this.#load(url);
    return await this.#consent.begin(url, this.#refusal, this.#holder?.data.scope);
  }

  async finishAuth(callback: Callback): Promise<void> {
    if (this.#closed !== undefined) throw closedError();
    const authorized = await this.#parts.flow.finish(callback);
    this.#bind(authorized.target);
    await this.#take(authorized);
  }

  onEvent(listener: (event: CredentialEvent) => void): Disposer {
    return this.#events.add(listener);
  }

  async forget(): Promise<void> {
    const target = this.#target;
    if (target === undefined) return;
    await this.#load(target).catch(() => {});
    const holder = this.#holder;
    this.#release();
    this.#loading = undefined;
    this.#consent.clear();
    await holder?.refresher.forget();
    await holder?.refresher.close();
    await this.#parts.discovery.recordOf(target).delete();
  }

  close(options: { drainMs?: number | undefined } = {}): Promise<void> {
    this.#closed ??= (async () => {
      this.#closing.abort(closedError());
      await this.#holder?.refresher.close(options);
      await this.#parts.discovery.http.close();
    })();
    return this.#closed;
  }

  #bind(target: URL): void {
    this.#target ??= new URL(target);
    if (this.#target.origin !== target.origin) throw foreignOriginError();
    this.#parts.discovery.bind(this.#target);
  }

  async #obtain(target: URL, { signal, rejected, scope, maxWaitMs }: AcquireOptions): Promise<Credential> {
    await this.#load(target);
    // A person may not have come back yet from where an earlier caller sent them.
    const wanted = rejected?.status === 403 ? (scope ?? rejected.scope) : undefined;
    if (rejected !== undefined) {
      this.#refusal = rejected;
      if (wanted !== undefined) await this.#widen(target, wanted, rejected);
      else if (rejected.generation > 0) await this.#look(target, rejected);
    }
    for (let tries = 0; ; tries++) {
      const holder = this.#holder;
      if (holder === undefined) {
        if (rejected === undefined && tries === 0) return ANONYMOUS;
        await this.#authorize(target, rejected);
        continue;
      }
      const inward = wanted === undefined ? this.#generations.inward(rejected) : undefined;
      try {
        return this.#generations.outward(
          await holder.refresher.acquire(target, { signal, rejected: inward, maxWaitMs }),
        );
      } catch (error) {
        if (!HostedMcpError.isInstance(error, 'ERR_REAUTHORIZATION_REQUIRED') || tries > 0) throw error;
        await this.#authorize(target, rejected, error);
      }
    }
  }

  /** Looks at what is stored while nothing is held: any process may have finished. */
  async #load(target: URL): Promise<void> {
    if (this.#holder !== undefined) return;
    this.#loading ??= (async () => {
      const data = await this.#parts.discovery.recordOf(target).read();
      if (data?.clientId !== undefined) this.#hold(target, data);
    })().finally(() => {
      this.#loading = undefined;
    });
    await this.#loading;
  }

  #hold(target: URL, data: AuthorizationData): void {
    const refresher = this.#parts.holderOf(target, data);
    if (refresher === undefined || this.#closed !== undefined) return;
    this.#release();
    const events = refresher.onEvent((event) => {
      // The holder's own numbers and name are nobody's business.
      this.#events.emit({ ...event, id: this.id });
    });
    this.#holder = { data, refresher, events };
  }

  #release(): void {
    if (this.#holder === undefined) return;
    this.#holder.events.dispose();
    this.#holder = undefined;
    this.#generations.next();
  }

  async #take(authorized: Authorized): Promise<void> {
    const { target, data, issued, started } = authorized;
    const before = this.#holder;
    const isSame = before?.data.issuer === data.issuer && before.data.clientId === data.clientId;
    if (isSame && before !== undefined) {
      this.#holder = { ...before, data };
    } else {
      this.#hold(target, data);
      // What the old server gave is of no use at the new one.
      if (before !== undefined) void before.refresher.forget().then(() => before.refresher.close());
    }
    this.#consent.clear();
    this.#authorizedAtMs = this.#clock.monotonic();
    await this.#holder?.refresher.take(target, issued, started);
  }

  /** A token was refused: whose word counts may have changed. Once per generation. */
  async #look(target: URL, rejected: Rejection): Promise<void> {
    if (this.#holder === undefined || rejected.challenge === 'use_dpop_nonce') return;
    if (this.#generations.inward(rejected) === undefined || rejected.generation <= this.#lookedFor) {
      await this.#looking;
      return;
    }
    this.#lookedFor = rejected.generation;
    this.#looking = this.#lookNow(target, rejected).finally(() => {
      this.#looking = undefined;
    });
    await this.#looking;
  }

  async #lookNow(target: URL, rejected: Rejection): Promise<void> {
    const known = this.#holder?.data.issuer;
    let found: DiscoveredServer;
    try {
      found = await this.#parts.discovery.server(target, rejected, known);
    } catch (error) {
      // It is away: what is known is good enough for a refresh.
      if (HostedMcpError.isInstance(error, 'ERR_TOKEN_ENDPOINT')) return;
      throw error;
    }
    if (known === undefined || found.issuer === known) return;
    this.#events.emit({ type: 'server-changed', id: this.id, previous: known, current: found.issuer });
    if (this.#parts.isPinned) throw movedError();
    const before = this.#holder;
    this.#release();
    await this.#parts.discovery.recordOf(target).update((data) => ({
      ...found,
      scope: data?.scope,
      clients: data?.clients ?? {},
    }));
    void before?.refresher.forget().then(() => before.refresher.close());
  }

  /** RFC 6750, 3.1: the token is good, its scope is not. */
  async #widen(target: URL, wanted: string, rejected: Rejection): Promise<void> {
    const holder = this.#holder;
    // The token that was refused is not the one of now: with that one the request may do.
    const isOld = holder !== undefined && rejected.generation < this.#generations.last;
    if (isOld && coversScope(holder.data.scope, wanted)) return;
    if (!isScope(wanted) || (holder !== undefined && coversScope(holder.data.scope, wanted))) {
      throw insufficientScope(wanted);
    }
    const sinceMs = this.#clock.monotonic() - STEP_UPS_WITHIN_MS;
    this.#stepUps = this.#stepUps.filter((atMs) => atMs > sinceMs);
    if (!this.#consent.hasWay || this.#stepUps.length >= MAX_STEP_UPS) {
      throw insufficientScope(
        wanted,
        await this.#consent.url(target, rejected, unionScope(holder?.data.scope, wanted)),
      );
    }
    if (!this.#consent.isUnderWay) this.#stepUps.push(this.#clock.monotonic());
    await this.#consent.ask(target, rejected, unionScope(holder?.data.scope, wanted));
    if (!coversScope(this.#holder?.data.scope, wanted)) throw insufficientScope(wanted);
  }

  /** Gets the user's consent, or says that it is needed. */
  async #authorize(target: URL, rejected: Rejection | undefined, because?: HostedMcpError): Promise<void> {
    if (because !== undefined && (await this.#isElsewhereNow(target))) return;
    const sinceMs = this.#clock.monotonic() - (this.#authorizedAtMs ?? Number.NEGATIVE_INFINITY);
    if (because !== undefined && sinceMs < REST_MS && rejected !== undefined) {
      throw new HostedMcpError(
        'ERR_CREDENTIAL_REJECTED',
        'The server refused the token that the user has just authorized',
        { reason: 'rejected', retryAfterMs: Math.ceil(REST_MS - sinceMs) },
      );
    }
    if (!this.#consent.hasWay) {
      const url = await this.#consent.url(target, rejected, this.#holder?.data.scope);
      throw new HostedMcpError('ERR_REAUTHORIZATION_REQUIRED', 'A user has to authorize this client', {
        reason: because?.reason ?? 'no_token',
        authorizationUrl: url?.href,
      });
    }
    await this.#consent.ask(target, rejected, this.#holder?.data.scope);
  }

  /** Another process may have had another consent, at another server even. */
  async #isElsewhereNow(target: URL): Promise<boolean> {
    const now = await this.#parts.discovery.recordOf(target).read();
    const held = this.#holder?.data;
    if (now?.clientId === undefined || held === undefined) return false;
    if (now.issuer === held.issuer && now.clientId === held.clientId) return false;
    this.#hold(target, now);
    return true;
  }

  #stillWaiting(): HostedMcpError {
    return new HostedMcpError(
      'ERR_REAUTHORIZATION_REQUIRED',
      'The user has not authorized yet; it is taken up when that is done',
      { reason: 'pending', authorizationUrl: this.#consent.lastUrl },
    );
  }
}

function insufficientScope(scope: string, url?: URL): HostedMcpError {
  return new HostedMcpError(
    'ERR_INSUFFICIENT_SCOPE',
    'The user has not granted a scope that the server asks for',
    {
      requiredScope: scope.slice(0, 2_048),
      authorizationUrl: url?.href,
    },
  );
}
