/**
 * An authorization server and an MCP server that asks for its tokens, on loopback, with switches; and a user with a
 * browser.
 *
 * Guarantees that every request is kept as it arrived, so that a test judges by what a server was asked and what it was
 * sent. The authorization server is strict: a code is good once and with its proof only, a spent refresh token ends the
 * authorization, a registered client proves itself as it was registered.
 */
import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach } from 'vitest';
import {
  type AuthorizationCodeOptions,
  type AuthorizationCodeProvider,
  authorizationCodeGrant,
  type CredentialEvent,
  type CredentialProvider,
  type Rejection,
} from '../../../../src/credentials/index.js';
import { type ManualClock, manualClock } from '../../../../src/testing/manual-clock.js';

export const REDIRECT_URI = 'http://127.0.0.1:4711/callback';

const open: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

/** Closed, in reverse order, after the test. */
export function closeLater(close: () => Promise<unknown>): void {
  open.push(close);
}

export interface Seen {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
}

export interface Reply {
  status?: number;
  headers?: Record<string, string>;
  body?: unknown;
}

/** A loopback server that keeps what it was asked. */
abstract class Recorder {
  readonly requests: Seen[] = [];
  readonly #server: Server;

  constructor() {
    this.#server = createServer((request, response) => {
      let text = '';
      request.on('data', (chunk) => {
        text += chunk;
      });
      request.on('end', () => void this.#answer(request, response, text));
    });
  }

  async #answer(request: IncomingMessage, response: ServerResponse, text: string): Promise<void> {
    const url = new URL(request.url ?? '/', this.origin);
    const seen = {
      method: request.method ?? '',
      path: url.pathname,
      query: url.searchParams,
      headers: request.headers,
      text,
    };
    this.requests.push(seen);
    const { status = 200, headers = {}, body } = await this.reply(seen);
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body));
  }

  protected abstract reply(seen: Seen): Reply | Promise<Reply>;

  async listen(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    closeLater(() => this.close());
    return this;
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  count(path: string): number {
    return this.requests.filter((seen) => seen.path === path).length;
  }

  /** Everything that arrived, for a look at what did not. */
  get everything(): string {
    return this.requests
      .map(({ method, path, query, headers, text }) => {
        const basic = /^Basic (.+)$/.exec(headers.authorization ?? '')?.[1] ?? '';
        const pair = decodeURIComponent(Buffer.from(basic, 'base64').toString());
        return `${method} ${path} ${query} ${JSON.stringify(headers)} ${pair} ${decodeURIComponent(text)}`;
      })
      .join('\n');
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

interface Code {
  readonly clientId: string;
  readonly redirectUri: string;
  readonly challenge: string;
  readonly resource: string | undefined;
  readonly scope: string | undefined;
  isUsed: boolean;
}

export interface KnownClient {
  redirectUris: string[];
  secret?: string;
}

export class AuthorizationServer extends Recorder {
  /** Over the ordinary metadata; `undefined` takes a member away. */
  metadata: Record<string, unknown> = {};
  /** No metadata document at all. */
  isSilent = false;
  /** `iss` of the callback: as the metadata say, never, or another one. */
  iss: 'own' | 'none' | string = 'own';
  /** What the user answers: consents, or the error of a refusal. */
  answer: 'consent' | string = 'consent';
  expiresIn: number | undefined = 3600;
  givesRefreshTokens = true;
  /** What is granted of the scope asked for. */
  grant: (scope: string | undefined) => string | undefined = (scope) => scope;
  /** `client_secret_expires_at` of a registration, and what else its answer has. */
  registration: Record<string, unknown> = {};
  /** Replies for the next token requests, first in, first out. */
  readonly script: Reply[] = [];
  readonly clients = new Map<string, KnownClient>();
  readonly tokens = new Map<string, { scope: string | undefined; resource: string | undefined }>();
  readonly name: string;
  readonly #codes = new Map<string, Code>();
  /** Live refresh tokens and what they are good for. */
  readonly #refresh = new Map<string, { scope: string | undefined; resource: string | undefined }>();
  #issued = 0;

  constructor(name: string) {
    super();
    this.name = name;
  }

  get issuer(): string {
    return this.origin;
  }

  get counts() {
    return {
      authorize: this.count('/authorize'),
      token: this.count('/token'),
      register: this.count('/register'),
      metadata: this.requests.filter(({ path }) => path.startsWith('/.well-known/')).length,
    };
  }

  get forms(): URLSearchParams[] {
    return this.requests.filter(({ path }) => path === '/token').map(({ text }) => new URLSearchParams(text));
  }

  get registrations(): Record<string, unknown>[] {
    return this.requests.filter(({ path }) => path === '/register').map(({ text }) => JSON.parse(text));
  }

  /** A refresh token as from an earlier consent. */
  issueRefreshToken(scope?: string): string {
    this.#issued += 1;
    const value = `${this.name}-refresh-${this.#issued}`;
    this.#refresh.set(value, { scope, resource: undefined });
    return value;
  }

  revokeRefreshTokens(): void {
    this.#refresh.clear();
  }

  /** What a browser does with an authorization address, up to the address it is sent back to. */
  async browse(url: URL | string): Promise<URL> {
    const response = await fetch(url, { redirect: 'manual' });
    await response.arrayBuffer();
    const location = response.headers.get('location');
    if (location === null) throw new Error(`no way back: ${response.status}`);
    return new URL(location);
  }

  protected reply(seen: Seen): Reply {
    switch (seen.path) {
      case '/.well-known/oauth-authorization-server':
        return this.isSilent ? { status: 404 } : { body: this.#document() };
      case '/register':
        return this.#register(seen);
      case '/authorize':
        return this.#authorize(seen);
      case '/token':
        return this.script.shift() ?? this.#token(seen);
      default:
        return { status: 404 };
    }
  }

  #document(): Record<string, unknown> {
    return {
      issuer: this.issuer,
      authorization_endpoint: `${this.origin}/authorize`,
      token_endpoint: `${this.origin}/token`,
      registration_endpoint: `${this.origin}/register`,
      code_challenge_methods_supported: ['S256'],
      token_endpoint_auth_methods_supported: ['none', 'client_secret_basic', 'client_secret_post'],
      authorization_response_iss_parameter_supported: true,
      ...this.metadata,
    };
  }

  #register(seen: Seen): Reply {
    const asked = JSON.parse(seen.text) as Record<string, unknown>;
    const clientId = `${this.name}-client-${this.clients.size + 1}`;
    const isPublic = asked.token_endpoint_auth_method === 'none';
    const secret = isPublic ? undefined : `${this.name}-secret-${this.clients.size + 1}`;
    this.clients.set(clientId, {
      redirectUris: asked.redirect_uris as string[],
      ...(secret !== undefined && { secret }),
    });
    const given = { client_id: clientId, ...(secret !== undefined && { client_secret: secret }) };
    return { status: 201, body: { ...asked, ...given, ...this.registration } };
  }

  #authorize({ query }: Seen): Reply {
    const clientId = query.get('client_id') ?? '';
    const redirectUri = query.get('redirect_uri') ?? '';
    const known = this.clients.get(clientId);
    if (known !== undefined && !known.redirectUris.includes(redirectUri)) return { status: 400 };
    const back = new URL(redirectUri);
    back.searchParams.set('state', query.get('state') ?? '');
    if (this.iss !== 'none') back.searchParams.set('iss', this.iss === 'own' ? this.issuer : this.iss);
    if (this.answer === 'consent') {
      const code = `${this.name}-code-${this.#codes.size + 1}`;
      this.#codes.set(code, {
        clientId,
        redirectUri,
        challenge: query.get('code_challenge') ?? '',
        resource: query.get('resource') ?? undefined,
        scope: query.get('scope') ?? undefined,
        isUsed: false,
      });
      back.searchParams.set('code', code);
    } else {
      back.searchParams.set('error', this.answer);
    }
    return { status: 302, headers: { location: back.href } };
  }

  #token(seen: Seen): Reply {
    const form = new URLSearchParams(seen.text);
    if (!this.#isAuthenticated(form, seen)) return { status: 401, body: { error: 'invalid_client' } };
    const resource = form.get('resource') ?? undefined;
    const isOfMachine = /client_credentials|jwt-bearer|token-exchange/.test(form.get('grant_type') ?? '');
    if (isOfMachine) {
      return this.#issue({ scope: form.get('scope') ?? undefined, resource }, false);
    }
    if (form.get('grant_type') === 'refresh_token') {
      const given = form.get('refresh_token') ?? '';
      const known = this.#refresh.get(given);
      // A spent one in anybody's hands ends the authorization.
      if (known === undefined) this.#refresh.clear();
      if (known === undefined) return { status: 400, body: { error: 'invalid_grant' } };
      this.#refresh.delete(given);
      return this.#issue(known, true);
    }
    const code = this.#codes.get(form.get('code') ?? '');
    const proof = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url');
    const isGood =
      code?.isUsed === false &&
      code.challenge === proof &&
      code.redirectUri === form.get('redirect_uri') &&
      code.resource === resource &&
      code.clientId === this.#clientOf(form, seen);
    if (code === undefined || !isGood) return { status: 400, body: { error: 'invalid_grant' } };
    code.isUsed = true;
    return this.#issue({ scope: code.scope, resource }, this.givesRefreshTokens);
  }

  #issue(good: { scope: string | undefined; resource: string | undefined }, withRefresh: boolean): Reply {
    this.#issued += 1;
    const scope = this.grant(good.scope);
    const access = `${this.name}-token-${this.#issued}`;
    this.tokens.set(access, { scope, resource: good.resource });
    const refresh = withRefresh ? `${this.name}-refresh-${this.#issued}` : undefined;
    if (refresh !== undefined) this.#refresh.set(refresh, { ...good, scope });
    return {
      body: {
        access_token: access,
        issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
        token_type: 'Bearer',
        expires_in: this.expiresIn,
        refresh_token: refresh,
        ...(scope !== undefined && { scope }),
      },
    };
  }

  #clientOf(form: URLSearchParams, { headers }: Seen): string | undefined {
    const basic = /^Basic (.+)$/.exec(headers.authorization ?? '')?.[1];
    const pair = basic === undefined ? undefined : Buffer.from(basic, 'base64').toString().split(':');
    return pair === undefined ? (form.get('client_id') ?? undefined) : decodeURIComponent(pair[0] ?? '');
  }

  #isAuthenticated(form: URLSearchParams, seen: Seen): boolean {
    const secret = this.clients.get(this.#clientOf(form, seen) ?? '')?.secret;
    if (secret === undefined || form.has('client_assertion')) return true;
    const basic = /^Basic (.+)$/.exec(seen.headers.authorization ?? '')?.[1];
    const sent =
      basic === undefined ? form.get('client_secret') : Buffer.from(basic, 'base64').toString().split(':')[1];
    return decodeURIComponent(sent ?? '') === secret;
  }
}

