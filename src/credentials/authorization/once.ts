/**
 * `discover: 'once'`: the authorization server that the MCP server names first is the one that gets the app's secret,
 * then and for ever.
 *
 * Guarantees that nothing is sent anywhere before the MCP server has asked for a credential; that what was found is kept
 * in the store, so that restarts and replicas keep to it; and that a server which names another one later is told of
 * (`server-changed`) and gets an error. Never follows such a change.
 */
import type { Clock } from '../../clock.js';
import type { Disposer } from '../../disposer.js';
import { HostedMcpError } from '../../errors.js';
import { foreignOriginError } from '../credential.js';
import { CredentialEvents } from '../credential-events.js';
import { within } from '../deadline.js';
import type { MetadataSource, ServerMetadata } from '../metadata.js';
import { DEFAULT_MAX_WAIT_MS } from '../options.js';
import { closedError } from '../problem.js';
import type {
  AcquireOptions,
  Credential,
  CredentialEvent,
  CredentialProvider,
  Rejection,
} from '../provider.js';
import type { Refresher } from '../refresher.js';
import { isScope } from '../scopes.js';
import { ANONYMOUS } from './anonymous.js';
import { movedError, REST_MS } from './consent.js';
import type { DiscoveredServer } from './discovered-server.js';
import type { Discovery } from './discovery.js';
import type { AuthorizationData } from './record.js';

/** What is known of the server, for those who were made before it was. */
export class Pin {
  #source: Pick<MetadataSource, 'get'> | undefined;
  #data: AuthorizationData | undefined;

  get data(): AuthorizationData | undefined {
    return this.#data;
  }

  set(data: AuthorizationData, source: Pick<MetadataSource, 'get'>): void {
    this.#data = data;
    this.#source = source;
  }

  async get(): Promise<ServerMetadata> {
    if (this.#source !== undefined) return await this.#source.get();
    throw new HostedMcpError('ERR_DISCOVERY', 'The MCP server has not named its authorization server yet', {
      reason: 'not_discovered',
    });
  }

  get resource(): string | undefined {
    return this.#data?.resource;
  }

  /** MCP 2025-11-25, "Scope Selection Strategy": the first challenge, else what the metadata list, else none. */
  get scope(): string | undefined {
    if (this.#data?.scope !== undefined) return this.#data.scope;
    const listed = (this.#data?.scopesSupported ?? []).join(' ');
    return isScope(listed) ? listed : undefined;
  }
}

export interface DiscoverOnceParts {
  readonly inner: Refresher;
  readonly pin: Pin;
  readonly clock: Clock;
  readonly discovery: Discovery;
}

export class DiscoverOnceProvider implements CredentialProvider {
  readonly id: string;
  readonly #parts: DiscoverOnceParts;
  readonly #events = new CredentialEvents();
  #target: URL | undefined;
  #pinning: Promise<void> | undefined;
  #looking: Promise<void> | undefined;
  #lookedFor = { generation: 0, atMs: 0 };
  #closed: Promise<void> | undefined;

  constructor(parts: DiscoverOnceParts) {
    this.id = parts.inner.id;
    this.#parts = parts;
    parts.inner.onEvent((event) => this.#events.emit(event));
  }

  async acquire(target: URL, options: AcquireOptions = {}): Promise<Credential> {
    if (this.#closed !== undefined) throw closedError();
    this.#bind(target);
    const { rejected, signal, maxWaitMs = DEFAULT_MAX_WAIT_MS } = options;
    const { clock, inner, pin } = this.#parts;
    if (pin.data === undefined) {
      this.#pinning ??= this.#pin(target, rejected).finally(() => {
        this.#pinning = undefined;
      });
      await within(clock, this.#pinning, maxWaitMs, lateError, signal);
      if (pin.data === undefined) {
        // Somebody else's look at the store, from before this refusal.
        return rejected === undefined ? ANONYMOUS : await this.acquire(target, options);
      }
    } else if (
      rejected?.status === 401 &&
      rejected.generation > 0 &&
      rejected.challenge !== 'use_dpop_nonce'
    ) {
      await within(clock, this.#look(target, rejected), maxWaitMs, lateError, signal);
    }
    const isAnonymous = rejected?.generation === 0;
    return await inner.acquire(target, isAnonymous ? { ...options, rejected: undefined } : options);
  }

  onEvent(listener: (event: CredentialEvent) => void): Disposer {
    return this.#events.add(listener);
  }

  /** What was pinned stays: to forget a token is no reason to trust another server. */
  async forget(): Promise<void> {
    await this.#parts.inner.forget();
  }

  async revoke(options: { signal?: AbortSignal | undefined } = {}): Promise<'revoked' | 'unsupported'> {
    return await this.#parts.inner.revoke(options);
  }

  close(options: { drainMs?: number | undefined } = {}): Promise<void> {
    this.#closed ??= this.#parts.inner.close(options);
    return this.#closed;
  }

  #bind(target: URL): void {
    this.#target ??= new URL(target);
    if (this.#target.origin !== target.origin) throw foreignOriginError();
    this.#parts.discovery.bind(this.#target);
  }

  async #pin(target: URL, rejected: Rejection | undefined): Promise<void> {
    const { discovery, pin } = this.#parts;
    const record = discovery.recordOf(target);
    let data = await record.read();
    if (data === undefined) {
      if (rejected === undefined) return;
      const found = await discovery.server(target, rejected, undefined);
      // Kept as well: a restart must not ask for all that the metadata list.
      const scope = rejected.scope !== undefined && isScope(rejected.scope) ? rejected.scope : undefined;
      // Whoever was first decides for all.
      data = await record.update((stored) => stored ?? { ...found, scope, clients: {} });
    }
    if (data !== undefined) pin.set(data, discovery.metadataOf(data));
  }

  /** A token was refused: perhaps because it is of another server than the one of now. Once per generation, and a minute. */
  async #look(target: URL, rejected: Rejection): Promise<void> {
    const nowMs = this.#parts.clock.monotonic();
    const { generation, atMs } = this.#lookedFor;
    if (rejected.generation > generation || nowMs - atMs > REST_MS) {
      this.#lookedFor = { generation: rejected.generation, atMs: nowMs };
      this.#looking = this.#lookNow(target, rejected);
      this.#looking.catch(() => {});
    }
    await this.#looking;
  }

  async #lookNow(target: URL, rejected: Rejection): Promise<void> {
    const known = this.#parts.pin.data?.issuer;
    let found: DiscoveredServer;
    try {
      found = await this.#parts.discovery.server(target, rejected, known);
    } catch (error) {
      // It is away: what is pinned is good enough for a refresh.
      if (HostedMcpError.isInstance(error, 'ERR_TOKEN_ENDPOINT')) return;
      throw error;
    }
    if (known === undefined || found.issuer === known) return;
    this.#events.emit({ type: 'server-changed', id: this.id, previous: known, current: found.issuer });
    throw movedError();
  }
}

function lateError(): HostedMcpError {
  return new HostedMcpError(
    'ERR_TOKEN_ENDPOINT',
    'The authorization server was not found in the time this call can wait',
    {
      retryable: true,
      reason: 'timeout',
    },
  );
}
