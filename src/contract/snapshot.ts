/**
 * A snapshot of what a server told about itself.
 *
 * Guarantees that every key of every tool is kept, that the order in which a server lists things leaves no
 * trace, and that the result shares nothing with what it was made of and cannot be changed. Never drops a tool:
 * two of one name are both kept, `diffContracts` names them and `formatSnapshot` refuses them.
 */
import { LIMITS } from '../limits.js';
import { byCodeUnits, canonicalJson, digestOf, frozenCopy, isJsonObject, own } from './canonical.js';
import { SnapshotError } from './snapshot-error.js';
import type { ContractSnapshot, JsonObject, ToolContract } from './types.js';

/** What was read from a server: the answer to `initialize` and all pages of the lists. */
export interface SnapshotParts {
  protocolVersion: string;
  capabilities: JsonObject;
  serverInfo: JsonObject;
  instructions?: string | undefined;
  /** Whole tool objects, as the server sent them. */
  tools: readonly JsonObject[];
  resources?: readonly JsonObject[] | undefined;
  prompts?: readonly JsonObject[] | undefined;
  environment?: string | undefined;
  url?: string | URL | undefined;
  grantedScopes?: readonly string[] | undefined;
  takenAt: Date | string;
}

/**
 * Throws a `SnapshotError` where a tool has no name (nobody could call it), where there are more than 10,000,
 * or where a value is nested deeper than 256 levels.
 */
export function makeSnapshot(parts: SnapshotParts): ContractSnapshot {
  if (parts.tools.length > LIMITS.tools) throw new SnapshotError('too-many-tools', { where: 'tools' });
  const { instructions, environment, resources, prompts, grantedScopes } = parts;
  const url = parts.url === undefined ? undefined : withoutSecrets(parts.url);
  const contract = {
    protocolVersion: parts.protocolVersion,
    capabilities: frozenCopy(parts.capabilities, 'capabilities') as JsonObject,
    serverInfo: frozenCopy(parts.serverInfo, 'serverInfo') as JsonObject,
    ...(instructions !== undefined && { instructions }),
    tools: Object.freeze(parts.tools.map(toolContract).sort(byNameThenDigest)),
    ...(resources && { resources: orderedEntries(resources, 'uri', 'resources') }),
    ...(prompts && { prompts: orderedEntries(prompts, 'name', 'prompts') }),
    ...(grantedScopes && { grantedScopes: Object.freeze([...new Set(grantedScopes)].sort(byCodeUnits)) }),
  };
  return Object.freeze({
    holdfast: 1,
    takenAt: typeof parts.takenAt === 'string' ? parts.takenAt : parts.takenAt.toISOString(),
    ...(environment !== undefined && { environment }),
    ...(url !== undefined && { url }),
    digest: contractDigest(contract),
    ...contract,
  });
}

/** Over everything that is compared; tools go in by their digests. */
export function contractDigest(
  contract: Omit<ContractSnapshot, 'holdfast' | 'takenAt' | 'environment' | 'url' | 'digest'>,
): string {
  const { protocolVersion, capabilities, serverInfo, instructions, resources, prompts, grantedScopes } =
    contract;
  const tools = contract.tools.map(({ name, digest }) => [name, digest]);
  return digestOf({
    protocolVersion,
    capabilities,
    serverInfo,
    instructions,
    tools,
    resources,
    prompts,
    grantedScopes,
  });
}

export function byNameThenDigest(one: ToolContract, other: ToolContract): number {
  return byCodeUnits(one.name, other.name) || byCodeUnits(one.digest, other.digest);
}

/** By `key`, then by the whole, so that equal lists have one order. */
export function orderedEntries(
  entries: readonly JsonObject[],
  key: string,
  part: string,
): readonly JsonObject[] {
  const keyed = entries.map((entry, index) => {
    const value = own(entry, key);
    const where = `${part}[${index}]`;
    return { name: typeof value === 'string' ? value : '', text: canonicalJson(entry, where), entry };
  });
  keyed.sort((one, other) => byCodeUnits(one.name, other.name) || byCodeUnits(one.text, other.text));
  return Object.freeze(keyed.map(({ entry }) => frozenCopy(entry) as JsonObject));
}

function toolContract(tool: JsonObject, index: number): ToolContract {
  const where = `tools[${index}]`;
  const name = isJsonObject(tool) ? own(tool, 'name') : undefined;
  if (typeof name !== 'string') throw new SnapshotError('nameless-tool', { where });
  const definition = frozenCopy(tool, where) as JsonObject;
  return Object.freeze({ name, digest: digestOf(definition, where), definition });
}

/** An address may carry a password or a key; the rest of it says where the snapshot was taken. */
function withoutSecrets(address: string | URL): string | undefined {
  if (!URL.canParse(String(address))) return undefined;
  const url = new URL(String(address));
  url.username = '';
  url.password = '';
  url.search = '';
  url.hash = '';
  return url.href;
}
