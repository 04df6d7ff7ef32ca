// For comparison: the SDK v2 alone, its Client and its own transport, used as its documentation shows.
import {
  Client,
  ClientCredentialsProvider,
  CrossAppAccessProvider,
  DpopSession,
  PrivateKeyJwtProvider,
  requestJwtAuthorizationGrant,
  StreamableHTTPClientTransport,
  UnauthorizedError,
} from '@modelcontextprotocol/client';
import { SkillsClient } from '@modelcontextprotocol/client/ext/skills';
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
  finishAuth: (callback) => transport.finishAuth(callback),
};

await finish(async () => {
  // A Client that could not connect cannot be used again.
  const client = await authorized(async () => {
    const made = new Client(INFO, {
      capabilities: entry.capabilities ?? {},
      versionNegotiation: { mode: 'auto' },
    });
    if (entry.answer !== undefined)
      made.setRequestHandler('elicitation/create', async () => ({ action: 'accept', content: entry.answer }));
    transport = new StreamableHTTPClientTransport(new URL(url), authProvider);
    await made.connect(transport);
    return made;
  }, loop);
  const skills = entry.skills === true ? new SkillsClient(client) : undefined;
  await entry.run(provider === undefined ? client : withAuthorization(client, loop), { ...it, skills });
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
    case 'enterprise':
      return new CrossAppAccessProvider({
        clientId: context.client_id,
        clientSecret: context.client_secret,
        assertion: async ({ authorizationServerUrl, resourceUrl, scope, fetchFn }) => {
          const { jwtAuthGrant } = await requestJwtAuthorizationGrant({
            tokenEndpoint: context.idp_token_endpoint,
            audience: authorizationServerUrl,
            resource: resourceUrl,
            idToken: context.idp_id_token,
            clientId: context.idp_client_id,
            scope,
            fetchFn,
          });
          return jwtAuthGrant;
        },
      });
    default: {
      const made = new MemoryProvider(it);
      if (entry.dpop === true) {
        const session = DpopSession.create();
        made.dpop = () => session;
      }
      return made;
    }
  }
}
