// oidc-provider as it is deployed for agents, rotation and reuse detection on, and a small MCP server that asks its
// store about every token. What the fleet did is counted here.
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { exportJWK, generateKeyPair } from 'jose';
import Provider from 'oidc-provider';
import { nowMs } from './child.mjs';

const CLIENT = { id: 'agent', secret: 'agent-secret' };
const MACHINE = { id: 'machine', secret: 'machine-secret' };
const LONG_S = 86_400;

/**
 * Access tokens live `tokenLifetimeMs`, in full seconds as the provider counts. `graceMs`: a refresh token that was
 * spent less long ago is taken once more; 0, the default: its second use ends the grant.
 */
export async function startOidcServer({ tokenLifetimeMs = 2_000, graceMs = 0 } = {}) {
  const http = createServer().listen(0, '127.0.0.1');
  await once(http, 'listening');
  const issuer = `http://127.0.0.1:${http.address().port}`;
  const seen = {
    /** Every token request, in order of arrival. */
    tokenRequests: [],
    /** Grants that were revoked for a reuse. */
    revoked: [],
    calls: 0,
    initializes: 0,
    deletes: 0,
    /** Requests to the MCP endpoint without a token that is good. */
    refused: 0,
    unusable: [],
  };
  const spent = new Map();
  const access = new Map();
  const waiting = new Set();
  let answerToken = (_entry, decide) => decide();
  const provider = await newProvider(issuer, { tokenLifetimeMs, graceMs, spent, access });
  provider.on('grant.revoked', (_, grantId) => seen.revoked.push(grantId));
  provider.use(async (context, next) => {
    if (context.path !== '/token') return next();
    const entry = { atMs: nowMs(), replica: Number(context.get('x-replica')) };
    seen.tokenRequests.push(entry);
    // The decision is made, then the answer may be held back.
    await answerToken(entry, async () => {
      await next();
      const { grant_type: grantType, refresh_token: refreshToken } = context.oidc?.params ?? {};
      Object.assign(entry, { grantType, refreshToken, status: context.status, decidedAtMs: nowMs() });
      if (context.status === 200) entry.accessToken = context.body.access_token;
      else entry.error = context.body?.error;
      for (const look of waiting) look();
    });
  });
  const authorize = provider.callback();
  http.on('request', (request, response) => {
    if (request.url.startsWith('/mcp'))
      serveMcp(request, response, { provider, seen }).catch((error) => {
        seen.unusable.push(String(error));
        response.destroy();
      });
    else authorize(request, response);
  });
  http.keepAliveTimeout = 0;

  const mcpUrl = `${issuer}/mcp`;
  return {
    issuer,
    mcpUrl,
    client: CLIENT,
    machine: MACHINE,
    seen,
    /** A refresh token of a new grant. */
    async authorize() {
      const client = await provider.Client.find(CLIENT.id);
      const grant = new provider.Grant({ accountId: 'user', clientId: CLIENT.id });
      grant.addOIDCScope('openid offline_access');
      grant.addResourceScope(mcpUrl, 'mcp');
      const grantId = await grant.save();
      const token = new provider.RefreshToken({
        client,
        accountId: 'user',
        grantId,
        gty: 'authorization_code',
        scope: 'openid offline_access mcp',
        resource: mcpUrl,
        rotations: 0,
        iiat: Math.floor(Date.now() / 1000),
      });
      return { refreshToken: await token.save(), grantId };
    },
    async isAlive(grantId) {
      return (await provider.Grant.find(grantId)) !== undefined;
    },
    /** Each token request goes through `answer(entry, decide)` from now on; undefined: as usual. */
    intercept(answer) {
      answerToken = answer ?? ((_entry, decide) => decide());
    },
    /** Resolves when that many more token requests have been decided which `which` is true of. */
    decided(more, which = () => true) {
      const count = () =>
        seen.tokenRequests.filter((entry) => entry.status !== undefined && which(entry)).length;
      const wanted = count() + more;
      return new Promise((resolve) => {
        waiting.add(function look() {
          if (count() < wanted) return;
          waiting.delete(look);
          resolve();
        });
      });
    },
    /** No access token that was given out so far is good any more. */
    expireTokens: () => access.clear(),
    /** Requests that brought a refresh token which had been spent before. */
    reuses() {
      const seenBefore = new Set();
      return seen.tokenRequests.filter(({ refreshToken }) => {
        if (refreshToken === undefined) return false;
        const isAgain = seenBefore.has(refreshToken);
        seenBefore.add(refreshToken);
        return isAgain;
      }).length;
    },
    /** Access tokens that were given out for a refresh token, oldest first. */
    generations: () =>
      seen.tokenRequests.filter(({ status, refreshToken }) => status === 200 && refreshToken),
    async close() {
      http.close();
      http.closeAllConnections();
    },
  };
}

