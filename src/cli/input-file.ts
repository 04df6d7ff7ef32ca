/**
 * Files and standard input, read whole and within bounds.
 *
 * Guarantees that a file which is too large is refused by its size before a byte of it is read, that a pipe is cut at
 * the same bound, and that every refusal names the file and, where there is one, the place. Never shows what a file holds.
 */
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { isAbsolute, resolve } from 'node:path';
import { type ContractSnapshot, parseSnapshot, SnapshotError } from '../contract/index.js';
import { SNAPSHOT_BYTES } from '../contract/snapshot-text.js';
import { visible } from '../contract/visible.js';
import { codeOf } from '../errors.js';
import { placeInJson, type TextPlace } from '../servers/place.js';
import { type CommandIo, UsageError } from './command.js';

const MEBIBYTE = 1024 * 1024;

/** What a message calls a file. */
export function shownName(name: string): string {
  return name === '-' ? 'standard input' : visible(name);
}

/** `FILE:3:14`, as editors and terminals follow it. */
export function shownPlace(name: string, place: TextPlace | undefined): string {
  return place === undefined ? shownName(name) : `${shownName(name)}:${place.line}:${place.column}`;
}

export function pathIn(io: CommandIo, name: string): string {
  return isAbsolute(name) ? name : resolve(io.cwd, name);
}

/** A snapshot file, or standard input for `-`. Throws a `UsageError` naming file, line and column. */
export async function readSnapshot(name: string, io: CommandIo): Promise<ContractSnapshot> {
  const text = await readText(name, io, SNAPSHOT_BYTES);
  try {
    return parseSnapshot(text);
  } catch (error) {
    if (!SnapshotError.isInstance(error)) throw error;
    throw snapshotRefused(name, text, error);
  }
}

/** The text of a file of at most `limitBytes`, or of standard input for `-`. Throws a `UsageError` naming the file. */
export async function readText(name: string, io: CommandIo, limitBytes: number): Promise<string> {
  const bytes =
    name === '-' ? await collect(io.stdin, name, limitBytes, io) : await readFile(name, io, limitBytes);
  if ((bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff)) {
    throw new UsageError(
      `${shownName(name)}:1:1: This is UTF-16, as some shells write it with ">": write the file with -o instead.`,
    );
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new UsageError(`${shownName(name)}: This is no text in UTF-8.`);
  }
}

async function readFile(name: string, io: CommandIo, limitBytes: number): Promise<Uint8Array> {
  let file: FileHandle;
  try {
    file = await open(pathIn(io, name), constants.O_RDONLY);
  } catch (error) {
    throw unreadable(name, error);
  }
  try {
    const stat = await file.stat();
    if (stat.isDirectory()) throw new UsageError(`${shownName(name)}: This is a directory, not a file.`);
    if (stat.size > limitBytes) throw tooLarge(name, limitBytes, stat.size);
    // A pipe has no size, and a file may grow: counted all the same.
    return await collect(file.createReadStream({ autoClose: false }), name, limitBytes, io);
  } catch (error) {
    throw error instanceof UsageError ? error : unreadable(name, error);
  } finally {
    await file.close();
  }
}

async function collect(
  chunks: AsyncIterable<Uint8Array | string>,
  name: string,
  limitBytes: number,
  io: CommandIo,
): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of chunks) {
    io.signal.throwIfAborted();
    const part = typeof chunk === 'string' ? new TextEncoder().encode(chunk) : chunk;
    size += part.byteLength;
    if (size > limitBytes) throw tooLarge(name, limitBytes);
    parts.push(part);
  }
  return Buffer.concat(parts);
}

function tooLarge(name: string, limitBytes: number, size?: number): UsageError {
  const has = size === undefined ? 'It has more' : `It has ${Math.ceil(size / MEBIBYTE)} MiB, more`;
  return new UsageError(`${shownName(name)}: ${has} than the ${limitBytes / MEBIBYTE} MiB that are read.`);
}

const SYSTEM_WORDS: Readonly<Record<string, string>> = Object.freeze({
  ENOENT: 'There is no such file.',
  ENOTDIR: 'There is no such file.',
  EACCES: 'It may not be read.',
  EPERM: 'It may not be read.',
  EISDIR: 'This is a directory, not a file.',
  ELOOP: 'Too many symbolic links.',
});

function unreadable(name: string, error: unknown): UsageError {
  const code = codeOf(error) ?? '';
  return new UsageError(`${shownName(name)}: ${SYSTEM_WORDS[code] ?? `It cannot be read (${code}).`}`);
}

function snapshotRefused(name: string, text: string, error: SnapshotError): UsageError {
  const { line, column, where, tool, problem } = error;
  const given = line === undefined ? undefined : { line, column: column ?? 1 };
  const place = given ?? placeOf(text, where);
  const what = error.message.replace(/ \([^()]*\)\.$/, '.');
  const at = where === undefined ? '' : ` Field: ${where}.`;
  const named = tool === undefined ? '' : ` Tool: ${tool}.`;
  const advice = problem === 'newer-format' ? ' A later version of mcp-holdfast reads it.' : '';
  return new UsageError(`${shownPlace(name, place)}: ${what}${at}${named}${advice}`);
}

/** The field, or the nearest one around it: what is missing has no place of its own. */
function placeOf(text: string, where: string | undefined): TextPlace | undefined {
  const json = text.replace(/^\ufeff/, '');
  const path = where === undefined ? [] : pathOf(where);
  for (let length = path.length; length >= 0; length--) {
    const place = placeInJson(json, path.slice(0, length));
    if (place !== undefined) return place;
  }
  return undefined;
}

/** `['tools', 3, 'digest']` of `tools[3].digest`. */
export function pathOf(where: string): (string | number)[] {
  return Array.from(where.matchAll(/\[(\d+)\]|[^.[\]]+/g), ([name, index]) =>
    index === undefined ? name : Number(index),
  );
}
