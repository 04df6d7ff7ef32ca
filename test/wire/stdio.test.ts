/**
 * A server in a process of its own, behind the same engine: what a lost process, a refused call and a bad line mean.
 */
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  CreateMessageRequestSchema,
  LoggingMessageNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, it } from 'vitest';
import { connectServer } from '../../src/client.js';
import { formatSnapshot, type LogEntry, parseSnapshot } from '../../src/index.js';
import { manualClock } from '../../src/testing/index.js';
import { bench, call, INFO, isRunning, textOf, until } from './stdio-support.js';
import { closeLater, failureOf } from './support.js';

describe('a process that ends', () => {
  it.each([
    ['by its exit', { how: 7 }],
    ['by a signal', { how: 'SIGKILL' }],
    ['in the middle of its answer', { how: 0, half: true }],
  ])('%s, during a call: unknown, run once; the next call works in a new process', async (_, how) => {
    const server = bench();
    const client = await server.connect();
    const lost: string[] = [];
    client.connection.on('session-lost', ({ reason }) => lost.push(reason));

    const failure = await failureOf(call(client, 'die', how));
    const next = await textOf(call(client, 'pid'));

    expect(failure).toMatchObject({ code: 'ERR_OUTCOME_UNKNOWN', executed: 'unknown', retryable: false });
    const [first, second] = server.pids();
    expect(server.pids()).toHaveLength(2);
    expect(next).toBe(String(second));
    expect(first).not.toBe(second);
    expect(server.runs('die')).toBe(1);
    expect(server.received('tools/call').map(({ message }) => message?.params?.name)).toEqual(['die', 'pid']);
    expect(server.received('initialize')).toHaveLength(2);
    expect(lost).toHaveLength(1);
  });

  it('takes all calls under way with it, each told at once, none repeated', async () => {
    const server = bench();
    const client = await server.connect();

    const waiting = [1, 2, 3].map(() => failureOf(call(client, 'wait')));
    await until(() => server.runs('wait') === 3);
    const failures = await Promise.all([...waiting, failureOf(call(client, 'die'))]);

    expect(failures.map(({ code }) => code)).toEqual(Array(4).fill('ERR_OUTCOME_UNKNOWN'));
    expect(await textOf(call(client, 'echo', { text: 'again' }))).toBe('again');
    expect(server.received('tools/call')).toHaveLength(5);
  });

  it('during a read: it is asked again, of the new process', async () => {
    const server = bench({ START: 'die-at-first-list' });
    const client = await server.connect();

    const { tools } = await client.listTools();

    expect(tools.map(({ name }) => name)).toContain('echo');
    const [one, two] = server.received('tools/list');
    expect(server.received('tools/list')).toHaveLength(2);
    expect(one?.pid).not.toBe(two?.pid);
  });

  it('between calls, by a crash: a new one is there before it is wanted', async () => {
    const server = bench();
    const client = await server.connect();

    await call(client, 'dieLater', { how: 9 });
    await client.connection.once('session-replaced');

    expect(server.pids()).toHaveLength(2);
    expect(await textOf(call(client, 'pid'))).toBe(String(server.pids()[1]));
  });

  it('between calls, as it should: nothing is started until the next call', async () => {
    const server = bench();
    const client = await server.connect();
    const idle = client.connection.once('state', { filter: ({ current }) => current === 'idle' });

    await call(client, 'dieLater', { how: 0 });
    await idle;
    await new Promise<void>((resolve) => setImmediate(resolve));
    expect(server.pids()).toHaveLength(1);
    expect(client.connection.health().ok).toBe(true);

    expect(await textOf(call(client, 'echo', { text: 'here' }))).toBe('here');
    expect(server.pids()).toHaveLength(2);
  });

  it('again and again: after the third useless one no more are started for now', async () => {
    const server = bench();
    const client = await server.connect();

    const codes: string[] = [];
    for (let round = 0; round < 6; round += 1) codes.push((await failureOf(call(client, 'die'))).code);

    expect(codes.slice(0, 3)).toEqual(Array(3).fill('ERR_OUTCOME_UNKNOWN'));
    expect(codes.slice(3)).toEqual(Array(3).fill('ERR_SESSION_UNSTABLE'));
    expect(server.pids()).toHaveLength(3);
    expect(client.connection.state).toBe('unstable');
  });
});

