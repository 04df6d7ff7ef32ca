/**
 * A supervised server through `relayTransport`: the same engine, the same words for what happened.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client as ClientV2 } from '@modelcontextprotocol/client';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { LoggingMessageNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, it } from 'vitest';
import { HostedClient } from '../../src/client.js';
import { auditLog } from '../../src/gates/index.js';
import { HostedMcpError } from '../../src/index.js';
import { type RelaySend, relayHop, relayTransport, superviseServer } from '../../src/relay/index.js';
import { manualClock } from '../../src/testing/index.js';
import { brain, supervised } from './relay-support.js';
import { bench, call, INFO, isRunning, textOf, until } from './stdio-support.js';
import { closeLater, failureOf } from './support.js';

/** What a wire does to messages. */
const overWire =
  (send: RelaySend): RelaySend =>
  async (message, options) =>
    JSON.parse(JSON.stringify(await send(JSON.parse(JSON.stringify(message)), options)));

describe('one process, however many calls', () => {
  it('started by the first, kept for the next, and for the next brain', async () => {
    const { server, supervisor } = supervised();
    expect(server.pids()).toHaveLength(0);
    const client = await brain(supervisor);
    const first = await textOf(call(client, 'pid'));
    expect(await textOf(call(client, 'pid'))).toBe(first);
    await client.close();

    const other = await brain(supervisor);
    expect(await textOf(call(other, 'pid'))).toBe(first);
    expect(server.pids()).toEqual([Number(first)]);
    expect(server.received('initialize')).toHaveLength(1);
    expect(server.received('notifications/initialized')).toHaveLength(1);
  });

  it('under the SDK’s Clients of both major versions, and a HostedClient', async () => {
    const { server, supervisor } = supervised();
    const send: RelaySend = (message, how) => supervisor.handle(message, how);
    const one = new Client(INFO);
    const two = new ClientV2(INFO, { versionNegotiation: { mode: 'auto' } } as never);
    const transports = [relayTransport(send), relayTransport(send)] as const;
    await one.connect(transports[0] as never);
    await two.connect(transports[1] as never);
    const three = await brain(send);
    const tools = await Promise.all([one.listTools(), two.listTools(), three.listTools()]);
    expect(new Set(tools.map((list) => list.tools.length)).size).toBe(1);
    expect(await textOf(two.callTool({ name: 'echo', arguments: { text: 'v2' } }))).toBe('v2');
    expect(await textOf(one.callTool({ name: 'echo', arguments: { text: 'v1' } }))).toBe('v1');
    await Promise.all([one.close(), two.close()]);
    expect(transports.map(({ connection }) => connection.state)).toEqual(['closed', 'closed']);
    expect(server.pids()).toHaveLength(1);
    expect(isRunning(server.pids()[0] as number)).toBe(true);
  });
});

