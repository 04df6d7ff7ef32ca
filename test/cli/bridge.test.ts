/**
 * `mcp-holdfast bridge` as it is built, launched by stock hosts, judged at the hosted server.
 */
import { once } from 'node:events';
import { createServer } from 'node:net';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, it } from 'vitest';
import type { ToolDefinition } from '../../src/testing/index.js';
import { clientOf, eventually, RawHost, startServer, stockHost, textOf } from './bridge-support.js';

/** Each call by its number, as often as it ran. */
function noting(): { ran: number[]; tools: ToolDefinition[] } {
  const ran: number[] = [];
  const tools: ToolDefinition[] = [
    {
      name: 'note',
      handler: ({ n }) => {
        ran.push(Number(n));
        return `noted ${n}`;
      },
    },
    {
      name: 'hold',
      handler: async ({ n }, { signal }) => {
        ran.push(Number(n));
        await once(signal, 'abort');
        return 'gone';
      },
    },
  ];
  return { ran, tools };
}

const numbers = (count: number) => Array.from({ length: count }, (_, at) => at);
const failureIn = (error: unknown) =>
  error as { code: number; message: string; data?: { holdfast?: { code: string; executed: unknown } } };

describe.each(['v1', 'v2'] as const)('under the stock stdio client of SDK %s', (sdk) => {
  it('two expiries and a redeploy: nothing runs twice, one call is reported lost', async () => {
    const { ran, tools } = noting();
    const server = await startServer({ bindSession: 'token', tokenLifetimeMs: 3_000, tools });
    const host = await stockHost([server.url], { sdk, env: clientOf(server) });
    const note = async (n: number) => textOf(await host.client.callTool({ name: 'note', arguments: { n } }));
    const lost: unknown[] = [];
    const round = async (from: number) => {
      const all = await Promise.allSettled(numbers(8).map((at) => note(from + at)));
      for (const [at, each] of all.entries()) {
        if (each.status === 'rejected') lost.push(each.reason);
        else expect(each.value).toBe(`noted ${from + at}`);
      }
    };

    // Two tokens lapse while calls go on and on.
    let rounds = 0;
    for (; server.counts.tokenRequests < 3; rounds++) await round(rounds * 10);
    const held = host.client.callTool({ name: 'hold', arguments: { n: -1 } }).catch((error) => error);
    await eventually(() => ran.includes(-1)).toBe(true);
    const { initializes } = server.counts;
    server.deploy({ restart: true });
    // The listen stream meets the loss, and the session is replaced before the next call.
    await eventually(() => server.counts.initializes).toBeGreaterThan(initializes);
    await round(10_000_000);
    const reported = failureIn(await held);
    expect(lost).toEqual([]);
    expect(reported.data?.holdfast).toMatchObject({ executed: 'unknown' });
    expect(reported.message).toContain('may have run');

    const froms = [...numbers(rounds).map((each) => each * 10), 10_000_000];
    const wanted = froms.flatMap((from) => numbers(8).map((at) => from + at));
    expect([...ran].sort((a, b) => a - b)).toEqual([-1, ...wanted]);
    // The first session, one for each token, one after the deploy; a slow machine may see a third token lapse.
    expect(server.counts.initializes).toBeGreaterThanOrEqual(4);
    expect(host.complaints).toEqual([]);
    await host.client.close();
    expect(host.heard.messages.length).toBeGreaterThan(33);
    expect(host.heard.text).not.toContain('mcp-session-id');
    const { secret } = server.client;
    for (const text of [host.stderr(), host.heard.text]) expect(text).not.toContain(secret);
    expect(host.stderr()).not.toMatch(/Bearer/i);
    expect(server.log.at(-1)).toMatchObject({ http: 'DELETE', status: 200 });
  });

  it('a redeploy under a herd: what was refused did not run, and is said so', async () => {
    const { ran, tools } = noting();
    const server = await startServer({ auth: false, listen: false, tools });
    const host = await stockHost([server.url], { sdk });
    const note = (n: number) => host.client.callTool({ name: 'note', arguments: { n } });
    await note(-1);
    server.deploy({ restart: true });
    const all = await Promise.allSettled(numbers(20).map((n) => note(n)));
    const refused = new Set<number>();
    for (const [n, each] of all.entries()) {
      if (each.status === 'fulfilled') continue;
      refused.add(n);
      expect(failureIn(each.reason).data?.holdfast?.executed).toBe(false);
    }
    expect([...ran].sort((a, b) => a - b)).toEqual([-1, ...numbers(20).filter((n) => !refused.has(n))]);
    expect(refused.size).toBeGreaterThan(0);
    for (const n of refused) await note(n);
    expect(new Set(ran).size).toBe(21);
    expect(ran).toHaveLength(21);
    expect(server.counts.initializes).toBe(2);
  });

  it('what the server asks and tells reaches the host, and its answers come back', async () => {
    const server = await startServer({
      auth: false,
      tools: [
        {
          name: 'ask',
          handler: async (_, { request, notify, progress }) => {
            progress(1);
            notify('notifications/message', { level: 'info', data: 'told' });
            progress(2);
            const { roots } = (await request('roots/list')) as { roots: unknown };
            const elicited = await request('elicitation/create', {
              message: 'Which colour?',
              requestedSchema: { type: 'object', properties: { colour: { type: 'string' } } },
            });
            const sampled = await request('sampling/createMessage', {
              messages: [{ role: 'user', content: { type: 'text', text: 'hi' } }],
              maxTokens: 5,
            });
            return JSON.stringify({ roots, elicited, sampled });
          },
        },
      ],
    });
    const said: Record<string, unknown>[] = [];
    server.reply(
      { method: 'initialize' },
      {
        tool: 'run',
        status: 200,
        headers: ({ sessionId = '' }) => ({ 'mcp-session-id': sessionId }),
        body: ({ message, answer }) => {
          said.push(message?.params as Record<string, unknown>);
          return answer;
        },
      },
    );
    const capabilities = { roots: { listChanged: true }, elicitation: {}, sampling: {} };
    const answers = {
      'roots/list': { roots: [{ uri: 'file:///work', name: 'work' }] },
      'elicitation/create': { action: 'accept', content: { colour: 'green' } },
      'sampling/createMessage': { role: 'assistant', content: { type: 'text', text: 'yes' }, model: 'm' },
    };
    const host = await stockHost([server.url], {
      sdk,
      capabilities,
      prepare: (client) => {
        const schemas = [ListRootsRequestSchema, ElicitRequestSchema, CreateMessageRequestSchema] as const;
        for (const [at, method] of (Object.keys(answers) as (keyof typeof answers)[]).entries()) {
          const which = sdk === 'v1' ? schemas[at] : method;
          client.setRequestHandler(which as never, (async () => answers[method]) as never);
        }
      },
    });
    expect(said).toHaveLength(1);
    expect(said[0]).toMatchObject({
      clientInfo: { name: 'a-desktop-client', version: '7.1' },
      capabilities: { roots: { listChanged: true }, sampling: {} },
    });
    const progress: number[] = [];
    const onprogress = ({ progress: at }: { progress: number }) => progress.push(at);
    // v2 takes no schema between the two.
    const call = host.client.callTool as (...args: unknown[]) => Promise<unknown>;
    const options = { onprogress };
    const result = await call.apply(
      host.client,
      sdk === 'v1' ? [{ name: 'ask' }, undefined, options] : [{ name: 'ask' }, options],
    );
    expect(JSON.parse(textOf(result))).toEqual({
      ...answers['roots/list'],
      elicited: answers['elicitation/create'],
      sampled: answers['sampling/createMessage'],
    });
    expect(progress).toEqual([1, 2]);
    expect(host.heard.messages.map(({ method }) => method)).toContain('notifications/message');
    await host.client.sendRootsListChanged();
    await eventually(() => server.log.map(({ rpcMethod }) => rpcMethod)).toContain(
      'notifications/roots/list_changed',
    );
    expect(host.complaints).toEqual([]);
  });

  it('a call that the host gives up is cancelled at the server, and not answered', async () => {
    const { ran, tools } = noting();
    const server = await startServer({ auth: false, tools });
    const host = await stockHost([server.url], { sdk });
    const stop = new AbortController();
    const options = { signal: stop.signal };
    const call = host.client.callTool as (...args: unknown[]) => Promise<unknown>;
    const params = { name: 'hold', arguments: { n: 1 } };
    const held = call
      .apply(host.client, sdk === 'v1' ? [params, undefined, options] : [params, options])
      .catch((error: unknown) => error);
    await eventually(() => ran).toEqual([1]);
    stop.abort(new Error('changed my mind'));
    await held;
    await eventually(() => server.log.map(({ rpcMethod }) => rpcMethod)).toContain('notifications/cancelled');
    await host.client.ping();
    expect(host.complaints).toEqual([]);
    expect(host.heard.messages.filter((message) => 'error' in message)).toEqual([]);
  });

  it('a server that wants a credential: the handshake fails with the reason, on both sides', async () => {
    const server = await startServer();
    const failure = failureIn(await stockHost([server.url], { sdk }).catch((error) => error));
    expect(failure.code).toBe(-32015);
    expect(failure.data?.holdfast).toMatchObject({ code: 'ERR_CREDENTIAL_REJECTED', executed: false });
    expect(failure.message).not.toMatch(/http 401|not connected|connection closed/i);
  });
});

