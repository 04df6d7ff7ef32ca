import { describe, expect, it } from 'vitest';
import type { HostedMcpError } from '../../src/index.js';
import type { ScriptedReply } from '../../src/testing/index.js';
import { connectFace, FACES } from './faces.js';
import { failureOf, startServer } from './support.js';

const CALL = { http: 'POST', method: 'tools/call' } as const;
const QUOTE = 'upstream: connection refused (http 404), fetch failed';
/** By these, frameworks decide to run a call again. */
const PHRASES =
  /not connected|connection closed|connection refused|econnrefused|fetch failed|terminated|http 40[0134]/i;
const DIRTY = `\u001b[31mupstream:\u001b[0m\u0007 Connection  REFUSED\r\n\u202e(HTTP 404)\u2028\u{e0041}, fetch failed: ECONNREFUSED, terminated`;

const text = (body: string, type = 'text/plain') => ({ headers: { 'content-type': type }, body });
const rpc = (message: string, id: unknown = null) => ({
  jsonrpc: '2.0',
  id,
  error: { code: -32000, message },
});

const REPLIES: readonly (readonly [string, (quote: string) => ScriptedReply])[] = [
  ['502 text', (quote) => ({ status: 502, ...text(quote) })],
  ['504 page', (quote) => ({ status: 504, ...text(`<html>${quote}</html>`, 'text/html') })],
  ['500 JSON', (quote) => ({ status: 500, body: { error: quote } })],
  ['400 JSON-RPC without an id', (quote) => ({ status: 400, body: rpc(quote) })],
  ['404 JSON-RPC without an id', (quote) => ({ status: 404, body: rpc(quote) })],
  [
    '401 with a challenge in the same words',
    (quote) => ({
      status: 401,
      headers: { 'www-authenticate': `Bearer error_description="${quote.replace(/[^ -~]/g, '')}"` },
      body: quote,
    }),
  ],
  ['403 text', (quote) => ({ status: 403, ...text(quote) })],
  ['429 text', (quote) => ({ status: 429, headers: { 'retry-after': '90' }, body: quote })],
  ['200 text', (quote) => ({ status: 200, ...text(quote) })],
  ['200 JSON-RPC error without an id', (quote) => ({ status: 200, body: rpc(quote) })],
  ['200 broken JSON', (quote) => ({ status: 200, ...text(`{"error": ${quote}`, 'application/json') })],
  ['SSE error without an id', (quote) => ({ chunks: [`data: ${JSON.stringify(rpc(quote))}\n\n`] })],
  [
    '302',
    (quote) => ({ status: 302, headers: { location: `https://x.test/?${encodeURIComponent(quote)}` } }),
  ],
];

function expectOurWords(failure: HostedMcpError): void {
  const said = [
    failure.message,
    failure.stack ?? '',
    JSON.stringify(failure),
    failure.toToolResult().content[0].text,
  ];
  for (const words of said) {
    expect(words).not.toMatch(PHRASES);
    expect(words).not.toMatch(/upstream/i);
  }
}

describe('H36 an error body that quotes what makes frameworks replay', () => {
  REPLIES.forEach(([name, replyWith], index) => {
    const face = FACES[index % FACES.length] ?? 'v1';
    for (const [kind, quote] of [
      ['as it was seen', QUOTE],
      ['with controls in it', DIRTY],
    ] as const) {
      it(`${name}, ${kind}, ${face}: none of it in the message, nothing sent again`, async () => {
        const scene = await startServer({ tokenLifetimeMs: 3_600_000 });
        const { server } = scene;
        const caller = await connectFace(face, scene, {
          streams: { listen: false },
          retry: { resendOn401: 'never' },
        });
        server.replyOnce(CALL, replyWith(quote));

        const failure = await failureOf(caller.echo('a'));

        expectOurWords(failure);
        if (failure.serverText !== undefined) {
          expect(failure.serverText).toMatch(/upstream:.*refused/i);
          expect(failure.serverText).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
          // Escapes that JSON spells out are text like any other.
          expect(failure.serverText.replaceAll('\\u001b[31m', '')).not.toContain('[31m');
          expect(failure.serverText.length).toBeLessThanOrEqual(200);
        }
        expect(server.log.filter(({ rpcMethod }) => rpcMethod === 'tools/call')).toHaveLength(1);
        expect(server.counts.executions).toEqual({});
      });
    }
  });

  it('the text is there for an operator: 502, 400, 500', async () => {
    const scene = await startServer();
    const caller = await connectFace('HostedClient', scene);
    for (const reply of [
      { status: 502, ...text(QUOTE) },
      { status: 400, body: rpc(QUOTE) },
      { status: 500, body: { error: QUOTE } },
    ]) {
      scene.server.replyOnce(CALL, reply);
      const failure = await failureOf(caller.echo('a'));
      expect(failure.serverText).toContain(QUOTE);
      expect(Object.keys(failure)).not.toContain('serverText');
    }
  });

  it('in the handshake and at the token endpoint as well', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    server.reply({ http: 'POST', method: 'initialize' }, { status: 502, ...text(QUOTE) });
    const connecting = failureOf(connectFace('HostedClient', scene));
    await clock.advance(60_000);
    const failure = await connecting;
    expectOurWords(failure);
    expect(failure.serverText).toContain(QUOTE);

    const other = await startServer();
    other.server.failTokenEndpoint({
      status: 400,
      body: { error: 'invalid_scope', error_description: QUOTE },
    });
    const refused = await failureOf(connectFace('v2', other));
    expectOurWords(refused);
    expect(refused.serverText).toContain(QUOTE);
  });
});
