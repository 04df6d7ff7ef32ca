/**
 * Tokens that something else rotates under a load that does not pause: a projected volume, a file that is rewritten in
 * place, a helper program. The server takes the newest token and, for so many answers after a rotation, the one before.
 */
import {
  closeSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, request as forward } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { HostedClient } from '../../src/client.js';
import { type Clock, systemClock } from '../../src/clock.js';
import { type CredentialProvider, tokenFromCommand, tokenFromFile } from '../../src/index.js';
import { startHostedServer } from '../../src/testing/index.js';
import { closeLater, echo } from '../wire/support.js';

const opened = vi.hoisted(() => ({ paths: [] as string[] }));
vi.mock('node:fs/promises', async (original) => {
  const real = await original<typeof import('node:fs/promises')>();
  return {
    ...real,
    open(...given: Parameters<typeof real.open>) {
      opened.paths.push(String(given[0]));
      return real.open(...given);
    },
  };
});

const CALLERS = 16;
const ROTATIONS = 50;
/** So many answers after the old token was refused, the next rotation is made. */
const ANSWERS_BETWEEN = 16;
/** So many answers after a rotation, the token before it is refused. */
const GRACE_ANSWERS = 16;
const HELPER = fileURLToPath(new URL('token-helper.sh', import.meta.url));

const base64 = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
const NEW_TOKEN = {
  jwt: (number: number) => {
    const iat = Math.floor(Date.now() / 1000);
    return `${base64({ alg: 'RS256' })}.${base64({ iat, exp: iat + 36_000, number })}.${'s'.repeat(342)}`;
  },
  opaque: (number: number) => `opaque-${number}-${'o'.repeat(200)}`,
};

/** The real clock, and what is added to it: the source's own time, for nobody waits a minute here. */
function jumpingClock(): Clock & { aheadMs: number } {
  const real = systemClock();
  return {
    ...real,
    aheadMs: 0,
    now() {
      return real.now() + this.aheadMs;
    },
    monotonic() {
      return real.monotonic() + this.aheadMs;
    },
  };
}

/** A simulator behind a gate that knows the tokens that are good just now. */
async function startGated() {
  const server = await startHostedServer({ auth: false });
  closeLater(() => server.close());
  const taken = new Set<string>();
  const counts = { refused: 0, strangers: 0 };
  const issued = new Set<string>();
  const gate = createServer((incoming, outgoing) => {
    const token = /^Bearer (.+)$/.exec(incoming.headers.authorization ?? '')?.[1] ?? '';
    if (!taken.has(token)) {
      counts.refused += 1;
      if (!issued.has(token)) counts.strangers += 1;
      incoming.resume();
      outgoing.writeHead(401, { 'www-authenticate': 'Bearer error="invalid_token"' }).end();
      return;
    }
    const { method, url } = incoming;
    const { host: _, ...headers } = incoming.headers;
    const onward = forward(new URL(url ?? '/', server.url), { method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
      outgoing.flushHeaders();
      answer.pipe(outgoing);
    });
    onward.on('error', () => outgoing.destroy());
    outgoing.on('close', () => onward.destroy());
    incoming.pipe(onward);
  });
  await new Promise<void>((resolve) => gate.listen(0, '127.0.0.1', resolve));
  closeLater(async () => {
    gate.closeAllConnections();
    await new Promise((resolve) => gate.close(resolve));
  });
  return {
    server,
    counts,
    url: `http://127.0.0.1:${(gate.address() as AddressInfo).port}${new URL(server.url).pathname}`,
    /** From now on this one is taken as well. */
    take(token: string) {
      taken.add(token);
      issued.add(token);
    },
    /** Only this one is left. */
    only(token: string) {
      taken.clear();
      taken.add(token);
    },
  };
}

/** A writer of one token file; `write` is one rotation. */
interface Writer {
  readonly path: string;
  write(token: string): void;
}

/** As the kubelet does: a folder per version, one link to the newest, and a link to the file through it. */
function projectedVolume(dir: string): Writer {
  let version = 0;
  symlinkSync(join('..data', 'token'), join(dir, 'token'));
  return {
    path: join(dir, 'token'),
    write(token) {
      const before = `..version-${version}`;
      version += 1;
      const name = `..version-${version}`;
      mkdirSync(join(dir, name));
      writeFileSync(join(dir, name, 'token'), `${token}\n`);
      symlinkSync(name, join(dir, '..data_tmp'));
      renameSync(join(dir, '..data_tmp'), join(dir, '..data'));
      rmSync(join(dir, before), { recursive: true, force: true });
    },
  };
}

/** Truncates and writes in two halves, with nothing between that a reader could wait for. */
function rewrittenInPlace(dir: string): Writer {
  const path = join(dir, 'token');
  return {
    path,
    write(token) {
      const file = openSync(path, 'w');
      writeSync(file, token.slice(0, token.length / 2));
      writeSync(file, token.slice(token.length / 2));
      closeSync(file);
    },
  };
}

