/**
 * The watch on a server's contract, and the first gate of every tool call.
 *
 * Guarantees that, where changes are to be rejected, no call to a tool that differs from the pin, is gone or was never
 * pinned is sent; and that a list which could not be read is never taken for an empty contract. Does not rely on the
 * listen stream alone. Never keeps a caller waiting where nothing could be refused.
 */
import type { Clock, Timer } from '../clock.js';
import { HostedMcpError } from '../errors.js';
import { diffContracts } from './diff.js';
import type { ContractAction, ResolvedContract } from './options.js';
import type { SnapshotOptions } from './read.js';
import type { ContractDiff, ContractSnapshot } from './types.js';

export interface ContractEvents {
  /** The server's contract is another than the pinned one; told once for each contract. */
  'contract-changed': { readonly diff: ContractDiff; readonly action: ContractAction | 'accept' };
  /** It could not be read, which says nothing about it. */
  'contract-unreadable': { readonly error: HostedMcpError };
}

export interface ContractWatchParts {
  readonly options: ResolvedContract;
  readonly clock: Clock;
  read(options: SnapshotOptions): Promise<ContractSnapshot>;
  tell<E extends keyof ContractEvents>(event: E, payload: ContractEvents[E]): void;
  /** Whether a session stands: none is opened for a look. */
  isUp(): boolean;
  /** The app wants no connection to a server that has changed. */
  close(): void;
}

export class ContractWatch {
  readonly #parts: ContractWatchParts;
  #pin: ContractSnapshot | undefined;
  #latest: ContractSnapshot | undefined;
  /** What a change of `#latest` against the pin means. */
  #action: ContractAction | undefined;
  /** Something may have changed since the last reading began. */
  #isStale = true;
  #reading: Promise<void> | undefined;
  #unreadable: HostedMcpError | undefined;
  /** Digest of the contract that was told of last. */
  #told: string | undefined;
  /** By tool, of `#latest` against `#pin`. */
  readonly #diffs = new Map<string, ContractDiff>();
  #timer: Timer | undefined;
  #isClosed = false;

  constructor(parts: ContractWatchParts) {
    this.#parts = parts;
    this.#pin = parts.options.pinned;
  }

  /** Something may have changed: it is read again, now. */
  changed(): void {
    if (!this.#parts.options.watch || this.#isClosed) return;
    this.#isStale = true;
    this.#arm();
    if (this.#parts.isUp()) this.#check().catch(() => {});
  }

  /** Undefined: the call may go on. Throws, or rejects, with ERR_CONTRACT_CHANGED or ERR_TOOL_NOT_PINNED. */
  admit(tool: string | undefined): Promise<void> | undefined {
    if (!this.#parts.options.watch || tool === undefined || !this.#mayReject) return undefined;
    if (this.#reading !== undefined || this.#isStale) {
      return this.#check().then(() => this.#refuse(tool));
    }
    this.#refuse(tool);
    return undefined;
  }

  /** The contract was reviewed: `snapshot`, or what was read last, is the pin from here on. */
  accept(snapshot = this.#latest): void {
    if (snapshot === undefined) {
      throw new HostedMcpError('ERR_CONTRACT_CHANGED', 'There is no contract to accept: none was read yet');
    }
    this.#pin = snapshot;
    this.#told = undefined;
    this.#compare();
  }

  close(): void {
    this.#isClosed = true;
    this.#timer?.clear();
  }

  /** Whether a change could stop a call. */
  get #mayReject(): boolean {
    const { onChange } = this.#parts.options;
    return onChange !== 'warn' && onChange !== 'ignore';
  }

  /** One reading for all that ask; again where something changed while it was under way. */
  #check(): Promise<void> {
    this.#reading ??= this.#readWhileStale().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #readWhileStale(): Promise<void> {
    while (this.#isStale && !this.#isClosed) {
      this.#isStale = false;
      try {
        const pin = this.#pin;
        this.#latest = await this.#parts.read({
          resources: pin?.resources !== undefined,
          prompts: pin?.prompts !== undefined,
        });
        this.#unreadable = undefined;
      } catch (error) {
        this.#isStale = true;
        if (this.#isClosed) return;
        const wasReadable = this.#unreadable === undefined;
        this.#unreadable = unreadableError(error);
        if (wasReadable) this.#parts.tell('contract-unreadable', { error: this.#unreadable });
        return;
      }
      this.#pin ??= this.#latest;
      this.#compare();
    }
  }

