import { describe, expect, it } from 'vitest';
import type { Revocation } from '../../src/connection/revocation.js';
import { auditLog, verifyAudit } from '../../src/gates/index.js';
import type { Credential, CredentialProvider } from '../../src/index.js';
import { connect, failureOf, machine, type Scene, startServer } from './support.js';

/** A provider over a token of the simulator, that takes it back as `revoke` says. */
function taking({ server }: Scene, revoke?: CredentialProvider['revoke']): CredentialProvider {
  const token = server.issueToken();
  const credential: Credential = { generation: 1, headers: () => ({ authorization: `Bearer ${token}` }) };
  return { id: 'own', acquire: async () => credential, ...(revoke !== undefined && { revoke }) };
}
const SLOW = { name: 'slow', arguments: { ms: 600_000 } };
const ECHO = { name: 'echo', arguments: { text: 'a' } };

function thrower(): never {
  throw new Error('canary');
}

describe('revoke()', () => {
  it('cancels what is under way, deletes the session, takes the token back, and lets nothing out any more', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    const order: string[] = [];
    const credentials = taking(scene, async () => {
      order.push(`revoked after ${server.counts.deletes} DELETE`);
      server.revokeTokens();
      return 'revoked';
    });
    const lines: string[] = [];
    const audit = auditLog({ write: (line) => lines.push(line) });
    const client = await connect(scene, { credentials, audit });
    const running = [failureOf(client.callTool(SLOW)), failureOf(client.callTool(SLOW))];
    await clock.settle();

    const revoking = client.connection.revoke('key leaked');
    const late = await failureOf(client.callTool(ECHO));
    await clock.settle();

    expect(await revoking).toEqual({ token: 'revoked', session: 'deleted' });
    expect(order).toEqual(['revoked after 1 DELETE']);
    for (const failure of await Promise.all(running)) {
      expect(failure).toMatchObject({ code: 'ERR_CLOSED', executed: 'unknown', reason: 'key leaked' });
    }
    expect(late).toMatchObject({ code: 'ERR_CLOSED', executed: false });
    expect(server.log.filter(({ rpcMethod }) => rpcMethod === 'notifications/cancelled')).toHaveLength(2);
    expect(server.counts.executions).toEqual({ slow: 2 });
    expect(client.connection.state).toBe('closed');
    const { requests, tokenRequests } = server.counts;
    await failureOf(client.callTool(ECHO));
    await clock.advance(60_000);
    expect(server.counts).toMatchObject({ requests, tokenRequests });
    // The issuer refuses it: nobody else can use it either.
    const stolen = await connect(scene, { credentials }).then(
      () => 'connected',
      () => 'refused',
    );
    expect(stolen).toBe('refused');
    const events = lines.map((line) => JSON.parse(line)).filter(({ event }) => event === 'revoked');
    expect(events).toMatchObject([
      {
        event: 'revoked',
        reason: 'key leaked',
        token: 'revoked',
        session: 'deleted',
      },
    ]);
    expect(verifyAudit(lines.join(''))).toMatchObject({ ok: true, lines: 5 });
  });

  it.each([
    ['hangs in everything', true, undefined, { token: 'revoked', session: 'failed' }],
    [
      'hangs, and its issuer too',
      true,
      () => new Promise<never>(() => {}),
      { token: 'failed', session: 'failed' },
    ],
    [
      'answers, and its issuer hangs',
      false,
      () => new Promise<never>(() => {}),
      { token: 'failed', session: 'deleted' },
    ],
  ])('is over within a second at a server that %s', async (_what, hangs, revoke, expected) => {
    // Its timers would stand on the same clock.
    const scene = await startServer({ tools: [{ name: 'hang', handler: () => new Promise(() => {}) }] });
    const { server, clock } = scene;
    let revokedAfterMs: number | undefined;
    const startedMs = () => clock.monotonic();
    let beganMs = 0;
    const credentials = taking(
      scene,
      revoke ??
        (async () => {
          revokedAfterMs = startedMs() - beganMs;
          server.revokeTokens();
          return 'revoked';
        }),
    );
    const client = await connect(scene, { credentials });
    const running = failureOf(client.callTool({ name: 'hang' }, undefined, { timeout: 3_600_000 }));
    await clock.settle();
    if (hangs) server.reply({}, { silence: true });

    beganMs = clock.monotonic();
    let isOver = false;
    const revoking = client.connection.revoke().finally(() => {
      isOver = true;
    });
    // The caller does not wait for the server.
    expect(await running).toMatchObject({ code: 'ERR_CLOSED' });
    await clock.advance(1_000);

    expect(isOver).toBe(true);
    expect(await revoking).toEqual(expected);
    if (revoke === undefined) expect(revokedAfterMs).toBeLessThan(1_000);
    expect(clock.pendingTimers).toBe(0);
    expect(client.connection.state).toBe('closed');
  });

  const sources: readonly (readonly [string, CredentialProvider['revoke'], Revocation['token']])[] = [
    ['has no way to do it', undefined, 'unsupported'],
    ['says that its issuer has none', async () => 'unsupported', 'unsupported'],
    ['fails', () => Promise.reject(new Error('canary')), 'failed'],
    ['throws', thrower, 'failed'],
    ['gives something else', async () => true as never, 'failed'],
  ];
  it.each(sources)('says so where the source of the token %s', async (_what, revoke, token) => {
    const scene = await startServer();
    const client = await connect(scene, { credentials: taking(scene, revoke) });
    const revoking = client.connection.revoke();
    await scene.clock.settle();
    expect(await revoking).toEqual({ token, session: 'deleted' });
  });

  it.each([
    ['405', { status: 405 }, 'failed'],
    ['404', { status: 404 }, 'deleted'],
    ['500', { status: 500 }, 'failed'],
    ['a cut', { cut: 'reset' }, 'failed'],
  ] as const)('DELETE answered by %s: %s', async (_what, reply, session) => {
    const scene = await startServer();
    const client = await connect(scene, { credentials: taking(scene) });
    scene.server.reply({ http: 'DELETE' }, reply);
    const revoking = client.connection.revoke();
    await scene.clock.settle();
    expect(await revoking).toEqual({ token: 'unsupported', session });
  });

  it('with an OAuth grant: the issuer is asked, and refuses the token afterwards', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    const credentials = machine(scene);
    const client = await connect(scene, { credentials });
    const url = new URL(server.url);
    const headers = await (await credentials.acquire(url)).headers({ method: 'POST', url });
    const stolen = async () => {
      const message = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
      const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(message) });
      return response.status;
    };
    expect(await stolen()).not.toBe(401);
    const revoking = client.connection.revoke('lost laptop');
    await clock.settle();
    expect(await revoking).toEqual({ token: 'revoked', session: 'deleted' });
    expect(await stolen()).toBe(401);
  });

  it('is one, however often it is called, and closing takes part in it', async () => {
    const scene = await startServer();
    let taken = 0;
    const credentials = taking(scene, async () => {
      taken += 1;
      return 'revoked';
    });
    const client = await connect(scene, { credentials });
    const all = Promise.all([client.connection.revoke('a'), client.connection.revoke('b'), client.close()]);
    await scene.clock.settle();
    const [one, two] = await all;
    expect(one).toBe(two);
    expect([taken, scene.server.counts.deletes]).toEqual([1, 1]);
  });

  it('without a session there is none to delete; after close() the token can still be taken back', async () => {
    const scene = await startServer({ sessions: false });
    const client = await connect(scene, { credentials: taking(scene, async () => 'revoked') });
    await client.close();
    expect(await client.connection.revoke()).toEqual({ token: 'revoked', session: 'none' });
    const idle = await connect(scene, {
      credentials: taking(scene, async () => 'revoked'),
      lazyConnect: true,
    });
    expect(await idle.connection.revoke()).toEqual({ token: 'revoked', session: 'none' });
  });

  it('ends a call that waits at a gate, a handshake and a listen stream', async () => {
    const scene = await startServer();
    const never = () => new Promise<never>(() => {});
    const client = await connect(scene, {
      credentials: taking(scene),
      gates: [{ name: 'person', timeoutMs: 600_000, before: never }],
      streams: { listen: true },
    });
    await scene.clock.settle();
    expect(scene.server.counts.streamsOpen).toBe(1);
    const waiting = failureOf(client.callTool(ECHO));
    await scene.clock.settle();
    const revoking = client.connection.revoke();
    expect(await waiting).toMatchObject({ code: 'ERR_CLOSED', executed: false });
    await scene.clock.settle();
    await revoking;
    await scene.clock.settle();
    expect(scene.server.counts.streamsOpen).toBe(0);

    const other = await startServer();
    other.server.reply({ method: 'initialize' }, { silence: true });
    const opening = await connect(other, { credentials: taking(other), lazyConnect: true });
    const calling = failureOf(opening.callTool(ECHO));
    await other.clock.settle();
    const over = opening.connection.revoke();
    expect(await calling).toMatchObject({ code: 'ERR_CLOSED', executed: false });
    expect(await over).toEqual({ token: 'unsupported', session: 'none' });
  });
});
