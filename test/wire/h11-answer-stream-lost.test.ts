import { describe, expect, it } from 'vitest';
import type { ScriptedReply } from '../../src/testing/index.js';
import { connectFace, FACES } from './faces.js';
import { connect, echo, failureOf, startServer } from './support.js';

const CALL = { http: 'POST', method: 'tools/call' } as const;
const EVENT = 'data: {"jsonrpc":"2.0","id":1,"result":{"content":[';

/** The tool ran, its answer never came, and there is no cursor to ask for it. */
const LOSSES: readonly (readonly [string, ScriptedReply])[] = [
  ['one comment, a clean end', { tool: 'run', chunks: [': hello\n\n'] }],
  ['nothing at all, a clean end', { tool: 'run', chunks: [] }],
  ['an event that is not finished', { tool: 'run', chunks: [`event: message\n${EVENT}`] }],
  [
    'progress, then the end',
    { tool: 'run', chunks: ['data: {"jsonrpc":"2.0","method":"notifications/progress"}\n\n'] },
  ],
  [
    'an answer to somebody else, then the end',
    { tool: 'run', chunks: ['data: {"jsonrpc":"2.0","id":"x","result":{}}\n\n'] },
  ],
  ['an id that cannot be sent back', { tool: 'run', chunks: ['id: a\u0000b\ndata:\n\n'] }],
  ['an empty id', { tool: 'run', chunks: ['id:\ndata:\n\n'] }],
];

const CUTS: readonly (readonly [string, ScriptedReply])[] = [
  ['reset before the head', { tool: 'run', cut: 'reset' }],
  ['closed before the head', { tool: 'run', cut: 'fin' }],
  ['reset in the middle of the answer', { tool: 'run', cut: 'reset', afterBytes: 30 }],
  ['closed in the middle of the answer', { tool: 'run', cut: 'fin', afterBytes: 30 }],
  ['ended in the middle of the answer', { tool: 'run', cut: 'eof', afterBytes: 30 }],
];

describe('H11 a response stream that is lost without a cursor', () => {
  for (const [name, reply] of LOSSES) {
    for (const face of FACES) {
      it(`${name}, ${face}: rejected at once, nothing sent again, the session kept`, async () => {
        const scene = await startServer();
        const { server } = scene;
        const caller = await connectFace(face, scene, { streams: { listen: false } });
        server.replyOnce(CALL, reply);

        // No clock is moved: nothing but the end of the stream may end the call.
        const failure = await failureOf(caller.echo('lost'));

        expect(failure).toMatchObject({
          code: 'ERR_OUTCOME_UNKNOWN',
          executed: 'unknown',
          retryable: false,
          tool: 'echo',
        });
        await caller.echo('after');
        expect(server.counts.executionsById).toEqual({ lost: 1, after: 1 });
        expect(server.counts).toMatchObject({ initializes: 1, listens: 0, pings: 0 });
      });
    }
  }

  for (const [name, reply] of CUTS) {
    it.each(['sse', 'json'] as const)(`${name}, as %s: the same`, async (answer) => {
      const scene = await startServer({ answer });
      const { server } = scene;
      const client = await connect(scene);
      server.replyOnce(CALL, reply);

      const failure = await failureOf(echo(client, 'lost'));

      const typed = { executed: 'unknown', retryable: false };
      expect(failure).toMatchObject(typed);
      // A JSON body that ends early and cleanly is no cut but a broken answer.
      const broken = answer === 'json' && 'cut' in reply && reply.cut === 'eof';
      expect(failure.code).toBe(broken ? 'ERR_PROTOCOL' : 'ERR_OUTCOME_UNKNOWN');
      await echo(client, 'after');
      expect(server.counts.executionsById).toEqual({ lost: 1, after: 1 });
      expect(server.counts).toMatchObject({ initializes: 1, listens: 0 });
    });
  }

  it('a read in the same place is asked again, once', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    const client = await connect(scene);
    server.reply({ http: 'POST', method: 'tools/list' }, { chunks: [': hello\n\n'] }, { times: 1 });

    const listed = client.listTools();
    await clock.advance(2_000);

    expect((await listed).tools).toHaveLength(4);
    const lists = server.log.filter(({ rpcMethod }) => rpcMethod === 'tools/list');
    expect(lists).toHaveLength(2);
    expect(server.counts.initializes).toBe(1);
  });
});
