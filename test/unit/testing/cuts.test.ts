import { describe, expect, test } from 'vitest';
import { type HostedServerOptions, manualClock, startHostedServer } from '../../../src/testing/index.js';
import { connect, messages, peerOf, readUntil, request, start, textOf, toolCall } from './support.js';

/** A server on a manual clock, and an honest client of it. */
async function scene(options: HostedServerOptions) {
  const clock = manualClock();
  const server = await start({ clock, ...options });
  return { clock, server, peer: await connect(server) };
}

/** How a stream ended, and what it had carried. */
async function endOf(response: Response): Promise<{ how: string; text: string }> {
  let text = '';
  const decoder = new TextDecoder();
  const reader = response.body!.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return { how: 'eof', text };
      text += decoder.decode(value, { stream: true });
    }
  } catch (error) {
    return { how: (error as { cause?: { code?: string } }).cause?.code ?? String(error), text };
  }
}

/** Whether a stream still runs: nothing of it has ended by now. */
async function isRunning(end: Promise<unknown>): Promise<boolean> {
  return (await Promise.race([end, Promise.resolve('running')])) === 'running';
}

const ENDS = { fin: 'UND_ERR_SOCKET', eof: 'eof', reset: 'ECONNRESET', status: 'UND_ERR_SOCKET' };

describe('idleCutMs', () => {
  test.each(['fin', 'eof', 'reset', 'status'] as const)(
    '%s: a silent stream is cut at the limit, not before',
    async (cutShape) => {
      const { clock, server, peer } = await scene({ idleCutMs: 60_000, cutShape });
      const end = endOf(await peer.get());
      await clock.advance(59_999);
      expect(await isRunning(end)).toBe(true);
      expect(server.counts.streamsOpen).toBe(1);
      await clock.advance(1);
      expect(server.counts.streamsOpen).toBe(0);
      expect((await end).how).toBe(ENDS[cutShape]);
    },
  );

  test('bytes start it anew, on each stream by itself', async () => {
    const { clock, server, peer } = await scene({ idleCutMs: 60_000, answer: 'sse' });
    const listen = endOf(await peer.get());
    const call = endOf(await peer.call('slow', { ms: 200_000 }));
    await clock.advance(40_000);
    server.notify('notifications/message', { n: 1 });
    await clock.advance(59_999);
    expect((await call).how).toBe('UND_ERR_SOCKET');
    expect(await isRunning(listen)).toBe(true);
    await clock.advance(1);
    expect(messages((await listen).text)).toHaveLength(1);
  });

  test('a cut call is resumed and cut as often as need be, and runs once', async () => {
    const { clock, server, peer } = await scene({ idleCutMs: 60_000, answer: 'sse', eventStore: true });
    const first = endOf(await peer.call('slow', { ms: 150_000 }));
    await clock.advance(60_000);
    const cursor = /^id: (\S+)/.exec((await first).text)?.[1] ?? '';
    const second = endOf(await peer.get({ 'last-event-id': cursor }));
    await clock.advance(60_000);
    expect((await second).text).toBe('');
    const third = await peer.get({ 'last-event-id': cursor });
    await clock.advance(60_000);
    expect(await textOf(third)).toBe('waited 150000 ms');
    expect(server.counts).toMatchObject({ executions: { slow: 1 }, resumes: 2, gets: 2 });
  });

  test('an answer that has not begun becomes a page, whatever the shape; the tool goes on', async () => {
    const { clock, server, peer } = await scene({ idleCutMs: 60_000, cutShape: 'reset', answer: 'json' });
    const call = peer.call('slow', { ms: 90_000 });
    await expect.poll(() => server.counts.executions).toEqual({ slow: 1 });
    await clock.advance(60_000);
    const page = await call;
    expect([page.status, page.headers.get('content-type')]).toEqual([504, 'text/html']);
    expect(await page.text()).toContain('504 Gateway Time-out');
    expect(server.log.at(-1)?.status).toBe(504);
    await clock.advance(60_000);
    expect(clock.pendingTimers).toBe(0);
  });

  test('holds for scripted answers, too', async () => {
    const { clock, server, peer } = await scene({ idleCutMs: 1_000 });
    server.replyOnce({ http: 'GET' }, { chunks: [': here\n\n', { pauseMs: 5_000 }] });
    server.replyOnce({ http: 'GET' }, { silence: true });
    const end = endOf(await peer.get());
    const silent = peer.get();
    await expect.poll(() => server.counts.gets).toBe(2);
    await clock.advance(1_000);
    expect(await end).toEqual({ how: 'UND_ERR_SOCKET', text: ': here\n\n' });
    expect((await silent).status).toBe(504);
  });

  test('can be set while streams are open, and taken back', async () => {
    const { clock, server, peer } = await scene({});
    const end = endOf(await peer.get());
    await clock.advance(30_000);
    server.set({ idleCutMs: 60_000 });
    await clock.advance(29_999);
    server.set({ idleCutMs: undefined });
    await clock.advance(100_000);
    expect(await isRunning(end)).toBe(true);
    server.set({ idleCutMs: 60_000 });
    await clock.settle();
    await clock.advance(0);
    expect((await end).how).toBe('UND_ERR_SOCKET');
  });

  test('in real time', async () => {
    const server = await start({ idleCutMs: 80 });
    const peer = await connect(server);
    const stream = await peer.get();
    const since = performance.now();
    expect((await endOf(stream)).how).toBe('UND_ERR_SOCKET');
    expect(performance.now() - since).toBeGreaterThan(60);
    expect((await peer.get()).status).toBe(200);
  });
});

