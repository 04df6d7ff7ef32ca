/**
 * The main entry where there is no Node: bundled for a browser (an edge runtime's bundler does the same), and run with
 * nothing but what the web has.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import vm from 'node:vm';
import { type BuildResult, build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type * as Holdfast from '../../src/index.js';
import { manualClock, startHostedServer } from '../../src/testing/index.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const entry = join(root, 'dist/index.js');
const LIFETIME_MS = 60_000;

/** Of the Minimum Common Web API (Ecma TC55) what a client can need. Everything else of this process stays outside. */
const WEB = [
  ...[
    'AbortController',
    'AbortSignal',
    'Blob',
    'DOMException',
    'Event',
    'EventTarget',
    'FormData',
    'Headers',
  ],
  ...['ReadableStream', 'Request', 'Response', 'TextDecoder', 'TextEncoder', 'TransformStream', 'URL'],
  ...['URLSearchParams', 'WritableStream', 'atob', 'btoa', 'clearTimeout', 'crypto', 'fetch', 'performance'],
  ...['queueMicrotask', 'structuredClone'],
  // One realm's bytes for all: what comes from `fetch` is the outer one's.
  ...['ArrayBuffer', 'DataView', 'Uint8Array', 'Uint32Array'],
] as const;
const OF_NODE = ['process', 'Buffer', 'global', 'require', 'module', 'setImmediate', '__dirname'];

let bundle: BuildResult<{ metafile: true; write: false }>;
let context: vm.Context;
let lib: typeof Holdfast;
const timers = new Set<NodeJS.Timeout>();

async function bundled(format: 'esm' | 'iife') {
  return await build({
    entryPoints: [entry],
    absWorkingDir: root,
    bundle: true,
    platform: 'browser',
    format,
    ...(format === 'iife' && { globalName: 'holdfast' }),
    metafile: true,
    write: false,
    // In node_modules, where a user's bundler finds the package, esbuild does not speak of these either.
    logOverride: { 'import-is-undefined': 'silent', 'ignored-bare-import': 'silent' },
  });
}

beforeAll(async () => {
  if (!existsSync(entry)) throw new Error('dist/index.js is missing: run `npm run build` first.');
  bundle = await bundled('esm');
  const script = await bundled('iife');
  const globals: Record<string, unknown> = {};
  for (const name of WEB) globals[name] = globalThis[name];
  globals.setTimeout = webTimeout;
  context = vm.createContext(globals, { codeGeneration: { strings: false, wasm: false } });
  vm.runInContext(script.outputFiles[0]?.text ?? '', context, { filename: 'holdfast.js' });
  lib = vm.runInContext('holdfast', context) as typeof Holdfast;
});

afterAll(() => {
  for (const timer of timers) clearTimeout(timer);
});

/** A browser's timers are numbers. */
function webTimeout(fn: () => void, ms: number): number {
  const timer = setTimeout(fn, ms);
  timers.add(timer);
  return Number(timer);
}

test('the bundle has everything in it: nothing is left to be found when it is loaded', () => {
  expect(bundle.errors).toEqual([]);
  expect(bundle.warnings).toEqual([]);
  const outputs = Object.values(bundle.metafile.outputs);
  expect(outputs.flatMap(({ imports }) => imports)).toEqual([]);
  expect(Object.keys(bundle.metafile.inputs)).toEqual(expect.arrayContaining(['dist/index.js']));
  const leftOut = Object.keys(bundle.metafile.inputs).filter((path) => path.startsWith('(disabled):'));
  expect(leftOut).toContain('(disabled):node:crypto');
  expect(leftOut).toContainEqual(expect.stringMatching(/node_modules\/undici\//));
});

test('there is no Node where it runs', () => {
  for (const name of OF_NODE) expect(vm.runInContext(`typeof ${name}`, context), name).toBe('undefined');
  expect(vm.runInContext('new Date() instanceof Date', context)).toBe(true);
  expect(new lib.HostedMcpError('ERR_CLOSED', 'A test.')).not.toBeInstanceOf(Error);
});

/** What a Client does, by hand: the SDK is not part of the entry. */
async function open(url: string, options: Holdfast.HostedTransportOptions) {
  const transport = new lib.HostedTransport(url, options);
  onTestFinished(() => transport.close());
  const waiting = new Map<unknown, (message: { result?: unknown }) => void>();
  transport.onmessage = (message) => waiting.get(message.id)?.(message);
  let ids = 0;
  const ask = async (method: string, params: object) => {
    ids += 1;
    const id = ids;
    const answer = new Promise<{ result?: unknown }>((resolve) => waiting.set(id, resolve));
    await transport.send({ jsonrpc: '2.0', id, method, params } as Holdfast.JsonRpcRequest);
    return (await answer).result;
  };
  await transport.start();
  const shake = async () => {
    const clientInfo = { name: 'edge', version: '1.0.0' };
    await ask('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo });
    await transport.send({ jsonrpc: '2.0', method: 'notifications/initialized' });
  };
  const call = (text: string) => ask('tools/call', { name: 'echo', arguments: { text } });
  return { transport, ask, shake, call };
}

async function hosted(options: Parameters<typeof startHostedServer>[0] = {}) {
  const server = await startHostedServer(options);
  onTestFinished(() => server.close());
  return server;
}

describe('with http.fetch', () => {
  test('a handshake and a tool call', async () => {
    const server = await hosted();
    const { shake, call, transport } = await open(server.url, {
      credentials: lib.bearerToken(server.issueToken()),
      http: { fetch },
    });
    await shake();
    expect(await call('ü, and 日本語')).toMatchObject({ content: [{ type: 'text', text: 'ü, and 日本語' }] });
    expect(server.counts).toMatchObject({ initializes: 1, executions: { echo: 1 } });
    expect(transport.connection.session?.fingerprint).toMatch(/^[0-9a-f]{12}$/);
  });

  test('a token of its own from the token endpoint, and another when that one is over', async () => {
    const clock = manualClock();
    const server = await hosted({ clock, tokenLifetimeMs: LIFETIME_MS, bindSession: 'token' });
    const { id: clientId, secret: clientSecret } = server.client;
    const source = { issuer: server.issuer, clientId, clientSecret, clock, fetch };
    const { shake, call } = await open(server.url, {
      credentials: lib.clientCredentialsGrant(source),
      http: { fetch },
      clock,
    });
    await shake();
    await call('before');
    await clock.advance(LIFETIME_MS + 1_000);
    expect(await call('after')).toMatchObject({ content: [{ text: 'after' }] });
    expect(server.counts).toMatchObject({ initializes: 2, tokenRequests: 2, executions: { echo: 2 } });
  });

  test('hostedFetch', async () => {
    const server = await hosted();
    const face = lib.hostedFetch(server.url, {
      credentials: lib.bearerToken(server.issueToken()),
      http: { fetch },
    });
    onTestFinished(() => face.close());
    const clientInfo = { name: 'edge', version: '1.0.0' };
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo };
    const answer = await face(server.url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params }),
    });
    expect(answer.status).toBe(200);
    expect(answer.headers.get('mcp-session-id')).toMatch(/^[0-9a-f-]{36}$/);
    expect(server.counts.initializes).toBe(1);
  });
});

