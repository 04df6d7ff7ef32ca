/**
 * The model check of a connection's states: sequences of events over the real engine.
 */
import fc from 'fast-check';
import { type Book, commandArbitraries, traits } from './commands.js';
import { Scene } from './scene.js';

export interface ModelOptions {
  /** What a failure prints as `replayPath`. */
  readonly replayPath?: string | undefined;
  readonly maxCommands?: number | undefined;
  onScene?(scene: Scene): void;
  onFinished?(scene: Scene): void;
}

export function connectionModel({ replayPath, maxCommands = 40, onScene, onFinished }: ModelOptions = {}) {
  const commands = fc.commands(commandArbitraries, {
    maxCommands,
    size: 'max',
    ...(replayPath !== undefined && { replayPath }),
  });
  return fc.asyncProperty(traits, fc.boolean(), commands, async (given, silentEnd, sequence) => {
    let scene: Scene | undefined;
    await fc.asyncModelRun(() => {
      const real = new Scene(given);
      scene = real;
      onScene?.(real);
      const model: Book = { calls: 0, isClosed: false, network: 'up' };
      return { model, real };
    }, sequence);
    if (scene === undefined) return;
    await scene.finish(silentEnd);
    onFinished?.(scene);
  });
}
