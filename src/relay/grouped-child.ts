/**
 * One process of a supervised server with everything it starts.
 *
 * Guarantees that with it everybody of its group ends, and that `gone` settles when nobody is left: the next process
 * shall meet no port or lock of this one. The guard ends the group should this process end first.
 */
import { Child, type ChildEnd, type ChildParts, type CommandLine } from '../servers/child.js';
import type { Guard } from './guard.js';
import { endGroup, MARK } from './process-group.js';

/** What the supervisor needs of a process. */
export interface SupervisedChild {
  readonly pid: number | undefined;
  readonly started: Promise<void>;
  readonly isEnding: boolean;
  readonly wasEnded: boolean;
  write(message: string): void;
  /** Resolves when it and all it had started have ended. Never rejects. */
  readonly gone: Promise<void>;
  /** Ends it; resolves with `gone`. */
  end(): Promise<void>;
}

export class GroupedChild implements SupervisedChild {
  readonly #child: Child;
  readonly gone: Promise<void>;
  #swept: Promise<void> | undefined;

  constructor(line: CommandLine, parts: ChildParts, mark: string, guard: Guard) {
    guard.start();
    const { clock, graceMs } = parts;
    let settle: () => void = () => {};
    this.gone = new Promise((resolve) => {
      settle = resolve;
    });
    const sweep = () => {
      const { pid } = this.#child;
      if (this.#swept !== undefined) return;
      const held = clock.track?.();
      const ended = pid === undefined ? Promise.resolve() : endGroup({ id: pid, mark }, clock, graceMs);
      this.#swept = ended.catch(() => {}).finally(() => held?.dispose());
    };
    this.#child = new Child(
      { ...line, env: { ...line.env, [MARK]: mark } },
      {
        ...parts,
        ownGroup: true,
        // At once: what holds its output open is among them.
        onExit: sweep,
        onEnd: (end: ChildEnd) => {
          sweep();
          void this.#swept?.then(() => {
            guard.free();
            settle();
          });
          parts.onEnd(end);
        },
      },
    );
    if (this.#child.pid !== undefined) guard.watch(this.#child.pid);
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }
  get started(): Promise<void> {
    return this.#child.started;
  }
  get isEnding(): boolean {
    return this.#child.isEnding;
  }
  get wasEnded(): boolean {
    return this.#child.wasEnded;
  }

  write(message: string): void {
    this.#child.write(message);
  }

  end(): Promise<void> {
    void this.#child.end();
    return this.gone;
  }
}