describe('ageCutMs', () => {
  test('cuts although bytes flow', async () => {
    const { clock, peer } = await scene({ ageCutMs: 10_000, heartbeatMs: 1_000, cutShape: 'eof' });
    const end = endOf(await peer.get());
    await clock.advance(9_999);
    expect(await isRunning(end)).toBe(true);
    await clock.advance(1);
    const { how, text } = await end;
    expect([how, text.match(/^: heartbeat$/gm)?.length]).toEqual(['eof', 9]);
  });

  test('leaves short answers alone', async () => {
    const { clock, peer } = await scene({ ageCutMs: 1_000 });
    expect(await textOf(await peer.call('echo', { text: 'x' }))).toBe('x');
    expect(clock.pendingTimers).toBe(0);
  });
});

describe("cutShape 'status'", () => {
  test('the next requests for a stream of that session get 502, 503, 504; then it opens', async () => {
    const { clock, server, peer } = await scene({ idleCutMs: 1_000, cutShape: 'status' });
    const other = await connect(server);
    const end = endOf(await peer.get());
    await clock.advance(1_000);
    await end;
    const opened = await other.get();
    const seen: unknown[] = [];
    for (let n = 0; n < 3; n += 1) {
      const page = await peer.get();
      seen.push(page.status, page.headers.get('content-type'), (await page.text()).includes('<html>'));
    }
    expect(seen).toEqual([502, 'text/html', true, 503, 'text/html', true, 504, 'text/html', true]);
    expect([opened.status, (await peer.get()).status]).toEqual([200, 200]);
    expect(await textOf(await peer.call('echo', { text: 'still' }))).toBe('still');
    expect(server.counts.gets).toBe(6);
  });

  test('cutStreams takes it, too', async () => {
    const { server, peer } = await scene({});
    const end = endOf(await peer.get());
    server.cutStreams('status');
    expect((await end).how).toBe('UND_ERR_SOCKET');
    expect((await peer.get()).status).toBe(502);
  });
});

