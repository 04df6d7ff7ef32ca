import { describe, expect, it } from 'vitest';
import { memoryRateLimitStore } from '../../src/index.js';
import type { ScriptedReply } from '../../src/testing/index.js';
import { connect, failureOf, startServer } from './support.js';

const CALL = { method: 'tools/call' } as const;
const RUN_AND_CUT: ScriptedReply = { tool: 'run', cut: 'reset' };
const SESSION_LOST = { jsonrpc: '2.0', id: null, error: { code: -32001, message: 'Session not found' } };
const RULE = { limit: 10, intervalMs: 60_000 };

/** A call to a tool that the app lists as safe: it may go out once more after it was cut off. */
async function safe(left: number) {
  const onRun: (() => void)[] = [];
  const tool = {
    name: 'echo',
    handler: () => {
      onRun.shift()?.();
      return 'done';
    },
  };
  const scene = await startServer({ tools: [tool], tokenLifetimeMs: 3_600_000 });
  const store = memoryRateLimitStore({ clock: scene.clock });
  const client = await connect(scene, {
    rateLimit: { ...RULE, key: 'k', store },
    retry: { safeTools: ['echo'] },
    contract: { onChange: 'reject' },
  });
  await scene.clock.settle();
  await scene.clock.advance(120_000);
  for (let n = 0; n < RULE.limit - left; n += 1) await store.take('k', [RULE]);
  /** The first try runs and is cut off, the second one meets `reply`. */
  const thenMeet = (reply: ScriptedReply) => {
    scene.server.replyOnce(CALL, RUN_AND_CUT);
    onRun.push(() => scene.server.replyOnce(CALL, reply));
  };
  return { scene, client, thenMeet };
}

const echo = (client: Awaited<ReturnType<typeof safe>>['client']) =>
  client.callTool({ name: 'echo', arguments: { text: 'x' } }, undefined, { timeout: 10_000 });

describe('a call that ran, was cut off, and may not go out once more', () => {
  it('because the rate limit leaves no request in time: it may have run, and the error says so', async () => {
    const { scene, client } = await safe(1);
    scene.server.replyOnce(CALL, RUN_AND_CUT);
    const failed = failureOf(echo(client));
    await scene.clock.advance(5_000);
    expect(await failed).toMatchObject({
      code: 'ERR_RATE_WAIT_EXCEEDED',
      executed: 'unknown',
      retryable: false,
    });
    expect(scene.server.counts.executions).toEqual({ echo: 1 });
  });

  it.each([
    ['the limit', 429, { 'retry-after': '60' }, ''],
    ['the session', 404, {}, SESSION_LOST],
    ['the credential', 401, { 'www-authenticate': 'Bearer error="invalid_token"' }, ''],
    ['the scope', 403, { 'www-authenticate': 'Bearer error="insufficient_scope", scope="x"' }, ''],
    ['a busy server', 503, { 'retry-after': '60' }, ''],
  ] as const)('because the second try was refused for %s', async (_name, status, headers, body) => {
    const { scene, client, thenMeet } = await safe(9);
    thenMeet({ tool: 'skip', status, headers, body });
    const failed = failureOf(echo(client));
    await scene.clock.advance(9_000);
    expect(await failed).toMatchObject({ status, executed: 'unknown', retryable: false });
    expect(scene.server.counts.executions).toEqual({ echo: 1 });
    expect(scene.server.log.filter(({ rpcMethod }) => rpcMethod === 'tools/call')).toHaveLength(2);
  });

  it('because the tool has changed meanwhile', async () => {
    const { scene, client } = await safe(9);
    const { server, clock } = scene;
    server.replyOnce(CALL, RUN_AND_CUT);
    const failed = failureOf(echo(client));
    await clock.settle();
    server.deploy({ tools: [{ name: 'echo', description: 'another' }] });
    server.notify('notifications/tools/list_changed');
    await clock.advance(5_000);
    const failure = await failed;
    expect(failure.diff?.changes.map(({ name }) => name)).toContain('echo');
    expect(failure).toMatchObject({
      code: 'ERR_CONTRACT_CHANGED',
      executed: 'unknown',
    });
    expect(server.counts.executions).toEqual({ echo: 1 });
  });
});
