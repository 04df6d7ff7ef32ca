/**
 * One process of an app: `node process.mjs agent|backend`, the rest in the environment. Says what happens as lines of
 * JSON. An agent connects when it is told to (a line on stdin), a backend takes the browser's callback.
 */
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import {
  authorizationCodeGrant,
  fileCredentialStore,
  HostedClient,
  HostedMcpError,
} from 'mcp-holdfast/client';

const { MCP_URL: url, STORE: store, REDIRECT_URI: redirectUri } = process.env;
const say = (word) => process.stdout.write(`${JSON.stringify(word)}\n`);
const credentials = authorizationCodeGrant({
  redirectUri,
  client: { register: { name: 'consent test' } },
  store: fileCredentialStore(store),
  subject: 'user-7',
});

if (process.argv[2] === 'backend') {
  const server = createServer(async (request, response) => {
    const callback = new URL(request.url, redirectUri);
    if (callback.pathname !== new URL(redirectUri).pathname) return response.writeHead(404).end();
    try {
      await credentials.finishAuth(callback);
      response.end('<title>done</title>You can close this window.');
      say({ finished: true });
    } catch (error) {
      response.writeHead(400).end('refused');
      say({ refused: error.code, reason: error.reason });
    }
  });
  server.listen(Number(new URL(redirectUri).port), '127.0.0.1', () => say({ listening: true }));
} else {
  for await (const line of createInterface({ input: process.stdin })) {
    const client = new HostedClient({ name: 'agent', version: '1' }, { url, credentials });
    try {
      await client.connect();
      const { content } = await client.callTool({ name: 'echo', arguments: { text: line } });
      say({ answered: content[0].text });
    } catch (error) {
      const { code, executed, authorizationUrl, reason } = HostedMcpError.from(error) ?? {
        code: String(error),
      };
      say({ code, executed, authorizationUrl, reason });
    }
    await client.close();
  }
  await credentials.close();
}
