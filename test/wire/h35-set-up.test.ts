import { describe, expect, it } from 'vitest';
import { HostedClient, type HostedClientOptions } from '../../src/client.js';
import { HostedMcpError } from '../../src/index.js';
import { call, connectStock, SDKS, type StockClient } from './stock.js';
import { closeLater, connect, echo, failureOf, machine, type Scene, startServer } from './support.js';

type OnEstablished = NonNullable<NonNullable<HostedClientOptions['session']>['onEstablished']>;

/** Calls as they reached the server: `session#2 select`, ... */
const callsAt = ({ server }: Scene) =>
  server.log
    .filter((entry) => entry.rpcMethod === 'tools/call')
    .map((entry) => `${entry.sessionLabel} ${entry.tool}`);

const select: OnEstablished = async (setup) => {
  await setup.callTool({ name: 'select', arguments: {} });
};

const TOOLS = [
  { name: 'select', handler: () => 'selected' },
  { name: 'echo', handler: (args: Record<string, unknown>) => String(args.text) },
  {
    name: 'slow-select',
    handler: async (_: unknown, context: { wait(ms: number): Promise<void> }) => {
      await context.wait(4_000);
      return 'selected';
    },
  },
];

function unconnected(scene: Scene, onEstablished: OnEstablished): HostedClient {
  const client = new HostedClient(
    { name: 'test', version: '1.0.0' },
    { url: scene.server.url, credentials: machine(scene), clock: scene.clock, session: { onEstablished } },
  );
  closeLater(() => client.close());
  return client;
}

describe('H35 onEstablished makes a tool call', () => {
  it('goes out before everything else on the first session', async () => {
    const scene = await startServer({ tools: TOOLS });
    const client = await connect(scene, { session: { onEstablished: select } });
    await echo(client, 'first');
    expect(callsAt(scene)).toEqual(['session#1 select', 'session#1 echo']);
  });

  for (const status of [404, 400] as const) {
    it(`goes out before the waiting calls after a loss (${status})`, async () => {
      const scene = await startServer({ tools: TOOLS, sessionLostStatus: status });
      const { server } = scene;
      const reasons: string[] = [];
      const client = await connect(scene, {
        session: {
          onEstablished: async (setup) => {
            reasons.push(setup.reason);
            await setup.callTool({ name: setup.previous === undefined ? 'select' : 'slow-select' });
          },
        },
      });
      server.dropSessions();
      await failureOf(echo(client, 'lost'));
      const waiting = ['a', 'b', 'c'].map((id) => echo(client, id));
      await scene.clock.settle();
      expect(callsAt(scene).at(-1)).toBe('session#2 slow-select');
      await scene.clock.advance(4_000);
      await Promise.all(waiting);

      expect(callsAt(scene)).toEqual([
        'session#1 select',
        'session#1 echo',
        'session#2 slow-select',
        'session#2 echo',
        'session#2 echo',
        'session#2 echo',
      ]);
      expect(server.counts.executionsById).toEqual({ a: 1, b: 1, c: 1 });
      expect(reasons).toHaveLength(2);
    });
  }

  it('goes out on the new session of a change of token, while the old one still serves', async () => {
    const scene = await startServer({ tools: TOOLS, bindSession: 'token' });
    const client = await connect(scene, { session: { onEstablished: select } });
    await scene.clock.advance(50_000);
    await echo(client, 'after');
    expect(callsAt(scene)).toEqual(['session#1 select', 'session#2 select', 'session#2 echo']);
    expect(scene.server.log.find((entry) => entry.sessionLabel === 'session#2')?.tokenLabel).toBe('token#2');
  });

  for (const sdk of SDKS) {
    it(`under the stock ${sdk} Client: before the waiting calls, too`, async () => {
      const scene = await startServer({ tools: TOOLS });
      const { client } = await connectStock(scene, sdk, { session: { onEstablished: select } });
      scene.server.dropSessions();
      await failureOf(call(client, 'lost'));
      await Promise.all([call(client, 'a'), call(client, 'b')]);
      expect(callsAt(scene).slice(2)).toEqual(['session#2 select', 'session#2 echo', 'session#2 echo']);
    });
  }

  it("the tool's own JSON-RPC error reaches it as a typed error, with the server's words apart", async () => {
    const scene = await startServer({ tools: TOOLS });
    const failures: unknown[] = [];
    const client = await connect(scene, {
      session: {
        onEstablished: async (setup) => {
          await setup.callTool({ name: 'no-such-tool' }).catch((error: unknown) => failures.push(error));
        },
      },
    });
    await echo(client, 'after');
    expect(failures).toHaveLength(1);
    expect(failures[0]).toMatchObject({ code: 'ERR_PROTOCOL', serverText: 'Unknown tool: no-such-tool' });
    expect(scene.server.counts.initializes).toBe(1);
  });
});