test('without http.fetch it is said what to give, at once, and nothing has left', async () => {
  const server = await hosted();
  const { shake } = await open(server.url, {});
  const error = await shake().catch((reason: unknown) => reason);
  expect(lib.HostedMcpError.isInstance(error, 'ERR_NOT_SENT')).toBe(true);
  expect(error).toMatchObject({ executed: false, retryable: false });
  expect((error as Error).message).toContain('give http.fetch');
  expect(server.counts.requests).toBe(0);
});

const PEM = '-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----';
const ISSUER = 'https://login.example';

/** Each of them with the code and what it misses. */
test.each<[string, () => unknown, Holdfast.HostedMcpErrorCode, string]>([
  ['tokenFromFile', () => lib.tokenFromFile('/run/token'), 'ERR_CREDENTIAL_SOURCE', 'node:fs/promises'],
  ['tokenFromCommand', () => lib.tokenFromCommand('helper'), 'ERR_CREDENTIAL_SOURCE', 'node:child_process'],
  [
    'fileCredentialStore',
    () => lib.fileCredentialStore('/run/x'),
    'ERR_STORE_UNAVAILABLE',
    'node:fs/promises',
  ],
  [
    'encryptedCredentialStore',
    () => lib.encryptedCredentialStore(lib.memoryCredentialStore(), { keys: [new Uint8Array(32)] }),
    'ERR_STORE_UNAVAILABLE',
    'node:crypto',
  ],
  [
    'a key in PEM form',
    () => lib.clientCredentialsGrant({ issuer: ISSUER, clientId: 'a', privateKey: PEM, fetch }),
    'ERR_CREDENTIAL_SOURCE',
    'node:crypto',
  ],
  [
    'dpop',
    () => lib.clientCredentialsGrant({ issuer: ISSUER, clientId: 'a', clientSecret: 'b', dpop: true, fetch }),
    'ERR_CREDENTIAL_SOURCE',
    'node:crypto',
  ],
  [
    'discovery from the MCP server',
    () => lib.clientCredentialsGrant({ discover: 'once', clientId: 'a', clientSecret: 'b', fetch }),
    'ERR_DISCOVERY',
    'node:net',
  ],
])('what needs Node says so when it is set up: %s', (_name, make, code, missing) => {
  let error: unknown;
  try {
    make();
  } catch (thrown) {
    error = thrown;
  }
  expect(lib.HostedMcpError.isInstance(error, code), String(error)).toBe(true);
  expect(error).toMatchObject({ reason: 'runtime', retryable: false });
  expect((error as Error).message).toContain(`needs ${missing}`);
});

test('a variable of the environment is one that is not set', async () => {
  const source = lib.tokenFromEnv('MCP_TOKEN');
  const error = await source
    .acquire(new URL('https://mcp.example/mcp'), {})
    .catch((reason: unknown) => reason);
  expect(lib.HostedMcpError.isInstance(error, 'ERR_CREDENTIAL_SOURCE'), String(error)).toBe(true);
});