/** One moment of a rotation. */
interface Step {
  /** So many answers after the step before. */
  readonly afterAnswers: number;
  /** And only after the file was read so often since then, or not at all for many answers. */
  readonly afterReads?: number;
  run(): void;
}

const MANY_ANSWERS = 10 * CALLERS;

/** Callers without a pause, until all steps have run. Answers how many calls were answered. */
async function callUntilDone(client: HostedClient, steps: Step[]): Promise<number> {
  let answered = 0;
  let asked = 0;
  const failures: unknown[] = [];
  let last = { answered: 0, reads: opened.paths.length };
  const isDue = ({ afterAnswers, afterReads = 0 }: Step) => {
    const sinceAnswers = answered - last.answered;
    const isRead = opened.paths.length - last.reads >= afterReads || sinceAnswers >= MANY_ANSWERS;
    return sinceAnswers >= afterAnswers && isRead;
  };
  const caller = async () => {
    while (steps.length > 0 && failures.length === 0) {
      asked += 1;
      try {
        await echo(client, `call-${asked}`);
      } catch (error) {
        failures.push(error);
        return;
      }
      answered += 1;
      for (let step = steps[0]; step !== undefined && isDue(step); step = steps[0]) {
        steps.shift();
        step.run();
        last = { answered, reads: opened.paths.length };
      }
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
  expect(failures).toEqual([]);
  expect(answered).toBe(asked);
  return answered;
}

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'holdfast-rotating-'));
  closeLater(() => rm(dir, { recursive: true, force: true }));
  opened.paths.length = 0;
});

async function connect(url: string, credentials: CredentialProvider): Promise<HostedClient> {
  const client = new HostedClient({ name: 'load', version: '1.0.0' }, { url, credentials });
  closeLater(() => client.close());
  await client.connect();
  return client;
}

type Gated = Awaited<ReturnType<typeof startGated>>;

/** Each call ran once, and none was lost on its way. */
function expectAllRan({ server }: Gated, answered: number): void {
  const runs = Object.values(server.counts.executionsById);
  expect(runs).toHaveLength(answered);
  expect(Math.max(...runs)).toBe(1);
  expect(server.counts.executions).toEqual({ echo: answered });
  expect(server.counts.initializes).toBe(1);
}

/** Fifty rotations: a new token is written, and `GRACE_ANSWERS` later the one before is refused. */
function rotations(
  gated: Gated,
  write: (token: string) => void,
  newToken: (number: number) => string,
): Step[] {
  return Array.from({ length: ROTATIONS }, (_, rotation) => {
    const token = newToken(rotation + 1);
    const rotate = () => {
      gated.take(token);
      write(token);
    };
    return [
      { afterAnswers: ANSWERS_BETWEEN, run: rotate },
      { afterAnswers: GRACE_ANSWERS, run: () => gated.only(token) },
    ];
  }).flat();
}

function begin(gated: Gated, writer: Writer, newToken: (number: number) => string): void {
  const first = newToken(0);
  gated.take(first);
  writer.write(first);
}