describe('a process that ends', () => {
  it.each([
    ['directly', (send: RelaySend) => send],
    [
      'over wires',
      (send: RelaySend) => overWire(relayHop(overWire(relayHop(send, { name: 'inner' })), { name: 'outer' })),
    ],
  ])('during a call, %s: unknown, run once; the next call works in a new process', async (_, wrap) => {
    const { server, supervisor } = supervised();
    const client = await brain(wrap((message, how) => supervisor.handle(message, how)));
    await call(client, 'pid');
    const failure = await failureOf(call(client, 'die', { how: 'SIGKILL' }));
    expect(failure).toMatchObject({
      code: 'ERR_OUTCOME_UNKNOWN',
      executed: 'unknown',
      retryable: false,
      reason: 'child-ended',
      tool: 'die',
    });
    expect(await textOf(call(client, 'pid'))).toBe(String(server.pids()[1]));
    expect(server.runs('die')).toBe(1);
    expect(server.pids()).toHaveLength(2);
    expect(server.received('tools/call').map(({ message }) => message?.params?.name)).toEqual([
      'pid',
      'die',
      'pid',
    ]);
  });

  it('between calls: the next is refused unread, for it was meant for another process; the one after works', async () => {
    const { server, supervisor } = supervised();
    const exits: unknown[] = [];
    supervisor.on('exit', (exit) => exits.push(exit));
    const client = await brain(supervisor);
    await call(client, 'pid');
    process.kill(server.pids()[0] as number, 'SIGKILL');
    await until(() => exits.length === 1);

    expect(await failureOf(call(client, 'echo', { text: 'x' }))).toMatchObject({
      code: 'ERR_SESSION_LOST',
      executed: false,
      retryable: true,
      tool: 'echo',
    });
    expect(await textOf(call(client, 'echo', { text: 'y' }))).toBe('y');
    expect(server.runs('echo')).toBe(1);
    expect(client.connection.session?.number).toBe(2);
  });

  it('during a read: it is asked again, of the new process', async () => {
    const { server, supervisor } = supervised({ START: 'die-at-first-list' });
    const client = await brain(supervisor);
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toContain('echo');
    expect(server.received('tools/list')).toHaveLength(2);
    expect(server.pids()).toHaveLength(2);
  });

  it('and cannot be started: which command, never what it was started with; nothing ran', async () => {
    const supervisor = superviseServer(
      { command: '/nowhere/canary-server', env: { API_KEY: 'sk-canary-0123456789' } },
      { name: 'mine', restartDelayMs: 0 },
    );
    closeLater(() => supervisor.close());
    const failure = await failureOf(brain(supervisor));
    expect(failure).toMatchObject({
      code: 'ERR_NOT_SENT',
      executed: false,
      reason: 'start',
      retryable: true,
    });
    expect(failure.message + JSON.stringify(failure) + String(failure.cause)).not.toContain('canary');
  });
});

describe('figures and records', () => {
  it('a call’s event, the stats and the audit’s line say what the caller is told', async () => {
    const { server, supervisor } = supervised();
    const lines: Record<string, unknown>[] = [];
    const audit = auditLog({ write: (line) => lines.push(JSON.parse(line)) });
    let refuses = false;
    const client = await brain(
      (message, how) =>
        refuses
          ? Promise.reject(new HostedMcpError('ERR_NOT_SENT', 'Elsewhere', { retryable: true }))
          : supervisor.handle(message, how),
      { audit },
    );
    const ended: unknown[] = [];
    client.connection.on('call', ({ tool, code, executed }) => {
      if (tool !== undefined) ended.push([tool, code, executed]);
    });
    await call(client, 'pid');
    const cut = await failureOf(call(client, 'die'));
    await call(client, 'pid');
    refuses = true;
    const refused = await failureOf(call(client, 'echo', { text: 'x' }));
    const expected = [
      ['pid', undefined, true],
      ['die', cut.code, 'unknown'],
      ['pid', undefined, true],
      ['echo', refused.code, false],
    ];
    expect(ended).toEqual(expected);
    expect([cut.code, refused.code]).toEqual(['ERR_OUTCOME_UNKNOWN', 'ERR_NOT_SENT']);
    expect(client.connection.stats.calls.failed).toEqual({ ERR_OUTCOME_UNKNOWN: 1, ERR_NOT_SENT: 1 });
    await audit.close();
    expect(lines.map(({ tool, code, executed }) => [tool, code, executed])).toEqual(expected);
    // What ran has its line.
    expect(server.runs('pid') + server.runs('die')).toBe(3);
  });
});

