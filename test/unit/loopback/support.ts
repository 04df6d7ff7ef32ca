/** What the loopback tests share: a helper with a browser that only notes, requests byte by byte, and what is left over. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterEach } from 'vitest';
import { type LoopbackOptions, loopbackRedirect } from '../../../src/loopback/index.js';
import { type ManualClock, manualClock } from '../../../src/testing/index.js';

export const STATE = 'canary-state-7f3a';
export const CODE = 'canary-code-91cd';

const cleanUps: (() => unknown)[] = [];
export function afterwards(cleanUp: () => unknown): void {
  cleanUps.push(cleanUp);
}
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

export interface Scene {
  readonly clock: ManualClock;
  readonly redirectUri: string;
  readonly port: number;
  /** What the browser was asked to open. */
  readonly opened: URL[];
  /** The authorization URL as a client makes it. */
  readonly authorization: URL;
  /** The address to which an authorization server sends the browser. */
  callback(code?: string, state?: string): string;
  onRedirect(url: URL): Promise<URL>;
  close(): Promise<void>;
}

export async function scene(options: LoopbackOptions = {}): Promise<Scene> {
  const clock = manualClock();
  const opened: URL[] = [];
  const helper = await loopbackRedirect({ clock, open: (url) => void opened.push(url), ...options });
  afterwards(() => helper.close());
  const { redirectUri } = helper;
  const authorization = new URL('https://as.example/authorize?response_type=code&client_id=app');
  authorization.searchParams.set('redirect_uri', redirectUri);
  authorization.searchParams.set('state', STATE);
  return {
    clock,
    opened,
    authorization,
    port: Number(new URL(redirectUri).port),
    callback: (code = CODE, state = STATE) => `${redirectUri}?code=${code}&state=${state}`,
    ...helper,
  };
}

/** A connection of one's own, with all that came back on it. */
export interface Peer {
  readonly socket: Socket;
  readonly received: () => string;
  readonly isClosed: () => boolean;
  readonly closed: Promise<string>;
}

export function peer(port: number): Peer {
  const socket = connect({ host: '127.0.0.1', port });
  let text = '';
  let isClosed = false;
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1');
  });
  // A reset is one of the ways to be refused.
  socket.on('error', () => {});
  const closed = new Promise<string>((resolve) => {
    socket.once('close', () => {
      isClosed = true;
      resolve(text);
    });
  });
  afterwards(() => socket.destroy());
  return { socket, received: () => text, isClosed: () => isClosed, closed };
}

/** Sends exactly this and gives back all that the other side wrote until it closed. */
export async function exchange(port: number, text: string): Promise<string> {
  const { socket, closed } = peer(port);
  await once(socket, 'connect');
  socket.write(text);
  return closed;
}

export function get(port: number, target: string, host = `127.0.0.1:${port}`): Promise<string> {
  return exchange(port, `GET ${target} HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
}

export const statusOf = (answer: string) => Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1]);
export const bodyOf = (answer: string) => answer.slice(answer.indexOf('\r\n\r\n') + 4);

/** Whether somebody listens there. */
export async function isListening(port: number): Promise<boolean> {
  const socket = connect({ host: '127.0.0.1', port });
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

/** Servers that keep this process alive, once what is closed already is out of the event loop. */
export async function heldServers(): Promise<number> {
  for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
  return process.getActiveResourcesInfo().filter((name) => name === 'TCPServerWrap').length;
}

/** The error a promise is rejected with; fails where it is not. */
export async function errorOf(promise: Promise<unknown>): Promise<Error & Record<string, unknown>> {
  return promise.then(
    () => {
      throw new Error('It did not fail.');
    },
    (error) => error,
  );
}
