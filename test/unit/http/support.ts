/** What the HTTP tests share: a sink that can be awaited, servers that count, a certificate, a tiny proxy. */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import http from 'node:http';
import net, { type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { onTestFinished } from 'vitest';
import { type Clock, systemClock } from '../../../src/clock.js';
import { createHttpClient } from '../../../src/http/create.js';
import type {
  ExchangeFailure,
  ExchangeHandle,
  HttpClient,
  HttpRequest,
  ResponseHead,
  ResponseSink,
} from '../../../src/http/exchange.js';
import { type HttpOptions, resolveHttpOptions } from '../../../src/http/options.js';

/** Records all that a sink hears; `until` waits for a state of it. Fails the test on a second ending. */
export class Recorder implements ResponseSink {
  sentCount = 0;
  headCount = 0;
  received: ResponseHead | undefined;
  chunks: Uint8Array[] = [];
  bytes = 0;
  ended = false;
  failure: ExchangeFailure | undefined;
  afterEnd: string[] = [];
  onSent: (() => void) | undefined;
  onData: ((chunk: Uint8Array) => void) | undefined;
  keepChunks = true;
  #waiters: Array<() => void> = [];

  sent(): void {
    this.#note('sent');
    this.sentCount++;
    this.onSent?.();
    this.#wake();
  }
  head(head: ResponseHead): void {
    this.#note('head');
    this.received = head;
    this.headCount++;
    this.#wake();
  }
  data(chunk: Uint8Array): void {
    this.#note('data');
    if (this.keepChunks) this.chunks.push(chunk);
    this.bytes += chunk.byteLength;
    this.onData?.(chunk);
    this.#wake();
  }
  end(): void {
    this.#note('end');
    this.ended = true;
    this.#wake();
  }
  fail(failure: ExchangeFailure): void {
    this.#note('fail');
    this.failure = failure;
    this.#wake();
  }
  get text(): string {
    return Buffer.concat(this.chunks).toString('utf8');
  }
  get over(): boolean {
    return this.ended || this.failure !== undefined;
  }
  until(state: (recorder: this) => boolean): Promise<this> {
    return new Promise((resolve) => {
      const look = () => {
        if (state(this)) resolve(this);
        else this.#waiters.push(look);
      };
      look();
    });
  }
  done(): Promise<this> {
    return this.until((recorder) => recorder.over);
  }
  #note(what: string): void {
    if (this.over) this.afterEnd.push(what);
  }
  #wake(): void {
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const waiter of waiters) waiter();
  }
}

export function newClient(options: HttpOptions = {}, clock: Clock = systemClock()): HttpClient {
  const client = createHttpClient(resolveHttpOptions(options), clock);
  onTestFinished(() => client.close());
  return client;
}

export function post(url: string | URL, body = '{"id":1}', more: Partial<HttpRequest> = {}): HttpRequest {
  return {
    method: 'POST',
    url: new URL(url),
    headers: { 'content-type': 'application/json' },
    body,
    ...more,
  };
}

export function get(url: string | URL, more: Partial<HttpRequest> = {}): HttpRequest {
  return { method: 'GET', url: new URL(url), headers: {}, ...more };
}

export function start(
  client: HttpClient,
  request: HttpRequest,
  recorder = new Recorder(),
): { recorder: Recorder; handle: ExchangeHandle } {
  return { recorder, handle: client.exchange(request, recorder) };
}

export async function run(client: HttpClient, request: HttpRequest): Promise<Recorder> {
  return start(client, request).recorder.done();
}

/** Lets everything that is ready to happen on this loop happen; waits for no clock. */
export async function settle(turns = 50): Promise<void> {
  for (let i = 0; i < turns; i++) await new Promise((resolve) => setImmediate(resolve));
}

export function gate(): { promise: Promise<void>; open: () => void } {
  let open = () => {};
  const promise = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { promise, open };
}

export async function listen(server: net.Server): Promise<number> {
  const sockets = new Set<net.Socket>();
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return (server.address() as AddressInfo).port;
}

