/**
 * Scope sets (RFC 6749, 3.3): space-separated, order without meaning. Does no I/O.
 */
export function scopeItems(scope: string | undefined): string[] {
  return [...new Set((scope ?? '').split(/\s+/).filter((item) => item !== ''))];
}

/** True where every item of `wanted` is in `granted`. */
export function coversScope(granted: string | undefined, wanted: string): boolean {
  const has = new Set(scopeItems(granted));
  return scopeItems(wanted).every((item) => has.has(item));
}

/** All items of all sets, sorted, so that equal sets are equal strings. */
export function unionScope(...scopes: (string | undefined)[]): string {
  return [...new Set(scopes.flatMap(scopeItems))].sort().join(' ');
}

/** RFC 6749, appendix A.4: what may stand in a scope parameter. A server names it; it goes back into a form. */
export function isScope(scope: string): boolean {
  return scope.length <= 2048 && /^[\x21\x23-\x5b\x5d-\x7e ]+$/.test(scope) && scopeItems(scope).length > 0;
}
