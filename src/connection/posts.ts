/**
 * Messages that want no answer: notifications, cancels, answers to the server's own requests.
 *
 * Guarantees that they go to the session they belong to or to none, and that one refused by a challenge goes out
 * once more. Never opens a session.
 */
import type { Credential } from '../credentials/provider.js';
import { HostedMcpError } from '../errors.js';
import type { JsonRpcMessage } from '../json-rpc.js';
import { rejectionOf } from '../session/handshake.js';
import type { SessionKeeper } from '../session/keeper.js';
import type { Session } from '../session/session.js';
import type { Verdict } from './classify.js';
import type { CredentialUse } from './credential-use.js';
import type { StreamFacts } from './route.js';
import type { Wire } from './wire.js';

interface PostsParts {
  readonly wire: Wire;
  readonly keeper: SessionKeeper;
  readonly credential: CredentialUse;
  classify(facts: StreamFacts, session: Session, credential: Credential): Verdict;
  deliver(message: JsonRpcMessage, session: Session): void;
  onPosted(): void;
}

export class Posts {
  readonly #parts: PostsParts;

  constructor(parts: PostsParts) {
    this.#parts = parts;
  }

  /** Rejects with a `HostedMcpError` where it was not taken. */
  async send(message: JsonRpcMessage, session: Session): Promise<void> {
    session.posts += 1;
    try {
      await this.#send(message, session);
    } finally {
      session.posts -= 1;
      this.#parts.onPosted();
    }
  }

  async #send(message: JsonRpcMessage, session: Session): Promise<void> {
    let rejected: ReturnType<typeof rejectionOf> | undefined;
    for (;;) {
      const credential = await this.#credentialOn(session, rejected);
      // It ended meanwhile: only that a call is over may still be of use to it.
      if (session.phase === 'ended' && !isCancellation(message)) {
        throw new HostedMcpError('ERR_SESSION_LOST', 'The session ended before the message could leave', {
          method: 'method' in message ? message.method : undefined,
        });
      }
      const facts = await this.#parts.wire.send(message, {
        session,
        credential,
        toll: { urgency: 'reply' },
        onMessage: (each) => this.#parts.deliver(each, session),
      });
      const verdict = this.#parts.classify(facts, session, credential);
      if (verdict.kind === 'accepted') return;
      if (
        verdict.kind === 'credential' &&
        verdict.challenged &&
        rejected === undefined &&
        session.phase === 'current'
      ) {
        rejected = rejectionOf(credential, facts);
        continue;
      }
      if (verdict.kind === 'session-lost')
        this.#parts.keeper.lost(session, verdict.reason, verdict.tentative);
      throw new HostedMcpError('ERR_PROTOCOL', 'A message that wants no answer was not taken', {
        executed: facts.sent ? 'unknown' : false,
        method: 'method' in message ? message.method : undefined,
        status: facts.status,
      });
    }
  }

  /** A session that no longer takes calls is spoken to with its own credential, to its end. */
  async #credentialOn(
    session: Session,
    rejected: ReturnType<typeof rejectionOf> | undefined,
  ): Promise<Credential> {
    if (session.phase === 'current') {
      const credential = await this.#parts.credential.acquire(rejected === undefined ? {} : { rejected });
      if (!this.#parts.credential.isAlwaysNew)
        await this.#parts.keeper.verify(session, credential)?.catch(() => {});
      if (session.phase === 'current') return credential;
    }
    return session.credential;
  }
}

function isCancellation(message: JsonRpcMessage): boolean {
  return 'method' in message && message.method === 'notifications/cancelled';
}
