/**
 * Asks gates as a connection does.
 */
import type { Asker, GateAnswer, GateStep } from '../../../src/gates/ask.js';
import type { CallChain, CallFacts, Gate, GateContext } from '../../../src/gates/gate.js';
import type { ManualClock } from '../../../src/testing/index.js';

export const CALL: CallFacts = { method: 'tools/call', tool: 'pay', arguments: { amount: 1 } };

export interface TestAsker extends Asker {
  readonly chains: CallChain[];
  readonly told: [gate: string, step: GateStep, answer: GateAnswer, ms: number][];
}

/** One call's questions; `connection` is the same for all calls of one. */
export function askerOf(clock: ManualClock, signal: AbortSignal, connection: object = {}): TestAsker {
  const chains: CallChain[] = [];
  const told: TestAsker['told'] = [];
  return {
    clock,
    signal,
    connection,
    key: {},
    chains,
    told,
    get ended() {
      return signal.aborted;
    },
    report: (chain) => chains.push(chain),
    onAsked: (...answer) => told.push(answer),
  };
}

/** The context of a question that is put to a gate directly. */
export function contextOf(asker: TestAsker): GateContext {
  const { clock, signal, connection, key, report } = asker;
  return { clock, signal, connection, key, report };
}

export const gate = (name: string, steps: Omit<Gate, 'name'>): Gate => ({ name, ...steps });