describe('fifty rotations under sixteen callers', () => {
  it('a projected volume, read again in time: no call fails, none is even refused', async () => {
    const gated = await startGated();
    const writer = projectedVolume(dir);
    begin(gated, writer, NEW_TOKEN.jwt);
    const clock = jumpingClock();
    const client = await connect(gated.url, tokenFromFile(writer.path, { clock }));
    const write = (token: string) => {
      writer.write(token);
      clock.aheadMs += 60_000;
    };
    const answered = await callUntilDone(client, rotations(gated, write, NEW_TOKEN.jwt));
    expectAllRan(gated, answered);
    expect(gated.counts).toEqual({ refused: 0, strangers: 0 });
    const reads = opened.paths.filter((path) => path === writer.path).length;
    expect(reads).toBeGreaterThan(ROTATIONS);
    // A version folder that is removed under a reader costs one more.
    expect(reads).toBeLessThan(3 * ROTATIONS);
  });

  it.each(['jwt', 'opaque'] as const)(
    'a projected volume, found out by refusals: no call fails, %s',
    async (kind) => {
      const gated = await startGated();
      const writer = projectedVolume(dir);
      begin(gated, writer, NEW_TOKEN[kind]);
      // This clock stands as good as still: only a refusal makes it read the file.
      const client = await connect(gated.url, tokenFromFile(writer.path));
      const answered = await callUntilDone(client, rotations(gated, writer.write, NEW_TOKEN[kind]));
      expectAllRan(gated, answered);
      expect(gated.counts.refused).toBeGreaterThanOrEqual(ROTATIONS);
      expect(gated.counts.refused).toBeLessThanOrEqual(ROTATIONS * (CALLERS + 1));
      const reads = opened.paths.filter((path) => path === writer.path).length;
      expect(reads).toBeGreaterThan(ROTATIONS);
      expect(reads).toBeLessThan(3 * ROTATIONS);
    },
  );

  it('rotated and the old one refused between the reading and the request, every time: healed', async () => {
    const gated = await startGated();
    const writer = projectedVolume(dir);
    begin(gated, writer, NEW_TOKEN.jwt);
    const inner = tokenFromFile(writer.path);
    let rotation = 0;
    let isDue = false;
    const between: CredentialProvider = {
      id: inner.id,
      async acquire(target, options) {
        const credential = await inner.acquire(target, options);
        if (isDue) {
          isDue = false;
          rotation += 1;
          const token = NEW_TOKEN.jwt(rotation);
          writer.write(token);
          gated.only(token);
        }
        return credential;
      },
    };
    const client = await connect(gated.url, between);
    const steps: Step[] = Array.from({ length: ROTATIONS }, () => ({
      afterAnswers: GRACE_ANSWERS + ANSWERS_BETWEEN,
      run: () => {
        isDue = true;
      },
    }));
    // One more, for the last rotation is made by the call after its step.
    steps.push({ afterAnswers: ANSWERS_BETWEEN, run: () => {} });
    const answered = await callUntilDone(client, steps);
    expect(rotation).toBe(ROTATIONS);
    expectAllRan(gated, answered);
    expect(gated.counts.refused).toBeGreaterThanOrEqual(ROTATIONS);
    expect(gated.counts.refused).toBeLessThanOrEqual(ROTATIONS * (CALLERS + 1));
  });

  it.each([
    ['claims', 0.1],
    ['signature', 0.6],
  ] as const)('a writer that stops for a while in the %s: the last good token goes on', async (_, part) => {
    const gated = await startGated();
    const writer = rewrittenInPlace(dir);
    begin(gated, writer, NEW_TOKEN.jwt);
    const clock = jumpingClock();
    const client = await connect(gated.url, tokenFromFile(writer.path, { clock }));
    const steps = Array.from({ length: ROTATIONS }, (_, rotation) => {
      const token = NEW_TOKEN.jwt(rotation + 1);
      const torn = token.slice(0, token.length * part);
      return [
        {
          afterAnswers: ANSWERS_BETWEEN,
          run: () => {
            gated.take(token);
            writeFileSync(writer.path, '');
            clock.aheadMs += 60_000;
          },
        },
        // The second reading begins when the first has ended: that one saw the whole of this moment.
        { afterAnswers: 0, afterReads: 2, run: () => writeFileSync(writer.path, torn) },
        { afterAnswers: 0, afterReads: 2, run: () => writeFileSync(writer.path, token) },
        { afterAnswers: GRACE_ANSWERS, run: () => gated.only(token) },
      ];
    }).flat();
    const answered = await callUntilDone(client, steps);
    expectAllRan(gated, answered);
    expect(gated.counts.strangers).toBe(0);
    // While the file is unusable every call looks again, one reading at a time.
    const reads = opened.paths.filter((path) => path === writer.path).length;
    expect(reads).toBeLessThanOrEqual(answered);
  });

  it('a writer that truncates and writes in two goes, of tokens that do not show where they end', async () => {
    const gated = await startGated();
    const writer = rewrittenInPlace(dir);
    begin(gated, writer, NEW_TOKEN.opaque);
    const clock = jumpingClock();
    const client = await connect(gated.url, tokenFromFile(writer.path, { clock }));
    const write = (token: string) => {
      // The reading of a call that is under way meets the writer.
      clock.aheadMs += 60_000;
      writer.write(token);
    };
    const answered = await callUntilDone(client, rotations(gated, write, NEW_TOKEN.opaque));
    expectAllRan(gated, answered);
  });

  it.each([
    ['asked again in time', 60_000],
    ['asked again after refusals', 0],
  ] as const)('a helper program, %s: no call fails, one run per rotation', async (_, aheadMs) => {
    const gated = await startGated();
    const writer = projectedVolume(dir);
    begin(gated, writer, NEW_TOKEN.opaque);
    const log = join(dir, 'runs');
    const clock = jumpingClock();
    const credentials = tokenFromCommand('sh', [HELPER, writer.path, log], { clock });
    const client = await connect(gated.url, credentials);
    const write = (token: string) => {
      writer.write(token);
      clock.aheadMs += aheadMs;
    };
    const answered = await callUntilDone(client, rotations(gated, write, NEW_TOKEN.opaque));
    expectAllRan(gated, answered);
    const runs = readFileSync(log, 'utf8').trim().split('\n').length;
    expect(runs).toBeGreaterThan(ROTATIONS);
    expect(runs).toBeLessThanOrEqual(2 * ROTATIONS + 1);
    if (aheadMs > 0) expect(gated.counts.refused).toBeLessThanOrEqual(ROTATIONS);
    else expect(gated.counts.refused).toBeGreaterThanOrEqual(ROTATIONS);
  });
});
