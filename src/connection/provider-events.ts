/**
 * What a credential provider tells, as events of the connection; and, after a refresh, in the agent's think-time: is
 * the session still good? A real call shall not be the one to find out.
 *
 * Guarantees one such look at a time. Never looks where there is nothing to find, or while the server wants a pause.
 */
import type { CredentialProvider } from '../credentials/provider.js';
import type { Disposer } from '../disposer.js';
import type { Emitter } from '../events.js';
import type { Limiter } from '../rate-limit/limiter.js';
import type { SessionKeeper } from '../session/keeper.js';
import type { CredentialUse } from './credential-use.js';
import type { ConnectionEvents } from './types.js';

interface ProviderEventsParts {
  readonly emitter: Emitter<ConnectionEvents>;
  readonly keeper: SessionKeeper;
  readonly credential: CredentialUse;
  readonly limiter: Limiter;
}

/** Undefined where the provider tells nothing. */
export function hearProvider(provider: CredentialProvider, parts: ProviderEventsParts): Disposer | undefined {
  const { emitter, keeper, credential, limiter } = parts;
  let isLooking = false;
  const verifyAhead = () => {
    const { session } = keeper;
    // A source that is new at every use would otherwise call for its own next change.
    if (session === undefined || isLooking || credential.isAlwaysNew || limiter.pausedMs > 0) return;
    isLooking = true;
    credential
      .acquire()
      .then((given) => keeper.verify(session, given))
      .catch(() => {})
      .finally(() => {
        isLooking = false;
      });
  };
  return provider.onEvent?.(({ type, ...payload }) => {
    emitter.emit(`credential-${type}`, payload as never);
    if (type === 'refreshed' || type === 'adopted') verifyAhead();
  });
}
