/**
 * How a connection speaks to a server that is not reached by HTTP: by something that answers as if it were.
 */
import type { HttpClient } from '../http/exchange.js';
import type { Redactor } from '../redactor.js';

/**
 * A session is gone without a word of the server. `counts`: that says something against it. `opens`: the next one is
 * opened before it is wanted.
 */
export type SessionGone = (
  sessionId: string,
  reason: string,
  how: { readonly counts: boolean; readonly opens: boolean },
) => void;

/** Made by the connection, with what takes secrets out of a server's words. */
export type OwnHttp = (redactor: Redactor, gone: SessionGone) => HttpClient;
