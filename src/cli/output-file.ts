/**
 * A result written to a file, whole or not at all.
 *
 * Guarantees that a file which was there is replaced in one step, once the new one is complete and on disk; that a
 * failure, or an end by Ctrl-C, leaves the old one as it was and nothing beside it. Never follows a name to another directory than the one it
 * was given for, but to what a symbolic link there stands for.
 */
import { randomBytes } from 'node:crypto';
import { open, realpath, rename, rm, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { codeOf } from '../errors.js';
import { type CommandIo, UsageError } from './command.js';
import { pathIn, shownName } from './input-file.js';

/** Refuses what could not be written in the end, before a server is asked for anything. */
export async function checkOutput(name: string, io: CommandIo): Promise<void> {
  const path = pathIn(io, name);
  const there = await stat(path).catch(() => undefined);
  if (there?.isDirectory() === true) {
    throw new UsageError(`${shownName(name)}: This is a directory, not a file to write.`);
  }
  const folder = await stat(dirname(path)).catch(() => undefined);
  if (folder?.isDirectory() !== true) {
    throw new UsageError(`${shownName(name)}: There is no directory to write it to.`);
  }
}

/** Throws a `UsageError` naming the file. */
export async function writeWhole(name: string, text: string, io: CommandIo): Promise<void> {
  io.signal.throwIfAborted();
  try {
    const path = await realpath(pathIn(io, name)).catch(() => pathIn(io, name));
    const there = await stat(path).catch(() => undefined);
    // A device or a pipe is not to be replaced by a file.
    if (there !== undefined && !there.isFile()) await writeFile(path, text);
    else await replace(path, text, there?.mode);
  } catch (error) {
    throw new UsageError(`${shownName(name)}: It cannot be written (${codeOf(error) ?? 'unknown reason'}).`);
  }
}

async function replace(path: string, text: string, mode: number | undefined): Promise<void> {
  const beside = join(dirname(path), `.${basename(path)}.${randomBytes(6).toString('hex')}.tmp`);
  const file = await open(beside, 'wx');
  try {
    try {
      if (mode !== undefined) await file.chmod(mode & 0o777);
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(beside, path);
  } catch (error) {
    await rm(beside, { force: true });
    throw error;
  }
}
