import { chmod, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import {
  bearerToken,
  headerCredential,
  resolveCredentials,
  tokenFromCommand,
  tokenFromEnv,
  tokenFromFile,
} from '../../../src/credentials/index.js';
import type { CredentialEvent } from '../../../src/credentials/provider.js';
import { manualClock } from '../../../src/testing/manual-clock.js';
import { bearerOf, errorOf, everythingOf, gate, TARGET } from './support.js';

const refusedAt = (generation: number) => ({ rejected: { generation, status: 401 } });
const jwt = (claims: object) =>
  `${Buffer.from('{}').toString('base64url')}.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.c2ln`;

let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'holdfast-static-'));
});
afterAll(async () => {
  await rm(dir, { recursive: true, force: true });
});
afterEach(() => {
  vi.unstubAllEnvs();
});

describe('bearerToken', () => {
  it('sends a fixed token, to the origin it was acquired for only', async () => {
    const credential = await bearerToken('abc').acquire(TARGET);
    expect(await bearerOf(credential)).toBe('Bearer abc');
    expect(credential.generation).toBe(1);
    expect(() => credential.headers({ method: 'GET', url: new URL('https://evil.example') })).toThrow(
      /another origin/,
    );
  });

  it('a fixed token that is refused has no other', async () => {
    const provider = bearerToken('abc');
    await provider.acquire(TARGET);
    expect((await errorOf(provider.acquire(TARGET, refusedAt(1)))).code).toBe('ERR_CREDENTIAL_REJECTED');
    expect((await provider.acquire(TARGET)).generation).toBe(1);
  });

  it('refuses a fixed token with a line break, without quoting it', () => {
    for (const bad of ['CANARY\r\nx: y', 'CANARY é', 'CANARY with space', '', '  ']) {
      let error: unknown;
      try {
        bearerToken(bad);
      } catch (thrown) {
        error = thrown;
      }
      expect(error).toBeInstanceOf(TypeError);
      expect(everythingOf(error)).not.toContain('CANARY');
    }
    expect(() => bearerToken(1 as never)).toThrow(TypeError);
    expect(() => bearerToken('x', { cacheMs: -1 })).toThrow(/cacheMs/);
  });

  it('a function is asked at every acquire, and the generation moves with the value only', async () => {
    const values = ['a', 'a', 'b'];
    const asked = vi.fn(() => values[Math.min(asked.mock.calls.length - 1, 2)] as string);
    const provider = bearerToken(asked);
    const events: CredentialEvent[] = [];
    provider.onEvent?.((event) => events.push(event));
    const generations = [];
    for (let i = 0; i < 4; i++) generations.push((await provider.acquire(TARGET)).generation);
    expect(generations).toEqual([1, 1, 2, 2]);
    expect(asked).toHaveBeenCalledTimes(4);
    expect(events).toEqual([{ type: 'refreshed', id: 'bearer', generation: 2, expiresAtMs: undefined }]);
  });

  it('concurrent callers share one asking; one that leaves does not end it', async () => {
    const held = gate();
    const asked = vi.fn(async () => {
      await held.promise;
      return 'a';
    });
    const provider = bearerToken(asked);
    const controller = new AbortController();
    const leaving = errorOf(provider.acquire(TARGET, { signal: controller.signal }));
    const staying = Array.from({ length: 10 }, () => provider.acquire(TARGET));
    controller.abort();
    expect((await leaving).code).toBe('ERR_ABORTED');
    held.open();
    await Promise.all(staying);
    expect(asked).toHaveBeenCalledTimes(1);
  });

  it('cacheMs and expiresAtMs spare the asking', async () => {
    const clock = manualClock();
    const cached = vi.fn(() => 'a');
    const provider = bearerToken(cached, { cacheMs: 1_000, clock });
    await provider.acquire(TARGET);
    await clock.advance(999);
    await provider.acquire(TARGET);
    expect(cached).toHaveBeenCalledTimes(1);
    await clock.advance(1);
    await provider.acquire(TARGET);
    expect(cached).toHaveBeenCalledTimes(2);

    const expiring = vi.fn(() => ({
      token: `t${expiring.mock.calls.length}`,
      expiresAtMs: clock.now() + 60_000,
    }));
    const other = bearerToken(expiring, { clock });
    expect((await other.acquire(TARGET)).expiresAtMs).toBe(clock.now() + 60_000);
    await clock.advance(57_999);
    await other.acquire(TARGET);
    expect(expiring).toHaveBeenCalledTimes(1);
    await clock.advance(2);
    expect((await other.acquire(TARGET)).generation).toBe(2);
  });

  it('after a refusal it is asked once with rejected: true, for all callers; stragglers ask nothing more', async () => {
    const clock = manualClock();
    let value = 'old';
    const asked = vi.fn(({ rejected }: { rejected: boolean }) => {
      if (rejected) value = 'new';
      return value;
    });
    const provider = bearerToken(asked, { cacheMs: 60_000, clock });
    await provider.acquire(TARGET);
    const got = await Promise.all(Array.from({ length: 100 }, () => provider.acquire(TARGET, refusedAt(1))));
    expect(got.every((c) => c.generation === 2)).toBe(true);
    await Promise.all(Array.from({ length: 100 }, () => provider.acquire(TARGET, refusedAt(1))));
    expect(asked).toHaveBeenCalledTimes(2);
  });

  it('the same value after a refusal is ERR_CREDENTIAL_REJECTED, and a storm of refusals does not ask again', async () => {
    const clock = manualClock();
    const asked = vi.fn(() => 'same');
    const provider = bearerToken(asked, { cacheMs: 600_000, clock });
    await provider.acquire(TARGET);
    for (let i = 0; i < 10; i++) {
      expect((await errorOf(provider.acquire(TARGET, refusedAt(1)))).code).toBe('ERR_CREDENTIAL_REJECTED');
    }
    expect(asked).toHaveBeenCalledTimes(2);
    await clock.advance(5_000);
    await provider.acquire(TARGET);
    expect(asked).toHaveBeenCalledTimes(3);
  });

  it('a function that fails, gives nothing or something unusable is ERR_CREDENTIAL_SOURCE', async () => {
    const sources = [
      () => {
        throw new Error('CANARY');
      },
      () => '',
      () => undefined as never,
      () => ({ token: 'CANARY\nx' }),
      async () => Promise.reject(Object.assign(new Error('CANARY'), { code: 'EVAULT' })),
    ];
    for (const source of sources) {
      const error = await errorOf(bearerToken(source as never).acquire(TARGET));
      expect(error.code).toBe('ERR_CREDENTIAL_SOURCE');
      expect(everythingOf(error)).not.toContain('CANARY');
    }
  });

  it('a function that never answers is left after maxWaitMs, and close releases who waits', async () => {
    const clock = manualClock();
    const provider = bearerToken(() => new Promise<never>(() => {}), { clock });
    const failing = errorOf(provider.acquire(TARGET, { maxWaitMs: 2_000 }));
    await clock.advance(2_000);
    expect(await failing).toMatchObject({ code: 'ERR_CREDENTIAL_SOURCE', retryable: true });
    const waiting = errorOf(provider.acquire(TARGET));
    await provider.close?.();
    expect((await waiting).code).toBe('ERR_CLOSED');
    expect((await errorOf(provider.acquire(TARGET))).code).toBe('ERR_CLOSED');
  });
});

