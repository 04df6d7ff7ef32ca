/**
 * A server that names another authorization server than last time. Judged at that other one: what arrived there.
 */
import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { HostedClient } from '../../src/client.js';
import {
  type AuthorizationCodeOptions,
  authorizationCodeGrant,
  type CredentialProvider,
  clientCredentialsGrant,
  fromOAuthClientProvider,
  jwtBearerGrant,
  memoryCredentialStore,
  refreshTokenGrant,
  tokenExchangeGrant,
} from '../../src/index.js';
import { InMemoryProvider } from '../unit/credentials/authorization/in-memory-provider.js';
import {
  closeLater,
  REDIRECT_URI,
  startWorld,
  type World,
} from '../unit/credentials/authorization/support.js';
import { failureOf } from './support.js';

const CLIENT = { clientId: 'APP-ID', clientSecret: 'APP-SECRET' };
const KEY = {
  clientId: 'APP-ID',
  privateKey: generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({
    type: 'pkcs8',
    format: 'pem',
  }) as string,
};
/** What the first authorization server gave, or the app has: not to be seen anywhere else. */
const SECRETS = /APP-ID|APP-SECRET|client_assertion|first-(client|secret|token|refresh|code)/;

interface Case {
  readonly name: string;
  /** Whose word it is where the secret may go. */
  readonly pinned: 'by the app' | 'once' | 'never';
  make(world: World, more: { fetch?: typeof fetch }): CredentialProvider;
}

const consent = ({ clock, as, other }: World, options: object) =>
  authorizationCodeGrant({
    redirectUri: REDIRECT_URI,
    clock,
    onRedirect: async (url: URL) => await (url.origin === as.origin ? as : other).browse(url),
    ...options,
  } as AuthorizationCodeOptions);
/** A token that the MCP server refuses, so that the refresh token is used at once. */
const user = ({ as, clock }: World) => ({ refreshToken: as.issueRefreshToken(), clock });

const CASES: readonly Case[] = [
  {
    name: 'clientCredentialsGrant, issuer',
    pinned: 'by the app',
    make: ({ as, clock }, more) => clientCredentialsGrant({ ...CLIENT, issuer: as.issuer, clock, ...more }),
  },
  {
    name: 'clientCredentialsGrant, tokenEndpoint',
    pinned: 'by the app',
    make: ({ as, clock }, more) =>
      clientCredentialsGrant({ ...CLIENT, tokenEndpoint: `${as.origin}/token`, clock, ...more }),
  },
  {
    name: 'clientCredentialsGrant, discovered once',
    pinned: 'once',
    make: ({ clock }, more) => clientCredentialsGrant({ ...CLIENT, discover: 'once', clock, ...more }),
  },
  {
    name: 'private_key_jwt, issuer',
    pinned: 'by the app',
    make: ({ as, clock }, more) => clientCredentialsGrant({ ...KEY, issuer: as.issuer, clock, ...more }),
  },
  {
    name: 'private_key_jwt, discovered once',
    pinned: 'once',
    make: ({ clock }, more) => clientCredentialsGrant({ ...KEY, discover: 'once', clock, ...more }),
  },
  {
    name: 'jwtBearerGrant, discovered once',
    pinned: 'once',
    make: ({ clock }, more) => jwtBearerGrant({ assertion: 'APP-SECRET', discover: 'once', clock, ...more }),
  },
  {
    name: 'tokenExchangeGrant, discovered once',
    pinned: 'once',
    make: ({ clock }, more) =>
      tokenExchangeGrant({
        ...CLIENT,
        subjectToken: 'APP-SECRET-of-a-user',
        subjectTokenType: 'urn:ietf:params:oauth:token-type:access_token',
        discover: 'once',
        clock,
        ...more,
      }),
  },
  {
    name: 'refreshTokenGrant, issuer',
    pinned: 'by the app',
    make: (world, more) => refreshTokenGrant({ ...CLIENT, issuer: world.as.issuer, ...user(world), ...more }),
  },
  {
    name: 'refreshTokenGrant, discovered once',
    pinned: 'once',
    make: (world, more) => refreshTokenGrant({ ...CLIENT, discover: 'once', ...user(world), ...more }),
  },
  {
    name: 'refreshTokenGrant of a public client, discovered once',
    pinned: 'once',
    make: (world, more) =>
      refreshTokenGrant({ clientId: 'APP-ID', discover: 'once', ...user(world), ...more }),
  },
  {
    name: 'authorizationCodeGrant with a secret, issuer',
    pinned: 'by the app',
    make: (world, more) => consent(world, { client: CLIENT, issuer: world.as.issuer, ...more }),
  },
  {
    name: 'authorizationCodeGrant with a secret, discovered once',
    pinned: 'once',
    make: (world, more) => consent(world, { client: CLIENT, discover: 'once', ...more }),
  },
  {
    name: 'authorizationCodeGrant with a key, discovered once',
    pinned: 'once',
    make: (world, more) => consent(world, { client: KEY, discover: 'once', ...more }),
  },
  {
    name: 'authorizationCodeGrant, registered, discovered once',
    pinned: 'once',
    make: (world, more) => consent(world, { discover: 'once', ...more }),
  },
  { name: 'authorizationCodeGrant, registered', pinned: 'never', make: consent },
  {
    name: "an app's own provider with a secret",
    pinned: 'once',
    make: ({ clock, as }, more) => {
      const app = new InMemoryProvider();
      app.client = { client_id: 'APP-ID', client_secret: 'APP-SECRET' };
      const refreshToken = as.issueRefreshToken();
      app.saved = { access_token: 'stale', refresh_token: refreshToken, token_type: 'Bearer' };
      return fromOAuthClientProvider(app, { clock, ...more });
    },
  },
];

