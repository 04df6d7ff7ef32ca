/**
 * Reads what a server says of itself, whole.
 *
 * Guarantees every page of every list, within bounds: a cursor that comes back, too many pages or too many tools end
 * it with a typed error. An incomplete list is never taken for a short one.
 */
import { HostedMcpError } from '../errors.js';
import { LIMITS } from '../limits.js';
import { isJsonObject } from './canonical.js';
import { makeSnapshot } from './snapshot.js';
import type { ContractSnapshot, JsonObject } from './types.js';

/** What was agreed on when the server was connected to. */
export interface ContractOrigin {
  readonly protocolVersion: string;
  readonly capabilities: JsonObject;
  readonly serverInfo: JsonObject;
  readonly instructions?: string | undefined;
  /** Where it is; user, query and fragment are left out. */
  readonly url?: string | URL | undefined;
}

/** What else belongs to a snapshot. */
export interface SnapshotOptions {
  /** A name for where it was taken, such as `production`. */
  environment?: string | undefined;
  /** Whether the lists of resources and prompts belong to it. false. */
  resources?: boolean | undefined;
  prompts?: boolean | undefined;
  signal?: AbortSignal | undefined;
}

/** One request; resolves with the result, with undefined where the server does not know the method, else rejects. */
export type Ask = (method: string, params: JsonObject) => Promise<JsonObject | undefined>;

/** Rejects with what `ask` does, with `ERR_PROTOCOL` for a list that has no end or is none, with a `SnapshotError` for a tool without a name. */
export async function readContract(
  ask: Ask,
  origin: () => ContractOrigin,
  takenAt: Date,
  { environment, resources, prompts }: SnapshotOptions = {},
): Promise<ContractSnapshot> {
  const { capabilities } = origin();
  // A server that promises none of a kind need not know how to list it.
  const list = (method: string, key: string) => readList(ask, method, key, capabilities[key] === undefined);
  const tools = await list('tools/list', 'tools');
  const asked = {
    ...(resources === true && { resources: await list('resources/list', 'resources') }),
    ...(prompts === true && { prompts: await list('prompts/list', 'prompts') }),
  };
  // Afterwards: a session that was replaced meanwhile is the one that the lists came from in the end.
  return makeSnapshot({ ...origin(), environment, tools, ...asked, takenAt });
}

async function readList(ask: Ask, method: string, key: string, mayLack: boolean): Promise<JsonObject[]> {
  const found: JsonObject[] = [];
  const seen = new Set<string>();
  for (let cursor: string | undefined; ; ) {
    const page = await ask(method, cursor === undefined ? {} : { cursor });
    if (page === undefined && mayLack && cursor === undefined) return found;
    const entries = page?.[key];
    if (!Array.isArray(entries)) throw unreadable(method, 'a page is no list');
    for (const entry of entries) {
      if (!isJsonObject(entry)) throw unreadable(method, 'an entry is no object');
      found.push(entry);
    }
    const nextCursor = page?.nextCursor;
    if (nextCursor === undefined || nextCursor === null) return found;
    if (typeof nextCursor !== 'string') throw unreadable(method, 'a cursor is no text');
    if (seen.has(nextCursor)) throw unreadable(method, 'a cursor came back');
    if (seen.size + 1 >= LIMITS.pages) throw unreadable(method, 'it has too many pages');
    if (found.length > LIMITS.tools) throw unreadable(method, 'it has too many entries');
    seen.add(nextCursor);
    cursor = nextCursor;
  }
}

function unreadable(method: string, reason: string): HostedMcpError {
  return new HostedMcpError('ERR_PROTOCOL', `A list of the server cannot be read to its end: ${reason}`, {
    method,
    reason: 'contract_unreadable',
  });
}
