/**
 * A server with a family, none of whom goes by itself: one of its own process group, one of another session, as
 * browsers are, and one that this one has started. `STUBBORN`: what the server itself does not end by.
 */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

const { STUBBORN = '' } = process.env;
const STAYS = "process.on('SIGTERM', () => {}); setInterval(() => {}, 1_000);";
const PARENT = `
const { spawn } = require('node:child_process');
const child = spawn(process.execPath, ['-e', ${JSON.stringify(STAYS)}], { stdio: 'inherit' });
console.error('pid ' + child.pid);
${STAYS}`;
const stays = (script, detached) =>
  spawn(process.execPath, ['-e', script], { detached, stdio: ['ignore', 'inherit', 'inherit'] });

if (STUBBORN !== '') {
  setInterval(() => {}, 1_000);
  process.on('SIGTERM', () => {});
}
const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
let family = [];

createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  if (method === 'initialize') {
    const serverInfo = { name: 'family', version: '1' };
    say({ id, result: { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo } });
  } else if (method === 'tools/call') {
    if (family.length === 0) family = [stays(STAYS, false), stays(PARENT, true)];
    const pids = [process.pid, ...family.map(({ pid }) => pid)];
    say({ id, result: { content: [{ type: 'text', text: JSON.stringify(pids) }] } });
  } else {
    say({ id, result: {} });
  }
});
