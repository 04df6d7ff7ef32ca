/**
 * What telemetry may know of a request's own values: next to nothing.
 *
 * Guarantees that a string or a longer number that the caller sent does not stand in a text about the failure,
 * spelled as it was sent, and that of an address only what names the resource remains. Never searches without
 * end: of the values, the first thousand count.
 */

/** Shorter ones would hit ordinary words. */
const SHORTEST = 4;
/** A longer value is known by its beginning: a text is often cut. */
const PROBE_LENGTH = 64;
const VALUES_LOOKED_AT = 1_000;
const ADDRESS_LENGTH = 256;
/** Names, which are told anyway, and what is no value of the caller's. */
const TOLD: ReadonlySet<string> = new Set(['name', '_meta']);

/** The text without whatever the request has brought. */
export function withoutValues(text: string, ...carriers: readonly unknown[]): string {
  let left = VALUES_LOOKED_AT;
  const open: unknown[] = [];
  for (const carrier of carriers) {
    for (const [name, value] of Object.entries(asRecord(carrier))) if (!TOLD.has(name)) open.push(value);
  }
  let result = text;
  while (open.length > 0 && left-- > 0) {
    const value = open.pop();
    if (typeof value === 'string' || typeof value === 'number') result = without(result, String(value));
    else if (typeof value === 'object' && value !== null) open.push(...Object.values(value).slice(0, left));
  }
  return result;
}

function without(text: string, value: string): string {
  if (value.length < SHORTEST) return text;
  const probe = value.slice(0, PROBE_LENGTH);
  let out = '';
  let copied = 0;
  for (let at = text.indexOf(probe); at !== -1; at = text.indexOf(probe, copied)) {
    let end = at + probe.length;
    while (end < text.length && text[end] === value[end - at]) end += 1;
    out += `${text.slice(copied, at)}…`;
    copied = end;
  }
  return out + text.slice(copied);
}

/** Without user, query and fragment, and not longer than an address is. */
export function plainAddress(uri: string): string {
  const end = uri.search(/[?#]/);
  return (end < 0 ? uri : uri.slice(0, end))
    .replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/]*@/i, '$1')
    .slice(0, ADDRESS_LENGTH);
}

function asRecord(value: unknown): object {
  return typeof value === 'object' && value !== null ? value : {};
}