  #compare(): void {
    const { options } = this.#parts;
    this.#diffs.clear();
    const [pin, latest] = [this.#pin, this.#latest];
    if (pin === undefined || latest === undefined) return;
    const isTold = this.#told === latest.digest;
    if (pin.digest === latest.digest) {
      this.#action = undefined;
      this.#told = latest.digest;
      return;
    }
    if (isTold) return;
    this.#told = latest.digest;
    const diff = diffContracts(pin, latest, { ignore: options.ignore, tools: options.tools });
    if (diff.changes.length === 0) {
      this.#action = undefined;
      return;
    }
    const decision = decide(options.onChange, diff);
    if (decision === 'accept') {
      this.#pin = latest;
      this.#action = undefined;
    } else this.#action = decision;
    if (decision !== 'ignore') this.#parts.tell('contract-changed', { diff, action: decision });
    if (decision === 'close') this.#parts.close();
  }

  #refuse(tool: string): void {
    const { options } = this.#parts;
    if (options.tools !== undefined && !options.tools.includes(tool)) return;
    const [pin, latest] = [this.#pin, this.#latest];
    // With nothing pinned there is nothing it could have been compared with.
    if (this.#unreadable !== undefined && pin !== undefined) throw this.#unreadable;
    if (pin === undefined || latest === undefined) return;
    const isPinned = names(pin).has(tool);
    const isListed = names(latest).has(tool);
    const isRejected = this.#action === 'reject' || this.#action === 'close';
    // What no list shows is not called past a review.
    if (!isPinned && !isListed ? options.pinned === undefined : !isRejected) return;
    const diff = this.#diffOf(tool, pin, latest);
    if (isPinned && diff.changes.length === 0) return;
    const fields = { tool, method: 'tools/call', executed: false, diff } as const;
    throw isPinned
      ? new HostedMcpError('ERR_CONTRACT_CHANGED', 'The tool is not the one that was reviewed', fields)
      : new HostedMcpError('ERR_TOOL_NOT_PINNED', 'The tool is not part of the reviewed contract', fields);
  }

  /** What concerns the tool alone. */
  #diffOf(tool: string, pin: ContractSnapshot, latest: ContractSnapshot): ContractDiff {
    let diff = this.#diffs.get(tool);
    if (diff === undefined) {
      const whole = diffContracts(pin, latest, { ignore: this.#parts.options.ignore, tools: [tool] });
      diff = { ...whole, changes: whole.changes.filter(({ path }) => path[0] === 'tools'), leftOut: [] };
      // A model may make up any number of names.
      if (names(pin).has(tool) || names(latest).has(tool)) this.#diffs.set(tool, diff);
    }
    return diff;
  }

  #arm(): void {
    const { recheckMs } = this.#parts.options;
    if (recheckMs === undefined) return;
    this.#timer?.clear();
    this.#timer = this.#parts.clock.setTimeout(() => this.changed(), recheckMs, { background: true });
  }
}

/** The tools of a snapshot by name; kept as long as the snapshot is. */
const namesOf = new WeakMap<ContractSnapshot, ReadonlySet<string>>();

function names(snapshot: ContractSnapshot): ReadonlySet<string> {
  const found = namesOf.get(snapshot) ?? new Set(snapshot.tools.map(({ name }) => name));
  namesOf.set(snapshot, found);
  return found;
}

function decide(onChange: ResolvedContract['onChange'], diff: ContractDiff): ContractAction | 'accept' {
  if (typeof onChange !== 'function') return onChange;
  try {
    const decided = onChange(diff);
    return decided === 'accept' || decided === 'warn' || decided === 'close' ? decided : 'reject';
  } catch {
    return 'reject';
  }
}

function unreadableError(cause: unknown): HostedMcpError {
  const isOurs = HostedMcpError.isInstance(cause);
  return new HostedMcpError(
    'ERR_CONTRACT_CHANGED',
    'What the server offers could not be read, so that it cannot be compared with the reviewed contract',
    {
      executed: false,
      retryable: isOurs && cause.retryable,
      retryAfterMs: isOurs ? cause.retryAfterMs : undefined,
      reason: 'contract_unreadable',
      cause,
    },
  );
}
