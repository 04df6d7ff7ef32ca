// npm run bench: figures of this machine, as ratios of one run, written to bench/RESULTS.md.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { fileURLToPath } from 'node:url';
import { measureCpu } from './cpu.mjs';
import { measureGates } from './gates.mjs';
import { measureRateLimit } from './rate-limit.mjs';
import { thousandCallers } from './thousand.mjs';

const HELP = `npm run bench -- [--rounds N] [--calls N] [--json] [--no-write]

Measures client CPU per call (ours, the SDK's stock transport, raw undici.request), what gates and an audit add,
1,000 callers at a token's expiry, and import times. Writes bench/RESULTS.md unless --no-write.`;

const args = process.argv.slice(2);
if (args.includes('--help')) {
  process.stdout.write(`${HELP}\n`);
  process.exit(0);
}
const number = (name, otherwise) => {
  const at = args.indexOf(name);
  return at < 0 ? otherwise : Number(args[at + 1]);
};
const asJson = args.includes('--json');
const progress = (line) => {
  if (process.stderr.isTTY) process.stderr.write(`\r${line.padEnd(60)}`);
};

const server = spawn(process.execPath, [fileURLToPath(new URL('server.mjs', import.meta.url))], {
  stdio: ['pipe', 'pipe', 'inherit'],
});
const [firstLine] = await once(server.stdout, 'data');
const port = Number(String(firstLine));

const cpu = await measureCpu(port, {
  rounds: number('--rounds', 7),
  calls: number('--calls', 1_500),
  say: progress,
});
const gates = await measureGates(port, {
  rounds: number('--rounds', 7),
  calls: number('--calls', 1_500),
  say: progress,
});
progress('what a rate limit adds');
const rateLimit = await measureRateLimit(port);
progress('1,000 callers at the expiry of their token');
const thousand = await thousandCallers();
const imports = Object.fromEntries(
  ['mcp-holdfast', 'mcp-holdfast/client', 'mcp-holdfast/redis', 'mcp-holdfast/testing'].map((name) => [
    name,
    importMs(name),
  ]),
);
progress('');
server.stdin.end();

const version = (name) =>
  JSON.parse(readFileSync(new URL(`../node_modules/${name}/package.json`, import.meta.url))).version;
const report = { date: new Date().toISOString().slice(0, 10), cpu, gates, rateLimit, thousand, imports };
const text = markdown(report);
if (!args.includes('--no-write')) writeFileSync(new URL('RESULTS.md', import.meta.url), text);
process.stdout.write(asJson ? `${JSON.stringify(report, null, 2)}\n` : text);

function importMs(name) {
  const code = `const s = performance.now(); await import('${name}'); process.stdout.write(String(performance.now() - s))`;
  const times = Array.from({ length: 5 }, () =>
    Number(execFileSync(process.execPath, ['--input-type=module', '-e', code])),
  );
  return Math.round(times.sort((a, b) => a - b)[2]);
}

function markdown({
  date,
  cpu: rows,
  gates: gateRows,
  rateLimit: limits,
  thousand: figures,
  imports: times,
}) {
  const ratio = (a, b) => `${(a / b).toFixed(2)}x`;
  const us = (value) => `${Math.round(value)}`;
  const tenth = (value) => value.toFixed(1);
  const signed = (value) => `${value < 0 ? '' : '+'}${Math.round(value)}`;
  return `# Figures

${date}, ${cpus().length} x ${cpus()[0]?.model.trim() ?? 'unknown processor'}, Node ${process.versions.node}, SDK ${version('@modelcontextprotocol/sdk')}, undici ${version('undici')}.
Written by \`npm run bench\`. The machine is shared: read ratios, not microseconds. Medians of alternating rounds in
one run; CPU is the client process alone, with a refreshing client-credentials token for all but raw, which has
a static header and is \`undici.request\` + \`JSON.parse\`.

## Client CPU per call

| answer, concurrent | stock transport, µs | HostedTransport, µs | HostedClient, µs | raw, µs | stock : HostedTransport | stock : HostedClient | HostedTransport : raw | wall, stock : HostedTransport |
|---|---|---|---|---|---|---|---|---|
${rows
  .map(({ cell, cpu: c, wall: w }) => {
    const figures = [us(c.stock), us(c.transport), us(c.client), us(c.raw)];
    const ratios = [
      ratio(c.stock, c.transport),
      ratio(c.stock, c.client),
      ratio(c.transport, c.raw),
      ratio(w.stock, w.transport),
    ];
    return `| ${[cell, ...figures, ...ratios].join(' | ')} |`;
  })
  .join('\n')}

The two transports run under the same SDK v1 Client; HostedClient is that Client with the caller's timer its own.

## What an allow-list, a cap and an audit in a file add

| answer, concurrent | without, µs | with allow-list and cap, µs | and with the audit, µs | all of them add |
|---|---|---|---|---|
${gateRows
  .map(({ cell, none, gates: some, all, added }) => {
    const share = `${(added * 100).toFixed(0)} %`;
    return `| ${[cell, us(none), us(some), us(all), share].join(' | ')} |`;
  })
  .join('\n')}

The last column is the median of the rounds' own ratios.

## What a rate limit of our own adds

Medians of one after the other, alternating rounds, microseconds: asking the memory store ${tenth(limits.memoryTake)}; a bare PING over Redis
on loopback ${us(limits.ping)}, asking the Redis store ${us(limits.redisTake)} (${ratio(limits.redisTake, limits.ping)} a PING). A whole call without a limit ${us(limits.call)}, with one
in memory ${us(limits.callMemory)} (${signed(limits.callMemory - limits.call)}), with one in Redis ${us(limits.callRedis)} (${signed(limits.callRedis - limits.call)}),
without one and after a bare PING ${us(limits.callPing)} (${signed(limits.callPing - limits.call)}).

## 1,000 callers at the expiry of a token their session is bound to

Counted at the server: ${figures.answered} answered, ${figures.executedOnce} tools run once, ${figures.executedTwice} twice; ${figures.tokenRequests} token request, ${figures.probes} probe, ${figures.initializes} initialize. ${figures.ms} ms in all.

## Import times

${Object.entries(times)
  .map(([name, ms]) => `\`${name}\` ${ms} ms`)
  .join(', ')}.
`;
}
