// For comparison: the SDK v1 alone, its Client and its own transport, used as its documentation shows.
import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js';
import {
  ClientCredentialsProvider,
  PrivateKeyJwtProvider,
} from '@modelcontextprotocol/sdk/client/auth-extensions.js';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { finish, INFO, told } from '../scenarios.mjs';
import { AssertionProvider, authorized, MemoryProvider, withAuthorization } from './provider.mjs';

const it = told();
const { url, entry, context } = it;
const provider = providerFor(entry.access);
const authProvider = provider && { authProvider: provider };
let transport;

const loop = {
  provider: provider ?? {},
  isUnauthorized: (error) => error instanceof UnauthorizedError,
  finishAuth: (callback) => transport.finishAuth(callback.get('code')),
};

await finish(async () => {
  // A Client that could not connect cannot be used again.
  const client = await authorized(async () => {
    const made = new Client(INFO, { capabilities: entry.capabilities ?? {} });
    if (entry.answer !== undefined)
      made.setRequestHandler(ElicitRequestSchema, async () => ({ action: 'accept', content: entry.answer }));
    transport = new StreamableHTTPClientTransport(new URL(url), authProvider);
    await made.connect(transport);
    return made;
  }, loop);
  await entry.run(provider === undefined ? client : withAuthorization(client, loop), it);
  await client.close();
});

function providerFor(access) {
  switch (access) {
    case undefined:
      return undefined;
    case 'machine-key':
      return new PrivateKeyJwtProvider({
        clientId: context.client_id,
        privateKey: context.private_key_pem,
        algorithm: context.signing_algorithm,
      });
    case 'machine-secret':
      return new ClientCredentialsProvider({
        clientId: context.client_id,
        clientSecret: context.client_secret,
      });
    case 'assertion':
      return new AssertionProvider(it);
    default:
      return new MemoryProvider(it);
  }
}
