// Inside the sandbox: no network, nothing but a standard input and output. Supervises the server beside it.
import { once } from 'node:events';
import { relayHop, superviseServer } from 'mcp-holdfast/relay';
import { serveChannel } from './channel.mjs';

// The first line is the entry, with the secret of this one server: in no argument, and in no variable of ours.
const entry = await firstLine(process.stdin);
const supervisor = superviseServer(entry, { name: 'everything' });
supervisor.on('stderr', ({ server, generation, line }) => {
  process.stderr.write(`[${server} #${generation}] ${line}\n`);
});
supervisor.on('notification', ({ server, generation, message }) => {
  process.stderr.write(`[${server} #${generation}] says ${message.method}\n`);
});
supervisor.on('exit', ({ server, generation, code, expected }) => {
  process.stderr.write(`[${server} #${generation}] has ended (${code})${expected ? '' : ', by itself'}\n`);
});
const hop = relayHop((message, options) => supervisor.handle(message, options), { name: 'inside' });
await serveChannel(process.stdin, process.stdout, hop);
// Hand-over: whoever held the other end is gone.
await supervisor.close();

async function firstLine(stream) {
  let text = '';
  while (!text.includes('\n')) {
    await once(stream, 'readable');
    for (let part = stream.read(1); part !== null; part = stream.read(1)) {
      text += part.toString('latin1');
      if (text.endsWith('\n')) break;
    }
  }
  return JSON.parse(Buffer.from(text, 'latin1').toString('utf8'));
}
