/** An app with the SDK's own `authProvider`: the transport is swapped, everything around it stays. */
import { Client as ClientV2 } from '@modelcontextprotocol/client';
import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { describe, expect, it } from 'vitest';
import { HostedMcpError, HostedTransport as TransportBesideV1 } from '../../src/client.js';
import { bearerToken, HostedTransport } from '../../src/index.js';
import { asUnauthorized } from '../../src/unauthorized.js';
import { InMemoryProvider } from '../unit/credentials/authorization/in-memory-provider.js';
import { closeLater, grantOf, startWorld, type World } from '../unit/credentials/authorization/support.js';

const INFO = { name: 'stock', version: '1.0.0' };

function open(
  { mcp, clock }: World,
  authProvider: InMemoryProvider,
  kind: 'plain' | 'beside v1',
  sdk: 'v1' | 'v2',
) {
  const Made = kind === 'plain' ? HostedTransport : TransportBesideV1;
  const transport = new Made(mcp.url, { authProvider, clock, streams: { listen: false } });
  const client = sdk === 'v1' ? new ClientV1(INFO) : new ClientV2(INFO);
  closeLater(() => client.close());
  const connect = () => (client as ClientV1).connect(transport as unknown as Transport);
  return { transport, client: client as ClientV1, connect };
}

const thrownBy = (work: Promise<unknown>) =>
  work.then(
    () => {
      throw new Error('nothing was thrown');
    },
    (error: unknown) => error as HostedMcpError,
  );

describe.each([
  ['beside v1', 'v1'],
  ['plain', 'v1'],
  ['plain', 'v2'],
] as const)('%s, under %s', (kind, sdk) => {
  it.each(['code', 'URL'])('the first connection, then finishAuth with the %s', async (form) => {
    const world = await startWorld();
    const { as, mcp } = world;
    const app = new InMemoryProvider();
    const first = open(world, app, kind, sdk);

    const error = await thrownBy(first.connect());

    expect(error.name).toBe('UnauthorizedError');
    expect(error instanceof UnauthorizedError).toBe(kind === 'beside v1');
    expect(HostedMcpError.isInstance(error, 'ERR_REAUTHORIZATION_REQUIRED')).toBe(true);
    expect(error).toMatchObject({ executed: false, retryable: false });
    expect(error.toToolResult().content[0].text).toMatch(/A user has to authorize/);
    expect(String(error.stack)).toContain('UnauthorizedError');
    expect(app.times('redirectToAuthorization')).toBe(1);

    const callback = await as.browse(app.sentTo[0] as URL);
    await first.transport.finishAuth(
      form === 'URL' ? callback : (callback.searchParams.get('code') as string),
    );
    const next = open(world, app, kind, sdk);
    await next.connect();
    await next.client.callTool({ name: 'echo' });

    expect(mcp.executions).toEqual(['echo']);
    expect(as.counts).toMatchObject({ authorize: 1, token: 1, register: 1 });
    expect(app.times('redirectToAuthorization')).toBe(1);
  });

  it('20 calls with a token that is over: one refresh, one saveTokens, each runs once', async () => {
    const world = await startWorld();
    const { as, mcp } = world;
    const app = new InMemoryProvider();
    const refreshToken = as.issueRefreshToken();
    app.client = { client_id: 'app' };
    app.saved = { access_token: 'first', refresh_token: refreshToken, token_type: 'Bearer' };
    as.tokens.set('first', { scope: undefined, resource: undefined });
    const { client, connect } = open(world, app, kind, sdk);
    await connect();
    mcp.expireTokens();

    await Promise.all(Array.from({ length: 20 }, () => client.callTool({ name: 'echo' })));

    expect(mcp.executions).toHaveLength(20);
    expect([as.counts.token, app.calls]).toEqual([1, ['saveTokens']]);
    expect(app.saved?.refresh_token).not.toBe(refreshToken);
  });

  it('a call when nothing can be refreshed any more: the same error, and one user is sent away', async () => {
    const world = await startWorld();
    const { as, mcp } = world;
    const app = new InMemoryProvider();
    app.client = { client_id: 'app' };
    app.saved = { access_token: 'first', refresh_token: as.issueRefreshToken(), token_type: 'Bearer' };
    as.tokens.set('first', { scope: undefined, resource: undefined });
    const { client, connect } = open(world, app, kind, sdk);
    await connect();
    mcp.expireTokens();
    as.revokeRefreshTokens();

    const errors = await Promise.all(
      Array.from({ length: 5 }, () => thrownBy(client.callTool({ name: 'echo' }))),
    );

    for (const error of errors) {
      expect(error.name).toBe('UnauthorizedError');
      expect(error instanceof UnauthorizedError).toBe(kind === 'beside v1');
      expect(HostedMcpError.isInstance(error)).toBe(true);
      expect(error).toMatchObject({ code: 'ERR_REAUTHORIZATION_REQUIRED', executed: false });
    }
    expect(app.calls).toEqual(['invalidateCredentials tokens', 'redirectToAuthorization']);
    expect([as.counts.token, mcp.executions]).toEqual([1, []]);
  });
});