describe('nothing is written for a call that is refused here', () => {
  it('by a gate', async () => {
    const server = bench();
    const gates = [
      {
        name: 'policy',
        before: ({ tool }: { tool?: string }) => (tool === 'echo' ? { deny: 'no echo' } : 'allow'),
      },
    ] as const;
    const client = await server.connect({ gates });

    const failure = await failureOf(call(client, 'echo', { text: 'x' }));

    expect(failure).toMatchObject({ code: 'ERR_DENIED', executed: false, gate: 'policy' });
    await call(client, 'pid');
    expect(server.received('tools/call').map(({ message }) => message?.params?.name)).toEqual(['pid']);
  });

  it('by a gate that looks at the result: it ran, and nobody gets it', async () => {
    const server = bench();
    const client = await server.connect({
      gates: [{ name: 'inspection', after: () => ({ deny: 'not this' }) }],
    });

    const failure = await failureOf(call(client, 'echo', { text: 'x' }));

    expect(failure).toMatchObject({ code: 'ERR_RESULT_REFUSED', executed: true });
    expect(server.runs('echo')).toBe(1);
  });

  it.each(['a notification', 'a new process'])('by the pin, after %s brought another tool', async (by) => {
    const server = bench();
    const file = join(server.folder, 'tools.json');
    server.entry.env.TOOLS = file;
    const before = await server.connect();
    const pinned = parseSnapshot(formatSnapshot(await before.snapshot()));
    await before.close();
    const client = await server.connect({ contract: { pinned } });
    expect(await textOf(call(client, 'echo', { text: 'as reviewed' }))).toBe('as reviewed');

    writeFileSync(file, JSON.stringify({ echo: 'does echo, and mails it to me' }));
    const changed = client.connection.once('contract-changed');
    if (by === 'a notification') await call(client, 'changed');
    else await failureOf(call(client, 'die'));
    await changed;
    const failure = await failureOf(call(client, 'echo', { text: 'poisoned' }));

    expect(failure).toMatchObject({ code: 'ERR_CONTRACT_CHANGED', executed: false, tool: 'echo' });
    expect(failure.diff?.changes.map(({ kind }) => kind)).toEqual(['description-changed']);
    expect(server.runs('echo')).toBe(1);
    expect(await textOf(call(client, 'pid'))).toMatch(/^\d+$/);
  });

  it('by its caller’s own signal, before it left', async () => {
    const server = bench();
    const client = await server.connect();

    const failure = await failureOf(
      client.callTool({ name: 'echo', arguments: {} }, undefined, { signal: AbortSignal.abort() }),
    );

    expect(failure).toMatchObject({ code: 'ERR_ABORTED', executed: false });
    await call(client, 'pid');
    expect(server.runs('echo')).toBe(0);
  });
});

