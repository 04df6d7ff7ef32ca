/**
 * What the build loads, and when: a process of its own prints every module that it asks for. (That the main entry loads
 * nothing heavy when it is installed, in both builds, is in package.test.ts.)
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, expect, test } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
const tracer = fileURLToPath(new URL('fixtures/trace-imports.mjs', import.meta.url));
const HEAVY = [
  '@modelcontextprotocol/sdk',
  '@opentelemetry/api',
  'jose',
  'oauth4webapi',
  'openid-client',
  'undici',
];
const MOMENT = '--- ';

beforeAll(() => {
  if (!existsSync(join(root, 'dist/index.js')))
    throw new Error('dist/index.js is missing: run `npm run build` first.');
});

const addressOf = (entry: string) => JSON.stringify(pathToFileURL(join(root, `dist/${entry}.js`)).href);

/** By moment, the heavy packages that were loaded in the time up to it. `code` says `moment('name')`. */
async function loadedBy(code: string): Promise<Record<string, string[]>> {
  const program = `
    import { writeSync } from 'node:fs';
    const moment = (name) => writeSync(1, ${JSON.stringify(MOMENT)} + name + '\\n');
    ${code}
    process.exit(0);`;
  const args = ['--no-warnings', '--import', tracer, '--input-type=module', '--eval', program];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root });
  const found: Record<string, string[]> = {};
  let urls: string[] = [];
  for (const line of stdout.split('\n')) {
    if (!line.startsWith(MOMENT)) urls.push(line);
    else {
      const since = urls;
      const isLoaded = (name: string) => since.some((url) => url.includes(`/node_modules/${name}/`));
      found[line.slice(MOMENT.length)] = HEAVY.filter(isLoaded);
      urls = [];
    }
  }
  return found;
}

test('an app that has set everything up has loaded nothing heavy; its first call does', async () => {
  const found = await loadedBy(`
    const main = await import(${addressOf('index')});
    moment('imported');
    const { startHostedServer } = await import(${addressOf('testing')});
    const server = await startHostedServer();
    const { id: clientId, secret: clientSecret, refreshToken } = server.client;
    const common = { issuer: server.issuer, clientId, clientSecret };
    const credentials = main.clientCredentialsGrant(common);
    main.refreshTokenGrant({ ...common, refreshToken, dpop: true });
    main.clientCredentialsGrant({ discover: 'once', clientId, clientSecret });
    main.encryptedCredentialStore(main.memoryCredentialStore(), { keys: [new Uint8Array(32)] });
    main.tokenFromFile('token');
    main.hostedFetch(server.url, { credentials });
    const transport = new main.HostedTransport(server.url, { credentials });
    await transport.start();
    moment('set up');
    const clientInfo = { name: 'first', version: '1.0.0' };
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo };
    await transport.send({ jsonrpc: '2.0', id: 1, method: 'initialize', params });
    moment('used');`);
  expect(found).toEqual({
    imported: [],
    'set up': [],
    used: ['jose', 'oauth4webapi', 'openid-client', 'undici'],
  });
});

test('with http.fetch and a token that is given, the first call loads nothing heavy either', async () => {
  const found = await loadedBy(`
    const { HostedTransport, bearerToken } = await import(${addressOf('index')});
    const { startHostedServer } = await import(${addressOf('testing')});
    const server = await startHostedServer();
    const transport = new HostedTransport(server.url, {
      credentials: bearerToken(server.issueToken()),
      http: { fetch },
    });
    await transport.start();
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'a', version: '1' } };
    await transport.send({ jsonrpc: '2.0', id: 1, method: 'initialize', params });
    if (server.counts.initializes !== 1) throw new Error('There was no handshake.');
    moment('used');`);
  expect(found).toEqual({ used: [] });
});

test.each([
  ['index', []],
  ['gates', []],
  ['loopback', []],
  ['redis', []],
  ['relay', []],
  ['testing', []],
  ['otel', ['@opentelemetry/api']],
  ['client', ['@modelcontextprotocol/sdk']],
])('the entry %s loads no more than it is for', async (entry, allowed) => {
  expect(await loadedBy(`await import(${addressOf(entry)}); moment('imported');`)).toEqual({
    imported: allowed,
  });
});
