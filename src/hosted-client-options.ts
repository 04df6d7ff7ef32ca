/**
 * The options of HostedClient: ours, and the SDK Client's own beside them.
 */
import type { ClientOptions } from '@modelcontextprotocol/sdk/client/index.js';
import type { ClientCapabilities } from '@modelcontextprotocol/sdk/types.js';
import { HOSTED_OPTION_NAMES, type HostedOptions } from './options.js';

export type HostedClientOptions = HostedOptions & ClientOptions & { url?: string | URL | undefined };

/** Ours and the SDK's, told apart by name. */
export function splitOptions(options: HostedClientOptions): {
  hosted: HostedOptions;
  client: ClientOptions;
  url: string | URL | undefined;
} {
  const hosted: Record<string, unknown> = {};
  const client: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(options ?? {})) {
    if ((HOSTED_OPTION_NAMES as readonly string[]).includes(name)) hosted[name] = value;
    else if (name !== 'url') client[name] = value;
  }
  return { hosted: hosted as HostedOptions, client: client as ClientOptions, url: options?.url };
}

/** Whether the client answers questions of servers, which may come on the listen stream. */
export function wantsQuestions(capabilities: ClientCapabilities | undefined): boolean {
  const { sampling, elicitation, roots } = capabilities ?? {};
  return sampling !== undefined || elicitation !== undefined || roots !== undefined;
}