it('v2’s client that negotiates meets a server of each era', async () => {
  for (const protocolVersion of ['2025-11-25', '2026-07-28']) {
    const server = await startServer({ ...(protocolVersion > '2026' && { protocolVersion }) });
    const host = await stockHost([server.url], { sdk: 'v2', negotiates: true, env: clientOf(server) });
    const call = () => host.client.callTool({ name: 'echo', arguments: { text: protocolVersion } });
    expect(textOf(await call())).toBe(protocolVersion);
    server.expireTokens();
    expect(textOf(await call())).toBe(protocolVersion);
    expect(server.counts.initializes).toBe(protocolVersion > '2026' ? 0 : 1);
    expect(server.counts.executions.echo).toBe(2);
    expect(host.complaints).toEqual([]);
    await host.client.close();
    expect(host.heard.messages.length).toBeGreaterThanOrEqual(2);
  }
});

describe('a start that fails', () => {
  it('a port where nobody listens: typed, told in one sentence, and the process stays', async () => {
    const free = createServer();
    free.listen(0, '127.0.0.1');
    await once(free, 'listening');
    const { port } = free.address() as { port: number };
    await new Promise((resolve) => free.close(resolve));
    const host = new RawHost([`http://127.0.0.1:${port}/mcp`, '--log-level', 'error']);
    const { error } = await host.initialize();
    expect(error).toMatchObject({
      code: -32011,
      data: { holdfast: { code: 'ERR_NOT_SENT', executed: false } },
    });
    expect(error?.message).not.toMatch(/refused|not connected|fetch failed/i);
    await eventually(() => host.stderr).toMatch(/^mcp-holdfast bridge: error: .*nothing listens.*\n$/);
    expect(host.child.exitCode).toBe(null);
  });

  it('a server that is away, then back: the next handshake of the same process stands', async () => {
    const server = await startServer({ auth: false });
    const away = server.reply({ method: 'initialize' }, { status: 503, body: 'canary-words-of-a-proxy' });
    const host = new RawHost([server.url]);
    const { error } = await host.initialize(1);
    expect(error?.code).toBe(-32011);
    expect(error?.data?.holdfast).toMatchObject({ executed: false });
    away.dispose();
    expect((await host.initialize(2)).result).toMatchObject({ protocolVersion: '2025-11-25' });
    const { result } = await host.ask(3, 'tools/call', { name: 'echo', arguments: { text: 'hi' } });
    expect(textOf(result)).toBe('hi');
    expect(`${host.stderr}${host.heard.text}`).not.toContain('canary-words');
    // No session id, no token, no line that is not JSON-RPC.
    expect(host.heard.messages).toHaveLength(3);
  });

  it('a call that fails says to a model what happened and what to do', async () => {
    const server = await startServer({ auth: false });
    const host = new RawHost([server.url]);
    await host.initialize();
    server.replyOnce({ tool: 'add' }, { tool: 'run', cut: 'reset' });
    const { error } = await host.ask(5, 'tools/call', { name: 'add', arguments: { a: 1, b: 2 } });
    expect(error).toMatchObject({ code: -32013, data: { holdfast: { executed: 'unknown' } } });
    expect(error?.message).toMatch(/may have run: check before repeating it.*Look at the state/);
    expect(server.counts.executions.add).toBe(1);
    server.throttle(300_000);
    const limited = (await host.ask(6, 'tools/call', { name: 'add', arguments: { a: 1, b: 2 } })).error;
    expect(limited?.message).toMatch(/did not run.*Wait at least \d+ s/);
    expect(limited?.data?.holdfast?.retryAfterMs).toBeGreaterThan(0);
    expect(server.counts.executions.add).toBe(1);
  });

  it('the server’s own refusals pass as they are', async () => {
    const server = await startServer({ auth: false });
    const host = new RawHost([server.url]);
    await host.initialize();
    const { result } = await host.ask(1, 'tools/call', { name: 'fail' });
    expect(result).toMatchObject({ isError: true });
    const { error } = await host.ask(2, 'no/such/method');
    expect(error?.code).toBe(-32601);
    expect(error?.data).toBeUndefined();
  });
});