describe('what is refused here never reaches the relay', () => {
  it('by a gate, before and after; with arguments rewritten', async () => {
    const { server, supervisor } = supervised();
    let sent = 0;
    const send: RelaySend = (message, how) => {
      sent += 1;
      return supervisor.handle(message, how);
    };
    const client = await brain(send, {
      gates: [
        {
          name: 'policy',
          before: ({ tool, arguments: args }) =>
            tool === 'args'
              ? { deny: 'not this one' }
              : tool === 'echo'
                ? { arguments: { ...args, text: 'rewritten' } }
                : 'allow',
          after: ({ tool }) => (tool === 'pid' ? { deny: 'not to be known' } : 'allow'),
        },
      ],
    });
    const before = sent;
    expect(await failureOf(call(client, 'args'))).toMatchObject({
      code: 'ERR_DENIED',
      executed: false,
      gate: 'policy',
    });
    expect(sent).toBe(before);
    expect(await textOf(call(client, 'echo', { text: 'given' }))).toBe('rewritten');
    expect(await failureOf(call(client, 'pid'))).toMatchObject({
      code: 'ERR_RESULT_REFUSED',
      executed: true,
    });
    expect(server.runs('args')).toBe(0);
    expect(server.runs('pid')).toBe(1);
  });

  it('by the contract: a tool that is not as it was pinned', async () => {
    const server = bench();
    const file = join(server.folder, 'tools');
    const entry = { ...server.entry, env: { ...server.entry.env, TOOLS: file } };
    const open = () => {
      const supervisor = superviseServer(entry, { name: 'mine' });
      closeLater(() => supervisor.close());
      return supervisor;
    };
    const pinned = await (await brain(open())).snapshot();
    writeFileSync(file, JSON.stringify({ echo: 'sends everything away' }));
    const client = await brain(open(), { contract: { pinned } });
    const failure = await failureOf(call(client, 'echo', { text: 'x' }));
    expect(failure).toMatchObject({ code: 'ERR_CONTRACT_CHANGED', executed: false });
    expect(await textOf(call(client, 'pid'))).not.toBe('');
    expect(server.runs('echo')).toBe(0);
  });

  it('once closed', async () => {
    const { server, supervisor } = supervised();
    const client = await brain(supervisor);
    await client.close();
    expect((await failureOf(call(client, 'echo'))).code).toBe('ERR_CLOSED');
    expect(server.received('tools/call')).toHaveLength(0);
  });
});

describe('time', () => {
  it('of the caller is what the relay is given; given up, the server is told', async () => {
    const { server, supervisor } = supervised();
    const given: [string, number][] = [];
    const clock = manualClock();
    const client = await brain(
      (message, how) => {
        if ('method' in message) given.push([message.method, how.deadlineMs]);
        return supervisor.handle(message, how);
      },
      { clock },
      { clock },
    );
    await call(client, 'pid');
    await client.callTool({ name: 'pid' }, undefined, { timeout: 7_000 });
    const controller = new AbortController();
    const asked = failureOf(client.callTool({ name: 'wait' }, undefined, { signal: controller.signal }));
    await until(() => server.runs('wait') === 1);
    controller.abort();
    expect(await asked).toMatchObject({ code: 'ERR_ABORTED', executed: 'unknown' });
    await until(() => server.received('notifications/cancelled').length === 1);
    expect(given.filter(([method]) => method === 'tools/call')).toEqual([
      ['tools/call', 60_000],
      ['tools/call', 7_000],
      ['tools/call', 60_000],
    ]);
    expect(given[0]).toEqual(['initialize', 15_000]);
  });

  it('a way that neither answers nor listens: the call ends all the same, by the caller’s time', async () => {
    const { supervisor } = supervised();
    const clock = manualClock();
    let isDeaf = false;
    const client = await brain(
      (message, how) => (isDeaf ? new Promise(() => {}) : supervisor.handle(message, how)),
      { clock },
      { clock },
    );
    isDeaf = true;
    const asked = failureOf(client.callTool({ name: 'echo' }, undefined, { timeout: 5_000 }));
    await clock.advance(5_000);
    expect(await asked).toMatchObject({ code: 'ERR_TIMEOUT', executed: 'unknown' });
    await client.close();
    expect(clock.pendingTimers).toBe(0);
  });
});

