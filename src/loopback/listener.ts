/**
 * The HTTP server behind a loopback redirect URI.
 *
 * Guarantees that it listens on 127.0.0.1 alone, answers `GET` of one path under its own name alone (a page that
 * rebinds a DNS name to loopback comes with another `Host`), serves one request for each connection and ends both after
 * a fixed time, and closes itself after the callback that was waited for. Never writes a byte of a request into an
 * answer, and keeps nothing of what it did not wait for.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Clock, Timer } from '../clock.js';
import { HostedMcpError } from '../errors.js';
import { LIMITS } from '../limits.js';

const LISTENER_LIMITS = Object.freeze({
  /** A browser opens two or three ahead of need; strangers share the rest. */
  connections: 8,
  /** From the connection to the end of the answer: a page of one line on loopback takes milliseconds. */
  requestMs: 5_000,
});

const DONE = page('You can close this window and go back to the application.');
const NOT_AWAITED = page('No application is waiting for this. Start again from the application.');

const HEADERS = Object.freeze({
  'Content-Type': 'text/html; charset=utf-8',
  // The address of the page holds the code: it must not be stored, framed, or told to anybody.
  'Cache-Control': 'no-store',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
});

export interface ListenerParts {
  readonly clock: Clock;
  readonly port: number;
  readonly path: string;
  /** Asked for each request to the path. `true` takes it: the listener answers, closes and asks no more. */
  readonly take: (callback: URL) => boolean;
}

export class Listener {
  readonly #parts: ListenerParts;
  readonly #server: Server;
  readonly #sockets = new Map<Socket, Timer>();
  readonly redirectUri: string;
  /** Resolves when no socket is left. Never rejects. */
  readonly closed: Promise<void>;

  private constructor(server: Server, parts: ListenerParts) {
    const { port } = server.address() as AddressInfo;
    this.#server = server;
    this.#parts = parts;
    this.redirectUri = new URL(parts.path, `http://127.0.0.1:${port}`).href;
    this.closed = new Promise((resolve) => server.once('close', resolve));
    server.on('connection', (socket) => this.#watch(socket));
    server.on('request', (request, response) => this.#serve(request, response));
    // Until somebody waits, it is no reason for the process to live on.
    server.unref();
  }

  /** Throws `ERR_CREDENTIAL_SOURCE` where the port cannot be had. */
  static async start(parts: ListenerParts): Promise<Listener> {
    const server = createServer({
      maxHeaderSize: LIMITS.headerBytes,
      // The injected clock bounds each connection as a whole.
      requestTimeout: 0,
      headersTimeout: 0,
    });
    server.maxConnections = LISTENER_LIMITS.connections;
    server.maxRequestsPerSocket = 1;
    await new Promise<void>((resolve, reject) => {
      // Later errors are those of single connections that could not be taken; the next one may be.
      server.on('error', (cause) => reject(portError(cause)));
      // Exclusive: the workers of a cluster would share the port, and one would get what another waits for.
      server.listen({ host: '127.0.0.1', port: parts.port, exclusive: true }, resolve);
    });
    return new Listener(server, parts);
  }

  /** From now on the process lives until this is closed. */
  hold(): void {
    this.#server.ref();
  }

  /** Ends every socket at once. Resolves when none is left; never rejects. */
  close(): Promise<void> {
    if (this.#server.listening) this.#server.close();
    for (const [socket, timer] of this.#sockets) {
      // Its own end is told later than that of the server.
      timer.clear();
      socket.destroy();
    }
    return this.closed;
  }

  #watch(socket: Socket): void {
    const timer = this.#parts.clock.setTimeout(() => socket.destroy(), LISTENER_LIMITS.requestMs, {
      background: true,
    });
    this.#sockets.set(socket, timer);
    socket.once('close', () => {
      timer.clear();
      this.#sockets.delete(socket);
    });
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    response.shouldKeepAlive = false;
    const own = new URL(this.redirectUri);
    // As it was sent, not as a URL parser would read it: `//host/…` and `http://host/…` are other targets than ours.
    const target = request.url ?? '';
    const queryAt = target.indexOf('?');
    const path = queryAt === -1 ? target : target.slice(0, queryAt);
    if (request.headers.host !== own.host || path !== this.#parts.path) {
      response.writeHead(404, { 'Content-Length': 0 }).end();
      return;
    }
    if (request.method !== 'GET') {
      response.writeHead(405, { Allow: 'GET', 'Content-Length': 0 }).end();
      return;
    }
    if (queryAt !== -1) own.search = target.slice(queryAt);
    const isTaken = this.#parts.take(own);
    // Before the answer ends, and with it the socket: only then has the browser what it needs.
    if (isTaken) request.socket.once('close', () => void this.close());
    const body = isTaken ? DONE : NOT_AWAITED;
    response
      .writeHead(isTaken ? 200 : 400, { ...HEADERS, 'Content-Length': Buffer.byteLength(body) })
      .end(body);
  }
}

function page(text: string): string {
  return `<!doctype html><html lang="en"><meta charset="utf-8"><title>Authorization</title><p>${text}</p></html>\n`;
}

function portError(cause: unknown): HostedMcpError {
  return new HostedMcpError(
    'ERR_CREDENTIAL_SOURCE',
    'The port for the redirect is taken, or may not be used: give another, or none',
    { cause },
  );
}
