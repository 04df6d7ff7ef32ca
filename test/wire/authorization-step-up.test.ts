/** A call that the server refuses for want of scope: what is asked for, what is sent again, and how often it runs. */
import { describe, expect, it } from 'vitest';
import { HostedClient, type HostedClientOptions } from '../../src/client.js';
import {
  bearerToken,
  type CredentialProvider,
  clientCredentialsGrant,
  refreshTokenGrant,
} from '../../src/index.js';
import {
  closeLater,
  grantOf,
  startWorld,
  userOf,
  type World,
  withTime,
} from '../unit/credentials/authorization/support.js';
import { gate } from '../unit/credentials/support.js';
import { failureOf } from './support.js';

function clientOf({ mcp, clock }: World, options: Partial<HostedClientOptions>): HostedClient {
  const { credentials } = options;
  const client = new HostedClient({ name: 'test', version: '1.0.0' }, {
    url: mcp.url,
    clock,
    streams: { listen: false },
    ...options,
  } as HostedClientOptions);
  closeLater(async () => {
    await client.close();
    await (credentials as CredentialProvider).close?.({ drainMs: 0 });
  });
  return client;
}

const machine = ({ as, clock }: World) =>
  clientCredentialsGrant({ issuer: as.issuer, clientId: 'app', clientSecret: 's', scope: 'read', clock });

async function connected(
  make: (world: World) => HostedClientOptions['credentials'],
  options: Partial<HostedClientOptions> = {},
) {
  const world = await startWorld();
  world.mcp.challengedScope = 'read';
  world.mcp.needs.set('write', 'write');
  const client = clientOf(world, { credentials: make(world), ...options });
  const widened: unknown[] = [];
  client.connection.on('credential-scope-widened', ({ scope }) => widened.push(scope));
  await client.connect();
  return { ...world, world, client, widened };
}

describe('a machine', () => {
  it('one token request for the union, an event, and the call runs once', async () => {
    const { as, mcp, client, widened } = await connected(machine);
    await client.callTool({ name: 'write' });
    expect(as.forms.map((form) => form.get('scope'))).toEqual(['read', 'read write']);
    expect(widened).toEqual(['read write']);
    expect(mcp.executions).toEqual(['write']);
    expect(mcp.calls('tools/call')).toBe(2);
    // From then on it is there.
    await client.callTool({ name: 'write' });
    expect([mcp.calls('tools/call'), as.counts.token]).toEqual([3, 2]);
  });

  it('10 calls at once: one token request, each runs once', async () => {
    const { as, mcp, client, widened } = await connected(machine);
    await Promise.all(Array.from({ length: 10 }, () => client.callTool({ name: 'write' })));
    expect([as.counts.token, widened]).toEqual([2, ['read write']]);
    expect(mcp.executions).toHaveLength(10);
  });

  it('a scope that is not granted: an error that names it, and no third try', async () => {
    const { as, mcp, client } = await connected(machine);
    as.grant = () => 'read';
    for (let times = 0; times < 3; times++)
      expect(await failureOf(client.callTool({ name: 'write' }))).toMatchObject({
        code: 'ERR_INSUFFICIENT_SCOPE',
        requiredScope: 'write',
        executed: false,
        status: 403,
      });
    expect([mcp.executions, as.counts.token]).toEqual([[], 2]);
    await client.callTool({ name: 'read' });
    expect(mcp.executions).toEqual(['read']);
  });

  it('a server that is never content: bounded, and the call does not run', async () => {
    const { as, mcp, client } = await connected(machine);
    const plain = mcp as unknown as { reply(seen: { text: string }): unknown };
    const ordinary = plain.reply.bind(mcp);
    let refusals = 0;
    plain.reply = (seen) => {
      if (!seen.text.includes('"tools/call"')) return ordinary(seen);
      refusals += 1;
      const challenge = `Bearer error="insufficient_scope", scope="scope-${refusals}"`;
      return { status: 403, headers: { 'www-authenticate': challenge } };
    };
    expect(await failureOf(client.callTool({ name: 'write' }))).toMatchObject({
      code: 'ERR_INSUFFICIENT_SCOPE',
    });
    expect(refusals).toBeLessThanOrEqual(5);
    expect(as.counts.token).toBeLessThanOrEqual(refusals + 1);
    expect(mcp.executions).toEqual([]);
  });

  it("resendOn401: 'never': nothing is asked for, nothing sent again", async () => {
    const { as, mcp, client, widened } = await connected(machine, { retry: { resendOn401: 'never' } });
    expect(await failureOf(client.callTool({ name: 'write' }))).toMatchObject({
      code: 'ERR_INSUFFICIENT_SCOPE',
      requiredScope: 'write',
      executed: false,
    });
    expect([mcp.calls('tools/call'), as.counts.token, widened]).toEqual([1, 1, []]);
  });

  it('a token endpoint that is down meanwhile: said so, and the next call asks again', async () => {
    const { as, mcp, client, clock } = await connected(machine);
    as.script.push({ status: 503, body: 'busy' });
    expect(await failureOf(client.callTool({ name: 'write' }))).toMatchObject({
      code: 'ERR_TOKEN_ENDPOINT',
      executed: false,
    });
    expect(mcp.executions).toEqual([]);
    await clock.advance(60_000);
    await client.callTool({ name: 'write' });
    expect(mcp.executions).toEqual(['write']);
  });

  it('at the handshake, too', async () => {
    const world = await startWorld();
    const { as, mcp } = world;
    const plain = mcp as unknown as { reply(seen: { headers: { authorization?: string } }): unknown };
    const ordinary = plain.reply.bind(mcp);
    plain.reply = (seen) => {
      const token = seen.headers.authorization?.replace('Bearer ', '') ?? '';
      if (as.tokens.get(token)?.scope !== 'read') return ordinary(seen);
      return {
        status: 403,
        headers: { 'www-authenticate': 'Bearer error="insufficient_scope", scope="connect"' },
      };
    };
    const client = clientOf(world, { credentials: machine(world) });
    await client.connect();
    expect(as.forms.map((form) => form.get('scope'))).toEqual(['read', 'connect read']);
    expect(mcp.calls('initialize')).toBe(2);
  });
});

