/**
 * The way to the user: one authorization at a time, and what is said where there is no such way.
 *
 * Guarantees that callers who need consent at the same time share one browser, or one address to send the user to; and
 * that after a refusal no browser is opened for a minute. Never opens one by itself: `onRedirect` does, if it is given.
 */
import { type Clock, untilAborted } from '../../clock.js';
import { HostedMcpError } from '../../errors.js';
import { within } from '../deadline.js';
import { type Problem, problemError, problemOf } from '../problem.js';
import type { Rejection } from '../provider.js';
import { isScope, unionScope } from '../scopes.js';
import type { Callback } from './callback.js';
import type { DiscoveredServer } from './discovered-server.js';
import type { Discovery } from './discovery.js';
import type { AuthorizationFlow } from './flow.js';
import { PENDING_MS } from './pending.js';

export interface ConsentParts {
  readonly flow: AuthorizationFlow;
  readonly clock: Clock;
  /** What the app asks for beside what the server does. */
  readonly scope: string | undefined;
  /** The first authorization server is kept to. */
  readonly isPinned: boolean;
  readonly onRedirect:
    | ((url: URL, options: { signal: AbortSignal }) => URL | string | Promise<URL | string>)
    | undefined;
  readonly discovery: Discovery;
  readonly closing: AbortSignal;
  /** Exchanges what the user brought back, and keeps it. */
  finish(callback: Callback): Promise<void>;
  failed(error: HostedMcpError): void;
  /** The MCP server names another authorization server than the one that is known. */
  moved(previous: string, current: string): void;
}

/** How long a failed authorization stands before a browser is opened again. */
export const REST_MS = 60_000;

export class UserConsent {
  readonly #parts: ConsentParts;
  #asking: Promise<void> | undefined;
  #beginning: { readonly scope: string; readonly url: Promise<URL> } | undefined;
  #begun: { readonly url: URL; readonly scope: string; readonly untilMs: number } | undefined;
  #resting: { readonly problem: Problem; readonly untilMs: number } | undefined;

  constructor(parts: ConsentParts) {
    this.#parts = parts;
  }

  /** There is a way to the user from here. */
  get hasWay(): boolean {
    return this.#parts.onRedirect !== undefined;
  }

  get isUnderWay(): boolean {
    return this.#asking !== undefined;
  }

  /** No browser is opened now: the last authorization failed. */
  get isResting(): boolean {
    return (this.#resting?.untilMs ?? 0) > this.#parts.clock.monotonic();
  }

  /** Where the user was sent to last. */
  get lastUrl(): string | undefined {
    return this.#begun?.url.href;
  }

  /** The user came back, or nothing of before counts any more. */
  clear(): void {
    this.#begun = undefined;
    this.#resting = undefined;
  }

  /** Sends the user there and takes what comes back; single flight. Throws why nothing came of it. */
  async ask(target: URL, rejected: Rejection | undefined, scope: string | undefined): Promise<void> {
    if (this.#resting !== undefined && this.isResting) throw problemError(this.#resting.problem);
    this.#asking ??= this.#ask(target, rejected, scope).finally(() => {
      this.#asking = undefined;
    });
    await this.#asking;
  }

  /** One address for all who need it, as long as it is good for. */
  async url(target: URL, rejected: Rejection | undefined, scope: string | undefined): Promise<URL> {
    const wanted = scope ?? '';
    const begun = this.#begun;
    if (begun?.scope === wanted && begun.untilMs > this.#parts.clock.monotonic()) return begun.url;
    if (this.#beginning?.scope !== wanted) {
      const beginning = { scope: wanted, url: this.begin(target, rejected, scope) };
      const end = () => {
        if (this.#beginning === beginning) this.#beginning = undefined;
      };
      beginning.url.then(end, end);
      this.#beginning = beginning;
    }
    return await this.#beginning.url;
  }

  async begin(target: URL, rejected: Rejection | undefined, scope: string | undefined): Promise<URL> {
    const { clock, flow, isPinned, discovery, moved } = this.#parts;
    discovery.bind(target);
    const record = discovery.recordOf(target);
    let known = await record.read();
    const server = await discovery.server(target, rejected, known?.issuer);
    // Whoever is first decides for all, before the first user is sent away.
    if (isPinned) known ??= await record.update((stored) => stored ?? { ...server, clients: {} });
    if (known !== undefined && known.issuer !== server.issuer) {
      moved(known.issuer, server.issuer);
      if (isPinned) throw movedError();
    }
    const url = await flow.begin(target, server, scope ?? this.#firstScope(rejected, server));
    // Half its time: whoever is sent there needs some, too.
    this.#begun = { url, scope: scope ?? '', untilMs: clock.monotonic() + PENDING_MS / 2 };
    return url;
  }

  async #ask(target: URL, rejected: Rejection | undefined, scope: string | undefined): Promise<void> {
    const { clock, onRedirect, closing, finish, failed } = this.#parts;
    try {
      const url = await this.begin(target, rejected, scope);
      const asking = (async () => await onRedirect?.(url, { signal: closing }))();
      const late = () =>
        new HostedMcpError('ERR_REAUTHORIZATION_REQUIRED', 'The user did not authorize in time', {
          reason: 'timeout',
          authorizationUrl: url.href,
        });
      const callback = await within(clock, asking, PENDING_MS, late, closing, true);
      await untilAborted(finish(callback as Callback), closing);
    } catch (error) {
      const problem = problemOf(error, {
        code: 'ERR_REAUTHORIZATION_REQUIRED',
        what: 'The user could not be sent to the authorization server',
        fields: { reason: 'redirect_failed' },
      });
      this.#begun = undefined;
      if (problem.fields?.retryable !== true) {
        this.#resting = { problem, untilMs: clock.monotonic() + REST_MS };
      }
      const failure = problemError(problem);
      failed(failure);
      throw failure;
    }
  }

  /** MCP 2025-11-25, "Scope Selection Strategy": the challenge, else what the metadata list, else none. */
  #firstScope(rejected: Rejection | undefined, { scopesSupported }: DiscoveredServer): string | undefined {
    const { scope } = this.#parts;
    const challenged = rejected?.scope !== undefined && isScope(rejected.scope) ? rejected.scope : undefined;
    if (scope !== undefined) return challenged === undefined ? scope : unionScope(scope, challenged);
    if (challenged !== undefined) return challenged;
    const listed = (scopesSupported ?? []).join(' ');
    return isScope(listed) ? listed : undefined;
  }
}

export function movedError(): HostedMcpError {
  return new HostedMcpError(
    'ERR_DISCOVERY',
    'The MCP server names another authorization server than the one that is pinned',
    { reason: 'authorization_server_changed' },
  );
}