describe('the end', () => {
  it.each(['input', 'SIGTERM', 'SIGINT'] as const)('%s: the session is deleted, exit 0', async (how) => {
    const server = await startServer({ auth: false });
    const host = new RawHost([server.url]);
    await host.initialize();
    await host.ask(1, 'ping');
    if (how === 'input') host.child.stdin?.end();
    else host.child.kill(how);
    expect(await host.exited).toEqual({ status: 0, signal: null });
    expect(server.counts.deletes).toBe(1);
    expect(host.heard.messages).toHaveLength(2);
  });

  it('an answer that is near is still passed on; a call without one is told', async () => {
    const { ran, tools } = noting();
    const server = await startServer({ auth: false, tools });
    const host = new RawHost([server.url]);
    await host.initialize();
    host.say({ id: 1, method: 'tools/call', params: { name: 'note', arguments: { n: 1 } } });
    host.say({ id: 2, method: 'tools/call', params: { name: 'hold', arguments: { n: 2 } } });
    host.child.stdin?.end();
    expect((await host.exited).status).toBe(0);
    const answers = new Map(host.heard.messages.map((message) => [message.id, message]));
    expect(answers.get(1)).toMatchObject({ result: { content: [{ text: 'noted 1' }] } });
    expect(answers.get(2)).toMatchObject({
      error: { data: { holdfast: { code: 'ERR_CLOSED', executed: 'unknown' } } },
    });
    expect([...ran].sort()).toEqual([1, 2]);
    expect(server.counts.deletes).toBe(1);
  });

  it('a server that does not answer the DELETE keeps nobody', async () => {
    const server = await startServer({ auth: false });
    server.reply({ http: 'DELETE' }, { silence: true });
    const host = new RawHost([server.url]);
    await host.initialize();
    host.child.stdin?.end();
    expect((await host.exited).status).toBe(0);
    expect(server.counts.deletes).toBe(1);
  });

  it('a host that has left: no word, the session is deleted', async () => {
    const server = await startServer({ auth: false });
    const host = new RawHost([server.url, '--log-level', 'warn']);
    await host.initialize();
    await host.ask(1, 'ping');
    host.child.stdout?.destroy();
    host.say({ id: 2, method: 'ping' });
    expect((await host.exited).status).toBe(0);
    expect(server.counts.deletes).toBe(1);
    expect(host.stderr).toBe('');
  });

  it('a log that nobody takes is no end', async () => {
    const server = await startServer({ auth: false });
    const host = new RawHost([server.url, '--log-level', 'debug']);
    host.child.stderr?.destroy();
    await host.initialize();
    for (const id of numbers(20)) await host.ask(id, 'ping');
    expect(host.heard.messages).toHaveLength(21);
    host.child.stdin?.end();
    expect((await host.exited).status).toBe(0);
  });
});

