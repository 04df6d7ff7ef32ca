/**
 * A process as an HttpClient: statuses, what counts as sent, and whose lines are whose.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import type { ExchangeFailure, ExchangeHandle, HttpRequest } from '../../../src/http/exchange.js';
import { StdioHttpClient, type StdioParts } from '../../../src/servers/stdio-http.js';
import { manualClock } from '../../../src/testing/index.js';

const SERVER = fileURLToPath(new URL('../../wire/stdio-server.mjs', import.meta.url));
const INITIALIZE = {
  jsonrpc: '2.0',
  id: 'first',
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 't', version: '1' } },
};

const open: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

interface Outcome {
  status?: number;
  headers?: Record<string, unknown>;
  text: string;
  sent: boolean;
  failure?: ExchangeFailure;
}

function scene(env: Record<string, string> = {}, parts: Partial<StdioParts> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'stdio-http-'));
  const log = join(folder, 'log');
  const clock = manualClock();
  const gone: unknown[][] = [];
  const told: [string, number][] = [];
  const client = new StdioHttpClient({
    clock,
    server: 'mine',
    commandName: 'node',
    maxMessageBytes: 64 * 1024,
    graceMs: 1_000,
    drainMs: 5_000,
    prepare: async () => ({
      command: process.execPath,
      args: [SERVER],
      env: { PATH: process.env.PATH ?? '', LOG: log, ...env },
      cwd: undefined,
    }),
    onExchange: () => {},
    onStderr: undefined,
    logger: ({ event, fields }) => told.push([event, fields.count as number]),
    gone: (...args) => gone.push(args),
    ...parts,
  });
  open.push(async () => {
    await client.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const url = new URL('stdio:node');
  /** The handle, what has come so far, and its end. */
  const run = (
    method: HttpRequest['method'],
    message?: object,
    session?: string,
    onSent: () => void = () => {},
  ): { handle: ExchangeHandle; seen: Outcome; ended: Promise<Outcome>; next(): Promise<void> } => {
    const seen: Outcome = { text: '', sent: false };
    let wake = () => {};
    let ended = (_: Outcome) => {};
    const promise = new Promise<Outcome>((resolve) => {
      ended = resolve;
    });
    const handle = client.exchange(
      {
        method,
        url,
        headers: session === undefined ? {} : { 'mcp-session-id': session },
        body: message && JSON.stringify({ jsonrpc: '2.0', ...message }),
      },
      {
        sent: () => {
          onSent();
          seen.sent = true;
        },
        head: ({ status, headers }) => {
          seen.status = status;
          seen.headers = headers;
          wake();
        },
        data: (chunk) => {
          seen.text += Buffer.from(chunk).toString();
          wake();
        },
        end: () => ended(seen),
        fail: (failure) => {
          seen.failure = failure;
          ended(seen);
        },
      },
    );
    const next = () =>
      new Promise<void>((resolve) => {
        wake = resolve;
      });
    return { handle, seen, ended: promise, next };
  };
  const lines = () => {
    try {
      return readFileSync(log, 'utf8')
        .split('\n')
        .filter((line) => line !== '')
        .map(
          (line) =>
            JSON.parse(line) as {
              pid: number;
              start?: true;
              eof?: true;
              run?: string;
              message?: { id: unknown };
            },
        );
    } catch {
      return [];
    }
  };
  const start = async () => {
    const { headers } = await run('POST', INITIALIZE).ended;
    return String(headers?.['mcp-session-id']);
  };
  const until = async (condition: () => boolean) => {
    while (!condition()) await new Promise<void>((resolve) => setImmediate(resolve));
  };
  const call = (name: string, id: number, args: object = {}) => ({
    id,
    method: 'tools/call',
    params: { name, arguments: args, _meta: { progressToken: id } },
  });
  return { client, clock, gone, told, run, lines, start, until, call };
}

const isRunning = (pid: number) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

