/**
 * The reference server as it is, started here and spoken to at an address: one client, one contract.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { CreateMessageRequestSchema, ListRootsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type ConnectServerOptions,
  connectServer,
  type HostedClient,
  parseServersConfig,
} from '../../src/client.js';
import { diffContracts, formatDiff, formatSnapshot, HostedMcpError, parseSnapshot } from '../../src/index.js';
import { type Everything, startEverything } from './everything.js';

const MAIN = join(
  dirname(createRequire(import.meta.url).resolve('@modelcontextprotocol/server-everything/package.json')),
  'dist/index.js',
);
const INFO = { name: 'test', version: '1.0.0' };

let folder: string;
let everything: Everything;
let config: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'everything-'));
  everything = await startEverything();
  // What the shell does is write down its pid, which the server then has.
  const script = 'echo $$ > "$PID_FILE"; exec "$0" "$1" stdio';
  config = JSON.stringify({
    mcpServers: {
      started: {
        command: '/bin/sh',
        args: ['-c', script, `\${NODE}`, MAIN],
        env: { PID_FILE: join(folder, 'pid'), GREETING: `\${GREETING:-hello}` },
      },
      hosted: { type: 'http', url: `\${HOSTED_URL}` },
    },
  });
});
afterAll(async () => {
  await everything?.close();
  rmSync(folder, { recursive: true, force: true });
});

type Name = 'started' | 'hosted';

function connect(name: Name, options?: ConnectServerOptions): Promise<HostedClient> {
  const servers = parseServersConfig(config, { NODE: process.execPath, HOSTED_URL: everything.url });
  return connectServer(INFO, servers[name]!, options);
}

const pid = () => Number(readFileSync(join(folder, 'pid'), 'utf8'));
const isRunning = () => {
  try {
    return process.kill(pid(), 0);
  } catch {
    return false;
  }
};

describe.each<Name>(['started', 'hosted'])('server-everything, %s', (name) => {
  it('lists, calls, tells its progress, and asks', async () => {
    const client = await connect(name, { capabilities: { sampling: {}, roots: {} } });
    const asked: unknown[] = [];
    client.setRequestHandler(CreateMessageRequestSchema, ({ params }) => {
      asked.push(params.messages[0]?.content);
      return { model: 'm', role: 'assistant', content: { type: 'text', text: 'from the model' } };
    });
    client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: [{ uri: 'file:///srv' }] }));
    try {
      const names = (await client.listTools()).tools.map((tool) => tool.name);
      expect(names).toContain('trigger-sampling-request');
      expect((await client.callTool({ name: 'echo', arguments: { message: 'hi' } })).content).toEqual([
        { type: 'text', text: 'Echo: hi' },
      ]);

      const steps: number[] = [];
      await client.callTool(
        { name: 'trigger-long-running-operation', arguments: { duration: 0.2, steps: 4 } },
        undefined,
        { onprogress: ({ progress }) => steps.push(progress) },
      );
      expect(steps).toEqual([1, 2, 3, 4]);

      const sampled = await client.callTool({
        name: 'trigger-sampling-request',
        arguments: { prompt: 'why?' },
      });
      expect(JSON.stringify(sampled.content)).toContain('from the model');
      expect(asked).toEqual([{ type: 'text', text: expect.stringContaining('why?') }]);
    } finally {
      await client.close();
    }
  });
});

it('close() ends the process; its variables were its own', async () => {
  const client = await connect('started');
  const { content } = await client.callTool({ name: 'get-env', arguments: {} });
  const [{ text }] = content as [{ text: string }];
  expect(JSON.parse(text)).toMatchObject({ GREETING: 'hello' });
  expect(Object.keys(JSON.parse(text))).not.toContain('VITEST');
  expect(isRunning()).toBe(true);

  await client.close();
  expect(isRunning()).toBe(false);
});

it('killed during a call: unknown, and the next call is answered by a new process', async () => {
  const client = await connect('started');
  const before = pid();
  try {
    const cut = client
      .callTool(
        { name: 'trigger-long-running-operation', arguments: { duration: 60, steps: 60 } },
        undefined,
        {
          onprogress: () => {},
          timeout: 20_000,
        },
      )
      .catch((error: unknown) => error);
    // It was taken: a later call was answered.
    await client.callTool({ name: 'echo', arguments: { message: 'x' } });
    process.kill(before, 'SIGKILL');
    const failure = await cut;
    expect(HostedMcpError.isInstance(failure, 'ERR_OUTCOME_UNKNOWN')).toBe(true);
    expect(failure).toMatchObject({ executed: 'unknown' });
    expect((await client.callTool({ name: 'echo', arguments: { message: 'again' } })).content).toEqual([
      { type: 'text', text: 'Echo: again' },
    ]);
    expect(pid()).not.toBe(before);
  } finally {
    await client.close();
  }
});

it('has one contract, started or hosted', async () => {
  const snapshots = [];
  for (const name of ['started', 'hosted'] as const) {
    const client = await connect(name);
    snapshots.push(
      parseSnapshot(formatSnapshot(await client.snapshot({ environment: name, resources: true }))),
    );
    await client.close();
  }
  const [started, hosted] = snapshots;
  const diff = diffContracts(started!, hosted!);

  expect(started!.url).toBe('stdio:sh');
  expect(hosted!.url).toBe(everything.url);
  expect(started!.tools.length).toBeGreaterThan(5);
  const shown = formatDiff(diff);
  expect(shown).toContain(`--- started stdio:sh `);
  expect(shown).toContain('The contracts are identical.');
  expect(diff.identical).toBe(true);
});