export async function httpServer(handler: http.RequestListener): Promise<string> {
  const server = http.createServer(handler);
  server.on('clientError', (_error, socket) => socket.destroy());
  return `http://127.0.0.1:${await listen(server)}`;
}

export interface RawServer {
  url: string;
  port: number;
  connections: number;
  text: string;
  sockets: net.Socket[];
  /** Waits until the server has seen this text. */
  saw(text: string): Promise<void>;
  closedSockets: number;
  closed(count: number): Promise<void>;
}

/** A TCP server that keeps and counts what it is sent; the judge of "nothing left". */
export async function rawServer(
  onData: (socket: net.Socket, chunk: string, server: RawServer) => void = () => {},
): Promise<RawServer> {
  let waiters: Array<() => void> = [];
  const wake = () => {
    const woken = waiters;
    waiters = [];
    for (const waiter of woken) waiter();
  };
  const until = (state: () => boolean) =>
    new Promise<void>((resolve) => {
      const look = () => {
        if (state()) resolve();
        else waiters.push(look);
      };
      look();
    });
  const seen: RawServer = {
    url: '',
    port: 0,
    connections: 0,
    text: '',
    sockets: [],
    closedSockets: 0,
    saw: (text) => until(() => seen.text.includes(text)),
    closed: (count) => until(() => seen.closedSockets >= count),
  };
  const server = net.createServer((socket) => {
    seen.connections++;
    seen.sockets.push(socket);
    socket.on('data', (data) => {
      const chunk = data.toString('latin1');
      seen.text += chunk;
      onData(socket, chunk, seen);
      wake();
    });
    socket.on('close', () => {
      seen.closedSockets++;
      wake();
    });
  });
  seen.port = await listen(server);
  seen.url = `http://127.0.0.1:${seen.port}`;
  return seen;
}

export interface Certificate {
  cert: string;
  key: string;
}

/** A self-signed certificate for localhost, 127.0.0.1 and mcp.test. */
export async function makeCertificate(): Promise<Certificate> {
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-cert-'));
  const cert = join(directory, 'cert.pem');
  const key = join(directory, 'key.pem');
  try {
    await promisify(execFile)('openssl', [
      ...[
        'req',
        '-x509',
        '-newkey',
        'ec',
        '-pkeyopt',
        'ec_paramgen_curve:prime256v1',
        '-nodes',
        '-days',
        '2',
      ],
      ...['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,DNS:mcp.test,IP:127.0.0.1'],
      ...['-keyout', key, '-out', cert],
    ]);
    return { cert: await readFile(cert, 'utf8'), key: await readFile(key, 'utf8') };
  } catch (cause) {
    throw new Error('THE TLS TESTS NEED THE openssl COMMAND: install it (Debian: apt-get install openssl).', {
      cause,
    });
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

export interface ConnectProxy {
  url: string;
  /** What clients asked to be connected to. */
  asked: string[];
  authorizations: Array<string | undefined>;
  answer: 'connect' | 'refuse' | 'silence';
}

/** A CONNECT proxy that takes every name for 127.0.0.1. */
export async function connectProxy(): Promise<ConnectProxy> {
  const server = http.createServer((_request, response) => response.writeHead(501).end());
  const proxy: ConnectProxy = { url: '', asked: [], authorizations: [], answer: 'connect' };
  server.on('connect', (request, socket: net.Socket) => {
    proxy.asked.push(String(request.url));
    proxy.authorizations.push(request.headers['proxy-authorization']);
    if (proxy.answer === 'refuse') socket.end('HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n');
    if (proxy.answer !== 'connect') return;
    const upstream = net.connect(Number(String(request.url).split(':').pop()), '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      upstream.pipe(socket).pipe(upstream);
    });
    upstream.on('error', () => socket.destroy());
    socket.on('error', () => upstream.destroy());
    socket.on('close', () => upstream.destroy());
  });
  proxy.url = `http://127.0.0.1:${await listen(server)}`;
  return proxy;
}
