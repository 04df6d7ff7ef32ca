/**
 * The engine over a relay.
 *
 * Guarantees the way of every other connection: gates, contract, session, retries, outcomes. What the relay knows of a
 * failure beyond a status reaches the caller, save where an earlier try may have run. Never re-sends a call because a
 * relay says that it did not run: that is the app's to do.
 */
import { HostedConnection } from '../connection/connection.js';
import { isRead } from '../connection/failures.js';
import type { Call, RequestOptions } from '../connection/ledger.js';
import type { CredentialProvider } from '../credentials/provider.js';
import { HostedMcpError, type HostedMcpErrorCode } from '../errors.js';
import { RedirectingClient } from '../http/redirects.js';
import type { JsonRpcRequest, JsonRpcResponse, RequestId } from '../json-rpc.js';
import { type HostedOptions, resolveHostedOptions } from '../options.js';
import type { RelaySend } from './messages.js';
import { REFUSED, RelayHttpClient } from './relay-http.js';

const NO_CREDENTIAL = Object.freeze({ generation: 1, headers: () => ({}) });
/** What the engine makes of a failure that the relay has told of. */
const MADE_OF_IT: ReadonlySet<HostedMcpErrorCode> = new Set([
  'ERR_TIMEOUT',
  'ERR_OUTCOME_UNKNOWN',
  'ERR_HTTP_STATUS',
  'ERR_SESSION_LOST',
  'ERR_MESSAGE_TOO_LARGE',
]);

export class RelayConnection extends HostedConnection {
  readonly #calls: Map<RequestId, Call>;
  /** Of requests that the engine may repeat: what is known of the last try. */
  readonly #told: Map<RequestId, HostedMcpError>;
  readonly #relay: RelayHttpClient;

  /** Throws `TypeError` for an option that cannot be used. */
  constructor(send: RelaySend, name: string, options: HostedOptions) {
    const calls = new Map<RequestId, Call>();
    const told = new Map<RequestId, HostedMcpError>();
    const made: { relay?: RelayHttpClient } = {};
    const provider: CredentialProvider = {
      id: `relay:${name}`,
      acquire: async () => NO_CREDENTIAL,
    };
    const resolved = resolveHostedOptions(
      `relay:${encodeURIComponent(name)}`,
      // Nothing comes unasked.
      { ...options, credentials: provider, streams: { ...options.streams, listen: false } },
      (url) => new URL(url),
    );
    const { clock, http, retry } = resolved;
    super(resolved, {
      http: (_redactor, gone) => {
        made.relay = new RelayHttpClient({
          send,
          clock,
          gone,
          told: (id, error) => {
            const call = calls.get(id);
            const mayRepeat =
              call !== undefined &&
              (isRead(call.method) || (call.tool !== undefined && retry.isSafeTool(call.tool)));
            if (mayRepeat) told.set(id, error);
            // Now, so that everybody who looks at its end sees it as it was.
            else call?.fail(error);
          },
          leftMs: (id) => {
            const deadlineMs = calls.get(id)?.deadlineMs;
            return deadlineMs === undefined ? undefined : deadlineMs - clock.monotonic();
          },
        });
        return new RedirectingClient(made.relay, clock, http.headersTimeoutMs);
      },
    });
    this.#calls = calls;
    this.#told = told;
    this.#relay = made.relay as RelayHttpClient;
  }

  override async request(message: JsonRpcRequest, options: RequestOptions = {}): Promise<JsonRpcResponse> {
    let own: Call | undefined;
    const onCall = (call: Call) => {
      own = call;
      this.#calls.set(message.id, call);
      options.onCall?.(call);
    };
    try {
      return await super.request(message, { ...options, onCall });
    } catch (error) {
      throw asTold(error, this.#told.get(message.id), this.#relay.problem);
    } finally {
      if (this.#calls.get(message.id) === own) this.#calls.delete(message.id);
      this.#told.delete(message.id);
    }
  }
}

function asTold(
  error: unknown,
  told: HostedMcpError | undefined,
  problem: HostedMcpError | undefined,
): unknown {
  if (!HostedMcpError.isInstance(error) || !MADE_OF_IT.has(error.code)) return error;
  const known = told ?? (error.status === REFUSED ? problem : undefined);
  // An earlier try may have run, whatever is known of this one.
  if (known === undefined || (known.executed === false && error.executed !== false)) return error;
  return known;
}
