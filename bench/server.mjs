// A server that costs the machine as little as it can: fixed answers, no schema, no state but a session id.
// Its own process, so that the client's CPU is the client's alone. Says its port on the first line.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

const json = { 'content-type': 'application/json' };
const text = 'x'.repeat(100);

const server = createServer((request, response) => {
  const chunks = [];
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', () => answer(request, response, Buffer.concat(chunks).toString()));
});

function answer(request, response, body) {
  if (request.url === '/token') {
    response.writeHead(200, json);
    response.end(JSON.stringify({ access_token: randomUUID(), token_type: 'Bearer', expires_in: 3600 }));
    return;
  }
  if (request.url?.startsWith('/.well-known/')) return wellKnown(request, response);
  if (request.headers.authorization === undefined) {
    const metadata = `http://${request.headers.host}/.well-known/oauth-protected-resource${request.url}`;
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
  const reply = JSON.stringify({ jsonrpc: '2.0', id: message.id, result: resultOf(message) });
  if (message.method === 'initialize') response.setHeader('mcp-session-id', randomUUID());
  if (request.url === '/sse' && message.method === 'tools/call') {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end(`event: message\ndata: ${reply}\n\n`);
  } else {
    response.writeHead(200, json);
    response.end(reply);
  }
}

function resultOf(message) {
  if (message.method === 'initialize') {
    return {
      protocolVersion: message.params.protocolVersion,
      capabilities: { tools: {} },
      serverInfo: { name: 'bench', version: '1.0.0' },
    };
  }
  return { content: [{ type: 'text', text }] };
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
server.listen(0, '127.0.0.1', () => process.stdout.write(`${server.address().port}\n`));
process.stdin.on('end', () => process.exit(0)).resume();
