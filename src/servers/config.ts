/**
 * Server configurations as desktop clients and editors write them.
 *
 * Guarantees that what is not understood is refused by the name of its server and key, and where text was given by its
 * place; that names are data, `__proto__` too; and that no placeholder is read here. Never has a value in an error.
 */
import { scanJson } from '../contract/json-scan.js';
import { checkEntry, EntryOrigin, fieldName, isRecord, own, type ServerEntry } from './entry.js';
import { type JsonPath, placeInJson, positionIn } from './place.js';
import { quoted, type Variables } from './placeholders.js';

/** Hand-written; far more than anybody's servers. */
const MAX_TEXT_LENGTH = 1024 * 1024;
/** Claude Desktop, Cursor and others; VS Code. */
const WRAPPERS = ['mcpServers', 'servers'] as const;

/**
 * Reads the `mcpServers` shape (VS Code's `servers`, and the bare map of names): the text of such a file, or what
 * `JSON.parse` made of it. Of a file, other settings beside that key are left alone. Placeholders are kept: they are
 * read at use, from `env` (`process.env`).
 *
 * Throws `TypeError` for a server with both `command` and `url` or neither, an unknown key, a value of the wrong type,
 * a placeholder that is not known, a key written twice.
 *
 * @example
 * const servers = parseServersConfig(await readFile('.mcp.json', 'utf8'));
 * const client = await connectServer({ name: 'agent', version: '1.0.0' }, servers.github);
 */
export function parseServersConfig(json: unknown, env?: Variables): Record<string, ServerEntry> {
  if (env !== undefined && !isRecord(env)) throw new TypeError('env must be an object of variables');
  const source = typeof json === 'string' ? json.replace(/^\ufeff/, '') : undefined;
  const file = source === undefined ? json : readText(source);
  if (!isRecord(file)) throw new TypeError('The configuration of servers must be an object');
  const at = (path: JsonPath) => placeWords(source, path);
  const wrapper = wrapperOf(file);
  const outer: JsonPath = wrapper === undefined ? [] : [wrapper];
  const servers = wrapper === undefined ? file : own(file, wrapper);
  if (!isRecord(servers))
    throw new TypeError(
      `The configuration of servers: ${fieldName(outer)}${at(outer)} must be an object of servers`,
    );
  const entries: Record<string, ServerEntry> = Object.create(null);
  for (const name of Object.keys(servers)) {
    const refuse = (path: JsonPath, what: string) => {
      const key = path.length === 0 ? '' : `, key ${fieldName(path)}`;
      return new TypeError(`The server ${quoted(name)}${key}${at([...outer, name, ...path])} ${what}`);
    };
    if (name === '') throw refuse([], 'needs a name');
    entries[name] = checkEntry(servers[name], new EntryOrigin(name, env), refuse);
  }
  return entries;
}

function readText(text: string): unknown {
  if (text.length > MAX_TEXT_LENGTH)
    throw new TypeError(`The configuration of servers is longer than ${MAX_TEXT_LENGTH} characters`);
  const { faultAt, repeatedAt } = scanJson(text);
  if (faultAt !== undefined) {
    const what = faultAt >= text.length ? 'ends too early' : 'is not JSON';
    throw new TypeError(`The configuration of servers ${what}${words(positionIn(text, faultAt))}`);
  }
  if (repeatedAt !== undefined)
    throw new TypeError(
      `The configuration of servers has the same key twice${words(positionIn(text, repeatedAt))}`,
    );
  return JSON.parse(text);
}

/** A bare map may have a server of that name: then it is one, not a map of servers. */
function wrapperOf(file: Record<string, unknown>): (typeof WRAPPERS)[number] | undefined {
  const found = WRAPPERS.filter((name) => {
    const value = own(file, name);
    if (value === undefined) return false;
    const isServer =
      isRecord(value) && (typeof own(value, 'command') === 'string' || typeof own(value, 'url') === 'string');
    return !isServer;
  });
  if (found.length > 1)
    throw new TypeError('The configuration of servers has both "mcpServers" and "servers": which are meant?');
  return found[0];
}

function placeWords(text: string | undefined, path: JsonPath): string {
  const place = text === undefined ? undefined : placeInJson(text, path);
  return place === undefined ? '' : words(place);
}

function words({ line, column }: { line: number; column: number }): string {
  return ` (line ${line}, column ${column})`;
}
