/**
 * Addresses that carry a secret.
 *
 * Guarantees that a password, and what looks like a token in a query or fragment, is told apart from an address that
 * may stand on a command line, where every process and every shell history can read it. Never repeats it.
 */

const SECRET_NAME =
  /(?:^|[_.-])(?:access|api|app|auth|authorization|bearer|client|code|credential|id|jwt|key|oauth|passw(?:or)?d|pat|pwd|secret|session|sig|signature|sas|token)s?(?:$|[_.-])|(?:token|secret|passw(?:or)?d|api_?key|signature|credential)/i;
/** Names that say who asks, not by what right. */
const PLAIN_NAME = /^(?:(?:app|client|user|tenant|org|project|profile|workspace|server|session)_?)?id$/i;
/** Prefixes that issuers put before their tokens, and the head of every JWT. */
const TOKEN_PREFIX =
  /^(?:eyJ|sk[-_]|pk_|rk_|gh[pousr]_|github_pat_|glpat-|xox[a-z]-|ya29\.|AKIA|AIza|Bearer\s)/;
const UUID = /^[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}$/i;

/** What in the address has to go, in words; undefined where nothing has. */
export function secretIn(url: URL): string | undefined {
  if (url.username !== '' || url.password !== '') return 'a user name or password';
  for (const [name, value] of url.searchParams) {
    if (isSecret(name, value)) return 'what looks like a secret in its query';
  }
  const fragment = url.hash.replace(/^#/, '');
  for (const [name, value] of new URLSearchParams(fragment)) {
    if (isSecret(name, value === '' ? name : value)) return 'what looks like a secret behind "#"';
  }
  return undefined;
}

function isSecret(name: string, value: string): boolean {
  if (value === '') return false;
  if (TOKEN_PREFIX.test(value)) return true;
  if (UUID.test(value)) return SECRET_NAME.test(name) && !PLAIN_NAME.test(name);
  if (!PLAIN_NAME.test(name) && SECRET_NAME.test(name)) return true;
  // Long, without a gap, letters and digits mixed: made by a machine, to be known by nobody.
  return /^[\w.~+/=-]{32,}$/.test(value) && /\d/.test(value) && /[a-z]/i.test(value);
}
