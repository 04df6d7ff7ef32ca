/**
 * The tools of a connection as they were listed last: what a call's tool was when a model, or a person, saw it.
 *
 * Guarantees that a list which may have changed since it was read says so. Never lists anything itself.
 */
import { digestOf } from '../contract/canonical.js';
import type { ToolAnnotations } from './gate.js';
import { isObject } from './value.js';

export interface KnownTool {
  readonly digest: string;
  readonly annotations?: ToolAnnotations;
}

const HINTS = ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint'] as const;
/** As many as a list may have, and some that have left it. */
const MOST = 20_000;

export class ToolBook {
  readonly #tools = new Map<string, KnownTool>();
  /** Grows whenever the server may have changed its tools. */
  #version = 0;
  #readAt = -1;

  /** The list may be another one from here on. */
  changed(): void {
    this.#version += 1;
  }
  get version(): number {
    return this.#version;
  }
  get isStale(): boolean {
    return this.#readAt !== this.#version;
  }
  /** The whole list was read, and the reading began at `version`. */
  readAt(version: number): void {
    if (version === this.#version) this.#readAt = version;
  }

  get(tool: string | undefined): KnownTool | undefined {
    return tool === undefined ? undefined : this.#tools.get(tool);
  }

  /** A page of a list, as the server sent it. */
  learn(list: readonly unknown[]): void {
    for (const tool of list) {
      if (!isObject(tool) || typeof tool.name !== 'string') continue;
      const annotations = hintsOf(tool.annotations);
      let digest: string;
      try {
        digest = digestOf(tool);
      } catch {
        // What cannot be told from another one is not known.
        this.#tools.delete(tool.name);
        continue;
      }
      this.#tools.set(tool.name, Object.freeze({ digest, ...(annotations && { annotations }) }));
      if (this.#tools.size > MOST) this.#tools.delete(this.#tools.keys().next().value as string);
    }
  }

  /** The whole list, and nothing else. */
  replace(list: readonly unknown[]): void {
    this.#tools.clear();
    this.learn(list);
  }
}

function hintsOf(annotations: unknown): ToolAnnotations | undefined {
  if (!isObject(annotations)) return undefined;
  const hints: Record<string, boolean> = {};
  for (const hint of HINTS) {
    const value = Object.hasOwn(annotations, hint) ? annotations[hint] : undefined;
    if (typeof value === 'boolean') hints[hint] = value;
  }
  return Object.freeze(hints);
}
