// What every runtime has to be able to do, on the installed package: both faces, each across the expiry of a token that
// its session is bound to. Judged at the server.
const assert = require('node:assert/strict');

const LIFETIME_MS = 60_000;
const AGENT = { name: 'smoke', version: '1.0.0' };

/** `way`: `undici` or `fetch`. What was counted, or an Error that says what is wrong. */
exports.smoke = async function smoke({ main, client, testing, SdkClient }, way) {
  const found = {};
  const http = way === 'fetch' ? { fetch: globalThis.fetch } : {};
  found.transport = await acrossAnExpiry(testing, async (options, call) => {
    const agent = new SdkClient(AGENT);
    const { clock, ...rest } = options;
    await agent.connect(new main.HostedTransport(rest.url, { credentials: rest.credentials, clock, http }));
    await call(agent);
    return agent;
  });
  found.client = await acrossAnExpiry(testing, async (options, call) => {
    const agent = new client.HostedClient(AGENT, { ...options, http });
    await agent.connect();
    await call(agent);
    return agent;
  });
  if (way === 'fetch') found.withoutFetch = await refusals(main, testing);
  return found;

  async function acrossAnExpiry({ manualClock, startHostedServer }, open) {
    const clock = manualClock();
    const server = await startHostedServer({ tokenLifetimeMs: LIFETIME_MS, bindSession: 'token', clock });
    try {
      const { id: clientId, secret: clientSecret } = server.client;
      const credentials = main.clientCredentialsGrant({
        issuer: server.issuer,
        clientId,
        clientSecret,
        clock,
        ...(way === 'fetch' && { fetch: globalThis.fetch }),
      });
      const call = (agent, text) => agent.callTool({ name: 'echo', arguments: { text } });
      const agent = await open({ url: server.url, credentials, clock }, (it) => call(it, 'before'));
      await clock.advance(LIFETIME_MS + 1_000);
      const { content } = await call(agent, 'after');
      assert.equal(content[0].text, 'after');
      await agent.close();
      const { executions, initializes, tokenRequests } = server.counts;
      assert.equal(executions.echo, 2, 'each call ran once');
      assert.equal(initializes, 2, 'one session for each token');
      assert.equal(tokenRequests, 2, 'one request for each token');
      return { executions: executions.echo, initializes, tokenRequests };
    } finally {
      await server.close();
    }
  }
};

/** Where the runtime's undici cannot do it, the first request says so and what to do, and nothing waits for it to come. */
async function refusals(main, { startHostedServer }) {
  const server = await startHostedServer();
  const { id: clientId, secret: clientSecret } = server.client;
  const source = { issuer: server.issuer, clientId, clientSecret };
  const http = { fetch: globalThis.fetch };
  try {
    const found = {
      server: await refusal(main, server, {}, 'ERR_NOT_SENT', /: give http\.fetch/),
      tokens: await refusal(
        main,
        server,
        { http, credentials: main.clientCredentialsGrant(source) },
        'ERR_CREDENTIAL_SOURCE',
        /: give the source a fetch/,
      ),
    };
    assert.equal(server.counts.initializes, 0);
    assert.equal(server.counts.tokenRequests, 0);
    return found;
  } finally {
    await server.close();
  }
}

async function refusal(main, server, options, code, words) {
  const transport = new main.HostedTransport(server.url, options);
  try {
    await transport.start();
    const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: AGENT };
    await transport.send({ jsonrpc: '2.0', id: 1, method: 'initialize', params });
  } catch (error) {
    assert.ok(main.HostedMcpError.isInstance(error, code), String(error?.stack ?? error));
    assert.match(error.message, words);
    assert.equal(error.executed, false);
    assert.equal(error.retryable, false);
    return error.message;
  } finally {
    await transport.close();
  }
  throw new Error('it went out after all');
}
