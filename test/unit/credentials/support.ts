/** Helpers of the credential tests: a rotating token endpoint that counts, a scripted grant, a clock with skew. */
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { inspect } from 'node:util';
import type { Clock } from '../../../src/clock.js';
import type { Grant } from '../../../src/credentials/grant.js';
import { resolveRefreshPolicy } from '../../../src/credentials/options.js';
import type { CredentialStore, RefreshPolicy } from '../../../src/credentials/provider.js';
import { Refresher } from '../../../src/credentials/refresher.js';
import { Secret } from '../../../src/credentials/secret.js';
import type { Seed } from '../../../src/credentials/seed.js';
import type { TokenOutcome, TokenRequest } from '../../../src/credentials/token-endpoint.js';
import { HostedMcpError } from '../../../src/errors.js';
import { type ManualClock, manualClock } from '../../../src/testing/manual-clock.js';

export const TARGET = new URL('https://mcp.example/mcp');

export interface Reply {
  status?: number;
  headers?: Record<string, string>;
  body?: unknown;
  /** End the connection instead of answering. */
  cut?: boolean;
  /** Never answer. */
  silence?: boolean;
}

export interface SeenRequest {
  form: URLSearchParams;
  headers: IncomingMessage['headers'];
}

/** A strict rotating authorization server on loopback: reuse of a spent refresh token ends the family. */
export class TokenServer {
  readonly requests: SeenRequest[] = [];
  readonly paths: string[] = [];
  /** Replies for the next requests, first in, first out; `undefined` entries mean the ordinary answer. */
  readonly script: (Reply | undefined)[] = [];
  /** Replies by path for anything that is not the token endpoint. */
  readonly pages = new Map<string, Reply>();
  expiresIn: unknown = 3600;
  delayTurns = 0;
  reuses = 0;
  #server: Server;
  #issued = 0;
  #current = 'R0';
  #revoked = false;

