/**
 * `${NAME}` and `${file:path}` in the values of a configuration.
 *
 * Guarantees that they are read at use, not before, and that a value which cannot be had is named by server,
 * field and variable or file. Never has a value in an error, and tells every value it reads to whoever keeps secrets.
 */
import { open, stat } from 'node:fs/promises';
import { visible } from '../contract/visible.js';
import { HostedMcpError } from '../errors.js';

/** Variables by name; `process.env` is one. */
export type Variables = Readonly<Record<string, string | undefined>>;

/** For whom, and from what, values are read. */
export interface Reader {
  /** The server's name in its configuration. */
  readonly server: string | undefined;
  readonly variables: Variables;
  /** Is told each value that was read. */
  learn(value: string): void;
}

type Part =
  | { readonly text: string }
  | { readonly variable: string; readonly otherwise: string | undefined }
  | { readonly file: string };

/** A secret is no larger; what is read by mistake may be. */
const MAX_FILE_BYTES = 64 * 1024;
const FILE = /^file:([^\0]+)$/;
const VARIABLE = /^(?:env:)?([A-Za-z_][A-Za-z0-9_]{0,127})(?::-(.*))?$/s;
const KIND = /^([A-Za-z]{1,20}):/;
// biome-ignore lint/suspicious/noTemplateCurlyInString: that is how they are written
const KNOWN = '${NAME}, ${NAME:-default} and ${file:path}';

/** What is wrong with the placeholders of a text; undefined if nothing is. Reads nothing. */
export function placeholderProblem(text: string): string | undefined {
  const parts = partsOf(text);
  return typeof parts === 'string' ? parts : undefined;
}

export function hasPlaceholder(text: string): boolean {
  return text.includes('${');
}

/** The text with every placeholder replaced. Rejects with `ERR_CREDENTIAL_SOURCE`. */
export async function resolveText(text: string, field: string, reader: Reader): Promise<string> {
  if (!hasPlaceholder(text)) return text;
  const parts = partsOf(text);
  if (typeof parts === 'string') throw unreadable(reader, field, parts);
  let resolved = '';
  for (const part of parts) {
    if ('text' in part) {
      resolved += part.text;
      continue;
    }
    const value =
      'file' in part ? await readFile(part.file, field, reader) : readVariable(part, field, reader);
    if (value.includes('\0')) throw unreadable(reader, field, 'a value that was read for it holds a NUL');
    reader.learn(value);
    resolved += value;
  }
  return resolved;
}

function partsOf(text: string): readonly Part[] | string {
  const parts: Part[] = [];
  let at = 0;
  for (let start = text.indexOf('${'); start >= 0; start = text.indexOf('${', at)) {
    const end = text.indexOf('}', start);
    if (end < 0) return 'has a placeholder without an end';
    const inner = text.slice(start + 2, end);
    const [, file] = FILE.exec(inner) ?? [];
    const [, variable, otherwise] = VARIABLE.exec(inner) ?? [];
    if (file === undefined && variable === undefined) {
      const [, kind] = KIND.exec(inner) ?? [];
      return `has a placeholder ${kind === undefined ? '' : `of the kind "${kind}" `}that is not known: there are ${KNOWN}`;
    }
    if (start > at) parts.push({ text: text.slice(at, start) });
    parts.push(file === undefined ? { variable: variable as string, otherwise } : { file });
    at = end + 1;
  }
  if (at < text.length) parts.push({ text: text.slice(at) });
  return parts;
}

function readVariable(
  { variable, otherwise }: { readonly variable: string; readonly otherwise: string | undefined },
  field: string,
  reader: Reader,
): string {
  const value = Object.hasOwn(reader.variables, variable) ? reader.variables[variable] : undefined;
  // As in a shell: an empty one counts as unset, for what it was to protect would go without.
  if (typeof value === 'string' && value !== '') return value;
  if (otherwise !== undefined) return otherwise;
  throw unreadable(reader, field, `the environment variable ${variable} is not set or is empty`);
}

async function readFile(path: string, field: string, reader: Reader): Promise<string> {
  const shown = visible(path.slice(0, 200));
  let text: string;
  try {
    // First: opening a pipe would wait for its writer.
    if (!(await stat(path)).isFile()) throw unreadable(reader, field, `${shown} is no file`);
    const bytes = await readBounded(path);
    if (bytes === undefined)
      throw unreadable(reader, field, `the file ${shown} is larger than ${MAX_FILE_BYTES} bytes`);
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    if (HostedMcpError.isInstance(error)) throw error;
    throw unreadable(reader, field, `the file ${shown} cannot be read as text`, error);
  }
  const value = text.replace(/\r?\n$/, '');
  if (value === '') throw unreadable(reader, field, `the file ${shown} is empty`);
  return value;
}

/** Undefined where it is larger than allowed: what the file system says of its size need not be true. */
async function readBounded(path: string): Promise<Uint8Array | undefined> {
  const file = await open(path, 'r');
  try {
    const bytes = new Uint8Array(MAX_FILE_BYTES + 1);
    let length = 0;
    while (length < bytes.length) {
      const { bytesRead } = await file.read(bytes, length, bytes.length - length);
      if (bytesRead === 0) return bytes.subarray(0, length);
      length += bytesRead;
    }
    return undefined;
  } finally {
    await file.close();
  }
}

function unreadable({ server }: Reader, field: string, why: string, cause?: unknown): HostedMcpError {
  const whose = server === undefined ? 'The server' : `The server ${quoted(server)}`;
  return new HostedMcpError(
    'ERR_CREDENTIAL_SOURCE',
    `${whose} cannot be used: of its configuration, "${field}" cannot be read: ${why}`,
    { reason: 'placeholder', cause },
  );
}

/** A name out of a file, fit to be shown. */
export function quoted(name: string): string {
  const short = Array.from(name.slice(0, 200)).slice(0, 100).join('');
  return `"${visible(short)}"`;
}
