#!/usr/bin/env node
/**
 * The program `mcp-holdfast`: the process around a command.
 *
 * Guarantees that Ctrl-C ends a command in its own time, a second one at once, and that all output has left before the
 * process ends. Never does anything that `runCli` could do.
 */
import { sleep, systemClock } from '../clock.js';
import type { CommandIo } from './command.js';
import { COMMANDS } from './commands.js';
import { EXIT } from './exit-codes.js';
import { runCli } from './run.js';

/** Long enough for whoever reads; who does not shall not keep a service. */
const FLUSH_MS = 500;

const isService = COMMANDS.find(({ name }) => name === process.argv[2])?.isService === true;
const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    if (stop.signal.aborted) process.exit(EXIT.interrupted);
    stop.abort(new Error('stopped'));
  });
}
for (const stream of [process.stdout, process.stderr]) {
  // Whoever read it has left: there is nobody to tell. A service ends in its own time.
  stream.on('error', () => {
    if (!isService) process.exit(EXIT.interrupted);
  });
}

const io: CommandIo = {
  stdout: process.stdout,
  stderr: process.stderr,
  stdin: process.stdin,
  env: process.env,
  isTTY: { stdout: process.stdout.isTTY === true, stderr: process.stderr.isTTY === true },
  signal: stop.signal,
  clock: systemClock(),
  cwd: process.cwd(),
};
const status = await runCli(process.argv.slice(2), io, COMMANDS);
for (const stream of [process.stdout, process.stderr]) {
  // A pipe takes what is written later than write() returns.
  const written = new Promise((resolve) => stream.write('', resolve));
  await (isService ? Promise.race([written, sleep(io.clock, FLUSH_MS)]) : written);
}
process.exit(status);
