/**
 * The way to the server, as far as it can be seen without a credential.
 *
 * Guarantees that nothing secret travels here: the requests carry no credential and none of the app's headers,
 * and no redirect is followed. Never opens a session.
 */
import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { untilAborted } from '../../clock.js';
import { parseChallenges } from '../../connection/challenge.js';
import { codeOf } from '../../errors.js';
import {
  type ExchangeFailure,
  type HttpClient,
  type HttpRequest,
  header,
  headerValues,
  type ResponseHead,
} from '../../http/exchange.js';
import { FetchClient } from '../../http/fetch-client.js';
import { UndiciClient } from '../../http/undici-client.js';
import { EXIT, tlsCodeOf } from '../exit-codes.js';
import { proxyFor } from './proxy.js';
import { shown, span } from './report.js';
import type { Stage } from './stage.js';
import { lookAtTls } from './tls.js';
import { networkWords, tlsWords } from './words.js';

/** Heads of answers to requests without a credential: what they say of a limit is the strangers' limit. */
export interface WayHeads {
  readonly strangers: readonly ResponseHead[];
}

const HEAD_MS = 15_000;
const DAY_MS = 24 * 3_600_000;
/** Time enough to renew by hand, for somebody who is told on a Friday. */
const CERTIFICATE_DAYS = 14;
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const FOLLOWED: ReadonlySet<number> = new Set([307, 308]);

/** Throws a `DoctorFailure` where there is no way. */
export async function lookAtWay(stage: Stage): Promise<WayHeads> {
  const { aim, env, report } = stage;
  const { proxy, reason } = proxyFor(aim.url, aim.http.proxy, env);
  report.note('way', { proxy: proxy?.origin ?? null, proxyReason: reason });
  await lookUp(stage, proxy);
  report.add({
    section: 'way',
    name: 'proxy',
    level: 'ok',
    measured: proxy === undefined ? `none: ${reason}` : `${proxy.origin}, ${reason}`,
  });
  if (aim.url.protocol === 'https:' && aim.http.fetch === undefined) await lookAtCertificate(stage, proxy);
  else report.note('way', { tls: null });
  return await askAsStranger(stage);
}

async function lookUp({ aim, clock, report, signal }: Stage, proxy: URL | undefined): Promise<void> {
  const host = aim.url.hostname.replace(/^\[|\]$/g, '');
  if (isIP(host) !== 0) {
    report.note('way', { addresses: [host], lookupMs: 0 });
    report.add({ section: 'way', name: 'address', level: 'ok', measured: `${host}, given as a number` });
    return;
  }
  const startedMs = clock.monotonic();
  try {
    const found = await untilAborted(lookup(host, { all: true }), signal);
    const addresses = found.map(({ address }) => address);
    const lookupMs = clock.monotonic() - startedMs;
    report.note('way', { addresses, lookupMs: Math.round(lookupMs) });
    const measured = `${addresses.join(', ')} (DNS, ${span(lookupMs)})`;
    report.add({ section: 'way', name: 'address', level: 'ok', measured });
  } catch (error) {
    signal.throwIfAborted();
    report.note('way', { addresses: [], lookupMs: null });
    const measured = `${shown(host)}: ${networkWords(codeOf(error))}`;
    // The proxy looks the name up itself.
    if (proxy !== undefined) {
      report.add({
        section: 'way',
        name: 'address',
        level: 'note',
        measured: `${measured}; the proxy may know it`,
      });
      return;
    }
    throw report.fail(EXIT.unreachable, {
      section: 'way',
      name: 'address',
      measured: `the host cannot be reached: ${measured}`,
      set: 'the right host in the address, or the DNS of this environment',
    });
  }
}