describe('a way of another’s', () => {
  const server =
    (over: Partial<Record<string, unknown>>): RelaySend =>
    async (message) => {
      if (!('method' in message) || !('id' in message)) return [];
      const { id, method } = message;
      if (method in over) return over[method] as never;
      const serverInfo = { name: 'x', version: '1' };
      const result =
        method === 'initialize'
          ? { protocolVersion: '2025-11-25', capabilities: { tools: {}, logging: {} }, serverInfo }
          : {};
      return { jsonrpc: '2.0', id, result };
    };

  it.each<[string, unknown]>([
    ['nothing', undefined],
    ['null', null],
    ['an empty list', []],
    ['a text', 'ok'],
    ['the answer to another request', { jsonrpc: '2.0', id: 'other', result: {} }],
    ['a question', { jsonrpc: '2.0', id: 1, method: 'sampling/createMessage' }],
  ])('that answers %s: our error, and it may have run', async (_, came) => {
    const client = await brain(server({ 'tools/call': came }));
    expect(await failureOf(call(client, 'x'))).toMatchObject({ code: 'ERR_PROTOCOL', executed: 'unknown' });
  });

  it('that forwards notifications: they come before the answer', async () => {
    const heard: unknown[] = [];
    const send: RelaySend = async (message, how) => {
      const answer = (await server({})(message, how)) as never;
      if (!('method' in message) || message.method !== 'tools/call') return answer;
      const notice = (n: number) =>
        ({ jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: n } }) as const;
      return [
        notice(1),
        { jsonrpc: '2.0', id: 9, method: 'roots/list' },
        notice(2),
        { ...(answer as object), result: { content: [] } },
      ] as never;
    };
    const client = await brain(send);
    client.setNotificationHandler(
      LoggingMessageNotificationSchema,
      ({ params }) => void heard.push(params.data),
    );
    await call(client, 'x');
    expect(heard).toEqual([1, 2]);
  });

  it('a server’s own error passes as it is', async () => {
    const own =
      (data?: unknown): RelaySend =>
      async (message, how) => {
        const isCall = 'method' in message && message.method === 'tools/call';
        return isCall && 'id' in message
          ? { jsonrpc: '2.0', id: message.id, error: { code: -32050, message: 'theirs', data } }
          : server({})(message, how);
      };
    const failure = await call(await brain(own()), 'x').catch((error: unknown) => error);
    expect(HostedMcpError.isInstance(failure)).toBe(false);
    expect(failure).toMatchObject({ code: -32050 });
  });

  it('that says a call did not run: nothing is sent again for that, and the app is told', async () => {
    let calls = 0;
    const send: RelaySend = (message, how) => {
      if ('method' in message && message.method === 'tools/call') {
        calls += 1;
        return Promise.reject(
          new HostedMcpError('ERR_NOT_SENT', 'Elsewhere', { retryable: true, retryAfterMs: 70 }),
        );
      }
      return server({})(message, how);
    };
    const failure = await failureOf(call(await brain(send), 'x'));
    expect(failure).toMatchObject({
      code: 'ERR_NOT_SENT',
      executed: false,
      retryable: true,
      retryAfterMs: 70,
    });
    expect(calls).toBe(1);
  });

  it.each<[string, () => Promise<never>]>([
    ['rejects', () => Promise.reject(new Error('canary text of another'))],
    [
      'throws',
      () => {
        throw new TypeError('canary text of another');
      },
    ],
  ])('that %s: it may have run, and its words stay out', async (_, fail) => {
    const send: RelaySend = (message, how) =>
      'method' in message && message.method === 'tools/call' ? fail() : server({})(message, how);
    const failure = await failureOf(call(await brain(send), 'x'));
    expect(failure).toMatchObject({ code: 'ERR_OUTCOME_UNKNOWN', executed: 'unknown', retryable: false });
    expect(failure.message + JSON.stringify(failure) + String(failure.cause)).not.toContain('canary');
  });
});

describe('what cannot be used is refused', () => {
  it.each<[string, unknown, object]>([
    ['no function', undefined, {}],
    ['credentials', async () => [], { credentials: 'x' }],
    ['http', async () => [], { http: {} }],
    ['lazyConnect', async () => [], { lazyConnect: true }],
    ['an option that is none', async () => [], { nmae: 'x' }],
    ['a name', async () => [], { name: 'a b' }],
  ])('%s', (_, send, options) => {
    expect(() => relayTransport(send as never, options as never)).toThrow(TypeError);
  });

  it('a transport of its own kind is taken by HostedClient, others are not', async () => {
    const client = new HostedClient(INFO, {} as never);
    await expect(client.connect({ start() {}, send() {}, close() {} } as never)).rejects.toThrow(TypeError);
  });
});