describe('headerCredential', () => {
  it('sets its header, in lower case, with inner spaces', async () => {
    const provider = headerCredential({ name: 'X-Api-Key', value: async () => 'Basic abc' });
    expect(provider.id).toBe('header:x-api-key');
    const credential = await provider.acquire(TARGET);
    expect(await credential.headers({ method: 'POST', url: TARGET })).toEqual({ 'x-api-key': 'Basic abc' });
  });

  it.each(['', 'a b', 'x\r\ny', 'Host', 'Content-Length', 'mcp-session-id'])(
    'refuses the name %j',
    (name) => {
      expect(() => headerCredential({ name, value: 'v' })).toThrow(TypeError);
    },
  );
});

describe('tokenFromEnv', () => {
  it('reads at every acquire', async () => {
    vi.stubEnv('HOLDFAST_UNIT_TOKEN', 'one');
    const provider = tokenFromEnv('HOLDFAST_UNIT_TOKEN');
    expect(await bearerOf(await provider.acquire(TARGET))).toBe('Bearer one');
    vi.stubEnv('HOLDFAST_UNIT_TOKEN', 'two');
    expect((await provider.acquire(TARGET)).generation).toBe(2);
    vi.stubEnv('HOLDFAST_UNIT_TOKEN', '');
    const error = await errorOf(provider.acquire(TARGET));
    expect(error.code).toBe('ERR_CREDENTIAL_SOURCE');
    expect(error.message).toContain('HOLDFAST_UNIT_TOKEN');
  });
});

