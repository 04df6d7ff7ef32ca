import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, it } from 'vitest';
import type { HostedClient, HostedClientOptions } from '../../src/client.js';
import {
  type AuditLogOptions,
  allowTools,
  auditLog,
  type Gate,
  inspect,
  maxCalls,
  TURN_KEY,
  verifyAudit,
} from '../../src/gates/index.js';
import type { HostedServerOptions } from '../../src/testing/index.js';
import { connect, failureOf, startServer } from './support.js';

type Line = Record<string, unknown> & { readonly tool?: string; readonly executed?: unknown };

async function audited(
  options: AuditLogOptions = {},
  client: Partial<HostedClientOptions> = {},
  server: HostedServerOptions = {},
) {
  const written: string[] = [];
  const audit = auditLog({ write: (line) => written.push(line) }, options);
  const scene = await startServer(server);
  const connected = await connect(scene, { audit, ...client });
  const lines = () => written.map((line) => JSON.parse(line) as Line);
  return { ...scene, client: connected, audit, written, lines };
}
const echo = (text: string, meta?: Record<string, unknown>) => ({
  name: 'echo',
  arguments: { text },
  ...(meta && { _meta: meta }),
});

function thrower(): string {
  throw new Error('no');
}

describe('a line of the audit', () => {
  it('says who, what, where, under what, what each gate said, and what became of it', async () => {
    const look: Gate = { name: 'look', before: () => ({ arguments: { text: 'b' } }), after: () => 'allow' };
    const { client, lines, written, server } = await audited(
      { actor: (call) => `agent for ${call.tool}`, results: true },
      { gates: [allowTools(['echo']), look] },
    );
    await client.listTools();
    await client.callTool(echo('a', { [TURN_KEY]: 'turn-1', 'mcp-holdfast/callId': 'call-1' }));
    const { tools } = await client.snapshot();
    const url = new URL(server.url);
    expect(lines()).toEqual([
      {
        seq: 1,
        prev: '0'.repeat(64),
        time: expect.stringMatching(/^2026-01-01T00:00:00\.\d{3}Z$/),
        server: `${url.origin}${url.pathname}`,
        direction: 'out',
        method: 'tools/call',
        requestId: expect.any(Number),
        callId: 'call-1',
        actor: 'agent for echo',
        turn: 'turn-1',
        tool: 'echo',
        toolDigest: tools.find(({ name }) => name === 'echo')?.digest,
        arguments: expect.stringMatching(/^[0-9a-f]{64}$/),
        session: 1,
        credential: { id: expect.any(String), generation: 1 },
        gates: [
          { gate: 'allowTools', step: 'before', verdict: 'allow' },
          { gate: 'look', step: 'before', verdict: 'replace' },
          { gate: 'look', step: 'after', verdict: 'allow' },
        ],
        attempts: 1,
        executed: true,
        durationMs: expect.any(Number),
        result: expect.stringMatching(/^[0-9a-f]{64}$/),
        hash: expect.stringMatching(/^[0-9a-f]{64}$/),
      },
    ]);
    expect(written.join('')).not.toContain('"a"');
  });

  it('has the digest of what the server got', async () => {
    const { client, lines } = await audited();
    await client.callTool({ name: 'echo', arguments: { text: 'a', more: [1, { b: 2, a: 1 }] } });
    await client.callTool({
      name: 'echo',
      arguments: { more: [1, { a: 1, b: 2 }], text: 'a', none: undefined },
    });
    await client.callTool({ name: 'echo', arguments: { text: 'b' } });
    expect(lines()[0]).not.toHaveProperty('result');
    const [one, two, three] = lines().map((line) => line.arguments);
    expect([one === two, one === three]).toEqual([true, false]);
  });

  it('stands for each refusal, unsent and afterwards, and for a call after the end', async () => {
    const deny = inspect(() => ({ deny: 'no' }), { on: ['result'] });
    const { client, lines, server } = await audited({}, { gates: [maxCalls(2), allowTools(['echo']), deny] });
    const failures = [
      await failureOf(client.callTool(echo('a'))),
      await failureOf(client.callTool({ name: 'add', arguments: { a: 1, b: 2 } })),
      await failureOf(client.callTool(echo('b'))),
    ];
    await client.close();
    await client.callTool(echo('c')).catch(() => {});
    expect(failures.map(({ code }) => code)).toEqual(['ERR_RESULT_REFUSED', 'ERR_DENIED', 'ERR_CALL_LIMIT']);
    expect(lines().map(({ code, gate, executed, attempts }) => [code, gate, executed, attempts])).toEqual([
      ['ERR_RESULT_REFUSED', 'inspect', true, 1],
      ['ERR_DENIED', 'allowTools', false, 0],
      ['ERR_CALL_LIMIT', 'maxCalls', false, 0],
    ]);
    expect(lines()[1]?.gates).toMatchObject([
      { gate: 'maxCalls', verdict: 'allow' },
      { gate: 'allowTools', verdict: 'deny' },
    ]);
    expect(server.counts.executions).toEqual({ echo: 1 });
  });

  it('says what a gate that failed or was late did', async () => {
    const { client, lines, clock } = await audited(
      {},
      {
        gates: [
          {
            name: 'broken',
            timeoutMs: 500,
            before: ({ arguments: given }) => {
              if (given?.text === 'throw') throw new Error('canary');
              return new Promise(() => {});
            },
          },
        ],
      },
    );
    await failureOf(client.callTool(echo('throw')));
    const late = failureOf(client.callTool(echo('hang')));
    await clock.advance(500);
    await late;
    const left = new AbortController();
    const leaving = failureOf(client.callTool(echo('leave'), undefined, { signal: left.signal }));
    await clock.settle();
    left.abort();
    await leaving;
    await clock.settle();
    expect(lines().map(({ code, gates }) => [code, (gates as { verdict: string }[])?.[0]?.verdict])).toEqual([
      ['ERR_DENIED', 'failed'],
      ['ERR_DENIED', 'late'],
      ['ERR_ABORTED', 'left'],
    ]);
  });

  it('shows arguments by path alone, without our secrets, and nothing that a terminal obeys', async () => {
    const { client, lines, written, server } = await audited(
      { clear: ['echo.text', 'echo.items.*.id', '*.anywhere'] },
      { http: { headers: { 'x-key': 'canary-of-a-header' } } },
    );
    await client.callTool({
      name: 'echo',
      arguments: {
        text: 'the canary-of-a-header \u202e\u001b[31m',
        password: 'hidden-one',
        items: [{ id: 1, note: 'hidden-two' }, { note: 'hidden-three' }],
        anywhere: { deep: ['all'] },
        __proto__x: { id: 'hidden-four' },
      },
    });
    await client.callTool({ name: 'add', arguments: { text: 'hidden-five', a: 1, b: 2 } });
    expect(lines().map(({ shown }) => shown)).toEqual([
      {
        text: 'the [redacted] \u202e\u001b[31m',
        items: [{ id: 1 }, null],
        anywhere: { deep: ['all'] },
      },
      undefined,
    ]);
    const text = written.join('');
    expect(text).not.toContain('hidden-');
    expect(text.replaceAll('\n', '')).toMatch(/^[ -~]*$/);
    for (const secret of [server.client.secret, 'canary']) expect(text).not.toContain(secret);
  });

  const actors: readonly (readonly [string, () => string | undefined, null | undefined])[] = [
    ['throws', thrower, null],
    ['gives nothing', () => undefined, undefined],
    ['gives something else', (() => 7) as never, undefined],
  ];
  it.each(actors)('an actor that %s', async (_what, actor, expected) => {
    const { client, lines } = await audited({ actor });
    await client.callTool(echo('a'));
    expect(lines()[0]?.actor).toBe(expected);
  });

  it('stands for what the server asks, and for the calls of the session’s set-up', async () => {
    const tools = [
      {
        name: 'ask',
        handler: (
          _args: object,
          { request }: { request(method: string, params: object): Promise<unknown> },
        ) =>
          request('elicitation/create', {
            message: 'sure?',
            requestedSchema: { type: 'object', properties: {} },
          }),
      },
      { name: 'select_project' },
    ];
    const { client, lines, server } = await audited(
      {},
      {
        capabilities: { elicitation: {} },
        session: {
          onEstablished: async ({ callTool }) => {
            await callTool({ name: 'select_project', arguments: { id: 'p1' } });
          },
        },
      },
      { tools },
    );
    client.setRequestHandler(ElicitRequestSchema, async () => ({ action: 'accept', content: {} }));
    await client.callTool({ name: 'ask', arguments: {} });
    expect(lines()).toMatchObject([
      { direction: 'out', by: 'session set-up', tool: 'select_project', executed: true, session: 1 },
      { direction: 'in', method: 'elicitation/create', session: 1, params: expect.any(String) },
      { direction: 'out', tool: 'ask', executed: true },
    ]);
    expect(server.counts.executions).toEqual({ ask: 1, select_project: 1 });
  });

  it('is one chain over several connections', async () => {
    const first = await audited();
    const scene = await startServer();
    const second = await connect(scene, { audit: first.audit });
    await Promise.all(
      Array.from({ length: 20 }, (_, n) => (n % 2 === 0 ? first.client : second).callTool(echo(`${n}`))),
    );
    expect(verifyAudit(first.written.join(''), { head: first.audit.head })).toMatchObject({
      ok: true,
      lines: 20,
    });
    expect(new Set(first.lines().map(({ server }) => server)).size).toBe(2);
  });
});

