/**
 * Hosted servers of a configuration: the same client, with the authorization that the entry names.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type ConnectServerOptions, connectServer, parseServersConfig } from '../../src/client.js';
import { diffContracts, HostedMcpError } from '../../src/index.js';
import { bench, call, INFO, placeholder, textOf } from './stdio-support.js';
import { closeLater, failureOf, type Scene, startServer } from './support.js';

async function open(
  scene: Scene,
  entry: Record<string, unknown>,
  variables: Record<string, string | undefined> = {},
  options: ConnectServerOptions = {},
) {
  const text = JSON.stringify({ mcpServers: { hosted: { url: scene.server.url, ...entry } } });
  const { hosted } = parseServersConfig(text, variables);
  const client = await connectServer(INFO, hosted!, { clock: scene.clock, ...options });
  closeLater(() => client.close());
  return client;
}

const echo = (client: Parameters<typeof call>[0]) => textOf(call(client, 'echo', { text: 'hi' }));

describe('a hosted entry', () => {
  it.each(['http', 'streamable-http', undefined])('of type %s with a token', async (type) => {
    const scene = await startServer();
    const token = scene.server.issueToken();
    const client = await open(scene, { type, auth: { token: placeholder('TOKEN') } }, { TOKEN: token });
    expect(await echo(client)).toContain('hi');
    expect(scene.server.counts.tokenRequests).toBe(0);
  });

  it('of type sse, at a server of 2024-11-05', async () => {
    const scene = await startServer({ transport: 'legacy-sse' });
    const client = await open(scene, { type: 'sse', auth: { token: scene.server.issueToken() } });
    expect(await echo(client)).toContain('hi');
  });

  it('with the client credentials grant: the token is had from its issuer, and ends with the client', async () => {
    const scene = await startServer();
    const { id, secret } = scene.server.client;
    const { issuer } = scene.server;
    const auth = {
      grant: 'client_credentials',
      issuer,
      clientId: placeholder('ID'),
      clientSecret: placeholder('SECRET'),
    };
    const client = await open(scene, { auth }, { ID: id, SECRET: secret });
    expect(await echo(client)).toContain('hi');
    expect(scene.server.counts.tokenRequests).toBe(1);
    await client.close();
    await scene.clock.advance(120_000);
    expect(scene.server.counts.tokenRequests).toBe(1);
  });

  it('with an Authorization header whose token is renewed elsewhere: read again', async () => {
    const scene = await startServer();
    const bin = bench();
    const file = join(bin.folder, 'token');
    writeFileSync(file, `${scene.server.issueToken()}\n`);
    const client = await open(scene, {
      headers: { Authorization: `Bearer \${file:${file}}`, 'X-Team': 'blue' },
    });
    expect(await echo(client)).toContain('hi');
    scene.server.expireTokens();
    writeFileSync(file, scene.server.issueToken());
    expect(await echo(client)).toContain('hi');
    expect(scene.server.counts.executions.echo).toBe(2);
  });

  it('a token that is not there: the field and the variable, nothing sent', async () => {
    const scene = await startServer();
    for (const entry of [
      { auth: { token: placeholder('NO_TOKEN') } },
      { headers: { authorization: `Bearer ${placeholder('NO_TOKEN')}` } },
      { headers: { 'x-key': placeholder('NO_TOKEN') } },
      { url: `${placeholder('NO_TOKEN')}/mcp` },
    ]) {
      const failure = await failureOf(open(scene, entry));
      expect(failure.code).toBe('ERR_CREDENTIAL_SOURCE');
      expect(failure.message).toContain('The server "hosted"');
      expect(failure.message).toContain('NO_TOKEN is not set');
    }
    expect(scene.server.counts.requests).toBe(0);
  });

  it('beside credentials in the options: which are meant?', async () => {
    const scene = await startServer();
    await expect(open(scene, { auth: { token: 't' } }, {}, { credentials: 'other' })).rejects.toThrow(
      TypeError,
    );
    const token = scene.server.issueToken();
    expect(await echo(await open(scene, {}, {}, { credentials: token }))).toContain('hi');
  });

  it('an address that a placeholder made unusable is refused without being shown', async () => {
    const scene = await startServer();
    const failure = await open(scene, { url: placeholder('WHERE') }, { WHERE: 'ftp://canary@nowhere' }).catch(
      (error: Error) => error,
    );
    expect(failure).toBeInstanceOf(TypeError);
    expect((failure as Error).message).not.toContain('canary');
  });

  it('a credential that the server refuses is our error, and the client is closed', async () => {
    const scene = await startServer();
    const failure = await failureOf(open(scene, { auth: { token: 'canary-wrong-token' } }));
    expect(HostedMcpError.isInstance(failure, 'ERR_CREDENTIAL_REJECTED')).toBe(true);
    expect(JSON.stringify(failure) + failure.message).not.toContain('canary');
  });
});

it('one contract over both: a tool that only one of them has is the difference', async () => {
  const local = bench();
  const started = await local.connect();
  const here = await started.snapshot();
  const [removed, ...kept] = here.tools;
  const tools = [...kept.map(({ definition }) => ({ ...definition, handler: () => 'x' })), { name: 'extra' }];
  const scene = await startServer({ tools: tools as never });
  const there = await (await open(scene, { auth: { token: scene.server.issueToken() } })).snapshot();

  const tooling = diffContracts(here, there).changes.filter(({ kind }) => kind.startsWith('tool-'));
  expect(tooling.map(({ kind, name }) => `${kind} ${name}`).sort()).toEqual([
    'tool-added extra',
    `tool-removed ${removed?.name}`,
  ]);
  expect(here.url).toBe('stdio:node');
});
