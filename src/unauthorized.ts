/**
 * The SDKs' `UnauthorizedError`, which apps with an `authProvider` wait for before they call `finishAuth`.
 *
 * Guarantees that what is thrown keeps everything of our own error, so that `HostedMcpError.isInstance` holds. Imports no
 * SDK: where its class is at hand it is given.
 */
import { HostedMcpError } from './errors.js';

type ErrorClass = new (message: string) => Error;

/** The error as an SDK's client would have thrown it; any other one as it is. */
export function asUnauthorized(error: unknown, UnauthorizedError?: ErrorClass | undefined): unknown {
  if (!HostedMcpError.isInstance(error, 'ERR_REAUTHORIZATION_REQUIRED')) return error;
  if (UnauthorizedError === undefined) {
    return Object.defineProperty(error, 'name', { value: 'UnauthorizedError', configurable: true });
  }
  // Callers who wait for the same thing share its error.
  if ((error as Error) instanceof UnauthorizedError) return error;
  const thrown = new UnauthorizedError(error.message);
  const { message: _, stack: __, ...own } = Object.getOwnPropertyDescriptors(error);
  Object.defineProperties(thrown, own);
  Object.defineProperty(thrown, 'name', { value: 'UnauthorizedError', configurable: true });
  Object.defineProperty(thrown, 'toToolResult', { value: () => error.toToolResult() });
  return thrown;
}