describe('what cannot be widened', () => {
  it.each<[string, (world: World) => HostedClientOptions['credentials']]>([
    [
      'a static token',
      ({ as }) => {
        as.tokens.set('static', { scope: 'read', resource: undefined });
        return bearerToken('static');
      },
    ],
    [
      'a token function',
      ({ as }) => {
        as.tokens.set('made', { scope: 'read', resource: undefined });
        return bearerToken(() => 'made');
      },
    ],
    [
      'a refresh token',
      ({ as, clock }) =>
        refreshTokenGrant({
          issuer: as.issuer,
          clientId: 'app',
          refreshToken: as.issueRefreshToken('read'),
          clock,
        }),
    ],
  ])('%s: an error that names the scope, one call, no token request', async (_name, make) => {
    const { as, mcp, client } = await connected(make);
    const before = as.counts.token;
    for (let times = 0; times < 2; times++)
      expect(await failureOf(client.callTool({ name: 'write' }))).toMatchObject({
        code: 'ERR_INSUFFICIENT_SCOPE',
        requiredScope: 'write',
        executed: false,
      });
    expect([mcp.calls('tools/call'), mcp.executions, as.counts.token - before]).toEqual([2, [], 0]);
    await client.callTool({ name: 'read' });
    expect(mcp.executions).toEqual(['read']);
  });
});

describe('a user', () => {
  it('is asked for the union, and the call goes again and runs once', async () => {
    let visits: URL[] = [];
    const { as, mcp, client } = await connected((world) => {
      const user = userOf(world);
      visits = user.visits;
      return grantOf(world, { onRedirect: user.onRedirect });
    });
    await Promise.all([1, 2, 3].map(() => client.callTool({ name: 'write' })));
    expect(visits.map(({ searchParams }) => searchParams.get('scope'))).toEqual(['read', 'read write']);
    expect([mcp.executions, as.counts.token]).toEqual([['write', 'write', 'write'], 2]);
  });

  it('who cannot be reached from here: the error has the address, and then the next call runs', async () => {
    const world = await startWorld();
    const { as, mcp } = world;
    mcp.needs.set('write', 'write');
    const credentials = grantOf(world);
    const first = await failureOf(clientOf(world, { credentials }).connect());
    expect(first).toMatchObject({ code: 'ERR_REAUTHORIZATION_REQUIRED', executed: false });
    await credentials.finishAuth(await as.browse(first.authorizationUrl as string));

    const client = clientOf(world, { credentials });
    await client.connect();
    const refused = await failureOf(client.callTool({ name: 'write' }));
    expect(refused).toMatchObject({
      code: 'ERR_INSUFFICIENT_SCOPE',
      requiredScope: 'write',
      tool: 'write',
      executed: false,
    });
    expect(new URL(refused.authorizationUrl as string).searchParams.get('scope')).toBe('write');
    expect(mcp.calls('tools/call')).toBe(1);

    await credentials.finishAuth(await as.browse(refused.authorizationUrl as string));
    await client.callTool({ name: 'write' });
    expect(mcp.executions).toEqual(['write']);
  });

  it('who takes nine minutes: the handshake waits for that, and is not made twice', async () => {
    const world = await startWorld();
    const { as, mcp, clock } = world;
    const [asked, answered] = [gate(), gate()];
    const credentials = grantOf(world, {
      onRedirect: async (url) => {
        asked.open();
        await answered.promise;
        return await as.browse(url);
      },
    });
    const client = clientOf(world, { credentials });
    const connecting = client.connect({ timeout: 15 * 60_000 });
    await asked.promise;
    await clock.advance(9 * 60_000);
    answered.open();
    await withTime(world, connecting);
    await client.callTool({ name: 'read' });
    expect(mcp.calls('initialize')).toBe(2);
    expect(as.counts).toMatchObject({ authorize: 1, token: 1, register: 1 });
    expect(mcp.executions).toEqual(['read']);
  });

  it('whose caller cannot wait so long: that one is told, and the consent serves the next', async () => {
    const world = await startWorld();
    const { as, mcp, clock } = world;
    const [asked, answered] = [gate(), gate()];
    const credentials = grantOf(world, {
      onRedirect: async (url) => {
        asked.open();
        await answered.promise;
        return await as.browse(url);
      },
    });
    const client = clientOf(world, { credentials });
    const connecting = failureOf(client.connect({ timeout: 60_000 }));
    await asked.promise;
    await clock.advance(61_000);
    expect((await connecting).executed).toBe(false);
    answered.open();
    const again = clientOf(world, { credentials });
    await withTime(world, again.connect());
    await again.callTool({ name: 'read' });
    expect(as.counts).toMatchObject({ authorize: 1, token: 1 });
    expect(mcp.executions).toEqual(['read']);
  });
});
