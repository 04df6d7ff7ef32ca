import { ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, it } from 'vitest';
import type { ScriptedChunk, ScriptedRequest } from '../../src/testing/index.js';
import { connectFace, FACES } from './faces.js';
import { connect, echo, startServer } from './support.js';

const BOM = new Uint8Array([0xef, 0xbb, 0xbf]);
const TEXT = 'Grüße 🎈 from {"far"}';

/** The JSON of the server's own answer, with a text of several bytes a character. */
function answerOf(request: ScriptedRequest): string {
  const answer = request.answer as { id: unknown };
  const content = [{ type: 'text', text: TEXT }];
  return JSON.stringify({ jsonrpc: '2.0', id: answer.id, result: { content } }, null, 1);
}

/** Spread over as many data lines as the JSON has. */
const dataLines = (json: string, end: string) =>
  json
    .split('\n')
    .map((line) => `data: ${line}${end}`)
    .join('');

function bytewise(text: string): Uint8Array[] {
  return [...Buffer.from(text)].map((byte) => new Uint8Array([byte]));
}

const FRAMINGS: readonly (readonly [string, (json: string) => readonly ScriptedChunk[]])[] = [
  [
    'BOM, CRLF, one pair split over two chunks, a ping before it',
    (json) => {
      const text = `event: ping\r\ndata: {}\r\n\r\nevent: message\r\n${dataLines(json, '\r\n')}\r\n`;
      const split = text.indexOf('\r\n', text.indexOf('data: {\r\n')) + 1;
      return [BOM, text.slice(0, split), text.slice(split)];
    },
  ],
  ['CR alone', (json) => [`: hello\r\revent: message\r${dataLines(json, '\r')}\r`]],
  ['mixed line ends, no event name', (json) => [`retry: 10\rid: 1\r\n${dataLines(json, '\n')}\r\n`]],
  ['byte by byte', (json) => bytewise(`event: message\r\n${dataLines(json, '\r\n')}\r\n`)],
  ['the BOM byte by byte', (json) => [...bytewise('\ufeff'), `${dataLines(json, '\n')}\n`]],
  ['no space after the colon', (json) => [`event:message\ndata:${JSON.stringify(JSON.parse(json))}\n\n`]],
  [
    'fields nobody knows, comments between, a stray data-less event',
    (json) => [`foo: bar\n:${'x'.repeat(5000)}\nevent: x\n\n${dataLines(json, '\n:\n')}nodata\n\n`],
  ],
  [
    'several events in one chunk',
    (json) => [`data\n\ndata:\n\nevent: ping\ndata: {\n\n${dataLines(json, '\n')}\n`],
  ],
  [
    'the answer within an array',
    (json) => [
      `data: [${JSON.stringify({ jsonrpc: '2.0', method: 'x' })},${JSON.stringify(JSON.parse(json))}]\n\n`,
    ],
  ],
];

describe('H18 event streams in every permitted framing', () => {
  for (const [name, frame] of FRAMINGS) {
    for (const face of FACES) {
      it(`${name}, ${face}: one message`, async () => {
        const scene = await startServer();
        const { server } = scene;
        const caller = await connectFace(face, scene, { streams: { listen: false } });
        server.replyOnce(
          { http: 'POST', method: 'tools/call' },
          { tool: 'run', chunks: (request) => frame(answerOf(request)) },
        );

        await expect(caller.echo('a')).resolves.toEqual({ content: [{ type: 'text', text: TEXT }] });

        await caller.echo('b');
        expect(server.counts).toMatchObject({ initializes: 1, listens: 0, executionsById: { a: 1, b: 1 } });
      });
    }
  }

  it('Content-Type in other spellings is an event stream, too', async () => {
    const scene = await startServer();
    const { server } = scene;
    const client = await connect(scene);
    for (const type of [
      'Text/Event-Stream; charset=UTF-8',
      'text/event-stream;',
      ' text/event-stream ;x=y',
    ]) {
      server.replyOnce(
        { http: 'POST', method: 'tools/call' },
        {
          tool: 'run',
          headers: { 'content-type': type },
          chunks: (request) => [`${dataLines(answerOf(request), '\n')}\n`],
        },
      );
      await expect(echo(client, type)).resolves.toMatchObject({ content: [{ text: TEXT }] });
      expect(server.counts.executionsById[type]).toBe(1);
    }
  });

  it('on the listen stream as well: each notification once', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    const notice = '{"jsonrpc":"2.0",\ndata: "method":"notifications/tools/list_changed"}';
    server.replyOnce(
      { http: 'GET' },
      {
        tool: 'run',
        chunks: [
          BOM,
          ': open\r',
          '\n\r\nevent: ping\r\ndata: x\r\n\r\ndata: ',
          `${notice}\r`,
          '\n\r\n',
          { pauseMs: 60_000 },
        ],
      },
    );
    const client = await connect(scene);
    let heard = 0;
    const told = new Promise<void>((resolve) => {
      client.setNotificationHandler(ToolListChangedNotificationSchema, () => {
        heard += 1;
        resolve();
      });
    });
    await told;
    await clock.settle();
    expect(heard).toBe(1);
    expect(server.counts.listens).toBe(1);
  });

  it('what is not finished by a blank line is no event', async () => {
    const scene = await startServer();
    const { server } = scene;
    const client = await connect(scene);
    server.replyOnce(
      { http: 'POST', method: 'tools/call' },
      { tool: 'run', chunks: (request) => [dataLines(answerOf(request), '\r\n')] },
    );
    await expect(echo(client, 'a')).rejects.toMatchObject({
      code: 'ERR_OUTCOME_UNKNOWN',
      executed: 'unknown',
    });
    expect(server.counts.executionsById).toEqual({ a: 1 });
  });
});
