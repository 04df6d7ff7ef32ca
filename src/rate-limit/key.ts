/**
 * The name of a bucket where the app gives none.
 *
 * Guarantees that replicas with one credential for one server come to one name, across processes and releases,
 * and that two credentials never share one. Never made of a token: it changes with every refresh, and a key of
 * little entropy could be found again from its hash.
 */
import { hmacBase64url } from '../runtime/digest.js';

const LABEL = 'mcp-holdfast rate limit key';
const VERSION = 'v1';
const LENGTH = 22;

/** Of the endpoint's origin and path (a query may carry a secret) and the credential's id. */
export function deriveKey(url: URL, credentialId: string): string {
  const named = JSON.stringify([VERSION, url.origin + url.pathname, credentialId]);
  return hmacBase64url(LABEL, named).slice(0, LENGTH);
}

/**
 * The ids of credentials that were given none: they name a kind of source, and all API keys of the world would
 * be one credential.
 */
const KIND_OF_SOURCE =
  /^(?:none|bearer|sdk-auth-provider|header:.*|env:.*|file:[0-9a-f]{16}|command:[0-9a-f]{16})$/s;

/** Does the id tell this credential from others? */
export function isStableId(credentialId: string): boolean {
  return !KIND_OF_SOURCE.test(credentialId);
}
