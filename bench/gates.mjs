// What an allow-list, a cap and an audit in a file add to a call: client CPU, with them and without, in alternating rounds of one run.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HostedClient } from 'mcp-holdfast/client';
import { allowTools, auditLog, maxCalls } from 'mcp-holdfast/gates';

const INFO = { name: 'bench', version: '1.0.0' };
const CALL = { name: 'echo', arguments: { text: 'hello' } };

const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];

async function cpuUs(call, count, concurrency) {
  const before = process.cpuUsage();
  let left = count;
  const worker = async () => {
    while (left-- > 0) await call();
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
  const { user, system } = process.cpuUsage(before);
  return (user + system) / count;
}

/**
 * Per cell `{ cell, none, gates, all, added, required, requiredAdded }`: microseconds of CPU a call, and what all of them
 * add as a share, with an audit that gathers its lines and with one that is required and writes each at once.
 */
export async function measureGates(port, { rounds, calls, say }) {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-bench-'));
  const audit = auditLog(join(folder, 'audit.jsonl'), { actor: 'bench' });
  const strict = auditLog(join(folder, 'required.jsonl'), { actor: 'bench', required: true });
  const gates = () => [allowTools(['echo', 'add', 'slow']), maxCalls(1_000_000)];
  const rows = [];
  for (const kind of ['json', 'sse']) {
    const open = async (options) => {
      const url = `http://127.0.0.1:${port}/${kind}`;
      const client = new HostedClient(INFO, { url, credentials: 'a-token', ...options });
      await client.connect();
      return client;
    };
    const contenders = {
      none: await open({}),
      gates: await open({ gates: gates() }),
      all: await open({ gates: gates(), audit }),
      required: await open({ gates: gates(), audit: strict }),
    };
    for (const concurrency of [1, 64]) {
      const seen = { none: [], gates: [], all: [], required: [] };
      // Until the JIT is done.
      for (const client of Object.values(contenders))
        await cpuUs(() => client.callTool(CALL), calls * 2, concurrency);
      for (let turn = 0; turn < rounds; turn += 1) {
        const order = Object.keys(contenders);
        for (const name of turn % 2 === 0 ? order : order.reverse())
          seen[name].push(await cpuUs(() => contenders[name].callTool(CALL), calls, concurrency));
        say(`gates, ${kind}, ${concurrency} concurrent: round ${turn + 1} of ${rounds}`);
      }
      // Within a round, so that what the machine does meanwhile falls on all of them.
      const share = (name) => median(seen[name].map((us, turn) => us / seen.none[turn])) - 1;
      const [added, requiredAdded] = [share('all'), share('required')];
      const figures = Object.fromEntries(Object.entries(seen).map(([name, all]) => [name, median(all)]));
      rows.push({ cell: `${kind.toUpperCase()}, ${concurrency}`, ...figures, added, requiredAdded });
    }
    for (const client of Object.values(contenders)) await client.close();
  }
  await audit.close();
  await strict.close();
  rmSync(folder, { recursive: true });
  return rows;
}
