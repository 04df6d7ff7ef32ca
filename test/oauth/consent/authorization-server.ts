/**
 * A real authorization server (oidc-provider) with its own login and consent pages, and an MCP server whose tokens it
 * gives: for a consent by a real browser.
 *
 * Guarantees that what the two were asked is counted where it arrives, and that both are gone when `close()` resolves.
 */
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair } from 'jose';
// @ts-expect-error: its types are not installed.
import Provider from 'oidc-provider';
import { type HostedServer, startHostedServer } from '../../../src/testing/index.js';

export interface ConsentWorld {
  /** Of the MCP server. */
  readonly url: string;
  readonly server: HostedServer;
  /** Requests that arrived at the authorization server. */
  readonly counts: { authorize: number; code: number; refresh: number; register: number };
  /** From now on the MCP server refuses the tokens it has seen. */
  expireTokens(): void;
  close(): Promise<void>;
}

export async function startConsentWorld(): Promise<ConsentWorld> {
  const counts = { authorize: 0, code: 0, refresh: 0, register: 0 };
  const issuerServer = await listening();
  const issuer = addressOf(issuerServer);
  const keys = await generateKeyPair('RS256', { extractable: true });
  const provider = new Provider(issuer, {
    jwks: {
      keys: [{ ...(await exportJWK(keys.privateKey)), kid: 'server-key', use: 'sig', alg: 'RS256' }],
    },
    cookies: { keys: ['cookie-key'] },
    rotateRefreshToken: () => true,
    ttl: { AccessToken: 600, Grant: 86_400, RefreshToken: 86_400, Session: 86_400, Interaction: 600 },
    scopes: ['openid', 'offline_access', 'mcp'],
    features: {
      registration: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => undefined,
        getResourceServerInfo: () => ({
          scope: 'mcp',
          accessTokenFormat: 'opaque',
          accessTokenTTL: 600,
        }),
      },
    },
    findAccount: (_: unknown, accountId: string) => ({ accountId, claims: () => ({ sub: accountId }) }),
  });
  const handle = provider.callback();
  issuerServer.on('request', (asked: IncomingMessage, answer: ServerResponse) => {
    const path = asked.url ?? '';
    if (path.startsWith('/auth?')) counts.authorize += 1;
    if (path === '/reg') counts.register += 1;
    handle(asked, answer);
  });
  provider.on('grant.success', (context: { oidc: { params: { grant_type: string } } }) => {
    if (context.oidc.params.grant_type === 'refresh_token') counts.refresh += 1;
    else counts.code += 1;
  });

  const server = await startHostedServer({ auth: false });
  const refused = new Set<string>();
  const seen = new Set<string>();
  const front = await listening();
  const origin = addressOf(front);
  const url = `${origin}/mcp`;
  const metadata = `${origin}/.well-known/oauth-protected-resource/mcp`;
  front.on('request', async (asked: IncomingMessage, answer: ServerResponse) => {
    if (asked.url === '/.well-known/oauth-protected-resource/mcp') {
      answer.setHeader('content-type', 'application/json');
      answer.end(
        JSON.stringify({ resource: url, authorization_servers: [issuer], scopes_supported: ['mcp'] }),
      );
      return;
    }
    const token = /^Bearer (.+)$/.exec(asked.headers.authorization ?? '')?.[1];
    const known = token === undefined ? undefined : await provider.AccessToken.find(token);
    if (token === undefined || known === undefined || known.aud !== url || refused.has(token)) {
      asked.resume();
      const error = token === undefined ? '' : ', error="invalid_token"';
      answer.writeHead(401, { 'www-authenticate': `Bearer resource_metadata="${metadata}"${error}` });
      answer.end();
      return;
    }
    seen.add(token);
    const { authorization: _, host: __, ...headers } = asked.headers;
    const on = request(server.url, { method: asked.method, headers }, (given) => {
      answer.writeHead(given.statusCode ?? 502, given.headers);
      given.pipe(answer);
    });
    answer.on('close', () => on.destroy());
    on.on('error', () => answer.destroy());
    asked.pipe(on);
  });

  return {
    url,
    server,
    counts,
    expireTokens() {
      for (const token of seen) refused.add(token);
    },
    async close() {
      await server.close();
      await Promise.all([closed(front), closed(issuerServer)]);
    },
  };
}

async function listening(): Promise<Server> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server;
}

function addressOf(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function closed(server: Server): Promise<void> {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
}
