import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { HostedClient } from '../../src/client.js';
import { CHAIN_START, chained, type Link } from '../../src/gates/audit-chain.js';
import {
  allowTools,
  auditLog,
  type Gate,
  inspect,
  maxCalls,
  TURN_KEY,
  verifyAudit,
} from '../../src/gates/index.js';
import { HostedMcpError } from '../../src/index.js';
import { type HostedServer, type ScriptedReply, startHostedServer } from '../../src/testing/index.js';

/** `HOLDFAST_AUDIT_CALLS=10000 npx vitest run test/wire/audit-faults.test.ts` for the long form. */
const CALLS = Number(process.env.HOLDFAST_AUDIT_CALLS ?? 1_000);
const AT_ONCE = 12;
/** Calls of one connection: with more faults than these a connection would rest, as it should. */
const A_CONNECTION = 50;
const TAMPERINGS = 200;

/** Mulberry32: the same choices in every run. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

type Line = Record<string, unknown> & {
  readonly callId?: string;
  readonly executed: unknown;
  readonly code?: string;
};

const ran = (reply: ScriptedReply): ScriptedReply => ({ tool: 'run', ...reply });
/** What may befall the next call of a tool at the server. */
const REPLIES: readonly ScriptedReply[] = [
  { cut: 'reset' },
  ran({ cut: 'reset' }),
  ran({ cut: 'fin', afterBytes: 10 }),
  ran({ cut: 'eof', afterBytes: 5 }),
  ran({ silence: true }),
  { silence: true },
  ran({ status: 500, body: 'oops' }),
  { status: 502, body: '<html>' },
  { status: 401, headers: { 'www-authenticate': 'Bearer error="invalid_token"' } },
  ran({
    status: 401,
    headers: { 'www-authenticate': 'Bearer error="invalid_token"' },
    body: ({ answer }) => answer,
  }),
  { status: 429, headers: { 'retry-after': '0' } },
  ran({ status: 429, headers: { 'retry-after': '0' }, body: ({ answer }) => answer }),
  ran({ status: 200, body: 'not json' }),
  ran({ status: 302, headers: { location: 'https://elsewhere.example/' } }),
];

let folder: string;
let server: HostedServer;
let client: HostedClient;
let text: string;
let head: string;
let lines: Line[];
/** What each caller heard. */
const heard = new Map<string, { readonly executed: unknown; readonly code: string | undefined }>();

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-audit-'));
  const file = join(folder, 'audit.jsonl');
  server = await startHostedServer();
  let token = server.issueToken();
  const random = seeded(7);
  const moody: Gate = {
    name: 'moody',
    timeoutMs: 30,
    before: ({ arguments: given }) => {
      if (given?.mood === 'throw') throw new Error('no');
      if (given?.mood === 'hang') return new Promise(() => {});
      return given?.mood === 'rewrite' ? { arguments: { text: 'rewritten' } } : 'allow';
    },
  };
  const refusing = inspect(
    (value) => (JSON.stringify(value).includes('poison') ? { deny: 'poison' } : 'allow'),
    { on: ['result'] },
  );
  const audit = auditLog(file, { actor: 'load', required: true, clear: ['echo.text'] });
  const gates = [allowTools(['echo', 'fail', 'slow']), maxCalls(15), moody, refusing];
  const open = async () => {
    const opened = new HostedClient(
      { name: 'load', version: '1' },
      {
        url: server.url,
        credentials: ({ rejected }) => {
          if (rejected) token = server.issueToken();
          return token;
        },
        gates,
        audit,
      },
    );
    await opened.connect();
    return opened;
  };

  const one = async (n: number) => {
    const callId = `c${n}`;
    const chance = random();
    const left = new AbortController();
    let name = 'echo';
    const args: Record<string, unknown> = { text: `t${n}` };
    if (chance < 0.2)
      server.replyOnce({ tool: 'echo' }, REPLIES[Math.floor(random() * REPLIES.length)] as ScriptedReply);
    else if (chance < 0.23) server.expireTokens();
    else if (n % A_CONNECTION === 25) server.dropSessions();
    else if (chance < 0.41) name = 'drop_table';
    else if (chance < 0.45) name = 'fail';
    else if (chance < 0.49) args.mood = ['throw', 'hang', 'rewrite'][Math.floor(random() * 3)];
    else if (chance < 0.52) args.text = 'poison';
    else if (chance < 0.55) setImmediate(() => left.abort());
    else if (chance < 0.57) {
      name = 'slow';
      args.ms = 2_000;
    }
    const meta = { 'mcp-holdfast/callId': callId, [TURN_KEY]: `turn-${n % Math.ceil(CALLS / 16)}` };
    try {
      await client.callTool({ name, arguments: args, _meta: meta }, undefined, {
        timeout: 400,
        signal: left.signal,
      });
      heard.set(callId, { executed: true, code: undefined });
    } catch (error) {
      const known = HostedMcpError.isInstance(error) ? error : undefined;
      heard.set(callId, { executed: known?.executed ?? true, code: known?.code });
    }
  };
  for (let from = 0; from < CALLS; from += A_CONNECTION) {
    client = await open();
    let next = from;
    const worker = async () => {
      while (next < Math.min(CALLS, from + A_CONNECTION)) await one(next++);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    await client.close();
  }
  ({ head } = audit);
  await audit.close();
  text = await readFile(file, 'utf8');
  lines = text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Line);
}, 300_000);

afterAll(async () => {
  await client?.close();
  await server?.close();
  await rm(folder, { recursive: true, force: true });
});

