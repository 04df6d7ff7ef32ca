// How the harness and its child processes talk: questions and answers over Node's own channel, and one clock.
//
// A child ends with its parent, whatever becomes of it.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

/** Longer than anything that is asked for takes, so that a child which hangs is named. */
const ANSWER_MS = 30_000;
const LAST_WORDS = 2_000;

/** CLOCK_MONOTONIC: the same in every process of the machine, and left alone by libfaketime where it is told to. */
export function nowMs() {
  return Number(process.hrtime.bigint()) / 1e6;
}

export function elapse(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** In the child: answers by name. */
export function serve(answers) {
  process.on('disconnect', () => process.exit(0));
  process.on('message', async ({ id, ask, given }) => {
    try {
      process.send({ id, answer: await answers[ask](given) });
    } catch (error) {
      process.send({ id, error: String(error?.stack ?? error) });
    }
  });
  process.send({ id: 0, answer: 'loaded' });
}

/** In the harness: a child that has loaded its modules. `file` is beside this one. */
export async function startChild(file, { env = {} } = {}) {
  const path = fileURLToPath(new URL(file, import.meta.url));
  const child = fork(path, [], {
    env: { ...process.env, NODE_OPTIONS: '', ...env },
    execArgv: ['--no-warnings'],
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    serialization: 'advanced',
  });
  const asked = new Map();
  let last = '';
  let ids = 0;
  const ended = once(child, 'exit').catch(() => {});
  child.stderr.on('data', (chunk) => {
    last = (last + chunk).slice(-LAST_WORDS);
  });
  child.on('message', ({ id, answer, error }) => {
    asked.get(id)?.(error === undefined ? { answer } : { error: new Error(`${file}: ${error}`) });
  });
  child.on('error', () => {});
  child.on('exit', (code, signal) => {
    for (const tell of asked.values()) tell({ error: new Error(`${file} ended: ${code ?? signal} ${last}`) });
  });

  const answerTo = (id) =>
    new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${file} does not answer. ${last}`)), ANSWER_MS);
      asked.set(id, ({ answer, error }) => {
        clearTimeout(timer);
        asked.delete(id);
        if (error === undefined) resolve(answer);
        else reject(error);
      });
    });

  await answerTo(0);
  return {
    pid: child.pid,
    ask(name, given) {
      ids += 1;
      const id = ids;
      const answer = answerTo(id);
      child.send({ id, ask: name, given }, () => {});
      return answer;
    },
    signal: (name) => child.kill(name),
    /** At once, without a chance to say goodbye. A stopped process ends, too. */
    async end() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}
