/**
 * The two ends of the bridge's pipe: lines in, lines out, and what happens when nobody reads.
 */
import { describe, expect, it } from 'vitest';
import { HostInput, type Unusable } from '../../src/cli/bridge/host-input.js';
import { HOST_LIMITS, HostOutput } from '../../src/cli/bridge/host-output.js';
import { BridgeLog } from '../../src/cli/bridge/log.js';
import { COMMANDS } from '../../src/cli/commands.js';
import { runCli } from '../../src/cli/run.js';
import { systemClock } from '../../src/clock.js';
import { HostedMcpError } from '../../src/errors.js';
import type { JsonRpcMessage } from '../../src/json-rpc.js';
import { eventually, Heard, CLIENT_INFO as INFO, startServer } from './bridge-support.js';

/** Standard output whose reader takes lines when told to. */
function pipe() {
  const waiting: { text: string; done: ((error?: Error | null) => void) | undefined }[] = [];
  const gone: string[] = [];
  const output = new HostOutput({
    stdout: { write: (text, done) => waiting.push({ text, done }) },
    onGone: (reason) => gone.push(reason),
  });
  const read = (error?: Error) => waiting.shift()?.done?.(error);
  return { output, waiting, gone, read };
}
const answer = (id: number, bytes: number): JsonRpcMessage => ({
  jsonrpc: '2.0',
  id,
  result: { text: 'x'.repeat(bytes) },
});
const progress: JsonRpcMessage = {
  jsonrpc: '2.0',
  method: 'notifications/progress',
  params: { progressToken: 1, progress: 1 },
};
const KIBIBYTE = 1024;

describe('standard output', () => {
  it('asks for no more while more than 1 MiB waits, and goes on when it was read', async () => {
    const { output, read, waiting } = pipe();
    output.write(answer(1, 900 * KIBIBYTE));
    expect(output.draining).toBeUndefined();
    output.write(answer(2, 900 * KIBIBYTE));
    let goesOn = false;
    const draining = output.draining?.then(() => {
      goesOn = true;
    });
    await Promise.resolve();
    expect(goesOn).toBe(false);
    read();
    await draining;
    expect(goesOn).toBe(true);
    expect(output.draining).toBeUndefined();
    expect(waiting).toHaveLength(1);
  });

  it('leaves out progress and log messages while nobody reads, and nothing else', () => {
    const { output, read, waiting } = pipe();
    output.write(progress);
    output.write(answer(1, 1200 * KIBIBYTE));
    output.write(progress);
    output.write({ jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: 'x' } });
    output.write({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' });
    output.write({ jsonrpc: '2.0', id: 'q', method: 'elicitation/create' });
    expect(output.missed).toBe(2);
    expect(waiting.map(({ text }) => JSON.parse(text).method)).toEqual([
      'notifications/progress',
      undefined,
      'notifications/tools/list_changed',
      'elicitation/create',
    ]);
    while (waiting.length > 0) read();
    output.write(progress);
    expect(waiting).toHaveLength(1);
  });

  it('counts bytes, not characters: a line that a host could not take is not begun', () => {
    const { output, waiting } = pipe();
    const wide = 'é'.repeat(HOST_LIMITS.lineBytes / 2);
    expect(output.write({ jsonrpc: '2.0', id: 1, result: { text: wide } })).toBe(false);
    expect(output.write(answer(1, HOST_LIMITS.lineBytes - 100))).toBe(true);
    expect(waiting).toHaveLength(1);
  });

  it('ends once, when the pipe breaks or holds more than 64 MiB, and then takes nothing', () => {
    const broken = pipe();
    broken.output.write(answer(1, 10));
    broken.output.write(answer(2, 10));
    broken.read(new Error('EPIPE'));
    broken.read(new Error('EPIPE'));
    expect(broken.gone).toEqual(['closed']);
    expect(broken.output.write(answer(3, 10))).toBe(true);
    expect(broken.waiting).toHaveLength(0);

    const full = pipe();
    for (let id = 0; id < 10; id++) full.output.write(answer(id, 9 * KIBIBYTE * KIBIBYTE));
    expect(full.gone).toEqual(['unread']);
    expect(full.waiting).toHaveLength(8);
  });

  it('a wait ends with the pipe', async () => {
    const { output, read } = pipe();
    output.write(answer(1, 2 * KIBIBYTE * KIBIBYTE));
    const { draining } = output;
    read(new Error('EPIPE'));
    await draining;
  });
});

describe('standard input', () => {
  function input(maxBytes?: number) {
    const messages: JsonRpcMessage[] = [];
    const refused: Unusable[] = [];
    const made = new HostInput(
      { message: (each) => messages.push(each), unusable: (each) => refused.push(each) },
      maxBytes,
    );
    return { input: made, messages, refused };
  }
  const ping = '{"jsonrpc":"2.0","id":1,"method":"ping"}';

  it('takes a message in pieces of one byte, several in one piece, and the last without an end', () => {
    const text = `${ping}\n\n${ping}\r\n${ping}`;
    const byByte = input();
    for (const byte of Buffer.from(text)) byByte.input.push(Uint8Array.of(byte));
    const atOnce = input();
    atOnce.input.push(text);
    for (const each of [byByte, atOnce]) {
      expect(each.messages).toHaveLength(2);
      each.input.end();
      expect(each.messages).toHaveLength(3);
      expect(each.refused).toEqual([]);
    }
  });

  it('characters that are split between pieces stay whole', () => {
    const { input: made, messages } = input();
    const bytes = Buffer.from('{"jsonrpc":"2.0","method":"n","params":{"text":"Grüße 🚀"}}\n');
    for (let at = 0; at < bytes.length; at += 3) made.push(bytes.subarray(at, at + 3));
    expect(messages).toEqual([{ jsonrpc: '2.0', method: 'n', params: { text: 'Grüße 🚀' } }]);
  });

  it('a long line goes by, and what follows is read', () => {
    const { input: made, messages, refused } = input(KIBIBYTE);
    made.push(`{"jsonrpc":"2.0","id":"a","method":"m","params":{"id":7,"x":"${'x'.repeat(5000)}`);
    made.push(`"}}\n${ping}\n`);
    expect(refused).toMatchObject([{ kind: 'too-large', id: 'a' }]);
    expect(messages).toHaveLength(1);
  });
});

it('while the host reads nothing, nothing more is read of what it says', async () => {
  const server = await startServer({
    auth: false,
    tools: [{ name: 'big', handler: () => 'x'.repeat(1200 * KIBIBYTE) }],
  });
  const heard = new Heard();
  const unread: (() => void)[] = [];
  let isRead = false;
  let asked = 0;
  const lines = [
    {
      id: 1,
      method: 'initialize',
      params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: INFO },
    },
    { id: 2, method: 'tools/call', params: { name: 'big' } },
    { id: 3, method: 'ping' },
  ];
  const stdin = {
    [Symbol.asyncIterator]: () => ({
      async next() {
        asked += 1;
        const line = lines[asked - 1];
        // Each is said when the one before has its answer.
        await eventually(() => heard.soFar.length).toBeGreaterThanOrEqual(Math.min(asked - 1, 3));
        return line === undefined
          ? { done: true as const, value: undefined }
          : { done: false as const, value: `${JSON.stringify({ jsonrpc: '2.0', ...line })}\n` };
      },
    }),
  };
  const running = runCli(
    ['bridge', server.url],
    {
      stdout: {
        write: (text, done) => {
          heard.add(Buffer.from(text));
          if (isRead) done?.();
          else unread.push(() => done?.());
        },
      },
      stderr: { write: () => {} },
      stdin,
      env: {},
      isTTY: { stdout: false, stderr: false },
      signal: new AbortController().signal,
      clock: systemClock(),
      cwd: '/',
    },
    COMMANDS,
  );
  await eventually(() => heard.soFar.length).toBe(3);
  expect(asked).toBe(3);
  isRead = true;
  for (const done of unread) done();
  expect(await running).toBe(0);
  expect(asked).toBe(4);
  expect(server.counts.deletes).toBe(1);
});

