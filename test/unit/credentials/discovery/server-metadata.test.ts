import { beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { metadataLocations, type ServerMetadata } from '../../../../src/credentials/metadata.js';
import { makeCertificate } from '../../http/support.js';
import { errorOf } from '../support.js';
import { discoveryFor, nameServer, noProxies, type Page, type Site, startSite } from './support.js';

const RESOURCE = '/.well-known/oauth-protected-resource';
const OAUTH = '/.well-known/oauth-authorization-server';
const OPENID = '/.well-known/openid-configuration';
let mcp: Site;
let as: Site;
beforeAll(async () => {
  await import('undici');
});
beforeEach(async () => {
  noProxies();
  [mcp, as] = [await startSite(), await startSite()];
  return () => {
    vi.unstubAllEnvs();
  };
});

const metadataFor = (issuer: string, more: object = {}): Page => ({
  body: {
    issuer,
    authorization_endpoint: `${as.origin}/authorize`,
    token_endpoint: `${as.origin}/token`,
    ...more,
  },
});

/** What a client does with a 401: who is it, which authorization server, where are its endpoints. */
async function discover(challenge?: string): Promise<ServerMetadata & { resource?: string | undefined }> {
  const { resource, metadata } = discoveryFor(`${mcp.origin}/mcp`);
  const found = await resource({ resourceMetadata: challenge });
  const issuer = found?.authorizationServers[0];
  const known =
    issuer === undefined
      ? await metadata(mcp.origin, { exact: false, fallback: true })
      : await metadata(issuer);
  return { ...known, resource: found?.resource };
}

describe('the orders in which servers are asked', () => {
  it.each<{
    name: string;
    header?: string;
    resourceAt?: string;
    resource?: string;
    issuerPath?: string;
    metadataAt: string;
    mcpPaths: string[];
    asPaths: string[];
  }>([
    {
      name: 'default: the path location named by the challenge, OAuth metadata',
      header: `${RESOURCE}/mcp`,
      resourceAt: `${RESOURCE}/mcp`,
      metadataAt: OAUTH,
      mcpPaths: [`${RESOURCE}/mcp`],
      asPaths: [OAUTH],
    },
    {
      name: 'var1: not named, OpenID metadata only',
      resourceAt: `${RESOURCE}/mcp`,
      metadataAt: OPENID,
      mcpPaths: [`${RESOURCE}/mcp`],
      asPaths: [OAUTH, OPENID],
    },
    {
      name: 'var2: at the root for the whole origin, an issuer with a path',
      resourceAt: RESOURCE,
      resource: '',
      issuerPath: '/tenant1',
      metadataAt: `${OAUTH}/tenant1`,
      mcpPaths: [`${RESOURCE}/mcp`, RESOURCE],
      asPaths: [`${OAUTH}/tenant1`],
    },
    {
      name: 'var3: at an address of its own, OpenID metadata behind the path of the issuer',
      header: '/custom/metadata/location.json',
      resourceAt: '/custom/metadata/location.json',
      issuerPath: '/tenant1',
      metadataAt: `/tenant1${OPENID}`,
      mcpPaths: ['/custom/metadata/location.json'],
      asPaths: [`${OAUTH}/tenant1`, `${OPENID}/tenant1`, `/tenant1${OPENID}`],
    },
    {
      name: 'OpenID metadata before the path of the issuer',
      header: `${RESOURCE}/mcp`,
      resourceAt: `${RESOURCE}/mcp`,
      issuerPath: '/tenant1/',
      metadataAt: `${OPENID}/tenant1`,
      mcpPaths: [`${RESOURCE}/mcp`],
      asPaths: [`${OAUTH}/tenant1`, `${OPENID}/tenant1`],
    },
    {
      name: 'everything everywhere: the first of each',
      resourceAt: RESOURCE,
      issuerPath: '/a/b',
      metadataAt: `${OAUTH}/a/b`,
      mcpPaths: [`${RESOURCE}/mcp`, RESOURCE],
      asPaths: [`${OAUTH}/a/b`],
    },
  ])(
    '$name',
    async ({ header, resourceAt, resource = '/mcp', issuerPath = '', metadataAt, mcpPaths, asPaths }) => {
      const issuer = `${as.origin}${issuerPath}`;
      const about = { resource: `${mcp.origin}${resource}`, authorization_servers: [issuer] };
      mcp.pages.set(resourceAt ?? '', { body: about });
      as.pages.set(metadataAt, metadataFor(issuer));
      if (metadataAt === `${OAUTH}/a/b`) {
        for (const path of [`${OPENID}/a/b`, `/a/b${OPENID}`, OAUTH, OPENID]) {
          as.pages.set(path, metadataFor(issuer, { token_endpoint: `${as.origin}/other` }));
        }
      }
      const found = await discover(header === undefined ? undefined : `${mcp.origin}${header}`);
      expect(found).toMatchObject({
        issuer,
        tokenEndpoint: `${as.origin}/token`,
        authorizationEndpoint: `${as.origin}/authorize`,
        resource: about.resource,
      });
      expect(found.isAssumed).toBeUndefined();
      expect({ mcpPaths: mcp.paths, asPaths: as.paths }).toEqual({ mcpPaths, asPaths });
    },
  );

  it('2025-03-26: the MCP server is its own authorization server', async () => {
    mcp.pages.set(OAUTH, {
      body: {
        issuer: mcp.origin,
        authorization_endpoint: `${mcp.origin}/oauth/authorize`,
        token_endpoint: `${mcp.origin}/oauth/token`,
      },
    });
    expect(await discover()).toMatchObject({
      issuer: mcp.origin,
      tokenEndpoint: `${mcp.origin}/oauth/token`,
      authorizationEndpoint: `${mcp.origin}/oauth/authorize`,
      resource: undefined,
    });
    expect(mcp.paths).toEqual([`${RESOURCE}/mcp`, RESOURCE, OAUTH]);
  });

  it('2025-03-26: no metadata at all, the endpoints are where everybody has them', async () => {
    const { isAssumed, ...found } = await discover();
    expect(found).toEqual({
      issuer: mcp.origin,
      tokenEndpoint: `${mcp.origin}/token`,
      authorizationEndpoint: `${mcp.origin}/authorize`,
      registrationEndpoint: `${mcp.origin}/register`,
    });
    expect(isAssumed).toBe(true);
    expect(mcp.paths).toEqual([`${RESOURCE}/mcp`, RESOURCE, OAUTH, OPENID]);
  });

  it('the assumed endpoints are at the root, whatever path the issuer has', async () => {
    const { metadata } = discoveryFor(`${mcp.origin}/mcp`);
    const found = await metadata(`${mcp.origin}/mcp`, { fallback: true });
    expect(found).toMatchObject({ issuer: `${mcp.origin}/mcp`, tokenEndpoint: `${mcp.origin}/token` });
  });

  it.each<[string, Page, string]>([
    ['a document that names another issuer', { body: { issuer: 'https://evil.example' } }, 'issuer_mismatch'],
    ['a redirect', { status: 307, headers: { location: '/x' } }, 'redirect'],
    ['an outage', { status: 503 }, 'ERR_TOKEN_ENDPOINT'],
    ['haste', { status: 429 }, 'ERR_TOKEN_ENDPOINT'],
  ])('2025-03-26: %s is no absence of metadata', async (_, page, expected) => {
    mcp.pages.set(OAUTH, page);
    const error = await errorOf(discover());
    expect([error.reason, error.code]).toContain(expected);
    expect(mcp.paths.at(-1)).toBe(OAUTH);
  });

  it('without being told so, no endpoints are assumed', async () => {
    const { metadata } = discoveryFor(`${mcp.origin}/mcp`);
    expect(await errorOf(metadata(as.origin))).toMatchObject({
      code: 'ERR_DISCOVERY',
      reason: 'no_metadata',
    });
    expect(as.paths).toEqual(metadataLocations(as.origin).map((location) => new URL(location).pathname));
  });
});

describe('the issuer that a document names', () => {
  it.each<[string, (issuer: string) => string, boolean]>([
    ['itself', (issuer) => issuer, true],
    ['itself with a slash', (issuer) => `${issuer}/`, false],
    ['another case of the scheme', (issuer) => issuer.replace('http', 'HTTP'), false],
    ['another path', (issuer) => `${issuer}/tenant`, false],
    ['a query', (issuer) => `${issuer}?`, false],
    ['another name of the machine', (issuer) => issuer.replace('127.0.0.1', 'localhost'), false],
    ['a space behind', (issuer) => `${issuer} `, false],
  ])('%s', async (_, change, fits) => {
    as.pages.set(OAUTH, metadataFor(change(as.origin)));
    const found = discoveryFor(`${mcp.origin}/mcp`).metadata(as.origin);
    if (fits) expect((await found).issuer).toBe(as.origin);
    else {
      const error = await errorOf(found);
      expect(error).toMatchObject({ code: 'ERR_DISCOVERY', reason: 'issuer_mismatch', retryable: false });
      expect(error.message).toMatch(/^The authorization metadata name another issuer/);
    }
    expect(as.paths).toEqual([OAUTH]);
  });

  it('with the slash that was discovered, the document must have it', async () => {
    const { metadata } = discoveryFor(`${mcp.origin}/mcp`);
    as.pages.set(OAUTH, metadataFor(as.origin));
    expect((await errorOf(metadata(`${as.origin}/`))).reason).toBe('issuer_mismatch');
    as.pages.set(OAUTH, metadataFor(`${as.origin}/`));
    expect((await metadata(`${as.origin}/`)).issuer).toBe(`${as.origin}/`);
  });
});

describe('what a document says', () => {
  it('is read where it has the right form', async () => {
    as.pages.set(
      OAUTH,
      metadataFor(as.origin, {
        registration_endpoint: `${as.origin}/register`,
        revocation_endpoint: `${as.origin}/revoke`,
        token_endpoint_auth_methods_supported: ['none', 7],
        scopes_supported: ['mcp', 'offline_access'],
        code_challenge_methods_supported: ['S256'],
        authorization_response_iss_parameter_supported: true,
        client_id_metadata_document_supported: true,
        dpop_signing_alg_values_supported: ['ES256'],
      }),
    );
    expect(await discoveryFor(`${mcp.origin}/mcp`).metadata(as.origin)).toEqual({
      issuer: as.origin,
      tokenEndpoint: `${as.origin}/token`,
      authorizationEndpoint: `${as.origin}/authorize`,
      registrationEndpoint: `${as.origin}/register`,
      revocationEndpoint: `${as.origin}/revoke`,
      authMethods: ['none'],
      scopesSupported: ['mcp', 'offline_access'],
      codeChallengeMethods: ['S256'],
      issParameterSupported: true,
      clientIdMetadataDocumentSupported: true,
      dpopAlgorithms: ['ES256'],
    });
  });

  it('counts as not said where it has not', async () => {
    as.pages.set(
      OAUTH,
      metadataFor(as.origin, {
        registration_endpoint: '/register',
        revocation_endpoint: 7,
        scopes_supported: 'mcp',
        code_challenge_methods_supported: { S256: true },
        authorization_response_iss_parameter_supported: 'true',
        client_id_metadata_document_supported: 1,
      }),
    );
    const said = {
      issuer: as.origin,
      tokenEndpoint: `${as.origin}/token`,
      authorizationEndpoint: `${as.origin}/authorize`,
    };
    expect(await discoveryFor(`${mcp.origin}/mcp`).metadata(as.origin)).toEqual(said);
  });

  it('is what the document says itself, whatever another module did to all objects', async () => {
    as.pages.set(OAUTH, { body: { issuer: as.origin } });
    onTestFinished(() => {
      Reflect.deleteProperty(Object.prototype, 'token_endpoint');
    });
    Object.defineProperty(Object.prototype, 'token_endpoint', {
      value: `${as.origin}/evil`,
      configurable: true,
    });
    const error = await errorOf(discoveryFor(`${mcp.origin}/mcp`).metadata(as.origin));
    expect(error).toMatchObject({ code: 'ERR_DISCOVERY', reason: 'no_token_endpoint' });
  });

  const MEMBERS = [
    'token_endpoint',
    'authorization_endpoint',
    'registration_endpoint',
    'revocation_endpoint',
  ];
  const BAD: [string, string][] = [
    ['on plain http', 'http://as.example/x'],
    ['with a password', 'https://u:hunter2@as.example/x'],
    ['with another scheme', 'javascript:alert(1)'],
    ['in a private network', 'https://10.0.0.1/x'],
    ['where clouds keep credentials', 'https://[::ffff:a9fe:a9fe]/x'],
  ];
  it.each(MEMBERS.flatMap((member) => BAD.map(([what, url]) => [member, what, url] as const)))(
    'a %s %s condemns it',
    async (member, _, url) => {
      as.pages.set(OAUTH, metadataFor(as.origin, { [member]: url }));
      const error = await errorOf(discoveryFor(`${mcp.origin}/mcp`).metadata(as.origin));
      expect(error).toMatchObject({ code: 'ERR_DISCOVERY', reason: 'address', retryable: false });
      expect(error.message).toMatch(/authorization (metadata name|server names)/);
      expect(error.message).toContain(member.replace('_', ' '));
      expect(error.message).not.toMatch(/hunter2|example|10\./);
      expect(as.paths).toEqual([OAUTH]);
    },
  );

  it('of an issuer that the app named, an endpoint that nobody uses does no harm', async () => {
    as.pages.set(OAUTH, metadataFor(as.origin, { revocation_endpoint: 'http://as.example/x' }));
    const found = await discoveryFor(`${mcp.origin}/mcp`).metadata(as.origin, { exact: false });
    expect(found.revocationEndpoint).toBeUndefined();
  });
});

describe('an authorization server that must not be asked', () => {
  it('its name leads to this machine, the MCP server is elsewhere: no connection', async () => {
    const secret = await startSite(await makeCertificate());
    const lookup = nameServer({ 'as.test': [['127.0.0.1']], 'mcp.test': [['9.9.9.9']] });
    const { metadata } = discoveryFor('https://mcp.test/mcp', { lookup });
    const error = await errorOf(metadata(`https://as.test:${secret.port}`));
    expect(error).toMatchObject({ code: 'ERR_DISCOVERY', reason: 'address' });
    expect(error.message).toMatch(
      /^The authorization server that the MCP server names is in a network of its own/,
    );
    expect(secret.connections).toBe(0);
  });

  it.each(['https://169.254.169.254', 'https://0x7f.1', 'http://as.example', 'ftp://as.example'])(
    '%s: nothing is sent',
    async (issuer) => {
      const asked: string[] = [];
      const { metadata } = discoveryFor('https://mcp.example/mcp', {
        fetch: async (url) => {
          asked.push(url);
          return new Response('{}');
        },
      });
      expect(await errorOf(metadata(issuer))).toMatchObject({ code: 'ERR_DISCOVERY', reason: 'address' });
      expect(asked).toEqual([]);
    },
  );

  it('one that redirects, one that says too much', async () => {
    const { metadata } = discoveryFor(`${mcp.origin}/mcp`);
    as.pages.set(OAUTH, { status: 302, headers: { location: `${mcp.origin}${OAUTH}` } });
    expect(await errorOf(metadata(as.origin))).toMatchObject({ code: 'ERR_DISCOVERY', reason: 'redirect' });
    as.pages.set(OAUTH, metadataFor(as.origin, { padding: 'x'.repeat(300_000) }));
    const error = await errorOf(metadata(as.origin));
    expect(error).toMatchObject({ code: 'ERR_DISCOVERY', reason: 'too_large' });
    expect(error.message).toMatch(/of the issuer are too large/);
    expect([mcp.connections, as.requests.length]).toEqual([0, 2]);
  });
});
