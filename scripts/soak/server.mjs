// The SDK's own servers as they are deployed, without their keep-alive, and what reached them.
//
// Everything the soak says of executions, GETs, 409s and time without a stream is counted here, on the
// server's side of the proxy.
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const LISTEN_STREAM = '_GET_stream';
const TOOL = { name: 'work', inputSchema: { type: 'object', properties: { ms: { type: 'number' } } } };

/** `kind`: 'plain' (sessions, no event store), 'store' (with one) or 'legacy' (HTTP+SSE of 2024-11-05). */
export async function startSoakServer(kind) {
  const seen = new Seen();
  const peers = new Map();
  const answer = kind === 'legacy' ? legacy(seen, peers) : streamable(seen, peers, kind === 'store');
  const server = createServer((request, response) => {
    answer(request, response).catch(() => {
      if (!response.headersSent) response.writeHead(500).end();
    });
  });
  // Idle sockets are the proxy's to close: what Node does after 5 s would be one more fault.
  server.keepAliveTimeout = 0;
  server.requestTimeout = 0;
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: server.address().port,
    path: kind === 'legacy' ? '/sse' : '/mcp',
    seen,
    notify(number) {
      const params = { level: 'info', data: { number } };
      for (const { mcp } of peers.values())
        mcp.notification({ method: 'notifications/message', params }).catch(() => {});
    },
    async close() {
      seen.isClosing = true;
      for (const { mcp } of peers.values()) await mcp.close();
      server.close();
      server.closeAllConnections();
    },
  };
}

/** What reached one server. */
class Seen {
  gets = 0;
  conflicts = 0;
  initializes = 0;
  /** Calls on a session of which no `initialize` was seen. */
  uninitialized = 0;
  executions = new Map();
  /** Milliseconds without a listen stream, for each time there was none. */
  blindMs = [];
  cuts = 0;
  /** When the answer to a call lost its connection, by call id. */
  lostAt = new Map();
  isClosing = false;
  onCut = () => {};
  #withoutStreamSince;

  get runTwice() {
    return [...this.executions.values()].filter((times) => times > 1).length;
  }

  executed(callId) {
    this.executions.set(callId, (this.executions.get(callId) ?? 0) + 1);
  }

  get(response, isListen) {
    this.gets += 1;
    onHead(response, (status) => {
      if (status === 409) this.conflicts += 1;
      if (status !== 200 || !isListen) return;
      if (this.#withoutStreamSince !== undefined)
        this.blindMs.push(performance.now() - this.#withoutStreamSince);
      this.#withoutStreamSince = undefined;
      response.once('close', () => {
        if (this.isClosing) return;
        this.#withoutStreamSince = performance.now();
        this.cuts += 1;
        this.onCut(this.cuts);
      });
    });
  }

  call(response, callId) {
    response.once('close', () => {
      if (!response.writableFinished && !this.isClosing) this.lostAt.set(callId, performance.now());
    });
  }
}

function streamable(seen, peers, hasStore) {
  return async (request, response) => {
    const body = request.method === 'POST' ? await readJson(request) : undefined;
    const known = peers.get(request.headers['mcp-session-id']);
    if (request.method === 'GET') {
      const cursor = request.headers['last-event-id'];
      seen.get(response, cursor === undefined || streamOf(cursor) === LISTEN_STREAM);
    }
    if (body?.method === 'tools/call') seen.call(response, callIdOf(body));
    if (known !== undefined) return known.transport.handleRequest(request, response, body);
    if (body?.method !== 'initialize') return response.writeHead(404).end();
    seen.initializes += 1;
    const mcp = newServer(seen);
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      keepAliveMs: 0,
      ...(hasStore && { eventStore: new EventStore() }),
      onsessioninitialized: (id) => void peers.set(id, { mcp, transport }),
      onsessionclosed: (id) => void peers.delete(id),
    });
    await mcp.connect(transport);
    return transport.handleRequest(request, response, body);
  };
}

function legacy(seen, peers) {
  return async (request, response) => {
    const { pathname, searchParams } = new URL(request.url, 'http://localhost');
    if (request.method === 'GET' && pathname === '/sse') {
      seen.get(response, true);
      const mcp = newServer(seen);
      const transport = new SSEServerTransport('/messages', response);
      peers.set(transport.sessionId, { mcp, transport, isInitialized: false });
      response.once('close', () => peers.delete(transport.sessionId));
      return mcp.connect(transport);
    }
    const peer = peers.get(searchParams.get('sessionId'));
    if (request.method !== 'POST' || pathname !== '/messages' || peer === undefined)
      return response.writeHead(404, { 'content-type': 'text/plain' }).end('no session');
    const body = await readJson(request);
    if (body.method === 'initialize') {
      seen.initializes += 1;
      peer.isInitialized = true;
    }
    if (body.method === 'tools/call') {
      if (!peer.isInitialized) seen.uninitialized += 1;
      // The answer comes on the stream: with the stream it is lost.
      const callId = callIdOf(body);
      peer.transport.res.once('close', () => seen.lostAt.set(callId, performance.now()));
    }
    return peer.transport.handlePostMessage(request, response, body);
  };
}

function newServer(seen) {
  const mcp = new Server({ name: 'soak', version: '1.0.0' }, { capabilities: { tools: {}, logging: {} } });
  mcp.setRequestHandler(ListToolsRequestSchema, () => ({ tools: [TOOL] }));
  mcp.setRequestHandler(CallToolRequestSchema, async ({ params }) => {
    const callId = String(params.arguments?.callId);
    seen.executed(callId);
    const ms = Number(params.arguments?.ms ?? 0);
    if (ms > 0) await new Promise((resolve) => setTimeout(resolve, ms));
    return { content: [{ type: 'text', text: callId }] };
  });
  mcp.onerror = () => {};
  return mcp;
}

/** A correct one, of one session: a stream is resumed with its own events, after the cursor. */
class EventStore {
  #events = [];

  async storeEvent(streamId, message) {
    const id = `${streamId}~${this.#events.length}`;
    this.#events.push({ id, streamId, message });
    return id;
  }

  async getStreamIdForEventId(id) {
    return streamOf(id);
  }

  async replayEventsAfter(lastId, { send }) {
    const streamId = streamOf(lastId);
    const after = this.#events.slice(Number(lastId.slice(lastId.lastIndexOf('~') + 1)) + 1);
    for (const { id, message, ...event } of after)
      if (event.streamId === streamId && message.jsonrpc !== undefined) await send(id, message);
    return streamId;
  }
}

function streamOf(eventId) {
  return eventId.slice(0, eventId.lastIndexOf('~'));
}

function callIdOf(body) {
  return String(body.params?.arguments?.callId);
}

function onHead(response, tell) {
  const { writeHead } = response;
  response.writeHead = (status, ...rest) => {
    tell(status);
    return writeHead.call(response, status, ...rest);
  };
}

async function readJson(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return JSON.parse(Buffer.concat(chunks).toString());
}
