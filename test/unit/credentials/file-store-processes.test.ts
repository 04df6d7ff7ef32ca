/** The file store between real processes: no lost update, never two holders of one lease. */
import { fork } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build } from 'esbuild';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { fileCredentialStore } from '../../../src/credentials/index.js';

const PROCESSES = 4;
const ROUNDS = 25;
let dir: string;

/** Runs in each process: a lease, a critical section that is logged, and a compare-and-set until it wins. */
const WORKER = `
import { appendFileSync } from 'node:fs';
import { fileCredentialStore } from './store.mjs';
const [dir, log, rounds] = process.argv.slice(2);
const store = fileCredentialStore(dir);
const turn = () => new Promise((resolve) => setImmediate(resolve));
for (let round = 0; round < Number(rounds); round++) {
  let lease;
  while ((lease = await store.lease('id', 30_000)) === undefined) await turn();
  appendFileSync(log, 'in ' + process.pid + '\\n');
  await turn();
  appendFileSync(log, 'out ' + process.pid + '\\n');
  await lease.release();
  for (;;) {
    const record = await store.read('id');
    const next = { generation: (record?.generation ?? 0) + 1, data: String(process.pid) };
    if (await store.compareAndSet('id', record?.generation, next)) break;
  }
}
`;

/** Takes leases that it lets run out, and logs from when to when each was its own, on the host's clock. */
const TAKER = `
import { appendFileSync } from 'node:fs';
import { fileCredentialStore } from './store.mjs';
const [dir, log, holdMs, forMs] = process.argv.slice(2);
const store = fileCredentialStore(dir);
const now = () => Number(process.hrtime.bigint()) / 1e6;
const end = now() + Number(forMs);
while (now() < end) {
  const lease = await store.lease('id', Number(holdMs));
  if (lease === undefined) continue;
  const before = now();
  const remaining = lease.remainingMs();
  // A process that was put aside between the two readings cannot say when its lease ends.
  if (now() - before > 0.01) continue;
  const until = before + remaining;
  if (remaining > 0) appendFileSync(log, before + ' ' + until + '\\n');
}
`;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'holdfast-processes-'));
  await build({
    entryPoints: [new URL('../../../src/credentials/stores/file.ts', import.meta.url).pathname],
    outfile: join(dir, 'store.mjs'),
    bundle: true,
    platform: 'node',
    format: 'esm',
    logLevel: 'silent',
  });
  await writeFile(join(dir, 'worker.mjs'), WORKER);
  await writeFile(join(dir, 'taker.mjs'), TAKER);
});
afterAll(async () => {
  await rm(dir, { recursive: true, force: true });
});

it(`${PROCESSES} processes, ${ROUNDS} rounds each`, async () => {
  const log = join(dir, 'log');
  const store = join(dir, 'credentials');
  await inProcesses('worker.mjs', [store, log, String(ROUNDS)]);
  expect((await fileCredentialStore(store).read('id'))?.generation).toBe(PROCESSES * ROUNDS);
  const lines = (await readFile(log, 'utf8')).trim().split('\n');
  expect(lines).toHaveLength(2 * PROCESSES * ROUNDS);
  for (let i = 0; i < lines.length; i += 2) {
    expect(lines[i + 1]).toBe(lines[i]?.replace('in', 'out'));
  }
});

it('leases that nobody releases are taken over by one at a time, hundreds of times', async () => {
  const log = join(dir, 'taken');
  await inProcesses('taker.mjs', [join(dir, 'taking'), log, '3', '1000']);
  const spans = (await readFile(log, 'utf8'))
    .trim()
    .split('\n')
    .map((line) => line.split(' ').map(Number) as [number, number])
    .sort((a, b) => a[0] - b[0]);
  expect(spans.length).toBeGreaterThan(50);
  // From the moment it was given: its deadline was fixed before the file could be made, which may take a while.
  const overlaps = spans.filter(([from], i) => i > 0 && from < (spans[i - 1]?.[1] ?? 0) - 0.01);
  expect(overlaps).toEqual([]);
});

async function inProcesses(file: string, args: string[]): Promise<void> {
  const codes = await Promise.all(
    Array.from({ length: PROCESSES }, () => {
      const child = fork(join(dir, file), args);
      return new Promise<number | null>((resolve) => child.on('exit', (code) => resolve(code)));
    }),
  );
  expect(codes).toEqual(Array.from({ length: PROCESSES }, () => 0));
}
