/**
 * The digest of what a server gets.
 *
 * Guarantees that two values have one digest exactly when they are the same JSON on the wire, whatever the order of
 * their keys. Never keeps the value.
 */
import { hash } from 'node:crypto';
import { byCodeUnits, MAX_DEPTH } from '../contract/canonical.js';

/** SHA-256 (hex) of the canonical JSON. Throws where the value has no JSON, or one that is nested too deep. */
export function wireDigest(value: unknown): string {
  return sha256(canonical(value, 0) ?? 'null');
}

/** SHA-256 (hex) of the UTF-8 of a text; in one go, which leaves nothing to the garbage collector. */
export function sha256(text: string): string {
  return hash('sha256', text);
}

/** `canonicalJson(JSON.parse(JSON.stringify(value)))`, without the way there and back. */
function canonical(value: unknown, depth: number): string | undefined {
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'number') return Number.isFinite(value) ? `${value}` : 'null';
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (depth >= MAX_DEPTH) throw new RangeError('The value is nested too deep');
  if (!isPlain(value)) {
    const text = JSON.stringify(value);
    return text === undefined ? undefined : canonical(JSON.parse(text), depth);
  }
  if (Array.isArray(value)) {
    let items = '';
    for (let at = 0; at < value.length; at += 1)
      items += `${at === 0 ? '' : ','}${canonical(value[at], depth + 1) ?? 'null'}`;
    return `[${items}]`;
  }
  const keys = Object.keys(value);
  if (keys.length > 1) keys.sort(byCodeUnits);
  let members = '';
  for (const key of keys) {
    const member = canonical((value as Record<string, unknown>)[key], depth + 1);
    if (member === undefined) continue;
    members += `${members === '' ? '' : ','}${JSON.stringify(key)}:${member}`;
  }
  return `{${members}}`;
}

/** JSON writes it as it is. */
function isPlain(value: object): boolean {
  if (typeof (value as { toJSON?: unknown }).toJSON === 'function') return false;
  if (Array.isArray(value)) return true;
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
