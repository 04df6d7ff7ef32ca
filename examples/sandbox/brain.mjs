// A server that cannot be dialed: brain -> orchestrator (HTTP on loopback) -> exec channel (a pipe into a process
// without a network) -> supervisor -> @modelcontextprotocol/server-everything over stdio.
//
//   node examples/sandbox/brain.mjs
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { connectServers } from 'mcp-holdfast/client';

/** What the brain has: a stub, and a client that is the same as for a hosted server. */
export async function openSandbox({ log = () => {} } = {}) {
  const orchestrator = spawn(
    process.execPath,
    [fileURLToPath(new URL('./orchestrator.mjs', import.meta.url))],
    { stdio: ['pipe', 'pipe', 'pipe'], env: { PATH: process.env.PATH } },
  );
  const ended = once(orchestrator, 'exit');
  createInterface({ input: orchestrator.stderr }).on('line', log);
  const [line] = await once(createInterface({ input: orchestrator.stdout }), 'line');
  const { stub, token } = JSON.parse(line);

  const relay =
    ({ route }) =>
    async (message, { deadlineMs, signal }) => {
      const response = await fetch(route, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify({ message, deadlineMs }),
        signal,
      });
      return response.json();
    };
  const servers = await connectServers(
    { name: 'brain', version: '1.0.0' },
    { everything: stub },
    {
      relay,
      gates: [
        { name: 'policy', before: ({ tool }) => (tool === 'get-env' ? { deny: 'not for models' } : 'allow') },
      ],
    },
  );
  return {
    stub,
    servers,
    async close() {
      await servers.close();
      orchestrator.stdin.end();
      await ended;
    },
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { stub, servers, close } = await openSandbox({ log: (line) => console.log(`  ${line}`) });
  console.log('What the brain knows of the server:', stub);
  const tools = await servers.listTools();
  console.log(`${tools.length} tools, such as ${tools[0].name}`);
  const { content } = await servers.callTool('everything__echo', { message: 'from inside' });
  console.log(content[0].text);
  const refused = await servers.callTool('everything__get-env').catch((error) => error);
  console.log(`${refused.code}: ${refused.message}`);
  await close();
}
