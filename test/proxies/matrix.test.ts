/**
 * Streams and long calls behind real proxies: what an idle cut costs, with each kind of server.
 *
 * Real time and short real limits. Each cell has a server and a proxy of its own; they run a few at a time.
 */
import { describe, expect, it } from 'vitest';
import { failureOf } from '../wire/support.js';
import { proxiesMissing } from './proxy.js';
import {
  arrived,
  EARLY_MS,
  LARGEST_GAP_MS,
  LIMIT_MS,
  LISTEN_LIMIT_MS,
  listening,
  openCell,
  PROXIES,
  silent,
  tell,
} from './scene.js';

const CUTS = 4;
const QUIET_CUTS = 5;

describe.skipIf(proxiesMissing !== undefined).each(PROXIES)('behind %s', (name) => {
  it.concurrent('a listen stream comes back from every cut, in time for what is said then', async ({
    onTestFinished,
  }) => {
    const { server, connect } = await openCell(name, onTestFinished, { limitMs: LISTEN_LIMIT_MS });
    const heard: unknown[] = [];
    const gaps: number[] = [];
    const client = await connect({ onLog: (data) => heard.push(data) });
    client.connection.on('stream-reopened', ({ gapMs }) => gaps.push(gapMs));
    await listening(server, 1);
    for (let cut = 1; cut <= CUTS; cut += 1) {
      await client.connection.once('stream-cut');
      // Nothing is kept here: it can only be heard on the new stream, whose head may still be on its way.
      await listening(server, cut + 1);
      tell(server, cut);
      await arrived(heard, cut);
    }
    expect(heard).toEqual([1, 2, 3, 4]);
    expect(gaps).toHaveLength(CUTS);
    expect(Math.max(...gaps)).toBeLessThan(LARGEST_GAP_MS);
    expect(server.counts).toMatchObject({ initializes: 1, gets: CUTS + 1, resumes: 0, pings: 0 });
  });

  it.concurrent('a server that has nothing to say for many cuts is listened to as closely as before', async ({
    onTestFinished,
  }) => {
    const { server, connect } = await openCell(name, onTestFinished, { limitMs: LISTEN_LIMIT_MS });
    const heard: unknown[] = [];
    const gaps: number[] = [];
    const client = await connect({ onLog: (data) => heard.push(data) });
    client.connection.on('stream-reopened', ({ gapMs }) => gaps.push(gapMs));
    await client.connection.once('stream-reopened', { filter: () => gaps.length === QUIET_CUTS });
    tell(server, 'at last');
    await arrived(heard, 1);

    expect(Math.max(...gaps)).toBeLessThan(LARGEST_GAP_MS);
    expect(server.counts).toMatchObject({ initializes: 1, gets: QUIET_CUTS + 1, pings: 0 });
  });

  it.concurrent('with an event store nothing that is said during a cut is lost', async ({
    onTestFinished,
  }) => {
    const { server, connect } = await openCell(name, onTestFinished, {
      limitMs: LISTEN_LIMIT_MS,
      eventStore: true,
    });
    const heard: unknown[] = [];
    const client = await connect({ onLog: (data) => heard.push(data) });
    await listening(server, 1);
    for (let cut = 1; cut <= CUTS; cut += 1) {
      await client.connection.once('stream-cut');
      tell(server, `${cut}, in the cut`);
      await arrived(heard, cut);
    }
    expect(heard).toEqual([1, 2, 3, 4].map((cut) => `${cut}, in the cut`));
    expect(server.counts).toMatchObject({ initializes: 1, gets: CUTS + 1, resumes: CUTS, pings: 0 });
  });

  for (const limits of [1.5, 2.5, 3.5]) {
    it.concurrent(`a silent call of ${limits} limits with an event store is answered`, async ({
      onTestFinished,
    }) => {
      const { server, connect } = await openCell(name, onTestFinished, { eventStore: true, answer: 'sse' });
      const client = await connect();
      const ms = limits * LIMIT_MS;

      const result = await silent(client, 'long', ms);

      expect(result.content).toEqual([{ type: 'text', text: `silent for ${ms} ms` }]);
      expect(server.counts).toMatchObject({ executionsById: { long: 1 }, initializes: 1 });
      expect(server.counts.resumes).toBeGreaterThanOrEqual(Math.floor(limits));
    });
  }

  it.concurrent('ten silent calls at once with an event store: each has its own answer', async ({
    onTestFinished,
  }) => {
    const { server, connect } = await openCell(name, onTestFinished, { eventStore: true, answer: 'sse' });
    const client = await connect({ onLog: () => {} });
    const lengths = Array.from({ length: 10 }, (_, n) => Math.round(LIMIT_MS * (1.2 + n / 10)));

    const results = await Promise.all(lengths.map((ms) => silent(client, `long-${ms}`, ms)));

    expect(results.map(({ content }) => content)).toEqual(
      lengths.map((ms) => [{ type: 'text', text: `silent for ${ms} ms` }]),
    );
    expect(server.counts.executionsById).toEqual(Object.fromEntries(lengths.map((ms) => [`long-${ms}`, 1])));
    expect(server.counts.initializes).toBe(1);
  });

  it.concurrent('without a cursor the truth is told at the cut', async ({ onTestFinished }) => {
    const { server, connect } = await openCell(name, onTestFinished, { answer: 'sse' });
    const client = await connect();
    const since = performance.now();

    const failure = await failureOf(silent(client, 'long', 3 * LIMIT_MS));

    const tookMs = performance.now() - since;
    expect(failure).toMatchObject({
      code: 'ERR_OUTCOME_UNKNOWN',
      executed: 'unknown',
      retryable: false,
      tool: 'silent',
    });
    expect(tookMs).toBeGreaterThan(LIMIT_MS - EARLY_MS);
    expect(tookMs).toBeLessThan(LIMIT_MS + 1_000);
    await silent(client, 'next', 0);
    expect(server.counts).toMatchObject({ executionsById: { long: 1, next: 1 }, initializes: 1, resumes: 0 });
  });

  for (const limits of [1.5, 2.5]) {
    it.concurrent(`a silent call of ${limits} limits with a deaf store: answered, or the truth`, async ({
      onTestFinished,
    }) => {
      const { server, connect } = await openCell(name, onTestFinished, { eventStore: 'deaf', answer: 'sse' });
      const client = await connect();
      const ms = limits * LIMIT_MS;

      const outcome = await silent(client, 'long', ms).then(
        ({ content }) => content,
        ({ code, executed, retryable }) => ({ code, executed, retryable }),
      );

      expect([
        [{ type: 'text', text: `silent for ${ms} ms` }],
        { code: 'ERR_OUTCOME_UNKNOWN', executed: 'unknown', retryable: false },
        { code: 'ERR_TIMEOUT', executed: 'unknown', retryable: false },
      ]).toContainEqual(outcome);
      await silent(client, 'next', 0);
      expect(server.counts).toMatchObject({ executionsById: { long: 1, next: 1 }, initializes: 1 });
    });
  }

  it.concurrent('where answers are plain JSON, the page at the limit is a typed error', async ({
    onTestFinished,
  }) => {
    const { server, connect } = await openCell(name, onTestFinished, { answer: 'json' });
    const client = await connect();
    const since = performance.now();

    const failure = await failureOf(silent(client, 'long', 3 * LIMIT_MS));

    expect(performance.now() - since).toBeLessThan(LIMIT_MS + 1_000);
    expect(failure).toMatchObject({ executed: 'unknown', retryable: false, status: 504, tool: 'silent' });
    expect(failure.message).not.toMatch(/html|nginx|Gateway Time-out/i);
    await silent(client, 'next', 0);
    expect(server.counts).toMatchObject({ executionsById: { long: 1, next: 1 }, initializes: 1 });
  });

  it.concurrent('a server that breaks off before its answer is a typed error, too', async ({
    onTestFinished,
  }) => {
    const { server, connect } = await openCell(name, onTestFinished, { answer: 'json' });
    const client = await connect();
    server.replyOnce({ http: 'POST', tool: 'silent' }, { tool: 'run', cut: 'fin' });

    const failure = await failureOf(silent(client, 'broken', 100));

    // nginx has a page for it; HAProxy passes the end on where it had used the server's socket before.
    expect(failure).toMatchObject({ executed: 'unknown', retryable: false, tool: 'silent' });
    expect([502, undefined]).toContain(failure.status);
    await silent(client, 'next', 0);
    expect(server.counts).toMatchObject({ executionsById: { broken: 1, next: 1 }, initializes: 1 });
  });

  it.concurrent('a server that has gone is a page and a typed error, and nothing ran', async ({
    onTestFinished,
  }) => {
    const { server, connect } = await openCell(name, onTestFinished, { answer: 'json' });
    const client = await connect();
    await server.close();

    const failure = await failureOf(silent(client, 'nobody', 0));

    expect([502, 503]).toContain(failure.status);
    expect([false, 'unknown']).toContain(failure.executed);
    expect(server.counts.executionsById).toEqual({});
  });
});
