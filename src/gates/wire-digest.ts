/**
 * The digest of what a server gets.
 *
 * Guarantees that two values have one digest exactly when they are the same JSON on the wire, whatever the order of
 * their keys. Never keeps the value.
 */
import { createHash } from 'node:crypto';
import { digestOf } from '../contract/canonical.js';

/** SHA-256 (hex) of the canonical JSON. Throws where the value has no JSON, or one that is nested too deep. */
export function wireDigest(value: unknown): string {
  // As JSON writes it: a Date is its text there, and what is undefined is not there.
  const text = JSON.stringify(value);
  return digestOf(text === undefined ? null : JSON.parse(text));
}

/** SHA-256 (hex) of the UTF-8 of a text. */
export function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
