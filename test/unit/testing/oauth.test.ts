import { expect, test } from 'vitest';
import { type HostedServer, manualClock } from '../../../src/testing/index.js';
import { connect, peerOf, start } from './support.js';

interface Granted {
  access_token: string;
  refresh_token?: string;
}

function tokens(server: HostedServer, form: Record<string, string>, headers: Record<string, string> = {}) {
  const { id, secret } = server.client;
  const isBasic = 'authorization' in headers;
  const body = new URLSearchParams(isBasic ? form : { client_id: id, client_secret: secret, ...form });
  return fetch(server.tokenEndpoint, { method: 'POST', headers, body });
}
// biome-ignore lint/suspicious/noExplicitAny: tests look into whatever arrived.
async function grant(server: HostedServer, form: Record<string, string>): Promise<any> {
  return (await tokens(server, form)).json();
}
const refresh = (server: HostedServer, token = server.client.refreshToken) =>
  grant(server, { grant_type: 'refresh_token', refresh_token: token });

test('client credentials, with both ways to authenticate', async () => {
  const server = await start({ tokenLifetimeMs: 500 });
  const byPost = await tokens(server, { grant_type: 'client_credentials', scope: 'a b' });
  expect(byPost.status).toBe(200);
  expect(byPost.headers.get('cache-control')).toBe('no-store');
  const granted = (await byPost.json()) as Granted;
  expect(granted).toMatchObject({ token_type: 'Bearer', expires_in: 0.5, scope: 'a b' });
  expect(granted.refresh_token).toBeUndefined();

  const basic = Buffer.from(`${server.client.id}:${server.client.secret}`).toString('base64');
  const byBasic = await tokens(
    server,
    { grant_type: 'client_credentials' },
    { authorization: `Basic ${basic}` },
  );
  const { access_token } = (await byBasic.json()) as Granted;
  expect(access_token).not.toBe(granted.access_token);
  expect((await peerOf(server, { authorization: `Bearer ${access_token}` }).post({})).status).toBe(400);
  expect(server.counts.tokenRequests).toBe(2);
  expect(JSON.stringify(server.log)).not.toContain(basic);
});

test('refusals of the token endpoint', async () => {
  const server = await start();
  const wrong = await tokens(server, { grant_type: 'client_credentials', client_secret: 'no' });
  expect([wrong.status, await wrong.json()]).toEqual([401, { error: 'invalid_client' }]);
  expect(await grant(server, { grant_type: 'password' })).toEqual({ error: 'unsupported_grant_type' });
  expect(await grant(server, { grant_type: 'refresh_token', refresh_token: 'x' })).toEqual({
    error: 'invalid_grant',
  });
  const elsewhere = { grant_type: 'client_credentials', resource: 'https://elsewhere.example/mcp' };
  expect(await grant(server, elsewhere)).toEqual({ error: 'invalid_target' });
  const here = { grant_type: 'client_credentials', resource: server.url };
  expect(await grant(server, here)).toHaveProperty('access_token');
});

test('a refresh without rotation gives no refresh token, and may be repeated', async () => {
  const server = await start();
  expect((await refresh(server)).refresh_token).toBeUndefined();
  expect((await refresh(server)).access_token).toBeTypeOf('string');
});

test('with rotation a spent refresh token that comes again ends its family, and no other', async () => {
  const server = await start({ rotateRefreshTokens: true });
  const other = await refresh(server, server.issueRefreshToken());
  const first = await refresh(server);
  const second = await refresh(server, first.refresh_token);
  expect(second.refresh_token).not.toBe(first.refresh_token);
  expect(await refresh(server, first.refresh_token)).toEqual({ error: 'invalid_grant' });
  expect(await refresh(server, second.refresh_token)).toEqual({ error: 'invalid_grant' });
  const status = async (token: string) =>
    (await peerOf(server, { authorization: `Bearer ${token}` }).post({})).status;
  expect(await status(second.access_token)).toBe(401);
  expect(await status(other.access_token)).toBe(400);
});

test('a refresh token is spent on arrival, not when the answer leaves', async () => {
  const clock = manualClock();
  const server = await start({ rotateRefreshTokens: true, tokenDelayMs: 40, clock });
  const both = Promise.all([refresh(server), refresh(server)]);
  await expect.poll(() => server.counts.tokenRequests).toBe(2);
  await clock.advance(40);
  const errors = (await both).map((answer) => answer.error);
  expect(errors.sort()).toEqual(['invalid_grant', undefined]);
});