describe('H35 onEstablished fails', () => {
  const FAILURES: [string, OnEstablished][] = [
    ['throws', () => Promise.reject(new Error('no such project: connection refused (http 404)'))],
    [
      'throws at once',
      () => {
        throw new TypeError('undefined is not a function');
      },
    ],
    ['throws nothing at all', () => Promise.reject(undefined)],
    ['calls a tool that is not there', async (setup) => void (await setup.callTool({ name: 'nothing' }))],
  ];
  for (const [name, onEstablished] of FAILURES) {
    it(`${name}: tried on two sessions, then a typed error; both sessions are deleted`, async () => {
      const scene = await startServer({ tools: TOOLS });
      const { server, clock } = scene;
      let fails = true;
      const client = unconnected(scene, (setup) => (fails ? onEstablished(setup) : undefined));

      const failure = await failureOf(client.connect());

      expect(failure).toMatchObject({ code: 'ERR_SESSION_UNSTABLE', executed: false, retryable: true });
      expect(failure.message).not.toContain('404');
      await clock.settle();
      expect(server.counts).toMatchObject({ initializes: 2, deletes: 2 });
      expect(client.connection.state).toBe('unstable');

      fails = false;
      await clock.advance(failure.retryAfterMs ?? 0);
      await client.connect();
      await echo(client, 'after');
      expect(server.counts.executionsById).toEqual({ after: 1 });
      expect(client.connection.state).toBe('ready');
    });
  }

  it('hangs: given up at its bound, twice; the waiting calls hear a typed error then, not at their own end', async () => {
    const scene = await startServer({ tools: TOOLS });
    const { server, clock } = scene;
    const ended: string[] = [];
    let hangs = false;
    const client = await connect(scene, {
      session: {
        setupTimeoutMs: 10_000,
        onEstablished: (setup) =>
          hangs
            ? new Promise(() => {
                setup.signal.addEventListener('abort', () => ended.push(setup.session.fingerprint ?? ''));
              })
            : undefined,
      },
    });
    hangs = true;
    server.dropSessions();
    await failureOf(echo(client, 'lost'));
    const startedMs = clock.monotonic();
    let endedMs = 0;
    const waiting = ['a', 'b'].map((id) =>
      failureOf(echo(client, id)).finally(() => {
        endedMs = clock.monotonic();
      }),
    );

    await clock.advance(9_999);
    expect(server.counts.initializes).toBe(2);
    await clock.advance(1);
    expect(server.counts.initializes).toBe(3);
    await clock.advance(10_000);

    for (const failure of await Promise.all(waiting)) {
      expect(failure).toMatchObject({ code: 'ERR_SESSION_UNSTABLE', executed: false, retryable: true });
      expect(failure.reason).toContain('setup.callTool');
    }
    expect(endedMs - startedMs).toBe(20_000);
    expect(new Set(ended).size).toBe(2);
    await clock.settle();
    expect(server.counts).toMatchObject({ initializes: 3, deletes: 2 });
    expect(server.counts.executions.echo).toBeUndefined();
    expect(clock.pendingTimers).toBeLessThanOrEqual(2);
  });

  it('its own tool call hangs: the same, and that tool is called once on each session', async () => {
    const scene = await startServer({ tools: TOOLS });
    const { server, clock } = scene;
    server.reply({ method: 'tools/call' }, { silence: true });
    const failures: unknown[] = [];
    const client = unconnected(scene, async (setup) => {
      await setup.callTool({ name: 'select' }).catch((error: unknown) => {
        failures.push(error);
        throw error;
      });
    });

    const failure = failureOf(client.connect());
    await clock.advance(15_000);
    await clock.advance(15_000);

    expect(await failure).toMatchObject({ code: 'ERR_SESSION_UNSTABLE', executed: false });
    await clock.settle();
    expect(callsAt(scene)).toEqual(['session#1 select', 'session#2 select']);
    for (const each of failures) {
      expect(HostedMcpError.isInstance(each, 'ERR_OUTCOME_UNKNOWN')).toBe(true);
      expect(each).toMatchObject({ executed: 'unknown', tool: 'select' });
    }
    expect(failures).toHaveLength(2);
  });

  it('calls through the client instead of `setup`: no dead-lock, and the error says what to do', async () => {
    const scene = await startServer({ tools: TOOLS });
    const { server, clock } = scene;
    let use: HostedClient | undefined;
    const client = await connect(scene, {
      session: { onEstablished: async () => void (use && (await echo(use, 'wrong way'))) },
    });
    use = client;
    server.dropSessions();
    await failureOf(echo(client, 'lost'));
    const waiting = failureOf(echo(client, 'waiting'));

    await clock.advance(15_000);
    await clock.advance(15_000);

    expect((await waiting).reason).toContain('setup.callTool');
    expect(server.counts.initializes).toBe(3);
    expect(server.counts.executions.echo).toBeUndefined();
  });

  for (const sdk of SDKS) {
    it(`throws under the stock ${sdk} Client: the waiting call gets our error`, async () => {
      const scene = await startServer({ tools: TOOLS });
      const { server } = scene;
      let fails = false;
      const { client } = await connectStock(scene, sdk, {
        session: {
          onEstablished: () => {
            if (fails) throw new Error('no');
          },
        },
      });
      fails = true;
      server.dropSessions();
      await failureOf(call(client, 'lost'));

      const failure = await failureOf(call(client as StockClient, 'waiting'));

      expect(failure).toMatchObject({ code: 'ERR_SESSION_UNSTABLE', executed: false, retryable: true });
      expect(server.counts.initializes).toBe(3);
      expect(server.counts.executions.echo).toBeUndefined();
    });
  }

  it('while a change of token is made ready: the old session goes on serving', async () => {
    const scene = await startServer({ tools: TOOLS, bindSession: 'token' });
    const { server, clock } = scene;
    let fails = false;
    const client = await connect(scene, {
      session: {
        onEstablished: () => {
          if (fails) throw new Error('no');
        },
      },
    });
    fails = true;
    await clock.advance(50_000);
    expect(server.counts).toMatchObject({ initializes: 3, tokenRequests: 2 });
    fails = false;
    await echo(client, 'after');
    expect(server.counts.executionsById).toEqual({ after: 1 });
    expect(client.connection.state).toBe('ready');
  });
});