async function lookAtCertificate(
  { aim, clock, report, signal }: Stage,
  proxy: URL | undefined,
): Promise<void> {
  const { tls, connectTimeoutMs: timeoutMs } = aim.http;
  const look = await lookAtTls({ url: aim.url, tls, proxy, timeoutMs, clock, signal });
  const at = { section: 'way', name: 'TLS' } as const;
  if (look.kind === 'unreachable') {
    report.note('way', { tls: null });
    const what = proxy === undefined ? 'the host' : `the proxy ${proxy.origin}`;
    throw report.fail(EXIT.unreachable, {
      ...at,
      name: 'connection',
      measured: `${what} cannot be reached: ${networkWords(look.code)}`,
      set:
        proxy === undefined
          ? 'the right address, or open the way in the firewall'
          : 'HTTPS_PROXY, or http.proxy',
    });
  }
  if (look.kind === 'proxy-refuses') {
    report.note('way', { tls: null });
    throw report.fail(EXIT.unreachable, {
      ...at,
      name: 'connection',
      measured: `the proxy ${proxy?.origin} does not lead there (status ${look.status})`,
      set: 'NO_PROXY for this host, the rules of the proxy, or http.proxy',
    });
  }
  if (look.kind === 'no-tls') {
    report.note('way', { tls: { trusted: false, failure: look.code ?? null } });
    throw report.fail(EXIT.tls, { ...at, measured: `TLS fails: ${tlsWords(look.code)}` });
  }
  const { protocol, failure, expiresAtMs } = look;
  const issuer = shown(look.issuer);
  const daysLeft = Math.floor((expiresAtMs - clock.now()) / DAY_MS);
  const subject = shown(look.subject);
  report.note('way', {
    tls: {
      protocol,
      issuer,
      subject,
      expiresAtMs,
      daysLeft,
      trusted: failure === undefined,
      failure: failure ?? null,
    },
  });
  const measured = `${protocol}, issued by ${issuer}, ${daysLeft} days left`;
  if (failure !== undefined) {
    throw report.fail(EXIT.tls, {
      ...at,
      measured: `the certificate is not trusted: ${tlsWords(failure)}; ${measured}`,
      meaning: 'no request is sent there',
      set: "for a company's own authority: http.tls.ca, or NODE_EXTRA_CA_CERTS in the environment",
    });
  }
  if (daysLeft >= CERTIFICATE_DAYS) {
    report.add({ ...at, level: 'ok', measured });
    return;
  }
  report.add({
    ...at,
    level: 'finding',
    measured,
    meaning: `in ${daysLeft} days every call fails, unless the server's certificate is renewed`,
    set: 'nothing here: tell whoever runs the server',
  });
}

interface Reply {
  readonly head?: ResponseHead;
  readonly failure?: ExchangeFailure;
}

async function askAsStranger(stage: Stage): Promise<WayHeads> {
  const { aim, report, signal, progress } = stage;
  const { url, http } = aim;
  const client: HttpClient =
    http.fetch === undefined ? new UndiciClient(http) : new FetchClient(http.fetch, http);
  const ping = JSON.stringify({ jsonrpc: '2.0', id: 'holdfast-doctor', method: 'ping' });
  const accept = 'application/json, text/event-stream';
  try {
    progress.step('asking without a credential');
    const get = await headOf(client, { method: 'GET', url, headers: { accept: 'text/event-stream' } }, stage);
    signal.throwIfAborted();
    const headers = { accept, 'content-type': 'application/json' };
    const post = await headOf(client, { method: 'POST', url, headers, body: ping }, stage);
    signal.throwIfAborted();
    const reached = post.head ?? get.head;
    if (reached === undefined) throw unreachable(stage, post.failure);
    report.note('way', { get: factsOf(stage, get), post: factsOf(stage, post) });
    tellOfAnswers(stage, get, post, reached);
    tellOfRedirect(stage, [get, post]);
    return { strangers: [get.head, post.head].filter((head) => head !== undefined) };
  } finally {
    await client.close();
  }
}

function unreachable({ report }: Stage, failure: ExchangeFailure | undefined): Error {
  const code = failure?.code;
  const tlsCode = tlsCodeOf({ cause: { code } });
  if (tlsCode !== undefined) {
    return report.fail(EXIT.tls, {
      section: 'way',
      name: 'TLS',
      measured: `TLS fails: ${tlsWords(tlsCode)}`,
    });
  }
  const why =
    failure?.kind === 'aborted' ? 'it does not answer in time' : (failure?.reason ?? networkWords(code));
  return report.fail(EXIT.unreachable, {
    section: 'way',
    name: 'connection',
    measured: `the host cannot be reached: ${why}`,
    set: 'the right address and port, or open the way in the firewall',
  });
}