describe('heartbeatMs', () => {
  test('keeps every stream from an idle cut, and is no event', async () => {
    const { clock, peer } = await scene({ idleCutMs: 60_000, heartbeatMs: 15_000, answer: 'sse' });
    const listen = endOf(await peer.get());
    const call = await peer.call('slow', { ms: 100_000 });
    await clock.advance(100_000);
    const text = await call.text();
    expect(text.match(/^: heartbeat$/gm)).toHaveLength(6);
    expect(messages(text)).toHaveLength(1);
    expect(await isRunning(listen)).toBe(true);
  });

  test('leaves no timer behind', async () => {
    const clock = manualClock();
    const server = await startHostedServer({ clock, heartbeatMs: 1_000, idleCutMs: 5_000 });
    const peer = await connect(server);
    const end = endOf(await peer.get());
    await clock.advance(1_000);
    await server.close();
    await end;
    expect(clock.pendingTimers).toBe(0);
  });
});

describe('retryFieldMs', () => {
  test.each([
    [0, 'retry: 0\n\n'],
    [-5, 'retry: -5\n\n'],
    [1e21, 'retry: 1000000000000000000000\n\n'],
  ])('%d, where no events are kept', async (retryFieldMs, expected) => {
    const { peer } = await scene({ retryFieldMs, answer: 'sse' });
    expect(await readUntil(await peer.get(), (text) => text.endsWith('\n\n'))).toBe(expected);
    expect(await (await peer.call('echo', { text: 'x' })).text()).toMatch(new RegExp(`^${expected}event:`));
  });

  test('in the priming event, and again on a resume', async () => {
    const { server, peer } = await scene({ retryFieldMs: 500, eventStore: true });
    const stream = await peer.get();
    expect(await readUntil(stream, (text) => text.endsWith('\n\n'))).toBe('id: s1_1\nretry: 500\ndata: \n\n');
    server.cutStreams('eof');
    const resumed = await peer.get({ 'last-event-id': 's1_1' });
    expect(await readUntil(resumed, (text) => text.endsWith('\n\n'))).toBe('retry: 500\n\n');
  });
});