test('metadata of the resource and of the issuer, in every place', async () => {
  const server = await start();
  const get = async (path: string) => (await fetch(`${server.issuer}${path}`)).json();
  for (const path of ['/.well-known/oauth-protected-resource', '/.well-known/oauth-protected-resource/mcp']) {
    expect(await get(path)).toMatchObject({ resource: server.url, authorization_servers: [server.issuer] });
  }
  for (const path of ['/.well-known/oauth-authorization-server', '/.well-known/openid-configuration']) {
    expect(await get(path)).toMatchObject({ issuer: server.issuer, token_endpoint: server.tokenEndpoint });
  }
  expect(server.counts.requests).toBe(0);
  expect(server.log).toHaveLength(4);
});

test('tokens are refused with a challenge, or without', async () => {
  const server = await start();
  const missing = await peerOf(server).post({});
  expect(missing.status).toBe(401);
  const metadata = `resource_metadata="${server.issuer}/.well-known/oauth-protected-resource/mcp"`;
  expect(missing.headers.get('www-authenticate')).toBe(`Bearer ${metadata}`);
  const wrong = peerOf(server, { authorization: 'Bearer nonsense' });
  expect((await wrong.post({})).headers.get('www-authenticate')).toContain('error="invalid_token"');
  server.set({ challenge: 'none' });
  const silent = await wrong.post({});
  expect([silent.status, silent.headers.get('www-authenticate')]).toEqual([401, null]);
  server.set({ auth: false });
  expect((await wrong.post({})).status).toBe(400);
});

test('tokens end: by time, by expireTokens, by revokeTokens', async () => {
  const clock = manualClock();
  const server = await start({ clock });
  const status = async (token: string) =>
    (await peerOf(server, { authorization: `Bearer ${token}` }).post({})).status;
  const short = server.issueToken({ lifetimeMs: 1_000 });
  await clock.advance(999);
  expect(await status(short)).toBe(400);
  await clock.advance(1);
  expect(await status(short)).toBe(401);

  const old = server.issueToken();
  server.expireTokens();
  expect(await status(old)).toBe(401);
  expect(await status(server.issueToken())).toBe(400);

  expect((await refresh(server)).error).toBeUndefined();
  server.revokeTokens();
  expect(await refresh(server)).toEqual({ error: 'invalid_grant' });
});

test('the token endpoint can fail, for a time or for some requests', async () => {
  const server = await start();
  server.failTokenEndpoint();
  expect((await tokens(server, { grant_type: 'client_credentials' })).status).toBe(503);
  server.restoreTokenEndpoint();
  expect((await tokens(server, { grant_type: 'client_credentials' })).status).toBe(200);

  server.failTokenEndpoint({ status: 502, body: '<html>' }, { times: 2 });
  const statuses: unknown[] = [];
  for (let i = 0; i < 3; i++) {
    const answer = await tokens(server, { grant_type: 'client_credentials' });
    statuses.push([answer.status, answer.headers.get('content-type')]);
  }
  expect(statuses).toEqual([
    [502, 'text/html'],
    [502, 'text/html'],
    [200, 'application/json'],
  ]);
  const odd = { access_token: server.issueToken(), token_type: 'bearer', expires_in: '3600' };
  server.failTokenEndpoint({ status: 200, body: odd });
  expect(await grant(server, { grant_type: 'client_credentials' })).toEqual(odd);
});

test('a session bound to its token answers no other, valid as it may be', async () => {
  const server = await start({ bindSession: 'token', sessionLostStatus: 401 });
  const peer = await connect(server);
  expect((await peer.call('echo', { text: 'x' })).status).toBe(200);
  const refused = await peer.call('echo', { text: 'x' }, { authorization: `Bearer ${server.issueToken()}` });
  expect([refused.status, refused.headers.get('www-authenticate')]).toEqual([401, null]);
  expect(await refused.json()).toMatchObject({ error: { code: -32001 }, id: null });
  expect((await peer.call('echo', { text: 'x' })).status).toBe(200);
  expect(server.counts.executions).toEqual({ echo: 2 });
});
