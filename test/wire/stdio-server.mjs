/**
 * A stdio server that does as its tests say, and writes down what reaches it: one JSON line each, with its pid.
 * `LOG`: that file. `START`: what it does at its start. `STUBBORN`: what it does not end by.
 */
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const { LOG, START = '', STUBBORN = '', TOOLS, API_KEY = '' } = process.env;
const note = (entry) => appendFileSync(LOG, `${JSON.stringify({ pid: process.pid, ...entry })}\n`);
const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const text = (value) => ({ content: [{ type: 'text', text: String(value) }] });
const waiting = new Map();
let asked = 0;

note({ start: true });
process.stderr.write(`started with ${API_KEY}\n`);
if (START === 'die') process.exit(3);
if (STUBBORN !== '') setInterval(() => {}, 1_000);
if (STUBBORN === 'term') process.on('SIGTERM', () => note({ signal: 'SIGTERM' }));
else if (STUBBORN === 'eof') {
  process.on('SIGTERM', () => {
    note({ signal: 'SIGTERM' });
    process.exit(0);
  });
}

function request(method, params) {
  const id = `question-${++asked}`;
  say({ id, method, params });
  return new Promise((resolve) => waiting.set(id, resolve));
}

const tools = {
  echo: ({ text: given }) => text(given),
  pid: () => text(process.pid),
  variables: () => text(JSON.stringify(process.env)),
  folder: () => text(process.cwd()),
  args: () => text(JSON.stringify(process.argv.slice(2))),
  wait: () => new Promise(() => {}),
  die({ how = 1, half = false }) {
    if (half) process.stdout.write('{"jsonrpc":"2.0","result":{"content":[');
    if (typeof how === 'string') process.kill(process.pid, how);
    else setImmediate(() => process.exit(how));
    return new Promise(() => {});
  },
  dieLater({ how = 1 }) {
    setImmediate(() => process.exit(how));
    return text('good-bye');
  },
  big: ({ bytes, tail = false }) => ({ ...text('x'.repeat(bytes)), ...(tail && { _meta: { tail } }) }),
  leakInResult: () => ({ ...text(`the key is ${API_KEY}`), isError: true }),
  leakInError() {
    throw { code: -32050, message: `the key is ${API_KEY}`, data: { key: API_KEY } };
  },
  async ask() {
    const { result, error } = await request('sampling/createMessage', { messages: [], maxTokens: 10 });
    return text(result?.content?.text ?? `refused: ${error?.code}`);
  },
  async ping() {
    const { result } = await request('ping', {});
    return text(JSON.stringify(result));
  },
  pingLater() {
    setTimeout(() => request('ping', {}), 5);
    return text('soon');
  },
  pingsLater({ count }) {
    setTimeout(() => {
      for (let left = count; left > 0; left -= 1) request('ping', {});
    }, 5);
    return text('soon');
  },
  progress({ steps = 3 }, { progressToken }) {
    for (let step = 1; step <= steps; step += 1)
      say({ method: 'notifications/progress', params: { progressToken, progress: step, total: steps } });
    return text('done');
  },
  changed() {
    say({ method: 'notifications/tools/list_changed' });
    return text('told');
  },
  noise(_, { id }) {
    process.stdout.write('Listening on port 0\n\n{"not": "a message"}\n[]\n{"jsonrpc":"2.0",\n"quoted"\n');
    say({ id: 987_654, result: text('of nobody') });
    say({ id: String(id), result: text('of another id') });
    process.stdout.write(
      `${JSON.stringify([
        { jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: 'in a batch' } },
        { jsonrpc: '2.0', id, result: text('in a batch') },
      ])}\r\n`,
    );
    return undefined;
  },
};

function listed() {
  const names = Object.keys(tools);
  const given = TOOLS !== undefined && existsSync(TOOLS) ? JSON.parse(readFileSync(TOOLS, 'utf8')) : {};
  return names.map((name) => ({
    name,
    description: given[name] ?? `does ${name}`,
    inputSchema: { type: 'object' },
  }));
}

async function answer({ id, method, params = {} }) {
  if (method === 'initialize') {
    if (START === 'silent') return undefined;
    if (START === 'refuse') throw { code: -32099, message: `no, not with ${API_KEY}` };
    return {
      protocolVersion: params.protocolVersion,
      capabilities: { tools: { listChanged: true }, logging: {} },
      serverInfo: { name: 'stdio-server', version: '1' },
      instructions: `uses ${API_KEY}`,
    };
  }
  if (method === 'ping') return {};
  if (method === 'tools/list') {
    if (START === 'die-at-first-list' && !existsSync(`${LOG}.listed`)) {
      appendFileSync(`${LOG}.listed`, '');
      process.exit(1);
    }
    return { tools: listed() };
  }
  if (method === 'logging/setLevel') return {};
  if (method !== 'tools/call') throw { code: -32601, message: 'no such method' };
  note({ run: params.name });
  return tools[params.name](params.arguments ?? {}, { id, progressToken: params._meta?.progressToken });
}

createInterface({ input: process.stdin })
  .on('line', async (line) => {
    const message = JSON.parse(line);
    note({ message });
    if (message.method === undefined) {
      waiting.get(message.id)?.(message);
      return;
    }
    if (message.id === undefined) return;
    try {
      const result = await answer(message);
      if (result !== undefined) say({ id: message.id, result });
    } catch (error) {
      say({
        id: message.id,
        error: { code: error.code ?? -32603, message: error.message, data: error.data },
      });
    }
  })
  .on('close', () => note({ eof: true }));