async function newProvider(issuer, { tokenLifetimeMs, graceMs, spent, access }) {
  const { privateKey } = await generateKeyPair('RS256', { extractable: true });
  const lifetimeS = Math.ceil(tokenLifetimeMs / 1000);
  const basic = { token_endpoint_auth_method: 'client_secret_basic' };
  return new Provider(issuer, {
    adapter: (model) =>
      new Records(model, { spent, graceMs, records: model === 'AccessToken' ? access : new Map() }),
    jwks: { keys: [{ ...(await exportJWK(privateKey)), kid: 'key', use: 'sig', alg: 'RS256' }] },
    cookies: { keys: ['cookie-key'] },
    clients: [
      {
        ...basic,
        client_id: CLIENT.id,
        client_secret: CLIENT.secret,
        grant_types: ['authorization_code', 'refresh_token'],
        redirect_uris: ['https://agent.example/callback'],
      },
      {
        ...basic,
        client_id: MACHINE.id,
        client_secret: MACHINE.secret,
        grant_types: ['client_credentials'],
        redirect_uris: [],
        response_types: [],
      },
    ],
    rotateRefreshToken: () => true,
    ttl: { AccessToken: lifetimeS, ClientCredentials: lifetimeS, Grant: LONG_S, RefreshToken: LONG_S },
    scopes: ['openid', 'offline_access', 'mcp'],
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: () => ({
          scope: 'mcp',
          accessTokenFormat: 'opaque',
          accessTokenTTL: lifetimeS,
        }),
      },
    },
    findAccount: (_, accountId) => ({ accountId, claims: () => ({ sub: accountId }) }),
  });
}

/** The provider's storage; its own keeps at most a thousand records. */
class Records {
  #grants = new Map();
  #records;
  #isRefreshToken;
  #spent;
  #graceMs;

  constructor(model, { records, spent, graceMs }) {
    this.#records = records;
    this.#isRefreshToken = model === 'RefreshToken';
    this.#spent = spent;
    this.#graceMs = graceMs;
  }

  async upsert(id, payload) {
    this.#records.set(id, payload);
    if (payload.grantId === undefined) return;
    const ids = this.#grants.get(payload.grantId) ?? new Set();
    this.#grants.set(payload.grantId, ids.add(id));
  }

  async find(id) {
    const payload = this.#records.get(id);
    if (payload === undefined || !this.#isRefreshToken) return payload;
    const spentAtMs = this.#spent.get(id);
    const isForgiven = spentAtMs !== undefined && nowMs() - spentAtMs < this.#graceMs;
    return isForgiven ? { ...payload, consumed: undefined } : payload;
  }

  async findByUid() {}

  async findByUserCode() {}

  async consume(id) {
    if (!this.#spent.has(id)) this.#spent.set(id, nowMs());
    this.#records.get(id).consumed = Math.floor(Date.now() / 1000);
  }

  async destroy(id) {
    this.#records.delete(id);
  }

  async revokeByGrantId(grantId) {
    for (const id of this.#grants.get(grantId) ?? []) this.#records.delete(id);
    this.#grants.delete(grantId);
  }
}

/** As much of Streamable HTTP as a client of one tool needs. */
async function serveMcp(request, response, { provider, seen }) {
  const body = request.method === 'POST' ? await readJson(request) : undefined;
  if (!(await isGood(request, provider))) {
    seen.refused += 1;
    response.writeHead(401, { 'www-authenticate': 'Bearer error="invalid_token"' }).end();
    return;
  }
  if (request.method !== 'POST') {
    if (request.method === 'DELETE') seen.deletes += 1;
    response.writeHead(request.method === 'DELETE' ? 200 : 405).end();
    return;
  }
  if (body.id === undefined) {
    response.writeHead(202).end();
    return;
  }
  if (body.method === 'initialize') seen.initializes += 1;
  if (body.method === 'tools/call') seen.calls += 1;
  const answer = { jsonrpc: '2.0', id: body.id, result: resultOf(body) };
  response.writeHead(200, {
    'content-type': 'application/json',
    ...(body.method === 'initialize' && { 'mcp-session-id': randomUUID() }),
  });
  response.end(JSON.stringify(answer));
}

async function isGood({ headers }, { AccessToken, ClientCredentials }) {
  const token = /^Bearer (\S+)$/i.exec(headers.authorization ?? '')?.[1];
  return ((await AccessToken.find(token)) ?? (await ClientCredentials.find(token))) !== undefined;
}

function resultOf({ method, params }) {
  if (method === 'initialize')
    return {
      protocolVersion: params.protocolVersion,
      capabilities: { tools: {} },
      serverInfo: { name: 'fleet-server', version: '1.0.0' },
    };
  if (method === 'tools/list') return { tools: [{ name: 'work', inputSchema: { type: 'object' } }] };
  if (method === 'tools/call') return { content: [{ type: 'text', text: 'done' }] };
  return {};
}

async function readJson(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return JSON.parse(Buffer.concat(chunks).toString());
}