/** How it comes to be named. */
const WAYS: readonly (readonly [string, (world: World) => void])[] = [
  ['its metadata name it', () => {}],
  [
    'its metadata name it first, and a third one',
    ({ mcp, other }) => {
      mcp.prm = { authorization_servers: [other.issuer, 'https://third.example'] };
    },
  ],
  [
    'the challenge points to other metadata',
    ({ mcp, as, other }) => {
      const path = '/.well-known/oauth-protected-resource/elsewhere';
      mcp.resourceMetadata = `${mcp.origin}${path}`;
      mcp.named.set(path, other);
      mcp.named.set('/.well-known/oauth-protected-resource/mcp', as);
    },
  ],
  [
    'the challenge points nowhere any more',
    ({ mcp }) => {
      mcp.resourceMetadata = 'none';
    },
  ],
];

async function connected(make: Case['make'], more: { fetch?: typeof fetch } = {}) {
  const world = await startWorld();
  const credentials = make(world, more);
  closeLater(async () => await credentials.close?.({ drainMs: 0 }));
  const client = new HostedClient(
    { name: 'test', version: '1.0.0' },
    { url: world.mcp.url, credentials, clock: world.clock, streams: { listen: false } },
  );
  closeLater(() => client.close());
  const changes: unknown[] = [];
  client.connection.on('credential-server-changed', (event) => changes.push(event));
  await client.connect();
  await client.callTool({ name: 'before' });
  expect(world.as.everything).toMatch(SECRETS);
  expect(world.mcp.executions).toEqual(['before']);
  return { ...world, world, client, credentials, changes };
}

describe.each(CASES)('H38 $name', ({ pinned, make }) => {
  it.each(WAYS)('%s', async (_name, change) => {
    const { world, as, other, mcp, client, credentials, changes } = await connected(make);
    mcp.servers = [other];
    change(world);
    const tokens = as.counts.token;

    const outcomes = [];
    for (const name of ['one', 'two', 'three'])
      outcomes.push(await client.callTool({ name }).catch((error: unknown) => error));

    expect(other.everything).not.toMatch(SECRETS);
    if (pinned === 'never') {
      expect(mcp.executions).toEqual(['before', 'one', 'two', 'three']);
      expect(other.counts).toEqual({ authorize: 1, token: 1, register: 1, metadata: 1 });
    } else {
      expect(other.requests).toEqual([]);
      expect(mcp.executions).toEqual(['before']);
      const code = pinned === 'once' ? 'ERR_DISCOVERY' : 'ERR_CREDENTIAL_REJECTED';
      for (const outcome of outcomes) expect(outcome).toMatchObject({ code, executed: false });
    }
    // Where the app has named the server, nobody asks the MCP server.
    const move = { id: credentials.id, previous: as.issuer, current: other.issuer };
    if (pinned === 'by the app') expect(changes).toEqual([]);
    else expect(changes).toEqual(expect.arrayContaining([move]));
    // One refresh at the server that may have it, at most.
    expect(as.counts.token - tokens).toBeLessThanOrEqual(1);
  });
});

