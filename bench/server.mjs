// A server that costs the machine as little as it can: fixed answers, no schema, no state but a session id.
// Its own process, so that the client's CPU is the client's alone. Says its port on the first line.
// Addresses: /json and /sse, by the form of a call's answer; `?tools=N` lists so many. /token?expires_in=SECONDS.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

const json = { 'content-type': 'application/json' };
const text = 'x'.repeat(100);
const large = Buffer.from('x'.repeat(1_000_000));
const [LARGE_FROM, LARGE_TO] = JSON.stringify({ content: [{ type: 'text', text: '|' }] }).split('|');
const schema = { type: 'object', properties: { text: { type: 'string' } } };
/** By number of tools, as text. */
const lists = new Map();
/** Answers of the tool `hold` that wait for the last of their kind. */
const held = new Set();

const server = createServer((request, response) => {
  const chunks = [];
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', () => answer(request, response, Buffer.concat(chunks).toString()));
});

function answer(request, response, body) {
  const [path, query = ''] = request.url.split('?');
  if (path === '/token') {
    const lifetime = Number(new URLSearchParams(query).get('expires_in') ?? 3600);
    response.writeHead(200, json);
    response.end(JSON.stringify({ access_token: randomUUID(), token_type: 'Bearer', expires_in: lifetime }));
    return;
  }
  if (path.startsWith('/.well-known/')) return wellKnown(request, response);
  if (request.headers.authorization === undefined) {
    const metadata = `http://${request.headers.host}/.well-known/oauth-protected-resource${path}`;
    response.writeHead(401, { 'www-authenticate': `Bearer resource_metadata="${metadata}"` });
    response.end();
    return;
  }
  if (request.method !== 'POST') {
    response.writeHead(request.method === 'DELETE' ? 200 : 405);
    response.end();
    return;
  }
  const message = JSON.parse(body);
  if (message.id === undefined) {
    response.writeHead(202);
    response.end();
    return;
  }
  if (message.method !== 'tools/call') return other(response, message, query);
  const [before, after] = path === '/sse' ? ['event: message\ndata: ', '\n\n'] : ['', ''];
  const send = () => {
    response.writeHead(200, path === '/sse' ? { 'content-type': 'text/event-stream' } : json);
    if (message.params.name === 'large') {
      // Serialised once and for all: a megabyte costs this process three writes.
      response.write(`${before}{"jsonrpc":"2.0","id":${JSON.stringify(message.id)},"result":${LARGE_FROM}`);
      response.write(large);
      response.end(`${LARGE_TO}}${after}`);
      return;
    }
    const result = { content: [{ type: 'text', text }] };
    response.end(`${before}${JSON.stringify({ jsonrpc: '2.0', id: message.id, result })}${after}`);
  };
  if (message.params.name !== 'hold') return send();
  held.add(send);
  // Who has given up is not waited for.
  response.on('close', () => held.delete(send));
  if (held.size < message.params.arguments.until) return;
  const all = [...held];
  held.clear();
  for (const each of all) each();
}

/** Everything but a call. */
function other(response, { id, method, params }, query) {
  if (method === 'initialize') response.setHeader('mcp-session-id', randomUUID());
  response.writeHead(200, json);
  response.end(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${resultOf(method, params, query)}}`);
}

function resultOf(method, params, query) {
  if (method === 'tools/list') return toolList(Number(new URLSearchParams(query).get('tools') ?? 3));
  if (method !== 'initialize') return '{}';
  return JSON.stringify({
    protocolVersion: params.protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: 'bench', version: '1.0.0' },
  });
}

function toolList(count) {
  let list = lists.get(count);
  if (list === undefined) {
    const names = ['echo', 'large', 'hold', ...Array.from({ length: count }, (_, at) => `tool-${at}`)];
    const tools = names
      .slice(0, count)
      .map((name) => ({ name, description: `Answers as ${name}.`, inputSchema: schema }));
    list = JSON.stringify({ tools });
    lists.set(count, list);
  }
  return list;
}

function wellKnown(request, response) {
  const origin = `http://${request.headers.host}`;
  response.writeHead(200, json);
  if (request.url.includes('protected-resource')) {
    const path = request.url.replace('/.well-known/oauth-protected-resource', '');
    response.end(JSON.stringify({ resource: `${origin}${path}`, authorization_servers: [origin] }));
    return;
  }
  response.end(
    JSON.stringify({
      issuer: origin,
      authorization_endpoint: `${origin}/authorize`,
      token_endpoint: `${origin}/token`,
      response_types_supported: ['code'],
      grant_types_supported: ['client_credentials'],
      token_endpoint_auth_methods_supported: ['client_secret_basic'],
    }),
  );
}

server.keepAliveTimeout = 60_000;
// Ten thousand calls knock at once.
server.listen({ port: 0, host: '127.0.0.1', backlog: 16_384 }, () =>
  process.stdout.write(`${server.address().port}\n`),
);
process.stdin.on('end', () => process.exit(0)).resume();
