/**
 * The version of this package, as `--version` shows it and servers are told.
 *
 * Guarantees that it is the one in package.json, from the sources as from the build. Never a second copy of the number.
 */
import { createRequire } from 'node:module';

export const VERSION: string = createRequire(import.meta.url)('mcp-holdfast/package.json').version;

/** What every server is told of who asks. */
export const CLIENT_INFO = Object.freeze({ name: 'mcp-holdfast', version: VERSION });
