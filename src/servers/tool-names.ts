/**
 * Names for the tools of many servers in one list.
 *
 * Guarantees that a name depends on its own server and tool alone, so that it stays when others come and go; that no
 * two pairs have the same; and that model interfaces take it (letters, digits, `_`, `-`, 64 at most).
 */
import { createHash } from 'node:crypto';

const MAX_LENGTH = 64;
const HASH_LENGTH = 12;
const BETWEEN = '__';
const FIT = /^[A-Za-z0-9_-]+$/;
/** Never the end of a plain name. */
const HASHED = new RegExp(`--[0-9a-f]{${HASH_LENGTH}}$`);

/** `server__tool` where that is plain and cannot be read in two ways, else its beginning and a digest of both. */
export function toolName(server: string, tool: string): string {
  const plain = `${server}${BETWEEN}${tool}`;
  const isOneWay = !server.includes(BETWEEN) && !server.endsWith('_') && !HASHED.test(plain);
  if (isOneWay && FIT.test(plain) && tool !== '' && server !== '' && plain.length <= MAX_LENGTH) return plain;
  const digest = createHash('sha256')
    .update(JSON.stringify([server, tool]))
    .digest('hex');
  const head = plain.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, MAX_LENGTH - HASH_LENGTH - 2);
  return `${head}--${digest.slice(0, HASH_LENGTH)}`;
}

/** The pair that a plain name stands for; nothing for one with a digest. */
export function pairOf(name: string): { server: string; tool: string } | undefined {
  const at = name.indexOf(BETWEEN);
  if (at <= 0 || HASHED.test(name)) return undefined;
  const pair = { server: name.slice(0, at), tool: name.slice(at + BETWEEN.length) };
  return toolName(pair.server, pair.tool) === name ? pair : undefined;
}
