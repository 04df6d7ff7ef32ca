/**
 * Turns: the calls of one round of an agent, told apart by what each call says of itself in its `_meta`.
 *
 * Guarantees that whoever sets the name counts, whatever face the call comes through. Never invents a turn.
 */
import type { CallFacts, Gate } from './gate.js';

/** In a call's `_meta`: the turn that it belongs to. Travels to the server with the call. */
export const TURN_KEY = 'mcp-holdfast/turn';
/** On a call's `params`, where no JSON shows it: a gate for this call alone. */
const OWN_GATE: unique symbol = Symbol('ownGate');

export function turnOf({ meta }: Pick<CallFacts, 'meta'>): string | undefined {
  const turn = meta !== undefined && Object.hasOwn(meta, TURN_KEY) ? meta[TURN_KEY] : undefined;
  return typeof turn === 'string' || typeof turn === 'number' ? String(turn) : undefined;
}

/** The same `params`, named as a part of `turn` and with a gate that is asked ahead of the connection's. */
export function inTurn<T extends { _meta?: Record<string, unknown> | undefined }>(
  params: T,
  turn: string,
  gate: Gate | undefined,
): T {
  return {
    ...params,
    _meta: { ...params._meta, [TURN_KEY]: turn },
    ...(gate !== undefined && { [OWN_GATE]: gate }),
  };
}

export function ownGateOf(params: object | undefined): Gate | undefined {
  return (params as { readonly [OWN_GATE]?: Gate } | undefined)?.[OWN_GATE];
}
