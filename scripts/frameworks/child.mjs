// A player in its process: what is asked of it, and what it says.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { plainEnvironment } from './environment.mjs';

const LAST_WORDS = 4_000;

/** Resolves when the framework has been loaded. */
export async function startPlayer(directory, player, args) {
  const child = fork(player, args, { cwd: directory, silent: true, env: plainEnvironment() });
  const exit = once(child, 'exit');
  let said = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text) => {
      said = (said + text).slice(-LAST_WORDS);
    });
  const waiting = new Map();
  let lastId = 0;
  const ready = new Promise((resolve, reject) => {
    child.on('message', ({ id, ready: isReady, ...outcome }) => {
      if (isReady) resolve();
      else waiting.get(id)?.(outcome);
    });
    child.once('exit', (code, signal) => {
      const failure = { name: 'Exit', message: `the process ended (${signal ?? code})` };
      reject(new Error(`${failure.message}: ${said}`));
      for (const answer of waiting.values()) answer({ failure });
    });
    child.once('error', reject);
  });
  await ready;
  return {
    /** What it has printed last. */
    said: () => said,
    /** Never rejects: `{ done }`, `{ failure }` or `{ silent }`. */
    ask(step, what = {}) {
      if (!child.connected)
        return Promise.resolve({ failure: { name: 'Exit', message: 'has ended before' } });
      lastId += 1;
      const id = lastId;
      return new Promise((resolve) => {
        waiting.set(id, resolve);
        child.send({ id, step, ...what });
      });
    },
    async end() {
      if (child.connected) child.disconnect();
      const late = setTimeout(() => child.kill('SIGKILL'), 5_000);
      await exit;
      clearTimeout(late);
    },
  };
}