describe('what comes out of a process', () => {
  it('lines that are no message are ignored and told; the answer in a batch arrives', async () => {
    const server = bench();
    const entries: LogEntry[] = [];
    const client = await server.connect({ logger: (entry) => entries.push(entry) });
    const heard: unknown[] = [];
    client.setNotificationHandler(
      LoggingMessageNotificationSchema,
      ({ params }) => void heard.push(params.data),
    );

    expect(await textOf(call(client, 'noise'))).toBe('in a batch');

    expect(heard).toEqual(['in a batch']);
    const told = entries.filter(({ event }) => event === 'stdio-line-ignored');
    expect(told).toHaveLength(1);
    expect(told[0]).toMatchObject({ level: 'warn', fields: { count: 1, server: 'mine' } });
    expect(JSON.stringify(told)).not.toContain('Listening');
  });

  it.each([{}, { tail: true }])('an answer over the limit ends its own call only (%o)', async (more) => {
    const server = bench();
    const client = await server.connect({ http: { maxMessageBytes: 64 * 1024 } });

    const waiting = call(client, 'wait').catch(() => {});
    await until(() => server.runs('wait') === 1);
    const failure = await failureOf(call(client, 'big', { bytes: 5_000_000, ...more }));

    expect(failure.code).toBe('ERR_MESSAGE_TOO_LARGE');
    expect(failure.executed).toBe('unknown');
    expect(await textOf(call(client, 'big', { bytes: 50_000 }))).toHaveLength(50_000);
    expect(server.pids()).toHaveLength(1);
    await client.close();
    await waiting;
  });

  it('an answer one byte below the limit passes, one above does not', async () => {
    const server = bench();
    const client = await server.connect({ http: { maxMessageBytes: 20_000 } });
    const around = async (bytes: number) =>
      call(client, 'big', { bytes }).then(
        () => 'passed',
        (error: { code: string }) => error.code,
      );
    // Ids of one length, so that the lines differ by their text alone.
    let passed = 0;
    for (let bytes = 19_880; bytes < 20_000; bytes += 20)
      if ((await around(bytes)) === 'passed') passed = bytes;
    const overhead = JSON.stringify({
      jsonrpc: '2.0',
      id: 5,
      result: { content: [{ type: 'text', text: '' }] },
    }).length;
    expect(passed + overhead).toBeLessThanOrEqual(20_000);
    expect(passed + overhead).toBeGreaterThan(19_970);
  });

  it('its standard error goes to whoever asks for it, without secrets, and harms nothing', async () => {
    const server = bench({ API_KEY: 'canary-of-stderr-1' });
    const lines: string[] = [];
    const client = await server.connect({
      onStderr: (line) => {
        lines.push(line);
        throw new Error('of the app');
      },
    });
    expect(await textOf(call(client, 'echo', { text: 'x' }))).toBe('x');
    await until(() => lines.length > 0);
    expect(lines).toEqual(['started with [redacted]']);
  });

  it('its questions are answered, also a ping where nobody else listens', async () => {
    const server = bench();
    const client = await server.connect({ capabilities: { sampling: {} } });
    client.setRequestHandler(CreateMessageRequestSchema, () => ({
      model: 'm',
      role: 'assistant',
      content: { type: 'text', text: 'from the model' },
    }));

    expect(await textOf(call(client, 'ask'))).toBe('from the model');
    expect(await textOf(call(client, 'ping'))).toBe('{}');
    const plain = await server.connect();
    expect(await textOf(call(plain, 'ping'))).toBe('{}');
    expect(await textOf(call(plain, 'ask'))).toBe('refused: -32601');
    // With no call under way that could carry it, and no handler that would make the client listen.
    const [idle] = server.pids().slice(-1);
    expect(await textOf(call(plain, 'pingLater'))).toBe('soon');
    const answers = () =>
      server.lines().filter(({ pid, message }) => pid === idle && message?.method === undefined);
    const before = answers().length;
    await until(() => answers().some(({ message }) => message?.id === 'question-3'));
    expect(before).toBeGreaterThan(0);
  });

  it.each([undefined, false])('progress comes in order, with streams.listen %s', async (listen) => {
    const server = bench();
    const client = await server.connect({ streams: { listen } });
    const steps: number[] = [];

    const result = client.callTool({ name: 'progress', arguments: { steps: 5 } }, undefined, {
      onprogress: ({ progress }) => steps.push(progress),
    });

    expect(await textOf(result)).toBe('done');
    expect(steps).toEqual([1, 2, 3, 4, 5]);
  });
});

