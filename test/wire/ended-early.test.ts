/** Tokens that are ended again and again, well before their time: each costs one token request and no call. */
import { describe, expect, it } from 'vitest';
import type { HostedClient } from '../../src/client.js';
import { connect, startServer } from './support.js';

const call = (client: HostedClient, text: string) => client.callTool({ name: 'echo', arguments: { text } });

describe('a token that has answered calls and is ended', () => {
  it.each(['none', 'token'] as const)('three times in a row, sessions bound to: %s', async (bindSession) => {
    const scene = await startServer({ bindSession });
    const { server } = scene;
    const client = await connect(scene);
    await call(client, 'first');
    const before = server.counts.tokenRequests;
    for (let round = 1; round <= 3; round += 1) {
      server.expireTokens();
      await call(client, `round ${round}`);
      expect(server.counts.tokenRequests).toBe(before + round);
    }
    expect(server.counts.executions).toEqual({ echo: 4 });
  });

  it('twelve times in a minute: from the eleventh on it is the server that is at fault', async () => {
    const scene = await startServer();
    const { server } = scene;
    const client = await connect(scene);
    await call(client, 'first');
    const outcomes: string[] = [];
    for (let round = 1; round <= 13; round += 1) {
      server.expireTokens();
      outcomes.push(
        await call(client, `round ${round}`).then(
          () => 'answered',
          (error: { code: string }) => error.code,
        ),
      );
    }
    expect(outcomes.filter((each) => each === 'answered')).toHaveLength(11);
    expect(outcomes.slice(11)).toEqual(['ERR_CREDENTIAL_REJECTED', 'ERR_CREDENTIAL_REJECTED']);
  });

  it('one that never answered a call is latched at once, as before', async () => {
    const scene = await startServer();
    const { server } = scene;
    const client = await connect(scene);
    server.reply(
      { method: 'tools/call' },
      { status: 401, headers: { 'www-authenticate': 'Bearer error="invalid_token"' }, body: '' },
    );
    const before = server.counts.tokenRequests;
    for (let round = 1; round <= 5; round += 1) {
      await expect(call(client, 'x')).rejects.toMatchObject({ code: 'ERR_CREDENTIAL_REJECTED' });
    }
    expect(server.counts.tokenRequests).toBe(before + 1);
  });
});
