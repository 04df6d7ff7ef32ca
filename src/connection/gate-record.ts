/**
 * What the gates know and have said of one call.
 *
 * Guarantees that nothing is made for a call that no gate and no audit looks at. Never decides anything.
 */
import type { Clock } from '../clock.js';
import type { Asker, GateAnswer, GateStep } from '../gates/ask.js';
import { quoted } from '../gates/audit-text.js';
import type { CallChain, CallFacts, Gate } from '../gates/gate.js';
import type { Call } from './ledger.js';

export interface RecordParts {
  readonly clock: Clock;
  /** Tells the connections apart that share a gate. */
  readonly connection: object;
  /** The audit wants the answers of the gates as well. */
  readonly keepsVerdicts: boolean;
  report(chain: CallChain): void;
  took(gate: string, ms: number): void;
  /** The verdict of a gate as the audit tells it. */
  saying(gate: string, step: GateStep, verdict: GateAnswer): string;
}

/** What gates say again and again, made once. */
export class Sayings {
  readonly #made = new Map<string, Map<string, string>>();

  of(gate: string, step: GateStep, verdict: GateAnswer): string {
    let ofGate = this.#made.get(gate);
    if (ofGate === undefined) {
      // A gate that is made anew for each call may have a new name each time.
      if (this.#made.size >= MOST_GATES) this.#made.clear();
      ofGate = new Map();
      this.#made.set(gate, ofGate);
    }
    const key = step === 'before' && verdict === 'allow' ? 'allow' : `${step} ${verdict}`;
    let said = ofGate.get(key);
    if (said === undefined) {
      said = `{"gate":${quoted(gate)},"step":"${step}","verdict":"${verdict}"}`;
      ofGate.set(key, said);
    }
    return said;
  }
}

const MOST_GATES = 100;

export class GateRecord implements Asker {
  readonly gates: readonly Gate[];
  /** What the gates have said, as the audit tells it: JSON text, without brackets. */
  verdicts = '';
  /** The call as it would go out, once the gates have let it. */
  facts: CallFacts | undefined;
  /** Generation of the credential that it went out with last. */
  generation: number | undefined;
  /** Of the server's answer, where an audit wants to know. */
  answer:
    | {
        readonly isError: boolean;
        readonly rpcCode: number | undefined;
        readonly digest: string | undefined;
      }
    | undefined;
  readonly #call: Call;
  readonly #parts: RecordParts;

  constructor(call: Call, gates: readonly Gate[], parts: RecordParts) {
    this.#call = call;
    this.gates = gates;
    this.#parts = parts;
  }

  get clock(): Clock {
    return this.#parts.clock;
  }
  get key(): object {
    return this;
  }
  get connection(): object {
    return this.#parts.connection;
  }
  get ended(): boolean {
    return this.#call.ended;
  }
  get signal(): AbortSignal {
    return this.#call.signal;
  }

  hold(): () => void {
    return this.#call.hold();
  }

  report(chain: CallChain): void {
    this.#parts.report(chain);
  }

  onAsked(gate: string, step: GateStep, verdict: GateAnswer, ms: number): void {
    this.#parts.took(gate, ms);
    if (!this.#parts.keepsVerdicts) return;
    const said = this.#parts.saying(gate, step, verdict);
    this.verdicts = this.verdicts === '' ? said : `${this.verdicts},${said}`;
  }
}
