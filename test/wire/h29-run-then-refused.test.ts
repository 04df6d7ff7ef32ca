import { describe, expect, it } from 'vitest';
import type { ScriptedRequest } from '../../src/testing/index.js';
import { call, connectStock, SDKS } from './stock.js';
import { connect, echo, failureOf, startServer, user } from './support.js';

const CALL = { http: 'POST', method: 'tools/call' } as const;
const CHALLENGE = { 'www-authenticate': 'Bearer error="invalid_token"' };

const own =
  (message: string, code = -32000) =>
  (request: ScriptedRequest) => ({
    jsonrpc: '2.0',
    id: request.message?.id,
    error: { code, message },
  });

/** The tool has run when these are sent: they may be somebody else's refusal, passed on. */
const REFUSALS = [
  [
    '401 with a challenge',
    { status: 401, headers: CHALLENGE, body: own('Unauthorized') },
    'ERR_CREDENTIAL_REJECTED',
  ],
  [
    '401 with a DPoP challenge',
    { status: 401, headers: { 'www-authenticate': 'DPoP error="invalid_token"' }, body: own('Unauthorized') },
    'ERR_CREDENTIAL_REJECTED',
  ],
  ['401 without a challenge', { status: 401, body: own('upstream says 401') }, 'ERR_CREDENTIAL_REJECTED'],
  [
    '401 with a result',
    { status: 401, headers: CHALLENGE, body: (request: ScriptedRequest) => request.answer ?? {} },
    'ERR_CREDENTIAL_REJECTED',
  ],
  [
    '429 with Retry-After',
    { status: 429, headers: { 'retry-after': '2' }, body: own('Too Many Requests') },
    'ERR_RATE_LIMITED',
  ],
  ['429 without Retry-After', { status: 429, body: own('slow down') }, 'ERR_RATE_LIMITED'],
  [
    '403 for want of scope',
    {
      status: 403,
      headers: { 'www-authenticate': 'Bearer error="insufficient_scope", scope="write"' },
      body: own('Forbidden'),
    },
    'ERR_INSUFFICIENT_SCOPE',
  ],
  ['403 without a challenge', { status: 403, body: own('Forbidden') }, 'ERR_HTTP_STATUS'],
] as const;

describe('H29 the tool runs, then the answer is a refusal with the id of the request', () => {
  for (const [name, reply, code] of REFUSALS) {
    it(`${name}: not sent again, the outcome is unknown`, async () => {
      const scene = await startServer();
      const { server, clock } = scene;
      const client = await connect(scene);
      server.replyOnce(CALL, { tool: 'run', ...reply });

      const failure = await failureOf(echo(client, 'ran'));

      expect(failure).toMatchObject({ code, executed: 'unknown', retryable: false, status: reply.status });
      await clock.advance(3_000);
      await echo(client, 'after');
      expect(server.counts.executionsById).toEqual({ ran: 1, after: 1 });
      expect(server.log.filter((entry) => entry.rpcMethod === 'tools/call')).toHaveLength(2);
      expect(server.counts.initializes).toBe(1);
    });
  }

  it('a code that says "refused before dispatch" is believed: sent again, ran once', async () => {
    const scene = await startServer();
    const { server } = scene;
    const client = await connect(scene);
    server.replyOnce(CALL, { status: 401, headers: CHALLENGE, body: own('Unauthorized', -32023) });

    await echo(client, 'refused');

    expect(server.counts.executionsById).toEqual({ refused: 1 });
    expect(server.counts.tokenRequests).toBe(2);
  });

  it("a tool that passes on somebody else's 401 again and again does not cost us our own token", async () => {
    const scene = await startServer({ rotateRefreshTokens: true });
    const { server } = scene;
    const client = await connect(scene, { credentials: user(scene) });
    const scripted = server.reply(CALL, {
      tool: 'run',
      status: 401,
      headers: CHALLENGE,
      body: own('upstream: 401'),
    });
    for (let i = 0; i < 5; i += 1) {
      const failure = await failureOf(echo(client, `bad${i}`));
      expect(failure).toMatchObject({ executed: 'unknown' });
    }
    scripted.dispose();

    await echo(client, 'good');

    expect(server.counts.executionsById).toEqual({ bad0: 1, bad1: 1, bad2: 1, bad3: 1, bad4: 1, good: 1 });
    expect(server.counts.tokenRequests).toBeLessThanOrEqual(2);
    expect(server.counts.initializes).toBe(1);
  });

  it('a token that really is void is still renewed, although every refusal carries the id', async () => {
    const scene = await startServer();
    const { server } = scene;
    const client = await connect(scene);
    server.expireTokens();
    const refused = { status: 401, headers: CHALLENGE, body: own('Unauthorized') };
    server.replyOnce(CALL, refused);

    const failure = await failureOf(echo(client, 'refused'));

    expect(failure).toMatchObject({ code: 'ERR_CREDENTIAL_REJECTED', executed: 'unknown' });
    await echo(client, 'after');
    expect(server.counts.tokenRequests).toBe(2);
    expect(server.counts.executionsById).toEqual({ after: 1 });
  });

  for (const sdk of SDKS) {
    for (const status of [401, 429] as const) {
      it(`under the stock ${sdk} Client, ${status}: not sent again, the outcome is unknown`, async () => {
        const scene = await startServer();
        const { server, clock } = scene;
        const { client } = await connectStock(scene, sdk);
        server.replyOnce(CALL, { tool: 'run', status, headers: CHALLENGE, body: own('refused') });

        const failure = await failureOf(call(client, 'ran'));

        expect(failure).toMatchObject({ executed: 'unknown', retryable: false });
        await clock.advance(2_000);
        await call(client, 'after');
        expect(server.counts.executionsById).toEqual({ ran: 1, after: 1 });
      });
    }
  }

  it('in an event stream under 200 it is the server’s own error, untouched', async () => {
    const scene = await startServer();
    const { server } = scene;
    const client = await connect(scene);
    server.replyOnce(CALL, {
      tool: 'run',
      chunks: (request) => [`data: ${JSON.stringify(own('upstream: 401')(request))}\n\n`],
    });

    await expect(echo(client, 'ran')).rejects.toMatchObject({ code: -32000 });

    await echo(client, 'after');
    expect(server.counts).toMatchObject({ tokenRequests: 1, executionsById: { ran: 1, after: 1 } });
  });
});