describe('tokenFromFile', () => {
  it('re-reads at most every minute, and at once after a refusal', async () => {
    const clock = manualClock();
    const path = join(dir, 'plain');
    await writeFile(path, 'one\n');
    const provider = tokenFromFile(path, { clock });
    expect(await bearerOf(await provider.acquire(TARGET))).toBe('Bearer one');
    await writeFile(path, 'two\n');
    await clock.advance(59_000);
    expect((await provider.acquire(TARGET)).generation).toBe(1);
    expect(await bearerOf(await provider.acquire(TARGET, refusedAt(1)))).toBe('Bearer two');
    await writeFile(path, 'three\n');
    await clock.advance(60_000);
    expect(await bearerOf(await provider.acquire(TARGET))).toBe('Bearer three');
    expect((await errorOf(provider.acquire(TARGET, refusedAt(3)))).code).toBe('ERR_CREDENTIAL_REJECTED');
  });

  it('a JWT is re-read after a tenth of its life, its end is known', async () => {
    const clock = manualClock();
    const path = join(dir, 'jwt');
    const iat = clock.now() / 1000;
    await writeFile(path, jwt({ iat, exp: iat + 100 }));
    const provider = tokenFromFile(path, { clock });
    expect((await provider.acquire(TARGET)).expiresAtMs).toBe(clock.now() + 100_000);
    await writeFile(path, jwt({ iat, exp: iat + 200 }));
    await clock.advance(9_999);
    expect((await provider.acquire(TARGET)).generation).toBe(1);
    await clock.advance(1);
    expect((await provider.acquire(TARGET)).generation).toBe(2);
  });

  it('an empty, torn or missing file keeps the last good value until its end, and is looked at again at once', async () => {
    const clock = manualClock();
    const path = join(dir, 'torn');
    const iat = clock.now() / 1000;
    const whole = jwt({ iat, exp: iat + 3600 });
    await writeFile(path, whole);
    const provider = tokenFromFile(path, { clock });
    await provider.acquire(TARGET);
    for (const torn of ['', whole.slice(0, 30), 'with space inside']) {
      await writeFile(path, torn);
      await clock.advance(60_000);
      expect(await bearerOf(await provider.acquire(TARGET))).toBe(`Bearer ${whole}`);
    }
    await rm(path);
    expect((await provider.acquire(TARGET)).generation).toBe(1);
    const next = jwt({ iat: iat + 300, exp: iat + 3900 });
    await writeFile(`${path}.new`, next);
    await rename(`${path}.new`, path);
    expect(await bearerOf(await provider.acquire(TARGET))).toBe(`Bearer ${next}`);
    await rm(path);
    await clock.advance(3_900_000);
    expect((await errorOf(provider.acquire(TARGET))).code).toBe('ERR_CREDENTIAL_SOURCE');
  });

  it('no file at all is ERR_CREDENTIAL_SOURCE', async () => {
    const error = await errorOf(tokenFromFile(join(dir, 'nowhere')).acquire(TARGET));
    expect(error.code).toBe('ERR_CREDENTIAL_SOURCE');
    expect((error.cause as { code?: string }).code).toBe('ENOENT');
  });
});

