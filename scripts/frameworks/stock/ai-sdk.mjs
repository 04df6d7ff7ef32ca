// There is no grant for machines in it, so its fetch has a token that is new for each request.
import { createMCPClient } from '@ai-sdk/mcp';

export async function open({ url, tokenEndpoint, clientId, clientSecret }) {
  const token = tokenSource({ tokenEndpoint, clientId, clientSecret });
  const fetchWithToken = async (input, init) => {
    const headers = new Headers(init?.headers);
    headers.set('authorization', `Bearer ${await token()}`);
    return fetch(input, { ...init, headers });
  };
  const transport = { type: 'http', url, fetch: fetchWithToken };
  const client = await createMCPClient({ transport, maxRetries: 2 });
  const tools = await client.tools();
  return {
    callTool: (name, args) => tools[name].execute(args, { toolCallId: crypto.randomUUID(), messages: [] }),
    close: () => client.close(),
  };
}

/** As apps have it: kept until it expires. */
function tokenSource({ tokenEndpoint, clientId, clientSecret }) {
  let held;
  let expiresAtMs = 0;
  return async () => {
    if (Date.now() < expiresAtMs) return held;
    const body = new URLSearchParams({
      grant_type: 'client_credentials',
      client_id: clientId,
      client_secret: clientSecret,
    });
    const reply = await (await fetch(tokenEndpoint, { method: 'POST', body })).json();
    held = reply.access_token;
    expiresAtMs = Date.now() + reply.expires_in * 1000;
    return held;
  };
}
