import { describe, expect, it } from 'vitest';
import { advanceUntil, CALL, cursors, GET, gets, listening, startStreams } from './streams.js';
import { connect, echo, failureOf } from './support.js';

/** Sent back as the bytes they came as. */
const RESUMABLE: readonly (readonly [string, string])[] = [
  ['Cyrillic', 'событие-7'],
  ['Chinese', '事件/七'],
  ['an emoji', 'e🙂7'],
  ['Latin-1', 'événement'],
  ['inner blanks and a tab', 'a b\tc'],
  ['what only looks like an escape', 'a%0d%0ab'],
  ['1,024 bytes', 'é'.repeat(512)],
];
/** Never sent back. */
const UNUSABLE: readonly (readonly [string, string])[] = [
  ['100,000 characters', 'x'.repeat(100_000)],
  ['1,025 bytes', `${'é'.repeat(512)}x`],
  ['NUL', 'a\u0000b'],
  ['a carriage return', 'a\rX-Injected: 1'],
  ['an escape', 'a\u001b[2J'],
  ['DEL', 'a\u007f'],
  ['none', ''],
];
const result = (id: unknown) =>
  `data: ${JSON.stringify({ jsonrpc: '2.0', id, result: { content: [{ type: 'text', text: 'found' }] } })}\n\n`;

describe('H28 event ids that are no plain ASCII', () => {
  for (const [name, id] of RESUMABLE) {
    it(`${name}: the listen stream resumes with the same bytes`, async () => {
      const scene = await startStreams();
      const { server, clock } = scene;
      server.replyOnce(GET, { chunks: [`id: ${id}\ndata:\n\n`, { pauseMs: 5_000 }] });
      const { events } = await listening(scene);
      await clock.advance(6_000);
      expect(cursors(scene)).toEqual([undefined, id]);
      expect(events.map(({ type }) => type)).toEqual(['stream-cut', 'stream-reopened']);
      // The cursor stays, though the stream that it opened has brought nothing.
      server.cutStreams();
      await clock.advance(6_000);
      expect(cursors(scene)).toEqual([undefined, id, id]);
    });

    it(`${name}: a call’s stream resumes with the same bytes`, async () => {
      const scene = await startStreams();
      const { server } = scene;
      const client = await connect(scene, { streams: { listen: false } });
      server.replyOnce(CALL, { tool: 'run', chunks: [`id: ${id}\ndata:\n\n`] });
      server.replyOnce(GET, {
        chunks: () => [result(server.log.findLast(({ tool }) => tool === 'echo')?.rpcId)],
      });
      const answer = echo(client, 'a');
      await advanceUntil(scene, answer, 5_000);
      expect(await answer).toMatchObject({ content: [{ text: 'found' }] });
      expect(cursors(scene)).toEqual([id]);
      expect(server.counts.executionsById).toEqual({ a: 1 });
    });
  }

  for (const [name, id] of UNUSABLE) {
    it(`${name}: the listen stream comes back without it, and says that something may be missing`, async () => {
      const scene = await startStreams();
      const { server, clock } = scene;
      server.replyOnce(GET, { chunks: [`id: ${id}\ndata:\n\n`, { pauseMs: 5_000 }] });
      const { events, errors, client } = await listening(scene);
      await clock.advance(6_000);
      const sent = cursors(scene);
      // A line end in the id ends the id: what stands before it is one.
      const before = id.includes('\r') ? 'a' : undefined;
      expect(sent).toEqual([undefined, before]);
      expect(gets(scene).some(({ headers }) => 'x-injected' in headers)).toBe(false);
      if (before === undefined) expect(events.at(-1)?.type).toBe('stream-gap');
      expect(errors).toEqual([]);
      await echo(client, 'a');
      expect(server.counts).toMatchObject({ executionsById: { a: 1 }, initializes: 1 });
    });
  }

  for (const [name, id] of UNUSABLE.filter(([, each]) => !each.includes('\r'))) {
    it(`${name}: a call’s stream counts as one without a cursor, at once`, async () => {
      const scene = await startStreams();
      const { server } = scene;
      const client = await connect(scene, { streams: { listen: false } });
      server.replyOnce(CALL, { tool: 'run', chunks: [`id: ${id}\ndata:\n\n`] });
      const failure = await failureOf(echo(client, 'a'));
      expect(failure).toMatchObject({ code: 'ERR_OUTCOME_UNKNOWN', executed: 'unknown' });
      expect(server.counts).toMatchObject({ listens: 0, executionsById: { a: 1 } });
    });
  }

  it('a usable id before an unusable one stays the cursor', async () => {
    const scene = await startStreams();
    const { server, clock } = scene;
    server.replyOnce(GET, {
      chunks: ['id: good\ndata:\n\n', `id: ${'x'.repeat(2_000)}\ndata:\n\n`, { pauseMs: 5_000 }],
    });
    await listening(scene);
    await clock.advance(6_000);
    expect(cursors(scene)).toEqual([undefined, 'good']);
  });

  it('a cursor that the server does not take is given up, not the stream', async () => {
    const scene = await startStreams({ eventStore: true });
    const { server, clock } = scene;
    server.replyOnce(GET, { chunks: ['id: unknown\ndata:\n\n', { pauseMs: 5_000 }] });
    const { events } = await listening(scene);
    await clock.advance(7_000);
    expect(cursors(scene)).toEqual([undefined, 'unknown', undefined]);
    expect(gets(scene).map(({ status }) => status)).toEqual([200, 400, 200]);
    expect(events.map(({ type }) => type)).toEqual(['stream-cut', 'stream-reopened', 'stream-gap']);
    expect(server.counts).toMatchObject({ initializes: 1, pings: 0, streamsOpen: 1 });
  });
});
