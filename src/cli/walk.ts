/**
 * The text files under a directory, one after the other.
 *
 * Guarantees that it stays inside: no symbolic link is followed, also none that takes a file's place meanwhile; that
 * the order is the same on every machine; and that what could not be read is told, not passed over. Never opens what
 * is no ordinary file, reads more than 1 MiB of one, or looks into `node_modules` and `.git`.
 */
import { constants } from 'node:fs';
import { open, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { byCodeUnits } from '../contract/canonical.js';

export const LARGEST_FILE_BYTES = 1024 * 1024;
const NEVER_ENTERED: ReadonlySet<string> = new Set(['node_modules', '.git']);
/** Text has no NUL; what is not text has one early. */
const SNIFFED_BYTES = 8 * 1024;

export type WalkStep =
  | { readonly kind: 'text'; readonly path: string; readonly text: string }
  | { readonly kind: 'skipped'; readonly path: string; readonly why: 'large' | 'binary' | 'link' }
  | { readonly kind: 'unreadable'; readonly path: string };

/** `root` may be a file. Paths begin with `root` as it was given. Ends with the signal's reason. */
export async function* walk(
  root: string,
  at: (path: string) => string,
  signal: AbortSignal,
): AsyncGenerator<WalkStep> {
  const top = await stat(at(root));
  if (!top.isDirectory()) {
    yield await readOne(root, at(root), false);
    return;
  }
  // A stack, not recursion: the deepest tree is bounded by the disk only.
  const open: { path: string; kind: 'folder' | 'file' | 'link' }[] = [{ path: root, kind: 'folder' }];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    signal.throwIfAborted();
    const { path, kind } = next;
    if (kind === 'link') yield { kind: 'skipped', path, why: 'link' };
    else if (kind === 'file') yield await readOne(path, at(path), true);
    else {
      const entries = await readdir(at(path), { withFileTypes: true }).catch(() => undefined);
      if (entries === undefined) {
        yield { kind: 'unreadable', path };
        continue;
      }
      entries.sort((one, other) => byCodeUnits(other.name, one.name));
      for (const entry of entries) {
        const below = join(path, entry.name);
        if (entry.isDirectory()) {
          if (!NEVER_ENTERED.has(entry.name)) open.push({ path: below, kind: 'folder' });
        } else if (entry.isSymbolicLink()) open.push({ path: below, kind: 'link' });
        else if (entry.isFile()) open.push({ path: below, kind: 'file' });
      }
    }
  }
}

async function readOne(path: string, place: string, isInside: boolean): Promise<WalkStep> {
  try {
    // A link that has taken the file's place since it was listed is refused by the system.
    const file = await open(place, constants.O_RDONLY | (isInside ? constants.O_NOFOLLOW : 0));
    try {
      const { size } = await file.stat();
      if (size > LARGEST_FILE_BYTES) return { kind: 'skipped', path, why: 'large' };
      const bytes = new Uint8Array(size);
      const { bytesRead } = await file.read(bytes, 0, size, 0);
      const read = bytes.subarray(0, bytesRead);
      if (read.subarray(0, SNIFFED_BYTES).includes(0)) return { kind: 'skipped', path, why: 'binary' };
      return { kind: 'text', path, text: new TextDecoder().decode(read) };
    } finally {
      await file.close();
    }
  } catch {
    return { kind: 'unreadable', path };
  }
}