/** An MCP server (2025-11-25, JSON answers, no session) that wants a token of one of `servers`. */
export class ResourceServer extends Recorder {
  servers: AuthorizationServer[];
  /** Over the ordinary protected resource metadata; false: there are none. */
  prm: Record<string, unknown> | false = {};
  /** What the documents at other paths name. */
  readonly named = new Map<string, AuthorizationServer>();
  scopesSupported: string[] | undefined;
  /** `scope` of the challenge to a request without a token. */
  challengedScope: string | undefined;
  /** `resource_metadata` of challenges: where it is, another address, or none. */
  resourceMetadata: 'own' | 'none' | string = 'own';
  /** Which scope a tool needs. */
  readonly needs = new Map<string, string>();
  /** Refuses whatever token comes. */
  refusesAll = false;
  readonly refused = new Set<string>();
  readonly executions: string[] = [];
  /** Tokens that came, without repetition. */
  readonly tokens = new Set<string>();

  constructor(...servers: AuthorizationServer[]) {
    super();
    this.servers = servers;
  }

  get url(): URL {
    return new URL(`${this.origin}/mcp`);
  }

  get metadataCount(): number {
    return this.requests.filter(({ path }) => path.startsWith('/.well-known/')).length;
  }

  calls(method: string): number {
    return this.requests.filter(({ path, text }) => path === '/mcp' && text.includes(`"${method}"`)).length;
  }

