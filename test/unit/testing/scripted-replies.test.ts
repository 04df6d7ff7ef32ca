import { request as httpRequest } from 'node:http';
import { expect, test } from 'vitest';
import { manualClock } from '../../../src/testing/index.js';
import { connect, initialize, messageOf, peerOf, start, textOf, toolCall } from './support.js';

const codeOf = (error: { cause?: { code?: string } }) => error.cause?.code;

test('replyOnce answers one matching request, in the order given, before any check', async () => {
  const server = await start();
  const peer = await connect(server);
  server.replyOnce({ tool: 'echo' }, { status: 404, body: { a: 1 } });
  server.replyOnce({ method: 'tools/call' }, { status: 500, headers: { 'X-Odd': 'yes' }, body: '<html>' });
  expect((await peer.call('add', { a: 1, b: 1 })).status).toBe(500);
  const first = await peer.call('echo', {}, { authorization: 'Bearer wrong' });
  expect([first.status, await first.json()]).toEqual([404, { a: 1 }]);
  expect(await textOf(await peer.call('echo', { text: 'x' }))).toBe('x');
  expect(server.counts.executions).toEqual({ echo: 1 });
});

test('reply answers until it is disposed of, or so many times; limited ones come first', async () => {
  const server = await start();
  const peer = await connect(server);
  server.reply({ http: 'POST', tool: 'echo' }, { status: 418 }, { times: 2 });
  server.reply({ http: 'POST' }, { status: 500 }).dispose();
  const standing = server.reply({ http: 'POST' }, { status: 503 });
  const statuses: number[] = [];
  for (let i = 0; i < 4; i++) statuses.push((await peer.call('echo', { text: 'x' })).status);
  expect(statuses).toEqual([418, 418, 503, 503]);
  standing.dispose();
  expect((await peer.call('echo', { text: 'x' })).status).toBe(200);
});

test('tool: run does the work first; the body may echo the id', async () => {
  const server = await start();
  const peer = await connect(server);
  server.replyOnce(
    { tool: 'echo' },
    {
      tool: 'run',
      status: 401,
      body: ({ message }) => ({ jsonrpc: '2.0', id: message?.id, error: { code: -32000, message: 'late' } }),
    },
  );
  const call = toolCall('echo', { text: 'x' });
  const refused = await peer.post(call, { authorization: 'Bearer wrong' });
  expect((await refused.json()) as object).toEqual({ error: 'invalid_token' });
  expect(server.counts.executions).toEqual({});
  const late = await peer.post(call);
  expect([late.status, ((await late.json()) as { id: number }).id]).toEqual([401, call.id]);
  expect(server.counts.executions).toEqual({ echo: 1 });
});

test('a header may come twice, with the session of an initialize that was run', async () => {
  const server = await start({ auth: false });
  server.replyOnce(
    { method: 'initialize' },
    {
      tool: 'run',
      status: 200,
      headers: ({ sessionId }) => ({
        'content-type': 'application/json',
        'mcp-session-id': [sessionId ?? '', sessionId ?? ''],
      }),
      body: ({ answer }) => answer,
    },
  );
  const raw = await new Promise<string[]>((resolve) => {
    const options = { method: 'POST', headers: peerOf(server).headers };
    const sent = httpRequest(server.url, options, (response) => resolve(response.resume().rawHeaders));
    sent.end(JSON.stringify(initialize('2025-11-25')));
  });
  const ids = raw.filter((_, i) => raw[i - 1]?.toLowerCase() === 'mcp-session-id');
  expect(ids).toHaveLength(2);
  const peer = peerOf(server, { 'mcp-session-id': ids[0]! });
  expect(await textOf(await peer.call('echo', { text: 'x' }))).toBe('x');
  await peer.call('echo', {}, { 'mcp-session-id': ids.join(', ') });
  const labels = server.log.map((entry) => entry.sessionLabel);
  expect(labels).toEqual(['session#1', 'session#1', 'unknown-session#1']);
});

