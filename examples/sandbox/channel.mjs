// Messages over a pair of streams, one line of JSON each: what an exec channel into a sandbox gives.
import { createInterface } from 'node:readline';

/** The outer end: a way for messages, as `relayHop` and `relayTransport` take it. */
export function channelTo(readable, writable) {
  const waiting = new Map();
  let sent = 0;
  const fail = () => {
    for (const { reject } of waiting.values()) reject(new Error('The channel has ended'));
    waiting.clear();
  };
  createInterface({ input: readable })
    .on('line', (line) => {
      const { n, answer } = JSON.parse(line);
      waiting.get(n)?.resolve(answer);
      waiting.delete(n);
    })
    .on('close', fail);
  writable.on('error', fail);
  return (message, { deadlineMs, signal }) =>
    new Promise((resolve, reject) => {
      const n = ++sent;
      waiting.set(n, { resolve, reject });
      writable.write(`${JSON.stringify({ n, message, deadlineMs })}\n`);
      signal.addEventListener('abort', () => {
        if (waiting.delete(n)) writable.write(`${JSON.stringify({ n, cancel: true })}\n`);
        reject(signal.reason);
      });
    });
}

/** The inner end: hands each message to `hop`, and each answer back. Resolves when the outer end has gone. */
export function serveChannel(readable, writable, hop) {
  const running = new Map();
  return new Promise((resolve) => {
    createInterface({ input: readable })
      .on('line', async (line) => {
        const { n, message, deadlineMs, cancel } = JSON.parse(line);
        if (cancel) {
          running.get(n)?.abort();
          return;
        }
        const controller = new AbortController();
        running.set(n, controller);
        const answer = await hop(message, { deadlineMs, signal: controller.signal });
        running.delete(n);
        writable.write(`${JSON.stringify({ n, answer })}\n`);
      })
      .on('close', resolve);
  });
}
