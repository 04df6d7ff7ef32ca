/** Helpers of the discovery tests: sites that record what they are asked, and a name server of the test's own. */
import http, { type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import https from 'node:https';
import { onTestFinished, vi } from 'vitest';
import { AddressGuard, type LookupAll } from '../../../../src/credentials/discovery/address-guard.js';
import {
  type ProtectedResourceOptions,
  readProtectedResource,
} from '../../../../src/credentials/discovery/resource-metadata.js';
import { type MetadataOptions, metadataOf } from '../../../../src/credentials/metadata.js';
import { TokenHttp } from '../../../../src/credentials/token-fetch.js';
import type { HttpFetch } from '../../../../src/http/exchange.js';
import { type ManualClock, manualClock } from '../../../../src/testing/manual-clock.js';
import { type Certificate, listen } from '../../http/support.js';

export interface Page {
  status?: number;
  headers?: Record<string, string>;
  body?: unknown;
  /** Instead of all else. */
  answer?: (response: ServerResponse) => void;
}

export interface Site {
  readonly origin: string;
  readonly port: number;
  readonly pages: Map<string, Page>;
  readonly requests: { method: string; path: string; headers: IncomingHttpHeaders }[];
  readonly paths: string[];
  /** TCP connections, also those on which nothing was asked. */
  connections: number;
}

export async function startSite(certificate?: Certificate): Promise<Site> {
  const pages = new Map<string, Page>();
  const requests: Site['requests'] = [];
  const answer: http.RequestListener = (request, response) => {
    const { method = '', url = '', headers } = request;
    requests.push({ method, path: url, headers });
    const page = pages.get(url) ?? { status: 404 };
    if (page.answer !== undefined) {
      page.answer(response);
      return;
    }
    const isText = typeof page.body === 'string';
    response.writeHead(page.status ?? 200, {
      'content-type': isText ? 'text/html' : 'application/json',
      ...page.headers,
    });
    response.end(isText ? page.body : JSON.stringify(page.body ?? {}));
  };
  const server =
    certificate === undefined ? http.createServer(answer) : https.createServer({ ...certificate }, answer);
  const port = await listen(server);
  const site: Site = {
    origin: `${certificate === undefined ? 'http' : 'https'}://127.0.0.1:${port}`,
    port,
    pages,
    requests,
    get paths() {
      return requests.map(({ path }) => path);
    },
    connections: 0,
  };
  server.on('connection', () => {
    site.connections += 1;
  });
  return site;
}

/** Answers by name: each list is one answer, the last one stays. Every question is noted. */
export function nameServer(answers: Record<string, string[][]>): LookupAll & { readonly asked: string[] } {
  const asked: string[] = [];
  const lookup: LookupAll = (hostname, _options, callback) => {
    const of = answers[hostname];
    const found = (of !== undefined && of.length > 1 ? of.shift() : of?.[0]) ?? [];
    const nth = asked.push(hostname);
    queueMicrotask(() => {
      if (of === undefined) callback(Object.assign(new Error(`no name ${nth}`), { code: 'ENOTFOUND' }), []);
      else
        callback(
          null,
          found.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
        );
    });
  };
  return Object.assign(lookup, { asked });
}

export interface Discovery {
  readonly clock: ManualClock;
  readonly http: TokenHttp;
  readonly guard: AddressGuard;
  resource(options?: Partial<ProtectedResourceOptions>): ReturnType<typeof readProtectedResource>;
  metadata(issuer: string, options?: Partial<MetadataOptions>): ReturnType<typeof metadataOf>;
}

/** What discovery for the server at `target` is made of; closed when the test ends. */
export function discoveryFor(
  target: string | URL,
  { lookup, fetch }: { lookup?: LookupAll; fetch?: HttpFetch } = {},
): Discovery {
  const url = new URL(target);
  const clock = manualClock();
  const guard = new AddressGuard(url, { lookup });
  const http = new TokenHttp(clock, fetch, guard);
  onTestFinished(() => http.close());
  const common = { http, clock, timeoutMs: 5_000 };
  return {
    clock,
    http,
    guard,
    resource: (options) => readProtectedResource({ target: url, ...common, ...options }),
    metadata: (issuer, options) =>
      metadataOf({ issuer, tokenEndpoint: undefined, exact: true, ...common, ...options }),
  };
}

export function noProxies(): void {
  for (const name of ['http_proxy', 'https_proxy', 'no_proxy', 'all_proxy']) {
    vi.stubEnv(name, undefined);
    vi.stubEnv(name.toUpperCase(), undefined);
  }
}
