/**
 * Snapshots as text, for a repository and its pull requests, and back.
 *
 * Guarantees that one contract has one text (sorted keys, tools by name, one fact a line, nothing invisible),
 * that `parseSnapshot(formatSnapshot(s))` equals `s`, and that a damaged text is refused with a `SnapshotError`
 * naming what and where, in time linear in its length. Never repairs, never guesses.
 */
import { LIMITS } from '../limits.js';
import { utf8Length } from '../runtime/bytes.js';
import { byCodeUnits, digestOf, frozenCopy, isJsonObject, own, readableJson } from './canonical.js';
import { scanJson } from './json-scan.js';
import { byNameThenDigest, contractDigest, orderedEntries } from './snapshot.js';
import { SnapshotError } from './snapshot-error.js';
import type { ContractSnapshot, JsonObject, ToolContract } from './types.js';
import { visibleJsonString } from './visible.js';

/** 10,000 tools of 6 KiB each; a larger file was not made by this library. */
export const SNAPSHOT_BYTES = 64 * 1024 * 1024;
const FORMAT = 1;

/** Throws a `SnapshotError` for a snapshot with two tools of one name: it could never be read again. */
export function formatSnapshot(snapshot: ContractSnapshot): string {
  refuseDuplicates(snapshot.tools);
  return `${readableJson(snapshot)}\n`;
}

/**
 * Refuses, with a `SnapshotError`: text cut short or otherwise not JSON, a newer format, fields missing, unknown or of
 * the wrong type, a key twice in one object, two tools of one name, a digest that does not fit, more than
 * 64 MiB or 10,000 tools, more than 256 levels. A `__proto__` key within a tool is data like any other.
 */
export function parseSnapshot(text: string): ContractSnapshot {
  if (typeof text !== 'string') throw new TypeError('parseSnapshot takes the text of a snapshot');
  if (text.length > SNAPSHOT_BYTES || utf8Length(text) > SNAPSHOT_BYTES) {
    throw new SnapshotError('too-large');
  }
  const json = text.startsWith('\ufeff') ? text.slice(1) : text;
  const file = readJson(json);
  if (!isJsonObject(file) || own(file, 'holdfast') === undefined) throw new SnapshotError('not-a-snapshot');
  checkFormat(file.holdfast);
  for (const key of Object.keys(file)) {
    if (!FIELDS.has(key)) throw new SnapshotError('unknown-field', lineOf(json, key));
  }
  const tools = readTools(file);
  const resources = readEntries(file, 'resources', 'uri');
  const prompts = readEntries(file, 'prompts', 'name');
  const scopes = readScopes(file);
  const instructions = readString(file, 'instructions', true);
  const environment = readString(file, 'environment', true);
  const url = readString(file, 'url', true);
  const snapshot: ContractSnapshot = {
    holdfast: FORMAT,
    takenAt: readString(file, 'takenAt') ?? '',
    ...(environment !== undefined && { environment }),
    ...(url !== undefined && { url }),
    digest: readString(file, 'digest') ?? '',
    protocolVersion: readString(file, 'protocolVersion') ?? '',
    capabilities: readObject(file, 'capabilities'),
    serverInfo: readObject(file, 'serverInfo'),
    ...(instructions !== undefined && { instructions }),
    tools,
    ...(resources && { resources }),
    ...(prompts && { prompts }),
    ...(scopes && { grantedScopes: scopes }),
  };
  if (contractDigest(snapshot) !== snapshot.digest)
    throw new SnapshotError('digest-mismatch', { where: 'digest' });
  return Object.freeze(snapshot);
}

const FIELDS: ReadonlySet<string> = new Set([
  'holdfast',
  'takenAt',
  'environment',
  'url',
  'digest',
  'protocolVersion',
  'capabilities',
  'serverInfo',
  'instructions',
  'tools',
  'resources',
  'prompts',
  'grantedScopes',
]);
const TOOL_FIELDS: ReadonlySet<string> = new Set(['name', 'digest', 'definition']);

function readJson(json: string): unknown {
  const { faultAt, repeatedAt } = scanJson(json);
  if (faultAt !== undefined) {
    throw new SnapshotError(faultAt >= json.length ? 'cut-short' : 'not-json', placeOf(json, faultAt));
  }
  if (repeatedAt !== undefined) throw new SnapshotError('repeated-key', placeOf(json, repeatedAt));
  return JSON.parse(json);
}