describe('statuses', () => {
  it('200 with the answer as it was written, and a session id with the first; 202 for what wants no answer', async () => {
    const { run } = scene();
    const first = await run('POST', INITIALIZE).ended;
    expect(first).toMatchObject({ status: 200, sent: true, headers: { 'content-type': 'application/json' } });
    const session = String(first.headers?.['mcp-session-id']);
    expect(session).toMatch(/^[0-9a-f-]{36}$/);
    expect(await run('POST', { method: 'notifications/initialized' }, session).ended).toMatchObject({
      status: 202,
      text: '',
    });
    const ping = await run('POST', { id: 2, method: 'ping' }, session).ended;
    expect(ping).toMatchObject({ status: 200, text: '{"jsonrpc":"2.0","id":2,"result":{}}' });
    expect(ping.headers).not.toHaveProperty('mcp-session-id');
  });

  it('400 without a session, 404 for one that is not known: written by nobody, run by nobody', async () => {
    const { run, start, lines, call } = scene();
    await start();
    const id = { error: { code: expect.any(Number) }, id: null };
    for (const [session, status] of [
      [undefined, 400],
      ['another', 404],
    ] as const) {
      for (const method of ['POST', 'GET', 'DELETE'] as const) {
        const outcome = await run(method, method === 'POST' ? call('echo', 1) : undefined, session).ended;
        expect(outcome.status).toBe(status);
        expect(JSON.parse(outcome.text)).toMatchObject(id);
      }
    }
    expect(lines().filter(({ run: ran }) => ran !== undefined)).toEqual([]);
  });

  it('DELETE is answered when the process has ended; its session is unknown at once', async () => {
    const { run, start, lines, gone } = scene();
    const session = await start();
    const deleted = run('DELETE', undefined, session);
    await Promise.resolve();
    expect((await run('POST', { id: 2, method: 'ping' }, session).ended).status).toBe(404);
    expect((await deleted.ended).status).toBe(200);
    expect(
      lines()
        .filter(({ start: begun }) => begun)
        .map(({ pid }) => isRunning(pid)),
    ).toEqual([false]);
    expect(gone).toEqual([]);
  });
});

describe('what was sent', () => {
  it('nothing, where sent() throws or the exchange was given up before', async () => {
    const { run, start, lines, call } = scene();
    const session = await start();
    const refused = run('POST', call('echo', 1), session, () => {
      throw new Error('no');
    });
    const given = run('POST', call('echo', 2), session);
    given.handle.abort();
    expect((await refused.ended).failure).toMatchObject({ sent: false, phase: 'before', kind: 'aborted' });
    expect((await given.ended).failure).toMatchObject({ sent: false, phase: 'before', kind: 'aborted' });
    expect((await run('POST', call('echo', 3), session).ended).status).toBe(200);
    expect(lines().filter(({ run: ran }) => ran !== undefined)).toHaveLength(1);
  });

  it('a call under way when its process ends, and no other', async () => {
    const { run, start, call, gone } = scene();
    const session = await start();
    const outcome = await run('POST', call('die', 1, { how: 4 }), session).ended;
    expect(outcome.failure).toEqual({ sent: true, phase: 'head', kind: 'network', code: 'EXIT_4' });
    expect(gone).toEqual([
      [session, 'the process of the server has ended (EXIT_4)', { counts: true, opens: true }],
    ]);
    expect(await run('POST', call('echo', 2), session).ended).toMatchObject({ status: 404 });
  });

  it('a given up call is sent; its late answer harms nobody', async () => {
    const { run, start, call, told, lines, until } = scene();
    const session = await start();
    const asked = run('POST', call('ask', 1), session);
    await until(() => lines().some(({ run: ran }) => ran === 'ask'));
    asked.handle.abort();
    expect((await asked.ended).failure).toMatchObject({ sent: true, kind: 'aborted' });
    await run('POST', { id: 'question-1', result: { content: { type: 'text', text: 'late' } } }, session)
      .ended;
    expect((await run('POST', { id: 2, method: 'ping' }, session).ended).status).toBe(200);
    expect(told).toEqual([['stdio-line-ignored', 1]]);
  });

  it('an id that is under way already is refused', async () => {
    const { run, start, call } = scene();
    const session = await start();
    const first = run('POST', call('wait', 1), session);
    const second = await run('POST', call('echo', 1), session).ended;
    expect(second.failure).toMatchObject({ sent: false, kind: 'invalid-request' });
    expect((await run('POST', call('echo', '1' as never), session).ended).status).toBe(200);
    first.handle.abort();
  });
});

