// The orchestrator: knows the server's command and secret, and the way into the sandbox. The brain knows neither.
import { spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { relayHop, toStub } from 'mcp-holdfast/relay';
import { channelTo } from './channel.mjs';

const packageFile = createRequire(import.meta.url).resolve(
  '@modelcontextprotocol/server-everything/package.json',
);
const entry = {
  command: process.execPath,
  args: [join(dirname(packageFile), 'dist/index.js'), 'stdio'],
  // From a vault, in earnest.
  env: { EVERYTHING_API_KEY: `sk-${randomBytes(16).toString('hex')}` },
};

/** Without a network at all, where this machine allows it. */
function isolation() {
  for (const flags of [['-n'], ['-r', '-n']]) {
    if (spawnSync('unshare', [...flags, 'true']).status === 0) return ['unshare', ...flags];
  }
  process.stderr.write('WARNING: this machine allows no network namespaces: the sandbox HAS the network\n');
  return [];
}

let sandbox;
/** Opened for the first message, kept for the others. */
function channel() {
  if (sandbox !== undefined) return sandbox.send;
  const [command, ...args] = [
    ...isolation(),
    process.execPath,
    fileURLToPath(new URL('./inside.mjs', import.meta.url)),
  ];
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'], env: { PATH: process.env.PATH } });
  child.stdin.write(`${JSON.stringify(entry)}\n`);
  sandbox = { child, send: channelTo(child.stdout, child.stdin), ended: once(child, 'exit') };
  return sandbox.send;
}
const hop = relayHop((message, options) => channel()(message, options), { name: 'orchestrator' });

const token = randomBytes(16).toString('hex');
const server = createServer(async (request, response) => {
  if (request.method !== 'POST' || request.headers.authorization !== `Bearer ${token}`) {
    response.writeHead(request.method === 'POST' ? 401 : 405).end();
    return;
  }
  const controller = new AbortController();
  response.on('close', () => controller.abort());
  let body = '';
  for await (const chunk of request.setEncoding('utf8')) body += chunk;
  const { message, deadlineMs } = JSON.parse(body);
  const answer = await hop(message, { deadlineMs, signal: controller.signal });
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');

const route = `http://127.0.0.1:${server.address().port}/everything`;
process.stdout.write(`${JSON.stringify({ stub: toStub(entry, { name: 'everything', route }), token })}\n`);

// The brain has gone: so does everything else.
process.stdin.resume();
await once(process.stdin, 'end');
server.close();
server.closeAllConnections();
if (sandbox !== undefined) {
  sandbox.child.stdin.end();
  await sandbox.ended;
}
process.exit(0);