describe('tokenFromCommand', () => {
  const node = process.execPath;

  it('takes the bare token, runs without a shell and with a small environment', async () => {
    vi.stubEnv('HOLDFAST_UNIT_SECRET', 'inherited');
    const script =
      'console.log([process.env.HOLDFAST_UNIT_SECRET, process.env.EXTRA, process.argv[1]].join("_"))';
    const provider = tokenFromCommand(node, ['-e', script, '$(id);x'], { env: { EXTRA: 'given' } });
    expect(await bearerOf(await provider.acquire(TARGET))).toBe('Bearer _given_$(id);x');
  });

  it('takes an ExecCredential and its end, and runs again after a refusal', async () => {
    const clock = manualClock();
    const path = join(dir, 'exec.json');
    const write = (token: string) =>
      writeFile(
        path,
        JSON.stringify({
          kind: 'ExecCredential',
          status: { token, expirationTimestamp: new Date(clock.now() + 600_000).toISOString() },
        }),
      );
    await write('one');
    const provider = tokenFromCommand('cat', [path], { clock });
    const credential = await provider.acquire(TARGET);
    expect(credential.expiresAtMs).toBe(clock.now() + 600_000);
    await write('two');
    await clock.advance(597_000);
    expect((await provider.acquire(TARGET)).generation).toBe(1);
    expect(await bearerOf(await provider.acquire(TARGET, refusedAt(1)))).toBe('Bearer two');
  });

  it('a command that fails, floods or hangs says neither its arguments nor its output', async () => {
    const clock = manualClock();
    const scripts = [
      'console.error("CANARY"); process.exit(3)',
      'console.log("CANARY".repeat(20000))',
      'console.log("{\\"status\\": CANARY")',
      'console.log("CANARY with spaces")',
      'process.kill(process.pid, "SIGKILL") // CANARY',
    ];
    for (const script of scripts) {
      const error = await errorOf(tokenFromCommand(node, ['-e', script]).acquire(TARGET));
      expect(error.code).toBe('ERR_CREDENTIAL_SOURCE');
      expect(everythingOf(error)).not.toContain('CANARY');
    }
    const hanging = tokenFromCommand(node, ['-e', 'setInterval(() => {}, 1000) // CANARY'], { clock });
    const failing = errorOf(hanging.acquire(TARGET));
    await clock.advance(10_000);
    expect((await failing).message).toContain('did not end in time');
    const missing = await errorOf(tokenFromCommand(join(dir, 'no-such-CANARY')).acquire(TARGET));
    expect(everythingOf(missing)).not.toContain('CANARY');
    const plain = join(dir, 'not-executable');
    await writeFile(plain, 'x');
    await chmod(plain, 0o644);
    expect((await errorOf(tokenFromCommand(plain).acquire(TARGET))).code).toBe('ERR_CREDENTIAL_SOURCE');
  });

  it('refuses bad options', () => {
    expect(() => tokenFromCommand('')).toThrow(TypeError);
    expect(() => tokenFromCommand('x', 'a b' as never)).toThrow(/args/);
    expect(() => tokenFromCommand('x', [], { timeoutMs: -1 })).toThrow(/timeoutMs/);
  });
});

describe('resolveCredentials', () => {
  const clock = manualClock();

  it('takes a token, a function, a provider or nothing', async () => {
    expect(await bearerOf(await resolveCredentials('abc', clock).acquire(TARGET))).toBe('Bearer abc');
    expect(await bearerOf(await resolveCredentials(() => 'def', clock).acquire(TARGET))).toBe('Bearer def');
    const provider = bearerToken('x');
    expect(resolveCredentials(provider, clock)).toBe(provider);
    const nothing = resolveCredentials(undefined, clock);
    const credential = await nothing.acquire(TARGET);
    expect(credential.generation).toBe(1);
    expect(await credential.headers({ method: 'POST', url: TARGET })).toEqual({});
    expect((await errorOf(nothing.acquire(TARGET, refusedAt(1)))).code).toBe('ERR_CREDENTIAL_REJECTED');
  });

  it('refuses anything else', () => {
    for (const bad of [null, 1, {}, { id: '', acquire() {} }]) {
      expect(() => resolveCredentials(bad as never, clock)).toThrow(TypeError);
    }
  });
});
