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
import type { AcquireOptions, Credential, CredentialEvent, Rejection } from '../provider.js';
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
import { notGranted, StepUps } from './step-ups.js';
import type { AuthorizationCodeProvider } from './user-credential.js';

export type { AuthorizationCodeProvider } from './user-credential.js';

export interface AuthorizationCodeParts
  extends Omit<ConsentParts, 'closing' | 'finish' | 'failed' | 'moved'> {
  readonly id: string;
  /** Undefined where the client of the record is not ours. */
  holderOf(target: URL, data: AuthorizationData): Refresher | undefined;
}

/** Longer than any caller's own time. */
const DEFAULT_WAIT_MS = PENDING_MS;
/** For a code that was sent when the provider is closed: its user shall not have to come again. */
const DRAIN_MS = 15_000;

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
  readonly #stepUps: StepUps;
  #target: URL | undefined;
  #holder: Holder | undefined;
  #loading: Promise<void> | undefined;
  #looked: { readonly generation: number; readonly atMs: number; readonly work: Promise<void> } | undefined;
  #finishing: Promise<void> | undefined;
  #authorizedAtMs: number | undefined;
  #refusal: Rejection | undefined;
  #closed: Promise<void> | undefined;

  constructor(parts: AuthorizationCodeParts) {
    this.id = parts.id;
    this.#parts = parts;
    this.#clock = parts.clock;
    this.#stepUps = new StepUps(parts.clock);
    this.#consent = new UserConsent({
      ...parts,
      closing: this.#closing.signal,
      finish: (callback) => this.#finish(callback),
      failed: (error) => this.#events.emit({ type: 'failed', id: this.id, error }),
      moved: (previous, current) => this.#tellOfMove(previous, current),
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
    await this.#finish(callback);
  }

  onEvent(listener: (event: CredentialEvent) => void): Disposer {
    return this.#events.add(listener);
  }

  async forget(target: string | URL | undefined = this.#target): Promise<void> {
    if (target === undefined) throw new TypeError('forget() needs the address of the MCP server');
    const url = new URL(target);
    this.#bind(url);
    await this.#load(url);
    const holder = this.#release();
    this.#loading = undefined;
    this.#consent.clear();
    await holder?.refresher.forget();
    await holder?.refresher.close();
    // To forget a token is no reason to trust another server.
    const { isPinned, discovery } = this.#parts;
    await discovery.recordOf(url).update((data) => {
      return isPinned && data !== undefined ? { ...data, clientId: undefined, scope: undefined } : undefined;
    });
  }

  async revoke(options: { signal?: AbortSignal | undefined } = {}): Promise<'revoked' | 'unsupported'> {
    const { refresher } = this.#holder ?? {};
    return (await refresher?.revoke(options)) ?? 'unsupported';
  }

  close(options: { drainMs?: number | undefined } = {}): Promise<void> {
    this.#closed ??= (async () => {
      this.#closing.abort(closedError());
      const finishing = this.#finishing ?? Promise.resolve();
      await within(this.#clock, finishing, options.drainMs ?? DRAIN_MS, closedError).catch(() => {});
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
      if (wanted !== undefined) await this.#widen(target, wanted, rejected, { signal, maxWaitMs });
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
      if (this.#closed !== undefined) throw closedError();
      if (data?.clientId !== undefined) this.#hold(target, data);
    })().finally(() => {
      this.#loading = undefined;
    });
    await this.#loading;
  }

  #hold(target: URL, data: AuthorizationData): void {
    const refresher = this.#parts.holderOf(target, data);
    if (refresher === undefined) return;
    void this.#release()?.refresher.close();
    const events = refresher.onEvent((event) => {
      // The holder's own numbers and name are nobody's business.
      this.#events.emit({ ...event, id: this.id });
    });
    this.#holder = { data, refresher, events };
  }

  #release(): Holder | undefined {
    const holder = this.#holder;
    if (holder === undefined) return undefined;
    holder.events.dispose();
    this.#holder = undefined;
    this.#generations.next();
    return holder;
  }

  /** What the old server gave is of no use at the new one. Should the store be down, it lies there unused. */
  #drop(holder: Holder | undefined): void {
    holder?.refresher
      .forget()
      .catch(() => {})
      .then(() => holder.refresher.close());
  }

  #finish(callback: Callback): Promise<void> {
    const finished = (async () => {
      const authorized = await this.#parts.flow.finish(callback);
      this.#bind(authorized.target);
      await this.#take(authorized);
    })();
    const all = Promise.allSettled([this.#finishing, finished]).then(() => {
      if (this.#finishing === all) this.#finishing = undefined;
    });
    this.#finishing = all;
    return finished;
  }

  async #take(authorized: Authorized): Promise<void> {
    const { target, data, issued, started } = authorized;
    const before = this.#holder;
    const isSame = before?.data.issuer === data.issuer && before.data.clientId === data.clientId;
    if (isSame && before !== undefined) {
      this.#holder = { ...before, data };
    } else {
      this.#drop(this.#release());
      this.#hold(target, data);
    }
    this.#consent.clear();
    this.#authorizedAtMs = this.#clock.monotonic();
    await this.#holder?.refresher.take(target, issued, started);
  }

  /** A token was refused: whose word counts may have changed. Once per generation, and a minute. */
  async #look(target: URL, rejected: Rejection): Promise<void> {
    if (this.#holder === undefined || rejected.challenge === 'use_dpop_nonce') return;
    if (this.#generations.inward(rejected) === undefined) return;
    const { generation } = rejected;
    const atMs = this.#clock.monotonic();
    const before = this.#looked;
    if (before === undefined || generation > before.generation || atMs - before.atMs > REST_MS) {
      const work = this.#lookNow(target, rejected);
      work.catch(() => {});
      this.#looked = { generation, atMs, work };
    }
    await this.#looked?.work;
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
    this.#tellOfMove(known, found.issuer);
    if (this.#parts.isPinned) throw movedError();
    this.#drop(this.#release());
    const now = await this.#parts.discovery.recordOf(target).update((data) => {
      // Another process went there before, perhaps with the user's consent.
      if (data?.issuer === found.issuer) return data;
      return { ...found, clients: data?.clients ?? {} };
    });
    if (now?.clientId !== undefined) this.#hold(target, now);
  }

  #tellOfMove(previous: string, current: string): void {
    this.#events.emit({ type: 'server-changed', id: this.id, previous, current });
  }

  /** RFC 6750, 3.1: the token is good, its scope is not. */
  async #widen(target: URL, wanted: string, rejected: Rejection, wait: AcquireOptions): Promise<void> {
    if (!isScope(wanted)) throw notGranted(wanted);
    if (await this.#isGranted(target, wanted, rejected, wait)) return;
    const holder = this.#holder;
    const isJoining = this.#consent.isUnderWay;
    if (!this.#consent.hasWay || (this.#stepUps.areSpent && !isJoining)) {
      const url = await this.#consent.url(target, rejected, unionScope(holder?.data.scope, wanted));
      throw notGranted(wanted, { authorizationUrl: url.href });
    }
    if (!isJoining && !this.#consent.isResting) this.#stepUps.note();
    try {
      await this.#consent.ask(target, rejected, unionScope(holder?.data.scope, wanted));
    } catch (error) {
      // What was granted before stands.
      const isRefused =
        holder !== undefined && HostedMcpError.isInstance(error, 'ERR_REAUTHORIZATION_REQUIRED');
      throw isRefused ? notGranted(wanted, error) : error;
    }
    if (coversScope(this.#holder?.data.scope, wanted)) return;
    // The consent that was under way was for something else.
    if (isJoining) await this.#widen(target, wanted, rejected, wait);
    else throw notGranted(wanted);
  }

  /**
   * True where the user has granted it by now: the token that was refused is not the one of now, in any process. Throws
   * where that very token was refused.
   */
  async #isGranted(target: URL, wanted: string, rejected: Rejection, wait: AcquireOptions): Promise<boolean> {
    const holder = this.#holder;
    if (holder === undefined) return false;
    // One that has died meanwhile says nothing about the scope: the user is asked for all of it.
    const acquired = (refused?: Rejection) =>
      holder.refresher.acquire(target, { ...wait, rejected: refused }).catch((error: unknown) => {
        if (HostedMcpError.isInstance(error, 'ERR_REAUTHORIZATION_REQUIRED')) return undefined;
        throw error;
      });
    if (coversScope(holder.data.scope, wanted)) {
      const now = await acquired();
      if (now === undefined) return false;
      if (this.#generations.outward(now).generation > rejected.generation) return true;
      throw notGranted(wanted);
    }
    const stored = await this.#parts.discovery.recordOf(target).read();
    if (stored?.clientId === undefined || !coversScope(stored.scope, wanted)) return false;
    if (await this.#isElsewhereNow(target)) return true;
    // The token of that consent lies in the store.
    if ((await acquired(this.#generations.inward(rejected))) === undefined) return false;
    if (this.#holder === holder) this.#holder = { ...holder, data: stored };
    return true;
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
