// Processes of the benchmark's own: what is measured shares nothing with what measures or answers.
import { fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

/** The server, `{ port, close }`. It ends with this process, too. */
export async function startServer() {
  const child = spawn(process.execPath, [fileURLToPath(new URL('../server.mjs', import.meta.url))], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const [firstLine] = await once(child.stdout, 'data');
  return {
    port: Number(String(firstLine)),
    async close() {
      const ended = once(child, 'exit');
      child.stdin.end();
      await ended;
    },
  };
}

/**
 * A program of the benchmark in a process of its own that answers one message after the other (`serve`); `first` is
 * its answer to being started.
 */
export async function startProgram(program, options, { execArgv = [] } = {}) {
  const child = fork(
    fileURLToPath(new URL(program, new URL('../', import.meta.url))),
    [JSON.stringify(options)],
    {
      execArgv: ['--no-warnings', ...execArgv],
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    },
  );
  const answer = async () => {
    const waiting = new AbortController();
    const { signal } = waiting;
    try {
      const [message] = await Promise.race([
        once(child, 'message', { signal }),
        once(child, 'exit', { signal }).then(([code]) => {
          throw new Error(`${program} ${JSON.stringify(options)} ended by itself (${code})`);
        }),
      ]);
      if (message.failed !== undefined) throw new Error(`${program}: ${message.failed}`);
      return message.answer;
    } finally {
      waiting.abort();
    }
  };
  const ask = (question) => {
    child.send(question);
    return answer();
  };
  const close = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.disconnect();
    await ended;
  };
  try {
    return { first: await answer(), ask, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** In such a program: `open(options)` gives `{ first, answer(question), close }`. Ends with the process that started it. */
export async function serve(open) {
  const tell = async (work) => {
    try {
      process.send({ answer: (await work()) ?? null });
    } catch (error) {
      process.send({ failed: String(error?.stack ?? error) });
    }
  };
  let opened;
  process.on('disconnect', async () => {
    await opened?.close?.();
    process.exit(0);
  });
  process.on('message', (question) => tell(() => opened.answer(question)));
  await tell(async () => {
    opened = await open(JSON.parse(process.argv[2]));
    return opened.first;
  });
}

/** One program, one answer. */
export async function runProgram(program, options, settings) {
  const started = await startProgram(program, options, settings);
  await started.close();
  return started.first;
}
