/**
 * The certificate that stands at the end of the way, and why it is not trusted where it is not.
 *
 * Guarantees the exact reason, which a failed request hides, and the days that are left. Never sends a byte
 * of a request on the socket: what is not trusted is only looked at.
 */
import type { EventEmitter } from 'node:events';
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { isIP, type Socket } from 'node:net';
import { connect, type PeerCertificate, type TLSSocket } from 'node:tls';
import type { Clock } from '../../clock.js';
import { codeOf } from '../../errors.js';
import type { HttpTlsOptions } from '../../http/options.js';

export type TlsLook =
  | {
      readonly kind: 'seen';
      readonly protocol: string;
      readonly issuer: string;
      readonly subject: string;
      readonly expiresAtMs: number;
      /** Why it is not trusted; undefined: it is. */
      readonly failure: string | undefined;
    }
  /** Something answers there, and it does not speak TLS to the end. */
  | { readonly kind: 'no-tls'; readonly code: string | undefined }
  | { readonly kind: 'unreachable'; readonly code: string | undefined }
  | { readonly kind: 'proxy-refuses'; readonly status: number };

export interface TlsQuestion {
  readonly url: URL;
  readonly tls: Readonly<HttpTlsOptions> | undefined;
  /** The proxy that leads there. */
  readonly proxy: URL | undefined;
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

export async function lookAtTls(question: TlsQuestion): Promise<TlsLook> {
  const { url, tls = {}, proxy, signal } = question;
  signal.throwIfAborted();
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const port = url.port === '' ? 443 : Number(url.port);
  let tunnel: Socket | undefined;
  if (proxy !== undefined) {
    const led = await tunnelThrough(proxy, `${url.hostname}:${port}`, question);
    if (led.socket === undefined) return led.look;
    tunnel = led.socket;
  }
  let reached = tunnel !== undefined;
  const servername = tls.servername ?? (isIP(host) === 0 ? host : undefined);
  const socket = connect({
    host,
    port,
    ...(tunnel !== undefined && { socket: tunnel }),
    ...(servername !== undefined && { servername }),
    ...(tls.ca !== undefined && { ca: tls.ca as string[] }),
    ...(tls.cert !== undefined && { cert: tls.cert as string, key: tls.key as string }),
    // Looked at all the same, so that the reason can be told; nothing is sent on it.
    rejectUnauthorized: false,
  });
  socket.once('connect', () => {
    reached = true;
  });
  try {
    await settled(socket, 'secureConnect', question);
    return seen(socket);
  } catch (error) {
    signal.throwIfAborted();
    return { kind: reached ? 'no-tls' : 'unreachable', code: codeOf(error) };
  } finally {
    socket.destroy();
    tunnel?.destroy();
  }
}

function seen(socket: TLSSocket): TlsLook {
  const certificate = socket.getPeerCertificate();
  const failure: unknown = socket.authorizationError;
  return {
    kind: 'seen',
    protocol: socket.getProtocol() ?? 'unknown',
    issuer: nameOf(certificate.issuer),
    subject: nameOf(certificate.subject),
    expiresAtMs: Date.parse(certificate.valid_to),
    failure: socket.authorized ? undefined : reasonOf(failure),
  };
}

/** node:tls gives a code as text, or an error. */
function reasonOf(failure: unknown): string {
  const code = typeof failure === 'string' ? failure : codeOf(failure);
  return code !== undefined && /^[A-Z0-9_]{1,60}$/.test(code) ? code : 'UNVERIFIED';
}

function nameOf(name: PeerCertificate['issuer'] | undefined): string {
  const first = (value: string | string[] | undefined) => (Array.isArray(value) ? value[0] : value);
  return first(name?.O) ?? first(name?.CN) ?? 'nobody named';
}

async function tunnelThrough(
  proxy: URL,
  authority: string,
  question: TlsQuestion,
): Promise<{ socket: Socket } | { socket?: undefined; look: TlsLook }> {
  const { username, password } = proxy;
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  const authorization = `Basic ${Buffer.from(pair).toString('base64')}`;
  const send = proxy.protocol === 'https:' ? httpsRequest : httpRequest;
  const request = send({
    host: proxy.hostname.replace(/^\[|\]$/g, ''),
    port: proxy.port === '' ? (proxy.protocol === 'https:' ? 443 : 80) : Number(proxy.port),
    method: 'CONNECT',
    path: authority,
    headers: { host: authority, ...(username !== '' && { 'proxy-authorization': authorization }) },
  });
  let status = 0;
  let socket: Socket | undefined;
  request.once('connect', (response, led: Socket) => {
    status = response.statusCode ?? 0;
    socket = led;
  });
  request.end();
  try {
    await settled(request, 'connect', question);
  } catch (error) {
    question.signal.throwIfAborted();
    request.destroy();
    return { look: { kind: 'unreachable', code: codeOf(error) } };
  }
  if (socket !== undefined && status >= 200 && status < 300) return { socket };
  request.destroy();
  socket?.destroy();
  return { look: { kind: 'proxy-refuses', status } };
}

/** Waits for one event; rejects on `error` or an early end, when the time is up, or with the signal's reason. */
function settled(
  what: EventEmitter,
  event: string,
  { clock, timeoutMs, signal }: TlsQuestion,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      timer?.clear();
      what.off('error', onError);
      what.off('close', onClose);
      signal.removeEventListener('abort', onAbort);
      // What comes later harms nobody.
      what.once('error', () => {});
    };
    const onError = (error: Error) => {
      stop();
      reject(error);
    };
    const onClose = () => onError(Object.assign(new Error('ended early'), { code: 'ECONNRESET' }));
    const onAbort = () => onError(signal.reason);
    const timer =
      timeoutMs === 0
        ? undefined
        : clock.setTimeout(
            () => onError(Object.assign(new Error('too late'), { code: 'ETIMEDOUT' })),
            timeoutMs,
          );
    what.once('error', onError);
    what.once('close', onClose);
    what.once(event, () => {
      stop();
      resolve();
    });
    signal.addEventListener('abort', onAbort, { once: true });
  });
}