  private constructor() {
    this.#server = createServer((request, response) => {
      let text = '';
      request.on('data', (chunk) => {
        text += chunk;
      });
      request.on('end', () => {
        const path = request.url ?? '';
        this.paths.push(path);
        const reply =
          path === '/token' ? this.#token(text, request) : (this.pages.get(path) ?? { status: 404 });
        if (reply.silence) return;
        if (reply.cut) {
          request.socket.destroy();
          return;
        }
        const send = (turns: number): void => {
          if (turns > 0) {
            setImmediate(send, turns - 1);
            return;
          }
          const isText = typeof reply.body === 'string';
          response.writeHead(reply.status ?? 200, {
            'content-type': isText ? 'text/html' : 'application/json',
            ...reply.headers,
          });
          response.end(isText ? (reply.body as string) : JSON.stringify(reply.body ?? {}));
        };
        send(this.delayTurns);
      });
    });
  }

  static async start(): Promise<TokenServer> {
    const server = new TokenServer();
    await new Promise<void>((resolve) => server.#server.listen(0, '127.0.0.1', resolve));
    return server;
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get tokenEndpoint(): string {
    return `${this.origin}/token`;
  }

  get count(): number {
    return this.requests.length;
  }

  #token(text: string, request: IncomingMessage): Reply {
    const form = new URLSearchParams(text);
    this.requests.push({ form, headers: request.headers });
    const scripted = this.script.shift();
    if (scripted !== undefined) return scripted;
    this.#issued += 1;
    const body: Record<string, unknown> = {
      access_token: `A${this.#issued}`,
      token_type: 'Bearer',
      expires_in: this.expiresIn,
    };
    if (form.get('grant_type') === 'refresh_token') {
      if (this.#revoked || form.get('refresh_token') !== this.#current) {
        this.reuses += 1;
        this.#revoked = true;
        return { status: 400, body: { error: 'invalid_grant', error_description: 'reuse' } };
      }
      this.#current = `R${this.#issued}`;
      body.refresh_token = this.#current;
    }
    return { body };
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/** A manual clock whose wall clock can be set apart from the monotonic one. */
export function skewedClock(): ManualClock & { skewMs: number } {
  const manual = manualClock();
  return Object.assign(Object.create(manual) as ManualClock, {
    skewMs: 0,
    now(this: { skewMs: number }) {
      return manual.now() + this.skewMs;
    },
    random: () => 0.5,
    setTimeout: manual.setTimeout.bind(manual),
  });
}

export function token(
  accessToken: string,
  lifetimeMs: number | undefined = 600_000,
  more: { refreshToken?: string; scope?: string } = {},
): TokenOutcome {
  return {
    kind: 'token',
    accessToken: new Secret(accessToken),
    expiresInMs: lifetimeMs,
    refreshToken: more.refreshToken === undefined ? undefined : new Secret(more.refreshToken),
    scope: more.scope,
  };
}

export function unavailable(o: { inDoubt?: boolean; retryAfterMs?: number } = {}): TokenOutcome {
  return {
    kind: 'unavailable',
    inDoubt: o.inDoubt ?? false,
    retryAfterMs: o.retryAfterMs,
    problem: {
      code: 'ERR_TOKEN_ENDPOINT',
      what: 'The token endpoint is down',
      fields: { status: 503, retryable: true },
    },
  };
}

export function refused(oauthError: string): TokenOutcome {
  return {
    kind: 'refused',
    oauthError,
    problem: { code: 'ERR_CREDENTIAL_REJECTED', what: `Refused with ${oauthError}`, fields: { status: 400 } },
  };
}

/** A grant that answers from a script, and then with ever new tokens; requests can be held open. */
export class ScriptedGrant implements Grant {
  readonly requests: TokenRequest[] = [];
  readonly script: (TokenOutcome | (() => TokenOutcome | Promise<TokenOutcome>))[] = [];
  lifetimeMs: number | undefined = 600_000;
  hold: Promise<void> | undefined;
  #issued = 0;

  constructor(readonly spendsRefreshToken: boolean) {}

  async prepare(): Promise<void> {}

  async request(request: TokenRequest): Promise<TokenOutcome> {
    if (request.mayLeave?.() === false) return { kind: 'held-back' };
    this.requests.push(request);
    const next = this.script.shift();
    const hold = this.hold;
    if (hold !== undefined) await hold;
    if (typeof next === 'function') return await next();
    if (next !== undefined) return next;
    this.#issued += 1;
    const refreshToken = this.spendsRefreshToken ? `R${this.#issued}` : undefined;
    return token(`A${this.#issued}`, this.lifetimeMs, refreshToken === undefined ? {} : { refreshToken });
  }

  async close(): Promise<void> {}
}

export function makeRefresher(
  grant: Grant,
  clock: Clock,
  o: {
    refresh?: RefreshPolicy;
    store?: CredentialStore;
    seed?: Seed;
    scope?: string;
    resource?: string;
  } = {},
): Refresher {
  return new Refresher({
    id: 'test-credential',
    grant,
    clock,
    policy: resolveRefreshPolicy(o.refresh),
    store: o.store,
    seed: o.seed ?? (grant.spendsRefreshToken ? { refreshToken: new Secret('R0') } : undefined),
    scope: o.scope,
    resource: o.resource,
  });
}

/** The value a credential sends. */
export async function bearerOf(credential: {
  headers(r: { method: string; url: URL }): Record<string, string> | Promise<Record<string, string>>;
}): Promise<string | undefined> {
  return (await credential.headers({ method: 'POST', url: TARGET })).authorization;
}

export async function errorOf(promise: Promise<unknown>): Promise<HostedMcpError> {
  try {
    await promise;
  } catch (error) {
    if (HostedMcpError.isInstance(error)) return error;
    throw new Error(`a foreign error came out: ${inspect(error)}`);
  }
  throw new Error('nothing was thrown');
}

/** A promise and its resolver. */
export function gate(): { promise: Promise<void>; open: () => void } {
  let open = () => {};
  const promise = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { promise, open };
}

/** Everything a logger could print of a value. */
export function everythingOf(value: unknown): string {
  const stack = value instanceof Error ? `${value.stack}` : '';
  let json = '';
  try {
    json = JSON.stringify(value) ?? '';
  } catch {
    json = '';
  }
  return `${inspect(value, { depth: Number.POSITIVE_INFINITY, showHidden: true, getters: true })}\n${json}\n${stack}\n${String(value)}`;
}
