/**
 * Canonical JSON: one text for one value, whatever the order of keys.
 *
 * Guarantees that every own key counts (`__proto__` is a key like any other), that equal values give equal
 * texts and digests, and that depth is bounded. Never reads through a prototype, never calls `toJSON`.
 */
import { sha256Hex } from '../runtime/digest.js';
import { SnapshotError } from './snapshot-error.js';
import type { JsonObject } from './types.js';
import { visibleJsonString } from './visible.js';

/** Far above any sane schema, far below what a stack holds. */
export const MAX_DEPTH = 256;

/** Keys sorted by UTF-16 code units, no white space (as RFC 8785 orders them). `where` names the value on errors. */
export function canonicalJson(value: unknown, where?: string): string {
  return write(value, JSON.stringify, undefined, 0, where);
}

/** The same, one fact a line, and with every character that is not shown escaped; a parser reads the same value. */
export function readableJson(value: unknown, where?: string): string {
  return write(value, visibleJsonString, '\n', 0, where);
}

/** The same on one line. */
export function readableJsonLine(value: unknown, where?: string): string {
  return write(value, visibleJsonString, undefined, 0, where);
}

/** SHA-256, hex, of the canonical JSON. */
export function digestOf(value: unknown, where?: string): string {
  return sha256Hex(canonicalJson(value, where));
}

/** A deep, frozen copy that shares nothing with the original; keys whose value is undefined are not there. */
export function frozenCopy(value: unknown, where?: string): unknown {
  return copy(value, 0, where);
}

/** The own property, or undefined: never one that a prototype has. */
export function own(object: JsonObject, key: string): unknown {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** By UTF-16 code units: the same on every machine, unlike what a locale says. */
export function byCodeUnits(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}

function write(
  value: unknown,
  quote: (text: string) => string,
  lineBreak: string | undefined,
  depth: number,
  where: string | undefined,
): string {
  if (typeof value === 'string') return quote(value);
  if (typeof value !== 'object' || value === null) return scalar(value, where);
  checkDepth(depth, where);
  const inner = lineBreak === undefined ? undefined : `${lineBreak}  `;
  const between = inner === undefined ? ',' : `,${inner}`;
  const parts = Array.isArray(value)
    ? Array.from(value, (item) => write(item, quote, inner, depth + 1, where))
    : definedKeys(value as JsonObject).map((key) => {
        const text = write((value as JsonObject)[key], quote, inner, depth + 1, where);
        return `${quote(key)}:${inner === undefined ? '' : ' '}${text}`;
      });
  const [open, close] = Array.isArray(value) ? ['[', ']'] : ['{', '}'];
  if (parts.length === 0) return `${open}${close}`;
  return `${open}${inner ?? ''}${parts.join(between)}${lineBreak ?? ''}${close}`;
}

function copy(value: unknown, depth: number, where: string | undefined): unknown {
  if (typeof value === 'string') return value;
  if (typeof value !== 'object' || value === null) {
    scalar(value, where);
    // Text knows no -0, so a value that is to survive being written has none either.
    return value === 0 ? 0 : value;
  }
  checkDepth(depth, where);
  if (Array.isArray(value)) return Object.freeze(Array.from(value, (item) => copy(item, depth + 1, where)));
  const object = value as JsonObject;
  // Object.fromEntries defines properties, it does not assign them: no setter of a prototype is reached.
  return Object.freeze(
    Object.fromEntries(definedKeys(object).map((key) => [key, copy(object[key], depth + 1, where)])),
  );
}

function scalar(value: unknown, where: string | undefined): string {
  if (value === null || typeof value === 'boolean') return String(value);
  if (typeof value === 'number' && !Number.isNaN(value)) {
    // A parser makes Infinity of 1e999, and so has to get it back.
    if (!Number.isFinite(value)) return value > 0 ? '1e999' : '-1e999';
    return JSON.stringify(value);
  }
  throw new SnapshotError('not-a-json-value', { where });
}

function definedKeys(object: JsonObject): string[] {
  return Object.keys(object)
    .filter((key) => object[key] !== undefined)
    .sort(byCodeUnits);
}

function checkDepth(depth: number, where: string | undefined): void {
  if (depth >= MAX_DEPTH) throw new SnapshotError('too-deep', { where });
}