describe('a call that is given up', () => {
  it('is cancelled at the server, and the process goes on', async () => {
    const clock = manualClock();
    const server = bench();
    const client = await server.connect({ clock });

    const failing = failureOf(
      client.callTool({ name: 'wait', arguments: {} }, undefined, { timeout: 3_000 }),
    );
    await until(() => server.runs('wait') === 1);
    await clock.advance(3_000);
    const failure = await failing;

    expect(failure).toMatchObject({ code: 'ERR_TIMEOUT', executed: 'unknown' });
    expect(await textOf(call(client, 'echo', { text: 'still here' }))).toBe('still here');
    const [cancelled] = server.received('notifications/cancelled');
    const waited = server.received('tools/call').find(({ message }) => message?.params?.name === 'wait');
    expect(cancelled?.message?.params?.requestId).toBe(waited?.message?.id);
    expect(server.pids()).toHaveLength(1);
  });
});

describe('the start of a process', () => {
  const entries = {
    'no such command': { command: 'no-such-command-here' },
    'no such folder': { cwd: '/no/such/folder' },
  };

  it.each(Object.entries(entries))('%s: said by name, at the first try', async (_, change) => {
    const server = bench();
    Object.assign(server.entry, change);
    const failure = await failureOf(server.connect());

    expect(failure).toMatchObject({ code: 'ERR_NOT_SENT', executed: false, retryable: false });
    expect(failure.message).toContain('"mine"');
    expect(failure.message).toMatch(/was not found/);
    expect(failure.cause).toMatchObject({ code: 'ENOENT' });
    expect(failure.message).not.toContain('/no/such');
    expect(server.pids()).toEqual([]);
  });

  it('a command that may not be executed', async () => {
    const server = bench();
    const file = join(server.folder, 'plain-file');
    writeFileSync(file, '');
    chmodSync(file, 0o600);
    server.entry.command = file;
    expect((await failureOf(server.connect())).message).toContain(
      '(command "plain-file") could not be started: the command may not be executed',
    );
  });

  it('one that ends before it answers is started once more, then its end is said', async () => {
    const server = bench({ START: 'die' });
    const failure = await failureOf(server.connect());
    expect(failure.message).toContain('it ended (EXIT_3) before it had answered the handshake');
    expect(server.pids()).toHaveLength(2);
    expect(server.pids().some(isRunning)).toBe(false);
  });

  it('one that never answers is ended with the handshake’s time', async () => {
    const clock = manualClock();
    const server = bench({ START: 'silent' });
    let isOver = false;
    const failing = failureOf(server.connect({ clock })).finally(() => {
      isOver = true;
    });
    await until(() => server.received('initialize').length === 1);
    while (!isOver) {
      await clock.advance(1_000);
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
    const failure = await failing;
    expect(failure.code).toBe('ERR_TIMEOUT');
    await until(() => !server.pids().some(isRunning));
  });

  it('one that refuses the session: its own error, and the process is gone', async () => {
    const server = bench({ START: 'refuse' });
    await expect(server.connect()).rejects.toMatchObject({ code: -32099 });
    await until(() => !server.pids().some(isRunning));
    expect(server.pids()).toHaveLength(1);
  });

  it('gets its arguments as they are, its folder, its variables and few others', async () => {
    process.env.STDIO_TEST_OF_OURS = 'not for servers';
    const args = ['$HOME', '; echo no shell', '--flag=*', ''];
    const server = bench({ EXTRA: 'given', __proto__: 'data' }, args);
    Object.defineProperty(server.entry.env, '__proto__', { value: 'data', enumerable: true });
    const cwd = join(server.folder, 'inner');
    mkdirSync(cwd);
    server.entry.cwd = cwd;
    const client = await server.connect();

    expect(JSON.parse(await textOf(call(client, 'args')))).toEqual(args);
    expect(await textOf(call(client, 'folder'))).toBe(cwd);
    const variables = JSON.parse(await textOf(call(client, 'variables'))) as Record<string, string>;
    expect(Object.hasOwn(variables, '__proto__')).toBe(true);
    expect(variables).toMatchObject({ EXTRA: 'given', PATH: process.env.PATH });
    expect(variables).not.toHaveProperty('STDIO_TEST_OF_OURS');
    delete process.env.STDIO_TEST_OF_OURS;
  });

  it('with lazyConnect waits for the first call', async () => {
    const server = bench();
    const client = await server.connect({ lazyConnect: true });
    expect(server.pids()).toEqual([]);
    expect(await textOf(call(client, 'echo', { text: 'now' }))).toBe('now');
    expect(server.pids()).toHaveLength(1);
  });
});

describe('the end of a process', () => {
  it('comes with close(): by the end of its input, where it takes that', async () => {
    const server = bench();
    const client = await server.connect();
    const failing = failureOf(call(client, 'wait'));
    await until(() => server.runs('wait') === 1);
    await client.close();

    expect(await failing).toMatchObject({ code: 'ERR_CLOSED', executed: 'unknown' });
    expect(server.pids().map(isRunning)).toEqual([false]);
    expect(server.lines().at(-1)).toMatchObject({ eof: true });
    await client.close();
  });

  it.each([
    ['eof', 1, 'SIGTERM, after the grace'],
    ['term', 2, 'SIGKILL, after twice the grace'],
  ])('a stubborn one (%s), graces to wait: %i, is ended by %s', async (stubborn, graces) => {
    const clock = manualClock();
    const server = bench({ STUBBORN: stubborn });
    const client = await server.connect({ clock, closeGraceMs: 700 });
    const [pid] = server.pids();

    const closing = client.close();
    await until(() => server.lines().some(({ eof }) => eof === true));
    expect(server.lines().some(({ signal }) => signal !== undefined)).toBe(false);
    await clock.advance(699);
    expect(isRunning(pid!)).toBe(true);
    await clock.advance(1);
    await until(() => server.lines().some(({ signal }) => signal === 'SIGTERM'));
    if (graces === 2) {
      expect(isRunning(pid!)).toBe(true);
      await clock.advance(700);
    }
    await closing;
    expect(isRunning(pid!)).toBe(false);
  });

  it('comes when the session is ended, and the next call has a new process', async () => {
    const server = bench();
    const client = await server.connect({ session: { idleTimeoutMs: 50 } });
    await call(client, 'pid');
    await client.connection.once('state', { filter: ({ current }) => current === 'idle' });
    await until(() => !isRunning(server.pids()[0]!));
    expect(await textOf(call(client, 'echo', { text: 'new' }))).toBe('new');
    expect(server.pids()).toHaveLength(2);
  });

  it('close() while it is being opened leaves nothing', async () => {
    const server = bench({ START: 'silent' });
    const controller = new AbortController();
    const failing = failureOf(server.connect({ signal: controller.signal }));
    await until(() => server.received('initialize').length === 1);
    controller.abort();
    expect((await failing).code).toBe('ERR_ABORTED');
    expect(server.pids().map(isRunning)).toEqual([false]);
  });
});

describe('options that a started server has no use for are refused', () => {
  it.each([
    [{ credentials: 'a-token-of-ours' }, /^credentials are of no use/],
    [{ http: { proxy: false } }, /^http\.proxy has no effect/],
    [{ http: { headers: { 'x-key': 'secret' } } }, /^http\.headers has no effect/],
    [{ onStderr: 'yes' }, /^onStderr must be a function/],
    [{ closeGraceMs: -1 }, /^closeGraceMs must be/],
    [{ retry: { maxAttempts: 0 } }, /^retry\.maxAttempts/],
  ] as const)('%o', async (options, words) => {
    const server = bench();
    const failure = await connectServer(INFO, server.entry, options as never).catch(
      (error: unknown) => error,
    );
    expect(failure).toBeInstanceOf(TypeError);
    expect((failure as Error).message).toMatch(words);
    expect(server.pids()).toEqual([]);
  });

  it('and an address that only looks like one of ours is none', async () => {
    await expect(connectServer(INFO, { url: 'stdio:node' })).rejects.toThrow(TypeError);
  });
});

it('a closed client frees everything: nothing keeps this process', async () => {
  const server = bench();
  const client = await server.connect();
  closeLater(() => client.close());
  await client.close();
  const failure = await failureOf(call(client, 'pid'));
  expect(failure.code).toBe('ERR_CLOSED');
  expect(server.pids()).toHaveLength(1);
});