describe('abortNotPropagated', () => {
  async function leave(peer: { server: { url: string }; headers: Record<string, string> }) {
    const left = new AbortController();
    const headers = { ...peer.headers, accept: 'text/event-stream' };
    const stream = await fetch(peer.server.url, { headers, signal: left.signal });
    left.abort();
    await stream.text().catch(() => {});
  }

  test('the slot stays taken until releaseStreams()', async () => {
    const { clock, server, peer } = await scene({ abortNotPropagated: true });
    await leave(peer);
    for (const passedMs of [0, 1_000, 600_000]) {
      await clock.advance(passedMs);
      expect([(await peer.get()).status, server.counts.streamsOpen]).toEqual([409, 1]);
    }
    // Sent into the void: the server believes that somebody listens.
    server.notify('notifications/message', { n: 1 });
    server.releaseStreams();
    expect(server.counts.streamsOpen).toBe(0);
    const stream = await peer.get();
    server.notify('notifications/message', { n: 2 });
    const text = await readUntil(stream, (seen) => seen.endsWith('\n\n'));
    expect(messages(text).map(({ params }) => params.n)).toEqual([2]);
    expect(server.counts).toMatchObject({ initializes: 1, gets: 5 });
  });

  test('or for so long', async () => {
    const { clock, peer } = await scene({ abortNotPropagated: { forMs: 120_000 } });
    await leave(peer);
    await clock.advance(119_999);
    expect((await peer.get()).status).toBe(409);
    await clock.advance(1);
    expect((await peer.get()).status).toBe(200);
  });

  test('or until the idle limit of the proxy, which frees what it cuts', async () => {
    const { clock, server, peer } = await scene({ abortNotPropagated: true, idleCutMs: 60_000 });
    await clock.advance(5_000);
    await leave(peer);
    await clock.advance(59_999);
    expect((await peer.get()).status).toBe(409);
    await clock.advance(1);
    expect([server.counts.streamsOpen, clock.pendingTimers]).toEqual([0, 0]);
    const end = endOf(await peer.get());
    await clock.advance(60_000);
    expect((await end).how).toBe('UND_ERR_SOCKET');
    expect((await peer.get()).status).toBe(200);
    expect(server.counts.streamsOpen).toBe(1);
  });

  test.each(['fin', 'eof', 'reset', 'status'] as const)(
    'cutStreams(%s) cuts the client’s side',
    async (shape) => {
      const { server, peer } = await scene({ abortNotPropagated: true });
      const end = endOf(await peer.get());
      server.cutStreams(shape);
      expect((await end).how).toBe(ENDS[shape]);
      if (shape === 'status')
        for (const status of [502, 503, 504]) expect((await peer.get()).status).toBe(status);
      expect((await peer.get()).status).toBe(409);
      server.releaseStreams();
      expect((await peer.get()).status).toBe(200);
    },
  );

  test('kept events wait: a resume is refused, then brings them', async () => {
    const { server, peer } = await scene({ abortNotPropagated: true, eventStore: true });
    await leave(peer);
    server.notify('notifications/message', { n: 1 });
    expect((await peer.get({ 'last-event-id': 's1_1' })).status).toBe(409);
    server.releaseStreams();
    const stream = await peer.get({ 'last-event-id': 's1_1' });
    await readUntil(stream, (text) => text.includes('"n":1'));
  });

  test('a session that ends frees everything; calls are answered meanwhile', async () => {
    const { clock, server, peer } = await scene({ abortNotPropagated: true, heartbeatMs: 1_000 });
    await leave(peer);
    expect(await textOf(await peer.call('echo', { text: 'x' }))).toBe('x');
    await fetch(server.url, { method: 'DELETE', headers: peer.headers });
    expect([server.counts.streamsOpen, clock.pendingTimers]).toEqual([0, 0]);
  });

  test.each(['close', 'restart'] as const)('%s frees everything', async (how) => {
    const { clock, server, peer } = await scene({ abortNotPropagated: { forMs: 5_000 }, idleCutMs: 60_000 });
    await leave(peer);
    await clock.settle();
    expect([server.counts.streamsOpen, clock.pendingTimers]).toEqual([1, 1]);
    if (how === 'close') await server.close();
    else server.deploy({ restart: true });
    expect([server.counts.streamsOpen, clock.pendingTimers]).toEqual([0, 0]);
  });

  test('releases nothing that has not been left', async () => {
    const { server, peer } = await scene({ abortNotPropagated: true });
    const end = endOf(await peer.get());
    server.releaseStreams();
    expect([await isRunning(end), server.counts.streamsOpen]).toEqual([true, 1]);
    await server.close();
    await end;
  });

  test('in real time', async () => {
    const server = await start({ abortNotPropagated: { forMs: 60 } });
    const peer = await connect(server);
    await leave(peer);
    expect((await peer.get()).status).toBe(409);
    await expect.poll(async () => (await peer.get()).status).toBe(200);
  });
});

describe('silentDropMs', () => {
  test('bytes and the end go nowhere; the server believes in the stream', async () => {
    const { clock, server, peer } = await scene({ silentDropMs: 10_000, idleCutMs: 60_000, answer: 'sse' });
    const listen = endOf(await peer.get());
    const call = endOf(await peer.call('slow', { ms: 20_000 }));
    server.notify('notifications/message', { n: 1 });
    await clock.advance(10_000);
    server.notify('notifications/message', { n: 2 });
    await clock.advance(200_000);
    expect([await isRunning(listen), await isRunning(call)]).toEqual([true, true]);
    expect((await peer.get()).status).toBe(409);
    server.cutStreams();
    expect(messages((await listen).text).map(({ params }) => params.n)).toEqual([1]);
    await server.close();
    expect(await call).toEqual({ how: 'UND_ERR_SOCKET', text: '' });
    expect(clock.pendingTimers).toBe(0);
  });

  test('what was kept comes on the resume', async () => {
    const { clock, server, peer } = await scene({ silentDropMs: 10_000, eventStore: true });
    const listen = endOf(await peer.get());
    await clock.advance(10_000);
    server.notify('notifications/message', { n: 1 });
    server.cutStreams();
    await listen;
    await readUntil(await peer.get({ 'last-event-id': 's1_1' }), (text) => text.includes('"n":1'));
  });

  test('spares answers that are no streams', async () => {
    const { clock, server, peer } = await scene({ silentDropMs: 0, answer: 'json' });
    const call = peer.call('slow', { ms: 1_000 });
    await expect.poll(() => server.counts.executions).toEqual({ slow: 1 });
    await clock.advance(1_000);
    expect(await textOf(await call)).toBe('waited 1000 ms');
  });
});

