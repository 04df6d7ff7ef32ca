// A stdio server that writes down each call before it runs it, and comes to harm where it is told to.
// LEDGER: where it writes. REFUSE: while there is such a file, it does not start. SPEED: of its time.
import { appendFileSync, existsSync, renameSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const { LEDGER, REFUSE, SPEED } = process.env;
if (existsSync(REFUSE)) process.exit(1);
// Whole or not at all: whoever reads half of it would signal somebody else, and of nothing at all, everybody.
writeFileSync(`${LEDGER}.pid.next`, String(process.pid));
renameSync(`${LEDGER}.pid.next`, `${LEDGER}.pid`);

const open = new Map();
const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);

createInterface({ input: process.stdin })
  .on('line', (line) => {
    const { id, method, params } = JSON.parse(line);
    if (method === 'notifications/cancelled') {
      clearTimeout(open.get(params.requestId));
      open.delete(params.requestId);
    }
    if (id === undefined) return;
    if (method === 'tools/call') call(id, params);
    else if (method === 'initialize') {
      const { protocolVersion } = params;
      const serverInfo = { name: 'storm', version: '1.0.0' };
      say({ id, result: { protocolVersion, capabilities: { tools: {} }, serverInfo } });
    } else if (method === 'tools/list') say({ id, result: { tools: [] } });
    else if (method === 'ping') say({ id, result: {} });
    else say({ id, error: { code: -32601, message: 'no such method' } });
  })
  .on('close', () => process.exit(0));

function call(id, { arguments: args, _meta: meta }) {
  const tag = meta['mcp-holdfast/callId'];
  const { end, noise, silent, fail, bytes = 0, ms = 0 } = args;
  if (end === 'before') process.exit(3);
  appendFileSync(LEDGER, `${tag}\n`);
  if (end === 'after') process.exit(3);
  if (silent === true) return;
  const answer = () => {
    open.delete(id);
    if (noise === 'not json') process.stdout.write('this is no JSON\n');
    if (noise === 'half') process.stdout.write('{"jsonrpc":"2.0","id":\n');
    if (noise === 'foreign') say({ id: 987_654_321, result: { content: [] } });
    if (fail === 'error') say({ id, error: { code: 4242, message: 'the server says no' } });
    else {
      const content = [{ type: 'text', text: tag + ' '.repeat(bytes) }];
      say({ id, result: { content, ...(fail === 'isError' && { isError: true }) } });
    }
  };
  if (ms > 0) open.set(id, setTimeout(answer, ms / Number(SPEED)));
  else answer();
}
