// One framework in a process of its own, in the folder where it is installed: opens, calls and closes as it is told.
import { pathToFileURL } from 'node:url';
import { HostedMcpError } from 'mcp-holdfast';

/** Longer than anything here takes, far shorter than a framework's own patience. */
const SILENCE_MS = 10_000;

const [program, opens] = process.argv.slice(2);
const unhandled = [];
process.on('unhandledRejection', (reason) => {
  unhandled.push(String(reason));
  console.error('unhandled:', reason);
});

const { [opens]: open } = await import(pathToFileURL(program));
let opened;
const STEPS = {
  async open({ server }) {
    opened = await open(server);
  },
  async call({ tool, ticket }) {
    const result = await opened.callTool(tool, { ticket });
    const text = JSON.stringify(result) ?? '';
    // A framework may make a result of an error.
    if (!text.includes(`done ${ticket}`)) throw new Error(`no answer: ${text}`);
  },
  async close() {
    await opened?.close();
    opened = undefined;
    return { unhandled: unhandled.splice(0) };
  },
};

process.on('message', async ({ id, step, ...what }) => {
  process.send({ id, ...(await settled(STEPS[step](what))) });
});
process.on('disconnect', () => process.exit(0));
process.send({ ready: true });

async function settled(work) {
  let timer;
  const silence = new Promise((resolve) => {
    timer = setTimeout(resolve, SILENCE_MS, { silent: true });
  });
  const outcome = work.then(
    (value) => ({ done: true, ...value }),
    (error) => ({ failure: described(error) }),
  );
  const first = await Promise.race([outcome, silence]);
  clearTimeout(timer);
  return first;
}

function described(error) {
  const own = HostedMcpError.from(error);
  console.error('failed:', error);
  return {
    name: error?.name,
    message: String(error?.message).replace(/\s+/g, ' ').slice(0, 200),
    ...(own && { code: own.code, executed: own.executed }),
  };
}
