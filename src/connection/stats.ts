/**
 * The figures of one connection, in fixed memory.
 *
 * Guarantees that recording a call costs next to nothing; never keeps arguments, results or texts.
 */
import { HostedMcpError, type HostedMcpErrorCode } from '../errors.js';
import { LatencyHistogram } from './histogram.js';
import type { Call } from './ledger.js';
import type { ConnectionStats } from './types.js';

/** A server that invents tool names does not grow our memory. */
const TOOLS_REMEMBERED = 1_000;

export class Stats implements ConnectionStats {
  readonly calls: { answered: number; failed: Partial<Record<HostedMcpErrorCode, number>> } = {
    answered: 0,
    failed: {},
  };
  readonly latency = new LatencyHistogram();
  readonly latencyByTool: Record<string, LatencyHistogram> = Object.create(null);
  readonly waits = {
    rate: new LatencyHistogram(),
    credential: new LatencyHistogram(),
    session: new LatencyHistogram(),
    gates: Object.create(null) as Record<string, LatencyHistogram>,
  };
  longestIdleGapMs = 0;
  idleLimitMs?: number;
  #tools = 0;

  get idleRisk(): boolean {
    return this.idleLimitMs !== undefined && this.longestIdleGapMs > this.idleLimitMs;
  }

  /** A request has ended, with `error` or without. */
  ended(call: Call, durationMs: number, error: unknown): void {
    if (error === undefined) this.answered(call.tool, durationMs);
    else this.failed(HostedMcpError.isInstance(error) ? error.code : 'ERR_PROTOCOL');
    const { rateMs, sessionMs, credentialMs } = call.waits;
    if (rateMs > 0) this.waits.rate.record(rateMs);
    if (sessionMs > 0) this.waits.session.record(sessionMs);
    if (credentialMs > 0) this.waits.credential.record(credentialMs);
  }

  answered(tool: string | undefined, ms: number): void {
    this.calls.answered += 1;
    this.latency.record(ms);
    if (tool === undefined) return;
    let histogram = this.latencyByTool[tool];
    if (histogram === undefined) {
      if (this.#tools >= TOOLS_REMEMBERED) return;
      this.#tools += 1;
      histogram = this.latencyByTool[tool] = new LatencyHistogram();
    }
    histogram.record(ms);
  }

  failed(code: HostedMcpErrorCode): void {
    this.calls.failed[code] = (this.calls.failed[code] ?? 0) + 1;
  }

  gate(name: string, ms: number): void {
    this.waits.gates[name] ??= new LatencyHistogram();
    this.waits.gates[name]?.record(ms);
  }
}