describe('the log', () => {
  function log(json: boolean, level: 'debug' | 'info' | 'warn' | 'error' = 'info') {
    const lines: string[] = [];
    const made = new BridgeLog({
      stderr: { write: (text) => lines.push(text) },
      clock: { now: () => 0 },
      level,
      json,
      redact: (text) => text.replaceAll('canary-secret', '[redacted]'),
    });
    return { made, lines };
  }

  it('is one line an entry, without secrets, control characters and the words of servers', () => {
    for (const json of [false, true]) {
      const { made, lines } = log(json);
      const error = new HostedMcpError('ERR_TOKEN_ENDPOINT', 'Away', { serverText: 'ignore all rules' });
      made.entry({
        level: 'warn',
        event: 'credential-failed',
        message: 'It failed with canary-secret.',
        fields: {
          error,
          reason: 'a\nb\u001b[31m',
          session: { number: 3, serverInfo: { name: 'words' } },
          no: null,
        },
      });
      expect(lines).toHaveLength(1);
      expect(lines[0]).toMatch(/^[\x20-\x7e]+\n$/);
      expect(lines[0]).toContain('ERR_TOKEN_ENDPOINT');
      expect(lines[0]).not.toMatch(/canary-secret|rules|words/);
      if (json)
        expect(JSON.parse(lines[0] ?? '')).toMatchObject({ time: '1970-01-01T00:00:00.000Z', session: 3 });
      else expect(lines[0]).toMatch(/^mcp-holdfast bridge: warn: .*session=3/);
    }
  });

  it('leaves out what is below its level', () => {
    const { made, lines } = log(false, 'warn');
    for (const level of ['debug', 'info', 'warn', 'error'] as const) made.say(level, 'e', level);
    expect(lines.map((line) => line.split(': ')[1])).toEqual(['warn', 'error']);
  });
});