  /** From now on the tokens of before are no good. */
  expireTokens(): void {
    for (const token of this.tokens) this.refused.add(token);
  }

  /** The refusal of a token, as the engine tells it. */
  refusal(generation: number, more: Partial<Rejection> = {}): { rejected: Rejection; scope?: string } {
    const { resourceMetadata } = this;
    const at =
      resourceMetadata === 'own'
        ? `${this.origin}/.well-known/oauth-protected-resource/mcp`
        : resourceMetadata;
    const rejected: Rejection = {
      generation,
      status: 401,
      ...(generation > 0 && { challenge: 'invalid_token' }),
      ...(resourceMetadata !== 'none' && { resourceMetadata: at }),
      ...(generation === 0 && this.challengedScope !== undefined && { scope: this.challengedScope }),
      ...more,
    };
    return { rejected, ...(rejected.status === 403 && { scope: rejected.scope as string }) };
  }

  /** The refusal of a token for want of scope. */
  wants(scope: string, generation: number): { rejected: Rejection; scope?: string } {
    return this.refusal(generation, { status: 403, challenge: 'insufficient_scope', scope });
  }

  protected reply(seen: Seen): Reply {
    if (seen.path.startsWith('/.well-known/oauth-protected-resource')) {
      if (this.prm === false) return { status: 404 };
      const named = this.named.get(seen.path);
      const document = {
        resource: this.url.href,
        authorization_servers: (named === undefined ? this.servers : [named]).map(({ issuer }) => issuer),
        ...(this.scopesSupported !== undefined && { scopes_supported: this.scopesSupported }),
        ...this.prm,
      };
      return { body: document };
    }
    if (seen.path !== '/mcp') return { status: 404 };
    const token = /^(?:Bearer|DPoP) (.+)$/.exec(seen.headers.authorization ?? '')?.[1];
    const known =
      token === undefined ? undefined : this.servers.map((each) => each.tokens.get(token)).find(Boolean);
    if (token !== undefined) this.tokens.add(token);
    if (token === undefined || known === undefined || this.refusesAll || this.refused.has(token)) {
      return { status: 401, headers: this.#challenge(token === undefined ? undefined : 'invalid_token') };
    }
    if (seen.method !== 'POST') return { status: 405 };
    return this.#answer(JSON.parse(seen.text), new Set((known.scope ?? '').split(' ')));
  }

  #challenge(error: string | undefined, scope = this.challengedScope): Record<string, string> {
    const { resourceMetadata } = this;
    const at =
      resourceMetadata === 'own'
        ? `${this.origin}/.well-known/oauth-protected-resource/mcp`
        : resourceMetadata;
    const parts = [
      ...(error === undefined ? [] : [`error="${error}"`]),
      ...(resourceMetadata === 'none' ? [] : [`resource_metadata="${at}"`]),
      ...(scope === undefined ? [] : [`scope="${scope}"`]),
    ];
    return { 'www-authenticate': parts.length === 0 ? 'Bearer' : `Bearer ${parts.join(', ')}` };
  }

