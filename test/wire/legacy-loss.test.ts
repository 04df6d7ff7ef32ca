import { describe, expect, it } from 'vitest';
import { legacy, slow } from './legacy.js';
import { connectOver, stockClient } from './stock.js';
import { connect, echo, failureOf, user } from './support.js';

describe('loss and credentials', () => {
  it('a POST refused as unknown although the stream is open is a loss', async () => {
    const scene = await legacy();
    const { server, clock } = scene;
    const client = await connect(scene);
    await echo(client, 'a');
    server.dropSessions();
    const failure = await failureOf(echo(client, 'b'));
    expect(failure).toMatchObject({ code: 'ERR_SESSION_LOST', status: 404 });
    await echo(client, 'c');
    expect(server.counts).toMatchObject({ executionsById: { a: 1, c: 1 }, gets: 2 });
    // The old stream is given up after the grace for those who still wait on it.
    await clock.advance(5_000);
    expect(server.counts.streamsOpen).toBe(1);
  });

  it('401 on the GET: the token is renewed, once', async () => {
    const scene = await legacy();
    const { server } = scene;
    server.replyOnce(
      { http: 'GET' },
      { status: 401, headers: { 'www-authenticate': 'Bearer error="invalid_token"' } },
    );
    const client = await connect(scene, { credentials: user(scene) });
    await echo(client, 'a');
    expect(server.counts).toMatchObject({ gets: 2, tokenRequests: 2 });
  });

  it('401 on a POST: the token is renewed, the call goes out again on the same session', async () => {
    const scene = await legacy();
    const { server } = scene;
    const client = await connect(scene);
    await echo(client, 'a');
    server.expireTokens();
    await echo(client, 'b');
    expect(server.counts).toMatchObject({ gets: 1, tokenRequests: 2, executionsById: { a: 1, b: 1 } });
  });

  it('pings go on with a fresh token', async () => {
    const scene = await legacy({ idleCutMs: 60_000, tokenLifetimeMs: 60_000 });
    const { server, clock } = scene;
    const client = await connect(scene);
    await clock.advance(600_000);
    await echo(client, 'a');
    expect(server.counts).toMatchObject({ gets: 1, streamsOpen: 1, executionsById: { a: 1 } });
    expect(server.log.filter(({ status, path }) => path === '/messages' && status === 401)).toEqual([]);
  });

  it('a session bound to its token is replaced beside the old one, whose long call is still answered', async () => {
    const scene = await legacy({ bindSession: 'token', tokenLifetimeMs: 60_000 });
    const { server, clock } = scene;
    const client = await connect(scene, { session: { boundToToken: true } });
    await echo(client, 'a');
    const long = slow(client, 'long', 57_000);
    await clock.advance(55_000);
    await echo(client, 'b');
    await clock.advance(2_000);
    await long;
    await clock.settle();
    expect(server.counts.executionsById).toEqual({ a: 1, long: 1, b: 1 });
    expect(server.counts).toMatchObject({ gets: 2, streamsOpen: 1, deletes: 0 });
  });

  it('http.headers go with the GET and the POSTs', async () => {
    const scene = await legacy();
    const client = await connect(scene, { http: { headers: { 'x-tenant': 'seven' } } });
    await echo(client, 'a');
    const tenants = scene.server.log
      .filter(({ path }) => path === '/sse' || path === '/messages')
      .map(({ headers }) => headers['x-tenant']);
    expect(tenants).toEqual(['seven', 'seven', 'seven', 'seven', 'seven']);
  });

  it('a resumption token of an earlier process: no second stream, and the truth', async () => {
    const scene = await legacy();
    const client = stockClient('v1');
    const transport = await connectOver(scene, client);
    const failure = await failureOf(transport.resumeStream('event-7', { replayMessageId: 5 }));
    expect(failure).toMatchObject({ code: 'ERR_OUTCOME_UNKNOWN', executed: 'unknown' });
    expect(scene.server.counts.gets).toBe(1);
  });
});