test.each(['json', 'sse'] as const)('cut before the head, and after some bytes, with %s', async (answer) => {
  const server = await start({ answer });
  const peer = await connect(server);
  server.replyOnce({ tool: 'echo' }, { tool: 'run', cut: 'reset' });
  expect(await peer.call('echo', { text: 'x' }).catch(codeOf)).toBe('ECONNRESET');
  server.replyOnce({ tool: 'echo' }, { tool: 'run', cut: 'fin' });
  expect(await peer.call('echo', { text: 'x' }).catch(codeOf)).toBe('UND_ERR_SOCKET');
  await expect.poll(() => server.counts.executions).toEqual({ echo: 2 });
  server.replyOnce({ tool: 'echo' }, { tool: 'run', cut: 'eof', afterBytes: 7 });
  const short = await peer.call('echo', { text: 'x' });
  expect(await short.text()).toBe(answer === 'json' ? '{"jsonr' : 'event: ');
  server.replyOnce({ tool: 'echo' }, { cut: 'fin', afterBytes: 3 });
  const padded = await peer.call('echo', { text: 'x' });
  expect(padded.status).toBe(200);
  expect(await padded.text().catch(codeOf)).toBe('UND_ERR_SOCKET');
  expect(server.counts.executions).toEqual({ echo: 3 });
});

test('a call that was cut after running is there for a resume', async () => {
  const server = await start({ answer: 'sse', eventStore: true });
  const peer = await connect(server);
  server.replyOnce({ tool: 'echo' }, { tool: 'run', cut: 'eof', afterBytes: 60 });
  const cursor = /^id: (\S+)/.exec(await (await peer.call('echo', { text: 'kept' })).text())?.[1] ?? '';
  expect(await textOf(await peer.get({ 'last-event-id': cursor }))).toBe('kept');
});

test('chunks, with pauses on the server’s clock', async () => {
  const clock = manualClock();
  const server = await start({ clock });
  const peer = await connect(server);
  const answer = (id: unknown) => `data: ${JSON.stringify({ jsonrpc: '2.0', id, result: {} })}\r`;
  server.replyOnce(
    { tool: 'echo' },
    { chunks: ({ message }) => ['\ufeff: hi\r\n\r\n', { pauseMs: 500 }, answer(message?.id), '\n\r\n'] },
  );
  const call = toolCall('echo');
  const response = await peer.post(call);
  expect(response.headers.get('content-type')).toBe('text/event-stream');
  const text = response.text();
  await clock.advance(499);
  expect(clock.pendingTimers).toBe(1);
  await clock.advance(1);
  expect(await text).toBe(`: hi\r\n\r\n${answer(call.id)}\n\r\n`);
  expect(server.counts.executions).toEqual({});
});

test('silence lasts until the client goes away, and holds no clock', async () => {
  const clock = manualClock();
  const server = await start({ clock });
  const peer = await connect(server);
  server.replyOnce({ tool: 'echo' }, { silence: true });
  let isAnswered = false;
  const leaving = new AbortController();
  const call = fetch(server.url, {
    method: 'POST',
    headers: peer.headers,
    body: JSON.stringify(toolCall('echo')),
    signal: leaving.signal,
  }).finally(() => {
    isAnswered = true;
  });
  await expect.poll(() => server.log.at(-1)?.tool).toBe('echo');
  await clock.advance(60_000);
  expect(isAnswered).toBe(false);
  leaving.abort();
  await expect(call).rejects.toThrow();
});

test('a function that throws is said, not swallowed', async () => {
  const server = await start();
  const peer = await connect(server);
  const body = () => {
    throw new Error('mistake in the test');
  };
  server.replyOnce({ tool: 'echo' }, { status: 200, body });
  const answer = await peer.call('echo');
  expect([answer.status, (await messageOf(answer)).error.message]).toEqual([
    500,
    'Internal error: mistake in the test',
  ]);
});

test('a resume is told from a first listen', async () => {
  const server = await start({ eventStore: true });
  const peer = await connect(server);
  server.replyOnce({ resume: true }, { status: 502 });
  server.replyOnce({ resume: false }, { status: 504 });
  expect((await peer.call('echo', { text: 'x' })).status).toBe(200);
  expect((await peer.get()).status).toBe(504);
  expect((await peer.get({ 'last-event-id': 's1_1' })).status).toBe(502);
});