function checkFormat(format: unknown): void {
  if (typeof format === 'number' && Number.isInteger(format) && format > FORMAT) {
    throw new SnapshotError('newer-format', { where: 'holdfast' });
  }
  if (format !== FORMAT) throw new SnapshotError('not-a-snapshot', { where: 'holdfast' });
}

function readTools(file: JsonObject): readonly ToolContract[] {
  const entries = readArray(file, 'tools') ?? missing('tools');
  if (entries.length > LIMITS.tools) throw new SnapshotError('too-many-tools', { where: 'tools' });
  const tools = entries.map((entry, index) => {
    const where = `tools[${index}]`;
    if (!isJsonObject(entry)) throw new SnapshotError('wrong-type', { where });
    for (const key of Object.keys(entry)) {
      if (!TOOL_FIELDS.has(key)) throw new SnapshotError('unknown-field', { where });
    }
    const name = own(entry, 'name');
    const definition = own(entry, 'definition');
    if (typeof name !== 'string') throw new SnapshotError('nameless-tool', { where });
    if (!isJsonObject(definition)) {
      throw new SnapshotError('wrong-type', { where: `${where}.definition`, tool: name });
    }
    const digest = own(entry, 'digest');
    if (own(definition, 'name') !== name || digestOf(definition, where) !== digest) {
      throw new SnapshotError('digest-mismatch', { where: `${where}.digest`, tool: name });
    }
    return Object.freeze({ name, digest, definition: frozenCopy(definition, where) as JsonObject });
  });
  refuseDuplicates(tools);
  return Object.freeze(tools.sort(byNameThenDigest));
}

function refuseDuplicates(tools: readonly ToolContract[]): void {
  const names = new Set<string>();
  tools.forEach(({ name }, index) => {
    if (names.has(name)) throw new SnapshotError('duplicate-tool', { where: `tools[${index}]`, tool: name });
    names.add(name);
  });
}

function readEntries(file: JsonObject, part: string, key: string): readonly JsonObject[] | undefined {
  const entries = readArray(file, part);
  return (
    entries &&
    orderedEntries(
      entries.map((entry, index) => asObject(entry, `${part}[${index}]`)),
      key,
      part,
    )
  );
}

function readScopes(file: JsonObject): readonly string[] | undefined {
  const scopes = readArray(file, 'grantedScopes');
  if (scopes && !scopes.every((scope) => typeof scope === 'string')) {
    throw new SnapshotError('wrong-type', { where: 'grantedScopes' });
  }
  return scopes && Object.freeze([...new Set(scopes as string[])].sort(byCodeUnits));
}

function readString(file: JsonObject, key: string, optional = false): string | undefined {
  const value = own(file, key);
  if (value === undefined) return optional ? undefined : missing(key);
  if (typeof value !== 'string') throw new SnapshotError('wrong-type', { where: key });
  return value;
}

function readObject(file: JsonObject, key: string): JsonObject {
  return frozenCopy(asObject(own(file, key) ?? missing(key), key), key) as JsonObject;
}

function readArray(file: JsonObject, key: string): readonly unknown[] | undefined {
  const value = own(file, key);
  if (value === undefined || Array.isArray(value)) return value;
  throw new SnapshotError('wrong-type', { where: key });
}

function asObject(value: unknown, where: string): JsonObject {
  if (!isJsonObject(value)) throw new SnapshotError('wrong-type', { where });
  return value;
}

function missing(where: string): never {
  throw new SnapshotError('missing-field', { where });
}

/** Where a field of the snapshot itself stands, in text that this library wrote. */
function lineOf(json: string, key: string): { line?: number; column?: number } {
  const at = json.indexOf(`\n  ${visibleJsonString(key)}:`);
  return at < 0 ? {} : placeOf(json, at + 3);
}

function placeOf(json: string, at: number): { line: number; column: number } {
  let line = 1;
  let start = 0;
  for (let next = json.indexOf('\n'); next >= 0 && next < at; next = json.indexOf('\n', start)) {
    line++;
    start = next + 1;
  }
  return { line, column: at - start + 1 };
}