function tellOfAnswers({ report, line }: Stage, get: Reply, post: Reply, reached: ResponseHead): void {
  const server = header(reached, 'server');
  const challenge = post.head === undefined ? [] : schemesOf(post.head);
  const asked = challenge.length === 0 ? '' : `, asks for ${challenge.join(', ')}`;
  const measured = `GET ${statusOf(get)}, POST ${statusOf(post)}${asked}${server === undefined ? '' : `; server: ${shown(line.redactor.text(server))}`}`;
  const status = post.head?.status ?? 0;
  const isBare = (status === 401 || status === 403) && challenge.length === 0;
  report.add({
    section: 'way',
    name: 'no credential',
    level: isBare ? 'note' : 'ok',
    measured,
    ...(isBare && {
      meaning:
        'the refusal names no challenge (WWW-Authenticate), so that nobody can tell whether a call ran before it: a call that meets the end of its token is renewed for, but not sent again',
      set: 'retry.safeTools for tools that may run twice',
    }),
  });
}

function tellOfRedirect({ aim, report, line }: Stage, replies: readonly Reply[]): void {
  for (const { head } of replies) {
    const target = head === undefined ? undefined : redirectOf(head, aim.url);
    if (head === undefined || target === undefined) continue;
    const isHere = target.origin === aim.url.origin;
    const isFollowed = isHere && FOLLOWED.has(head.status);
    report.add({
      section: 'way',
      name: 'redirect',
      level: isFollowed ? 'note' : 'finding',
      measured: `${head.status} to ${isHere ? 'another path of this origin' : shown(line.redactor.text(target.origin))}`,
      meaning: isFollowed
        ? 'each call costs two requests'
        : isHere
          ? 'not followed: such a redirect may lose the message'
          : 'a client that follows it sends the credential there; this library does not',
      set: 'the final address as url, if that is where the credential belongs',
    });
    return;
  }
}

function redirectOf(head: ResponseHead, url: URL): URL | undefined {
  const location = header(head, 'location');
  if (location === undefined || !REDIRECTS.has(head.status)) return undefined;
  return URL.canParse(location, url.href) ? new URL(location, url) : undefined;
}

function schemesOf(head: ResponseHead): string[] {
  return [
    ...new Set(
      parseChallenges(headerValues(head, 'www-authenticate')).map(({ scheme }) => shown(scheme, 20)),
    ),
  ];
}

function statusOf({ head, failure }: Reply): string {
  return head === undefined ? `no answer (${networkWords(failure?.code)})` : String(head.status);
}

function factsOf({ aim, line }: Stage, { head }: Reply): Record<string, unknown> | null {
  if (head === undefined) return null;
  const text = (name: string) => {
    const value = header(head, name);
    return value === undefined ? null : shown(line.redactor.text(value));
  };
  return {
    status: head.status,
    server: text('server'),
    contentType: text('content-type'),
    challenges: schemesOf(head),
    redirectOrigin: redirectOf(head, aim.url)?.origin ?? null,
  };
}

/** Only the head: what is behind it may never end. */
function headOf(client: HttpClient, request: HttpRequest, { clock, signal }: Stage): Promise<Reply> {
  return new Promise((resolve) => {
    const settle = (reply: Reply) => {
      timer.clear();
      signal.removeEventListener('abort', abort);
      resolve(reply);
    };
    const handle = client.exchange(request, {
      head: (head) => {
        settle({ head });
        handle.abort();
      },
      data: () => {},
      end: () => {},
      fail: (failure) => settle({ failure }),
    });
    const abort = () => handle.abort();
    const timer = clock.setTimeout(abort, HEAD_MS);
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort, { once: true });
  });
}