  #answer(
    message: { id?: unknown; method: string; params?: Record<string, unknown> },
    granted: ReadonlySet<string>,
  ): Reply {
    const result = (value: unknown): Reply => ({ body: { jsonrpc: '2.0', id: message.id, result: value } });
    switch (message.method) {
      case 'initialize':
        return result({
          protocolVersion: '2025-11-25',
          capabilities: { tools: {} },
          serverInfo: { name: 'resource', version: '1' },
        });
      case 'tools/list':
        return result({ tools: [] });
      case 'tools/call': {
        const name = String(message.params?.name);
        const needed = this.needs.get(name);
        if (needed !== undefined && !needed.split(' ').every((each) => granted.has(each))) {
          return { status: 403, headers: this.#challenge('insufficient_scope', needed) };
        }
        this.executions.push(name);
        return result({ content: [{ type: 'text', text: name }] });
      }
      default:
        return message.id === undefined ? { status: 202 } : result({});
    }
  }
}

export interface World {
  readonly clock: ManualClock;
  readonly as: AuthorizationServer;
  /** Another one, which nobody knows yet. */
  readonly other: AuthorizationServer;
  readonly mcp: ResourceServer;
}

export async function startWorld(): Promise<World> {
  const as = await new AuthorizationServer('first').listen();
  const other = await new AuthorizationServer('other').listen();
  const mcp = await new ResourceServer(as).listen();
  return { clock: manualClock(), as, other, mcp };
}

/** The grant on the world's clock; closed after the test. */
export function grantOf(
  { clock }: World,
  options: Partial<AuthorizationCodeOptions> = {},
): AuthorizationCodeProvider {
  const provider = authorizationCodeGrant({
    redirectUri: REDIRECT_URI,
    clock,
    ...options,
  } as AuthorizationCodeOptions);
  closeLater(() => provider.close?.({ drainMs: 0 }) ?? Promise.resolve());
  return provider;
}

/** A user who answers at once, and how often they were asked. */
export function userOf({ as }: World, change: (callback: URL) => URL | string = (callback) => callback) {
  const visits: URL[] = [];
  const onRedirect = async (url: URL) => {
    visits.push(url);
    return change(await as.browse(url));
  };
  return { visits, onRedirect };
}

/** What `work` comes to, on a clock that goes on until it does. */
export async function withTime<T>({ clock }: Pick<World, 'clock'>, work: Promise<T>): Promise<T> {
  let isDone = false;
  const end = () => {
    isDone = true;
  };
  work.then(end, end);
  while (!isDone) await clock.advance(50);
  return await work;
}

export function eventsOf(provider: CredentialProvider): CredentialEvent[] {
  const events: CredentialEvent[] = [];
  provider.onEvent?.((event) => events.push(event));
  return events;
}

/** What a credential sends to `url`. */
export async function sentTo(
  url: URL,
  credential: {
    headers(request: { method: string; url: URL }): Record<string, string> | Promise<Record<string, string>>;
  },
): Promise<string | undefined> {
  return (await credential.headers({ method: 'POST', url })).authorization;
}
