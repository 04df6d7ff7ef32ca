/**
 * A turn of an agent: some calls that have a cap and an end in common.
 *
 * Guarantees that no call beyond the cap leaves, and that each says in its `_meta` which turn it belongs to. Holds no
 * session of its own.
 */
import { randomUUID } from 'node:crypto';
import type { RequestOptions } from '@modelcontextprotocol/sdk/shared/protocol.js';
import type { Gate } from './gates/gate.js';
import { maxCalls } from './gates/max-calls.js';
import { inTurn } from './gates/turn.js';
import type { HostedClient } from './hosted-client.js';
import { OptionReader } from './option-reader.js';

export interface TurnOptions {
  /** Tool calls that this turn may make; the next one ends in `ERR_CALL_LIMIT`. No cap of its own. */
  maxCalls?: number | undefined;
  /** Ends every call of the turn. */
  signal?: AbortSignal | undefined;
}

/** Made by `client.turn()`. */
export interface Turn {
  /** As it stands in each call's `_meta['mcp-holdfast/turn']`, in the audit and in `call-chain` events. */
  readonly id: string;
  /** Tool calls made so far, refused ones too. */
  readonly calls: number;
  readonly callTool: HostedClient['callTool'];
  readonly listTools: HostedClient['listTools'];
}

export function makeTurn(
  client: Pick<HostedClient, 'callTool' | 'listTools'>,
  options: TurnOptions = {},
): Turn {
  const read = new OptionReader('turn', options);
  const cap = read.count('maxCalls', 0, 1_000_000);
  const signal = read.any('signal') as AbortSignal | undefined;
  read.done();
  const id = randomUUID();
  let calls = 0;
  const own: Gate = {
    ...(cap === undefined ? { before: () => 'allow' as const } : maxCalls(cap)),
    name: cap === undefined ? 'turn' : 'maxCalls',
    oncePerCall: true,
  };
  const gate: Gate = {
    ...own,
    before: (call, context) => {
      calls += 1;
      return own.before?.(call, context) ?? 'allow';
    },
  };
  const within = (given: RequestOptions | undefined): RequestOptions | undefined => {
    if (signal === undefined) return given;
    const both = given?.signal === undefined ? signal : AbortSignal.any([signal, given.signal]);
    return { ...given, signal: both };
  };
  const callTool = (
    params: Parameters<HostedClient['callTool']>[0],
    second?: unknown,
    third?: RequestOptions,
  ) => {
    const isSchema = typeof second === 'object' && second !== null && 'parse' in second;
    const given = within(isSchema ? third : ((second as RequestOptions | undefined) ?? third));
    const named = inTurn(params, id, gate);
    return isSchema ? client.callTool(named, second as never, given) : client.callTool(named, given);
  };
  return Object.freeze({
    id,
    get calls() {
      return calls;
    },
    callTool: callTool as HostedClient['callTool'],
    listTools: ((params, given) => client.listTools(params, within(given))) as HostedClient['listTools'],
  });
}