test('keepAliveHintMs is a header on every answer, in full seconds', async () => {
  const { server, peer } = await scene({ keepAliveHintMs: 119_500 });
  const answers = [await peer.call('echo', { text: 'x' }), await peer.get(), await peerOf(server).get()];
  expect(answers.map(({ headers }) => headers.get('keep-alive'))).toEqual(Array(3).fill('timeout=120'));
  server.set({ keepAliveHintMs: undefined });
  expect((await peer.call('echo')).headers.get('keep-alive')).toBeNull();
});

test('a bad value is a TypeError that names its option', async () => {
  for (const [name, value] of [
    ['eventStore', 'mute'],
    ['heartbeatMs', 0],
    ['retryFieldMs', Number.NaN],
    ['idleCutMs', 0],
    ['ageCutMs', '60s'],
    ['silentDropMs', -1],
    ['cutShape', 'rst'],
    ['abortNotPropagated', {}],
    ['abortNotPropagated', { forMs: -1 }],
    ['abortNotPropagated', 5],
    ['keepAliveHintMs', -1],
    ['transport', 'sse'],
    ['legacyRefusalStatus', 500],
    ['legacyEndpoint', 5],
  ] as const) {
    await expect(startHostedServer({ [name]: value } as HostedServerOptions)).rejects.toThrow(
      expect.objectContaining({ name: 'TypeError', message: expect.stringContaining(name) }),
    );
  }
  await expect(startHostedServer({ transport: 'legacy-sse', protocolVersion: '2026-07-28' })).rejects.toThrow(
    /transport/,
  );
});

describe("eventStore 'deaf'", () => {
  test('a resume brings what every stream has stored, then nothing; a later one the answer', async () => {
    const { clock, server, peer } = await scene({ eventStore: 'deaf', answer: 'sse' });
    const call = toolCall('slow', { ms: 10_000 });
    const first = await peer.post(call);
    const cursor = /^id: (\S+)/.exec(await readUntil(first, (seen) => seen.endsWith('\n\n')))?.[1] ?? '';
    const foreign = request('ping');
    await (await peer.post(foreign)).text();
    server.cutStreams('eof');
    const second = endOf(await peer.get({ 'last-event-id': cursor }));
    await clock.advance(10_000);
    server.notify('notifications/message', { n: 1 });
    await clock.advance(60_000);
    expect(await isRunning(second)).toBe(true);

    const third = await peer.get({ 'last-event-id': cursor });
    const text = await readUntil(third, (seen) => seen.includes('waited 10000 ms'));
    // The other stream's priming event comes as an empty object.
    expect(messages(text).map((message) => message.id ?? message)).toEqual([{}, foreign.id, call.id]);
    server.cutStreams('eof');
    expect(messages((await second).text).map((message) => message.id ?? message)).toEqual([{}, foreign.id]);
    expect(server.counts).toMatchObject({ executions: { slow: 1 }, resumes: 2 });
  });

  test('a second resume to the same point ends the first; an unknown id is no error', async () => {
    const { peer } = await scene({ eventStore: 'deaf', answer: 'sse' });
    await (await peer.call('echo', { text: 'x' })).text();
    const first = endOf(await peer.get({ 'last-event-id': 's1_1' }));
    await peer.get({ 'last-event-id': 's1_1' });
    expect((await first).how).toBe('eof');
    expect((await peer.get({ 'last-event-id': 'never-given' })).status).toBe(200);
  });
});
