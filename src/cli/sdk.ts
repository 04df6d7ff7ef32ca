/**
 * `mcp-holdfast/client`, loaded when a server is to be spoken to.
 *
 * Guarantees that commands which only read files do without the SDK, an optional peer, and that its absence is said
 * by name. Never loads it twice.
 */
import { codeOf } from '../errors.js';
import { UsageError } from './command.js';

export async function clientModule(): Promise<typeof import('../client.js')> {
  try {
    return await import('../client.js');
  } catch (error) {
    if (codeOf(error) !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new UsageError('To speak to a server, install @modelcontextprotocol/sdk beside mcp-holdfast.');
  }
}