describe('lines of the host', () => {
  const INVALID = -32600;
  it.each([
    ['no JSON', 'hello', -32700, null],
    ['half a message', '{"jsonrpc":"2.0","id":1,"meth', -32700, null],
    [
      'bytes that are no UTF-8',
      Buffer.from('{"jsonrpc":"2.0","id":1,"method":"ping","params":{"text":"\xc3("}}', 'latin1'),
      -32700,
      null,
    ],
    ['a number', '7', INVALID, null],
    ['a batch', '[{"jsonrpc":"2.0","id":1,"method":"ping"}]', INVALID, null],
    ['a request without a method', '{"jsonrpc":"2.0","id":1}', INVALID, null],
    ['a method that is no text', '{"jsonrpc":"2.0","id":9,"method":5}', INVALID, 9],
    ['an id that is none', '{"jsonrpc":"2.0","id":{},"method":"ping"}', INVALID, null],
    ['an answer that is none', '{"jsonrpc":"2.0","id":1,"result":5}', INVALID, null],
  ] as const)('%s is refused, and the next one served', async (_, line, code, id) => {
    const server = await startServer({ auth: false });
    const host = new RawHost([server.url]);
    await host.initialize();
    const before = server.counts.requests;
    host.say(line);
    const { error } = await host.hears((message) => message.error !== undefined);
    expect(error).toMatchObject({ code, data: { holdfast: { code: 'ERR_PROTOCOL', executed: false } } });
    expect((await host.hears((message) => message.error !== undefined)).id).toBe(id);
    expect((await host.ask('after', 'ping')).result).toEqual({});
    expect(server.log.slice(before).filter(({ rpcMethod }) => rpcMethod !== 'ping')).not.toContainEqual(
      expect.objectContaining({ http: 'POST', rpcMethod: 'tools/call' }),
    );
  });

  it('empty lines, CR LF and a byte order mark are no matter', async () => {
    const server = await startServer({ auth: false });
    const host = new RawHost([server.url]);
    host.say('\ufeff\r');
    host.say('');
    host.say(
      '\ufeff{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}\r',
    );
    const { result } = await host.hears(({ id }) => id === 1);
    expect(result).toMatchObject({ protocolVersion: '2025-11-25' });
    expect(host.heard.messages).toHaveLength(1);
  });

  it('a second request under an id that is under way is refused, and the first one served', async () => {
    const { ran, tools } = noting();
    const server = await startServer({ auth: false, tools });
    const host = new RawHost([server.url]);
    await host.initialize();
    host.say({ id: 1, method: 'tools/call', params: { name: 'hold', arguments: { n: 1 } } });
    await eventually(() => ran).toEqual([1]);
    host.say({ id: 1, method: 'tools/call', params: { name: 'note', arguments: { n: 2 } } });
    expect((await host.hears(({ error }) => error !== undefined)).id).toBe(null);
    host.say({ method: 'notifications/cancelled', params: { requestId: 1 } });
    await host.ask(2, 'ping');
    expect(ran).toEqual([1]);
  });

  it('a line over 16 MiB is refused under its id, whichever end has it', async () => {
    const server = await startServer({ auth: false });
    const host = new RawHost([server.url]);
    await host.initialize();
    const text = 'x'.repeat(17 * 1024 * 1024);
    const params = { name: 'echo', arguments: { text } };
    host.say({ id: 41, method: 'tools/call', params });
    host.say(JSON.stringify({ method: 'tools/call', params, jsonrpc: '2.0', id: 42 }));
    for (const wanted of [41, 42]) {
      const { error } = await host.hears(({ id }) => id === wanted);
      expect(error?.data?.holdfast).toEqual({ code: 'ERR_MESSAGE_TOO_LARGE', executed: false });
    }
    expect((await host.ask(43, 'ping')).result).toEqual({});
    expect(server.counts.executions.echo).toBeUndefined();
  });
});