describe(`${CALLS} calls with faults`, () => {
  it('were answered, failed and refused in many ways', () => {
    const codes = new Set([...heard.values()].map(({ code }) => code));
    for (const code of [
      undefined,
      ...['ERR_DENIED', 'ERR_CALL_LIMIT', 'ERR_RESULT_REFUSED', 'ERR_OUTCOME_UNKNOWN', 'ERR_TIMEOUT'],
      ...['ERR_ABORTED', 'ERR_HTTP_STATUS', 'ERR_PROTOCOL', 'ERR_REDIRECT'],
    ])
      expect(codes).toContain(code);
    expect([...heard.values()].filter(({ code }) => code === undefined).length).toBeGreaterThan(CALLS / 4);
  });

  it('have one line each, in one chain that verifies', () => {
    expect(verifyAudit(text, { head })).toEqual({ ok: true, lines: CALLS, head });
    expect(new Set(lines.map(({ callId }) => callId)).size).toBe(CALLS);
  });

  it('every execution at the server has its line, and no line says less than what happened', () => {
    const { executionsById } = server.counts;
    const byId = new Map(lines.map((line) => [line.callId, line]));
    expect(Object.keys(executionsById).length).toBeGreaterThan(CALLS / 4);
    for (const [callId, times] of Object.entries(executionsById)) {
      expect(times).toBe(1);
      expect(byId.get(callId)?.executed, callId).not.toBe(false);
    }
    for (const { callId, executed, code } of lines) {
      expect(heard.get(callId as string)).toEqual({ executed, code });
      if (executed === false) expect(executionsById[callId as string]).toBeUndefined();
      if (executed === true && code === undefined) expect(executionsById[callId as string]).toBe(1);
    }
  });

  it(`each of ${TAMPERINGS} tamperings is found`, () => {
    const random = seeded(11);
    const pick = (below: number) => Math.floor(random() * below);
    const original = text.split('\n').slice(0, -1);
    const join = (changed: readonly string[]) => changed.map((line) => `${line}\n`).join('');
    const kinds: Record<string, () => string> = {
      'a line gone': () => join(original.toSpliced(pick(original.length), 1)),
      'some lines gone': () => join(original.toSpliced(pick(original.length), 1 + pick(20))),
      'the tail gone': () => join(original.slice(0, -1 - pick(original.length - 1))),
      'the beginning gone': () => join(original.slice(1 + pick(original.length - 1))),
      'two neighbours swapped': () => {
        const at = pick(original.length - 1);
        return join(original.with(at, original[at + 1] as string).with(at + 1, original[at] as string));
      },
      'a line moved': () => {
        const from = pick(original.length);
        const to = (from + 1 + pick(original.length - 1)) % original.length;
        const without = original.toSpliced(from, 1);
        return join(without.toSpliced(to, 0, original[from] as string));
      },
      'a line twice': () => {
        const at = pick(original.length);
        return join(original.toSpliced(at, 0, original[at] as string));
      },
      'a character changed': () => {
        const at = pick(text.length);
        const other = String.fromCharCode(32 + ((text.charCodeAt(at) + 1 + pick(90)) % 95));
        return text.slice(0, at) + (other === text[at] ? '\t' : other) + text.slice(at + 1);
      },
      'a character gone': () => {
        const at = pick(text.length);
        return text.slice(0, at) + text.slice(at + 1);
      },
      'a verdict turned': () => {
        const of = original.flatMap((line, at) => (line.includes('"executed":true') ? [at] : []));
        const at = of[pick(of.length)] as number;
        return join(
          original.with(at, (original[at] as string).replace('"executed":true', '"executed":false')),
        );
      },
      'a line forged, with a hash that is right': () => {
        const at = 1 + pick(original.length - 1);
        const { seq: _seq, prev: _prev, hash: _hash, ...entry } = JSON.parse(original[at] as string);
        const before = JSON.parse(original[at - 1] as string) as Link;
        const forged = chained(JSON.stringify({ ...entry, actor: 'somebody else' }).slice(1, -1), before);
        return join(original.with(at, forged.line.slice(0, -1)));
      },
      'written anew from some line on': () => rewritten(original, pick(original.length)),
      'a line put in': () =>
        join(original.toSpliced(pick(original.length), 0, original[pick(original.length)] as string)),
    };
    const names = Object.keys(kinds);
    for (let n = 0; n < TAMPERINGS; n += 1) {
      const kind = names[n % names.length] as string;
      const tampered = (kinds[kind] as () => string)();
      if (tampered === text) throw new Error(`${kind} changed nothing`);
      const verdict = verifyAudit(tampered, { head });
      expect(verdict, `${kind}, ${n}`).toMatchObject({ ok: false, brokenAtLine: expect.any(Number) });
    }
  });
});

/** By somebody who knows how the chain is made: only the head that was kept tells. */
function rewritten(original: readonly string[], from: number): string {
  const kept = original.slice(0, from);
  const before = kept.length === 0 ? undefined : (JSON.parse(kept.at(-1) as string) as Link);
  let last: Link = before ?? { seq: 0, hash: CHAIN_START };
  for (const line of original.slice(from)) {
    const { seq: _seq, prev: _prev, hash: _hash, ...entry } = JSON.parse(line) as Record<string, unknown>;
    const made = chained(JSON.stringify({ ...entry, actor: 'somebody else' }).slice(1, -1), last);
    kept.push(made.line.slice(0, -1));
    last = made.link;
  }
  const text = kept.map((line) => `${line}\n`).join('');
  // Without the head it passes.
  expect(verifyAudit(text).ok).toBe(true);
  return text;
}
