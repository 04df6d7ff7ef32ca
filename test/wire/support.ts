/**
 * A hosted server and a client against it, on one manual clock, closed after each test.
 *
 * Tests judge at the server: `server.counts` and `server.log`.
 */
import { afterEach } from 'vitest';
import { HostedClient, type HostedClientOptions } from '../../src/client.js';
import { clientCredentialsGrant, HostedMcpError, refreshTokenGrant } from '../../src/index.js';
import {
  type HostedServer,
  type HostedServerOptions,
  type ManualClock,
  manualClock,
  startHostedServer,
} from '../../src/testing/index.js';

const open: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

/** Closed, in reverse order, after the test. */
export function closeLater(close: () => Promise<unknown>): void {
  open.push(close);
}

export interface Scene {
  readonly server: HostedServer;
  readonly clock: ManualClock;
}

export async function startServer(options: HostedServerOptions = {}): Promise<Scene> {
  const clock = manualClock();
  const server = await startHostedServer({ tokenLifetimeMs: 60_000, clock, ...options });
  closeLater(() => server.close());
  return { server, clock };
}

/** The machine's own identity at the simulator. */
export function machine({ server, clock }: Scene) {
  const { id, secret } = server.client;
  return clientCredentialsGrant({ issuer: server.issuer, clientId: id, clientSecret: secret, clock });
}

/** A user's rotating refresh token at the simulator. */
export function user({ server, clock }: Scene) {
  const { id, secret, refreshToken } = server.client;
  return refreshTokenGrant({
    issuer: server.issuer,
    clientId: id,
    clientSecret: secret,
    refreshToken,
    clock,
  });
}

/** A connected client; `credentials` default to `machine`. */
export async function connect(
  scene: Scene,
  options: Partial<HostedClientOptions> = {},
): Promise<HostedClient> {
  const client = new HostedClient(
    { name: 'test', version: '1.0.0' },
    { url: scene.server.url, credentials: machine(scene), clock: scene.clock, ...options },
  );
  closeLater(() => client.close());
  await client.connect();
  return client;
}

/** Calls `echo` under an id that the server counts by. */
export function echo(
  client: HostedClient,
  callId: string,
  options?: { timeout?: number; signal?: AbortSignal },
) {
  return client.callTool(
    { name: 'echo', arguments: { text: callId }, _meta: { 'mcp-holdfast/callId': callId } },
    options,
  );
}

/** What a promise was rejected with; fails the test if it was not, or with anything but our error. */
export async function failureOf(promise: Promise<unknown>): Promise<HostedMcpError> {
  const outcome = await promise.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  );
  if (!('error' in outcome)) throw new Error(`expected a failure, got ${JSON.stringify(outcome.value)}`);
  if (!HostedMcpError.isInstance(outcome.error)) throw outcome.error;
  return outcome.error;
}
