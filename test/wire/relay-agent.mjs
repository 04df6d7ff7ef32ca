/**
 * A process that supervises: `agent SUPERVISOR ENTRY OPTIONS`; or one that starts such a process and is its parent:
 * `parent ...`. Says what it knows on its standard output.
 */
import { spawn } from 'node:child_process';

const [role, ...rest] = process.argv.slice(2);
if (role === 'parent') {
  // No pipe between the two: that the parent has ended is to be found out otherwise.
  spawn(process.execPath, [process.argv[1], 'agent', ...rest], { stdio: ['ignore', 'inherit', 'inherit'] });
  setInterval(() => {}, 1_000);
} else {
  const [module, entry, options] = rest;
  const { superviseServer } = await import(module);
  const supervisor = superviseServer(JSON.parse(entry), JSON.parse(options));
  const signal = new AbortController().signal;
  const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'family' } };
  // Its own time, told to whoever listens; it keeps nobody alive.
  setInterval(() => process.stdout.write('beat\n'), 100).unref();
  const { result } = await supervisor.handle(message, { deadlineMs: 20_000, signal });
  process.stdout.write(
    `${JSON.stringify({ agent: process.pid, family: JSON.parse(result.content[0].text) })}\n`,
  );
}