describe('required', () => {
  async function failing(required: boolean) {
    let isDown = false;
    const written: string[] = [];
    const audit = auditLog(
      {
        write: (line) => {
          if (isDown) throw new Error('disk full');
          written.push(line);
        },
      },
      { required },
    );
    const scene = await startServer();
    const client = await connect(scene, { audit });
    const set = (down: boolean) => {
      isDown = down;
    };
    return { ...scene, client, written, set };
  }

  it('refuses calls while lines cannot be written, and goes on when they can', async () => {
    const { client, server, written, set } = await failing(true);
    await client.callTool(echo('a'));
    set(true);
    // This one cannot know: its line is what does not get through.
    await client.callTool(echo('b'));
    const { requests } = server.counts;
    for (let n = 0; n < 3; n += 1) {
      expect(await failureOf(client.callTool(echo('c')))).toMatchObject({
        code: 'ERR_DENIED',
        gate: 'audit',
        executed: false,
      });
    }
    expect(server.counts.requests).toBe(requests);
    set(false);
    await client.callTool(echo('d'));
    expect(server.counts.executions).toEqual({ echo: 3 });
    expect(written.map((line) => JSON.parse(line).executed)).toEqual([true, true, false, false, false, true]);
    expect(verifyAudit(written.join('')).ok).toBe(true);
  });

  it('else nobody is held up, and no line is lost', async () => {
    const { client, server, written, set } = await failing(false);
    set(true);
    for (let n = 0; n < 5; n += 1) await client.callTool(echo(`${n}`));
    set(false);
    await client.callTool(echo('last'));
    expect(server.counts.executions).toEqual({ echo: 6 });
    expect(written).toHaveLength(6);
  });

  it('refuses a call whose line fails while it waits to leave', async () => {
    const { server, clock, set } = await failing(true);
    const audit = auditLog({ write: () => {} }, { required: true });
    const client = await connect({ server, clock }, { audit, rateLimit: { limit: 6, intervalMs: 1_000 } });
    const calls = Array.from({ length: 8 }, (_, n) =>
      client.callTool(echo(`${n}`)).then(() => 'ran', failureOfError),
    );
    await clock.settle();
    await audit.close();
    await clock.advance(3_000);
    const ended = await Promise.all(calls);
    expect(ended.filter((each) => each === 'ran').length).toBe(server.counts.executions.echo);
    expect(ended.filter((each) => each === 'ERR_DENIED').length).toBeGreaterThan(0);
    set(false);
  });
});

