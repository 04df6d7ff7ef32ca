// The frameworks, the ways into them, and what each is to be shown on.

const SESSIONS = { bindSession: 'token' };
const WHOLE = { expiries: ['foreseen', 'sudden'], redeploys: 1 };

/**
 * `folder` is under examples/, `program` and `opens` are the file there and the function it exports; the stock wiring is
 * the function of the same name in stock/. `server` are the simulator's options.
 */
export const ROWS = [
  row('sdk-v1', '@modelcontextprotocol/sdk', 'transport'),
  row('sdk-v2', '@modelcontextprotocol/client', 'transport, legacy', { folder: 'sdk-v2' }),
  row('sdk-v2-auto', '@modelcontextprotocol/client', 'transport, auto', {
    folder: 'sdk-v2',
    opens: 'openAuto',
  }),
  row('sdk-v2-stateless', '@modelcontextprotocol/client', 'transport, auto, server of 2026-07-28', {
    folder: 'sdk-v2',
    opens: 'openAuto',
    server: { protocolVersion: '2026-07-28' },
    // There are no sessions to forget.
    forgets: false,
  }),
  row('ai-sdk', '@ai-sdk/mcp', 'transport, maxRetries: 2'),
  row('langchain', '@langchain/mcp-adapters', 'loadMcpTools(name, client)'),
  row('mastra-2', '@mastra/mcp', 'fetch'),
  row('mastra-0.14-provider', '@mastra/mcp', 'authProvider, unbound sessions', {
    folder: 'mastra-0.14',
    program: 'provider.mjs',
    server: { bindSession: 'none' },
    script: { expiries: ['foreseen', 'foreseen'], redeploys: 0 },
    cuts: false,
  }),
  row('mastra-0.14-bridge', '@mastra/mcp', 'mcp-holdfast bridge, over stdio', {
    folder: 'mastra-0.14',
    program: 'bridge.mjs',
  }),
  row('openai-agents', '@openai/agents', 'fetch'),
];

function row(name, packageName, way, given = {}) {
  return {
    name,
    packageName,
    way,
    folder: name,
    program: 'main.mjs',
    opens: 'open',
    server: SESSIONS,
    script: WHOLE,
    cuts: true,
    forgets: true,
    ...given,
  };
}