describe('finishAuth', () => {
  it('of credentials without a user is a mistake', async () => {
    const world = await startWorld();
    const transport = new HostedTransport(world.mcp.url, {
      credentials: bearerToken('a'),
      clock: world.clock,
    });
    closeLater(() => transport.close());
    await expect(transport.finishAuth('code')).rejects.toThrow(/authorizationCodeGrant or an authProvider/);
  });

  it('of a transport with authorizationCodeGrant; its error keeps its own name', async () => {
    const world = await startWorld();
    const { as, mcp, clock } = world;
    const credentials = grantOf(world);
    const open = () => {
      const transport = new TransportBesideV1(mcp.url, { credentials, clock, streams: { listen: false } });
      const client = new ClientV1(INFO);
      closeLater(() => client.close());
      return { transport, client, connect: () => client.connect(transport as unknown as Transport) };
    };
    const first = open();
    const error = await thrownBy(first.connect());
    expect(error).toMatchObject({ name: 'HostedMcpError', code: 'ERR_REAUTHORIZATION_REQUIRED' });
    await first.transport.finishAuth(await as.browse(error.authorizationUrl as string));
    const next = open();
    await next.connect();
    await next.client.callTool({ name: 'echo' });
    expect(mcp.executions).toEqual(['echo']);
  });
});

describe('asUnauthorized', () => {
  const ours = () =>
    new HostedMcpError('ERR_REAUTHORIZATION_REQUIRED', 'A user has to authorize this client', {
      reason: 'no_token',
      authorizationUrl: 'https://as.example/authorize?state=a',
      tool: 'echo',
    });

  it.each([
    ['without a class', undefined],
    ['with one', UnauthorizedError],
  ])('keeps everything of our error, %s', (_name, Given) => {
    const error = ours();
    const { code, reason, authorizationUrl, tool, executed, retryable, message } = error;
    const thrown = asUnauthorized(error, Given) as HostedMcpError;
    const all = { code, reason, authorizationUrl, tool, executed, retryable, message };
    expect(thrown).toMatchObject(all);
    expect(thrown).toBeInstanceOf(Error);
    expect(HostedMcpError.from(thrown)).toBe(thrown);
    expect(HostedMcpError.from(new Error('wrapped', { cause: thrown }))).toBe(thrown);
    expect(thrown.toToolResult()).toEqual(ours().toToolResult());
    expect(JSON.parse(JSON.stringify(thrown))).toMatchObject({ code, reason, tool });
    // Twice is once.
    expect(asUnauthorized(thrown, Given)).toMatchObject(all);
  });

  it.each([
    new HostedMcpError('ERR_TOKEN_ENDPOINT', 'It is away'),
    new HostedMcpError('ERR_INSUFFICIENT_SCOPE', 'A scope is missing'),
    new Error('foreign'),
    undefined,
    null,
    'text',
  ])('leaves others as they are: %s', (error) => {
    expect(asUnauthorized(error, UnauthorizedError)).toBe(error);
    if (error instanceof Error) expect(error.name).not.toBe('UnauthorizedError');
  });
});