describe('lines for the host', () => {
  const big = (mebibytes: number): ToolDefinition => ({
    name: `big${mebibytes}`,
    handler: () => 'x'.repeat(mebibytes * 1024 * 1024),
  });

  it('an answer that would end a stock client is told, and the client goes on', async () => {
    const server = await startServer({ auth: false, tools: [big(9), big(10)] });
    const host = await stockHost([server.url]);
    expect(textOf(await host.client.callTool({ name: 'big9' }))).toHaveLength(9 * 1024 * 1024);
    const failure = failureIn(await host.client.callTool({ name: 'big10' }).catch((error) => error));
    expect(failure.code).toBe(-32018);
    expect(failure.data?.holdfast).toEqual({ code: 'ERR_MESSAGE_TOO_LARGE', executed: true });
    await host.client.ping();
    expect(host.complaints).toEqual([]);
  });

  it('a host that reads late gets all of it', async () => {
    const server = await startServer({ auth: false, tools: [big(1)] });
    const host = new RawHost([server.url]);
    await host.initialize();
    host.child.stdout?.pause();
    for (const id of numbers(40)) host.say({ id, method: 'tools/call', params: { name: 'big1' } });
    await eventually(() => server.counts.executions.big1 ?? 0).toBeGreaterThan(1);
    host.child.stdout?.resume();
    await host.hears(({ id }) => id === 39);
    await eventually(() => host.heard.messages.length).toBe(41);
    expect(server.counts.executions.big1).toBe(40);
  });

  it('a host that never reads is no reason to stay', async () => {
    const server = await startServer({ auth: false, tools: [big(9)] });
    const host = new RawHost([server.url]);
    await host.initialize();
    host.child.stdout?.pause();
    for (const id of numbers(3)) host.say({ id, method: 'tools/call', params: { name: 'big9' } });
    await eventually(() => server.counts.executions.big9 ?? 0).toBe(3);
    host.child.stdin?.end();
    const exited = once(host.child, 'exit');
    expect((await exited)[0]).toBe(0);
    expect(server.counts.deletes).toBe(1);
    host.child.stdout?.resume();
  });
});

it('hosts that come and go leave no session behind', async () => {
  const server = await startServer({ auth: false });
  const hosts = numbers(3).map(() => new RawHost([server.url]));
  await Promise.all(hosts.map((host) => host.initialize()));
  for (const host of hosts) host.child.stdin?.end();
  for (const host of hosts) expect((await host.exited).status).toBe(0);
  expect(server.counts).toMatchObject({ initializes: 3, deletes: 3 });
});
