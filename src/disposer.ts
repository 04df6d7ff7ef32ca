/**
 * What `on()` and its like hand back: call `dispose()` to stop. Works with `using` where the consumer's
 * TypeScript library knows `Symbol.dispose`; asks for no newer library than that consumer has.
 */
export type Disposer = { dispose(): void } & (SymbolConstructor extends {
  readonly dispose: infer D extends symbol;
}
  ? { [K in D]: () => void }
  : unknown);

/** `await using` where the consumer's library knows `Symbol.asyncDispose`. */
export type AsyncDisposer = SymbolConstructor extends { readonly asyncDispose: infer D extends symbol }
  ? { [K in D]: () => Promise<void> }
  : unknown;

/** Wraps a clean-up function; the second call of `dispose()` does nothing. */
export function disposer(cleanUp: () => void): Disposer {
  let done = false;
  const dispose = () => {
    if (done) return;
    done = true;
    cleanUp();
  };
  const made: { dispose(): void } = { dispose };
  // Node 20 has the symbol, TypeScript's es2023 library does not name it.
  const symbol = (Symbol as { readonly dispose?: symbol }).dispose;
  if (symbol !== undefined) Object.defineProperty(made, symbol, { value: dispose });
  return made as Disposer;
}

/** Gives an object the method that `await using` calls. */
export function makeAsyncDisposable(target: object, close: () => Promise<void>): void {
  const symbol = (Symbol as { readonly asyncDispose?: symbol }).asyncDispose;
  if (symbol !== undefined) Object.defineProperty(target, symbol, { value: close, configurable: true });
}