const DISCOVERING = CASES.filter(({ pinned }) => pinned !== 'by the app');
/** What a challenge may point to, or metadata say, that must not be followed. */
const BAD: readonly (readonly [string, string, (world: World) => void])[] = [
  [
    'metadata at the other server',
    'other_origin',
    ({ mcp, other }) => {
      mcp.resourceMetadata = `${other.origin}/.well-known/oauth-protected-resource/mcp`;
    },
  ],
  [
    'metadata at a cloud’s own address',
    'other_origin',
    ({ mcp }) => {
      mcp.resourceMetadata = 'http://169.254.169.254/latest/meta-data/';
    },
  ],
  [
    'metadata at another port',
    'other_origin',
    ({ mcp }) => {
      mcp.resourceMetadata = `http://127.0.0.1:1/.well-known/oauth-protected-resource`;
    },
  ],
  [
    'metadata in a file',
    'other_origin',
    ({ mcp }) => {
      mcp.resourceMetadata = 'file:///etc/passwd';
    },
  ],
  [
    'metadata with a password in the address',
    'address',
    ({ mcp }) => {
      mcp.resourceMetadata = `${mcp.origin.replace('//', '//user:pass@')}/.well-known/oauth-protected-resource`;
    },
  ],
  [
    'no address at all',
    'address',
    ({ mcp }) => {
      mcp.resourceMetadata = 'elsewhere';
    },
  ],
  [
    'metadata of another resource',
    'resource_mismatch',
    ({ mcp }) => {
      mcp.prm = { resource: 'https://evil.example/mcp' };
    },
  ],
  [
    'metadata of another path',
    'resource_mismatch',
    ({ mcp }) => {
      mcp.prm = { resource: `${mcp.origin}/other` };
    },
  ],
  [
    'metadata without a resource',
    'no_resource',
    ({ mcp }) => {
      mcp.prm = { resource: undefined };
    },
  ],
  [
    'a link-local authorization server',
    'address',
    ({ mcp }) => {
      mcp.prm = { authorization_servers: ['https://169.254.169.254'] };
    },
  ],
  [
    'a link-local one over plain http',
    'address',
    ({ mcp }) => {
      mcp.prm = { authorization_servers: ['http://169.254.169.254'] };
    },
  ],
  [
    'a private one beside the other',
    'address',
    ({ mcp, other }) => {
      mcp.prm = { authorization_servers: [other.issuer, 'https://10.0.0.7'] };
    },
  ],
  [
    'no list of servers',
    'no_authorization_servers',
    ({ mcp }) => {
      mcp.prm = { authorization_servers: 'https://evil.example' };
    },
  ],
];

describe.each(DISCOVERING)('H38 $name: what must not be followed', ({ make }) => {
  it.each(BAD)('%s', async (_name, reason, change) => {
    const asked = new Set<string>();
    const recording: typeof fetch = (url, init) => {
      asked.add(new URL(String(url)).origin);
      return fetch(url, init);
    };
    const { world, as, other, mcp, client } = await connected(make, { fetch: recording });
    mcp.servers = [other];
    change(world);
    mcp.expireTokens();
    const tokens = as.counts.token;

    expect(await failureOf(client.callTool({ name: 'one' }))).toMatchObject({
      code: 'ERR_DISCOVERY',
      reason,
      executed: false,
    });
    await client.callTool({ name: 'two' }).catch(() => {});

    expect([...asked].sort()).toEqual([as.origin, mcp.origin].sort());
    expect(other.requests).toEqual([]);
    expect(mcp.executions).toEqual(['before']);
    expect(as.counts.token - tokens).toBeLessThanOrEqual(1);
  });
});

describe('H38 what is pinned', () => {
  it.each(CASES.filter(({ pinned, name }) => pinned === 'once' && !name.startsWith('an app')))(
    'stays over a restart with the store, and over forget(): $name',
    async ({ make }) => {
      const store = memoryCredentialStore();
      const shared = { store, subject: 'user-7' } as { fetch?: typeof fetch };
      const { world, as, other, mcp, client, credentials } = await connected(make, shared);
      await client.close();
      await credentials.forget?.();
      await credentials.close?.();
      mcp.servers = [other];
      const before = as.requests.length;

      for (let times = 0; times < 2; times++) {
        const restarted = make(world, shared);
        closeLater(async () => await restarted.close?.({ drainMs: 0 }));
        const again = new HostedClient(
          { name: 'test', version: '1.0.0' },
          { url: mcp.url, credentials: restarted, clock: world.clock, streams: { listen: false } },
        );
        closeLater(() => again.close());
        expect(await failureOf(again.connect())).toMatchObject({ executed: false });
      }

      expect(other.everything).not.toMatch(SECRETS);
      expect(other.requests).toEqual([]);
      // Nor is it sent to the old one for a server that is not its own any more, more than once.
      expect(as.requests.length - before).toBeLessThanOrEqual(6);
    },
  );

  it('holds from the moment the first user is sent away', async () => {
    const world = await startWorld();
    const { as, other, mcp } = world;
    const store = memoryCredentialStore(world);
    const options = { client: CLIENT, discover: 'once', onRedirect: undefined, store, subject: 'user-7' };
    const [one, two] = [consent(world, options), consent(world, options)];
    closeLater(async () => await Promise.all([one.close?.(), two.close?.()]));
    const first = await one.authorizationUrl(mcp.url);
    mcp.servers = [other];
    expect(await failureOf(two.authorizationUrl(mcp.url))).toMatchObject({
      code: 'ERR_DISCOVERY',
      reason: 'authorization_server_changed',
    });
    await two.finishAuth(await as.browse(first));
    expect(as.counts.token).toBe(1);
    expect(other.requests).toEqual([]);
  });
});