const failureOfError = (error: { code?: unknown }) => error.code;

describe('audit as an option', () => {
  it('is what auditLog() gives, or a TypeError', async () => {
    const scene = await startServer();
    await expect(connect(scene, { audit: { head: '' } as never })).rejects.toThrow(/audit must be/);
    const client: HostedClient = await connect(scene, { audit: undefined });
    await client.callTool(echo('a'));
  });

  describe('on a file', () => {
    async function withFile(work: (file: string) => Promise<void>) {
      const folder = await mkdtemp(join(tmpdir(), 'holdfast-audit-'));
      try {
        await work(join(folder, 'audit.jsonl'));
      } finally {
        await rm(folder, { recursive: true });
      }
    }

    it('that is required: the line is there when the caller has its result', () =>
      withFile(async (file) => {
        const audit = auditLog(file, { required: true });
        const client = await connect(await startServer(), { audit });
        for (let n = 1; n <= 3; n += 1) {
          await client.callTool(echo(`${n}`));
          expect(verifyAudit(await readFile(file, 'utf8'))).toMatchObject({ ok: true, lines: n });
        }
      }));

    it('that is not: it is there 10 ms later, with those that came meanwhile', () =>
      withFile(async (file) => {
        const scene = await startServer();
        const audit = auditLog(file);
        const client = await connect(scene, { audit });
        const lines = async () => verifyAudit(await readFile(file, 'utf8')).lines;
        // The first opens the file.
        await client.callTool(echo('1'));
        for (let n = 2; n <= 5; n += 1) await client.callTool(echo(`${n}`));
        expect([await lines(), audit.waiting]).toEqual([1, 4]);
        await scene.clock.advance(9);
        expect(await lines()).toBe(1);
        await scene.clock.advance(1);
        expect([await lines(), audit.waiting]).toEqual([5, 0]);
        expect(verifyAudit(await readFile(file, 'utf8'), { head: audit.head }).ok).toBe(true);
        await client.callTool(echo('6'));
        await audit.close();
        expect(await lines()).toBe(6);
      }));

    it('that is not: hundreds at once do not wait for the time', () =>
      withFile(async (file) => {
        const audit = auditLog(file);
        const client = await connect(await startServer(), { audit });
        await Promise.all(Array.from({ length: 500 }, (_, n) => client.callTool(echo(`${n}`))));
        expect(audit.waiting).toBeLessThan(200);
        await audit.close();
        expect(verifyAudit(await readFile(file, 'utf8'), { head: audit.head })).toMatchObject({
          ok: true,
          lines: 500,
        });
      }));
  });
});