describe('what a server says on its own account', () => {
  it('waits for the stream; there it comes in order; the last stream asked for has it', async () => {
    const { run, start, call } = scene();
    const session = await start();
    const first = run('GET', undefined, session);
    await first.next();
    expect(first.seen).toMatchObject({ status: 200, headers: { 'content-type': 'text/event-stream' } });
    await run('POST', call('progress', 7, { steps: 2 }), session).ended;
    const events = first.seen.text.split('\n\n').filter((event) => event !== '');
    expect(events.map((event) => JSON.parse(event.slice('data: '.length)).params.progress)).toEqual([1, 2]);
    const second = run('GET', undefined, session);
    expect((await first.ended).failure).toMatchObject({ kind: 'network' });
    await run('POST', call('progress', 8, { steps: 1 }), session).ended;
    expect(second.seen.text).toContain('"progress":1');
  });

  it('without a stream it comes on the call’s own', async () => {
    const { run, start, call } = scene();
    const session = await start();
    const other = run('POST', call('wait', 1), session);
    const outcome = await run('POST', call('progress', 2, { steps: 1 }), session).ended;
    expect(outcome.headers).toMatchObject({ 'content-type': 'text/event-stream' });
    expect(outcome.text.match(/"progress":1|"text":"done"/g)).toEqual(['"progress":1', '"text":"done"']);
    expect(other.seen.text).toBe('');
    other.handle.abort();
  });

  it('is kept for the stream up to a bound, and what is let go is told', async () => {
    const { run, start, call, told, until } = scene();
    const session = await start();
    const given = run('POST', call('pingsLater', 1, { count: 266 }), session);
    await given.ended;
    await until(() => told.some(([event, count]) => event === 'stdio-message-dropped' && count === 10));
    const stream = run('GET', undefined, session);
    await stream.next();
    await new Promise<void>((resolve) => setImmediate(resolve));
    const ids = [...stream.seen.text.matchAll(/"question-(\d+)"/g)].map(([, id]) => Number(id));
    expect(ids).toHaveLength(256);
    expect(ids.at(-1)).toBe(266);
  });
});

describe('processes', () => {
  it('one that refused the session, or whose opening was given up, is ended', async () => {
    const refusing = scene({ START: 'refuse' });
    const outcome = await refusing.run('POST', INITIALIZE).ended;
    expect(JSON.parse(outcome.text).error.code).toBe(-32099);
    expect(outcome.headers).not.toHaveProperty('mcp-session-id');
    await refusing.until(() => refusing.lines().some(({ eof }) => eof === true));

    const silent = scene({ START: 'silent' });
    const opening = silent.run('POST', INITIALIZE);
    await silent.until(() => silent.lines().some(({ message }) => message !== undefined));
    opening.handle.abort();
    expect((await opening.ended).failure).toMatchObject({ sent: true, kind: 'aborted' });
    await silent.until(() => silent.lines().some(({ eof }) => eof === true));
    expect(silent.gone).toEqual([]);
  });

  it('a second session is a second process; calls on the first may end, then it does', async () => {
    const { run, start, call, lines, until, clock } = scene();
    const first = await start();
    const asked = run('POST', call('ask', 1), first);
    const stuck = await (async () => {
      await until(() => lines().some(({ run: ran }) => ran === 'ask'));
      return lines()[0]?.pid ?? 0;
    })();
    const second = await start();
    expect(second).not.toBe(first);
    expect(isRunning(stuck)).toBe(true);
    expect((await run('POST', call('echo', 2), first).ended).status).toBe(404);
    await clock.advance(4_999);
    expect(lines().some(({ eof }) => eof === true)).toBe(false);
    await clock.advance(1);
    expect((await asked.ended).failure).toMatchObject({ sent: true, kind: 'network' });
    expect((await run('POST', call('echo', 3), second).ended).status).toBe(200);
    const third = await start();
    await until(() => lines().filter(({ eof }) => eof === true).length === 2);
    expect((await run('POST', call('echo', 4), third).ended).status).toBe(200);
  });

  it('after close() none is started, and ready() says what stands in the way of one', async () => {
    const { client, run, lines } = scene();
    await client.close();
    expect((await run('POST', INITIALIZE).ended).failure).toMatchObject({ sent: false, code: 'ERR_CLOSED' });
    expect(lines()).toEqual([]);

    const nowhere = scene(
      {},
      { prepare: async () => ({ command: '/no/such/thing', args: [], env: {}, cwd: undefined }) },
    );
    await nowhere.client.ready();
    expect((await nowhere.run('POST', INITIALIZE).ended).failure).toMatchObject({
      sent: false,
      phase: 'before',
    });
    await expect(nowhere.client.ready()).rejects.toThrow('(command "node") could not be started');
    await nowhere.client.ready();

    const odd = scene({}, { prepare: () => Promise.reject(new Error('canary')) });
    await odd.run('POST', INITIALIZE).ended;
    await expect(odd.client.ready()).rejects.toThrow(/^(?!.*canary)/);
  });

  it('an argument that no system takes is a failed start, not a crash', async () => {
    const { client, run } = scene(
      {},
      { prepare: async () => ({ command: 'a\0b', args: [], env: {}, cwd: undefined }) },
    );
    expect((await run('POST', INITIALIZE).ended).failure).toMatchObject({ sent: false, kind: 'network' });
    await expect(client.ready()).rejects.toThrow('could not be started');
  });
});
