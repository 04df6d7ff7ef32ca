import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import {
  type CredentialStore,
  encryptedCredentialStore,
  fileCredentialStore,
  memoryCredentialStore,
} from '../../../src/credentials/index.js';
import type { StoredRecord } from '../../../src/index.js';
import { manualClock } from '../../../src/testing/manual-clock.js';
import { credentialStoreSuite } from '../../../src/testing/store-suite.js';
import { errorOf, everythingOf } from './support.js';

const KEY = Buffer.alloc(32, 7).toString('base64');
const OTHER_KEY = new Uint8Array(32).fill(9);
const folders: string[] = [];
afterAll(async () => {
  for (const folder of folders) await rm(folder, { recursive: true, force: true });
});
const folder = async () => {
  const made = await mkdtemp(join(tmpdir(), 'holdfast-store-'));
  folders.push(made);
  return join(made, 'credentials');
};

describe('memory', () => credentialStoreSuite({ describe, it }, () => memoryCredentialStore()));
describe('file', () =>
  credentialStoreSuite({ describe, it }, async () => fileCredentialStore(await folder())));
describe('encrypted over memory', () =>
  credentialStoreSuite({ describe, it }, () =>
    encryptedCredentialStore(memoryCredentialStore(), { keys: [KEY] }),
  ));
describe('encrypted over file', () =>
  credentialStoreSuite({ describe, it }, async () =>
    encryptedCredentialStore(fileCredentialStore(await folder()), { keys: [KEY] }),
  ));

describe('fileCredentialStore', () => {
  it('keeps folder and files to the owner, names no id, leaves no temporary file', async () => {
    const dir = await folder();
    const store = fileCredentialStore(dir);
    await store.compareAndSet('alice@example.com', undefined, { generation: 1, data: 'x' });
    const lease = await store.lease('alice@example.com', 60_000);
    expect((await stat(dir)).mode & 0o777).toBe(0o700);
    const names = await readdir(dir);
    expect(names).toHaveLength(2);
    for (const name of names) {
      expect((await stat(join(dir, name))).mode & 0o777).toBe(0o600);
      expect(name).toMatch(/^[0-9a-f]{40}\.(json|lease)$/);
    }
    await lease?.release();
    expect(await readdir(dir)).toHaveLength(1);
  });

  it('two stores over one folder exclude each other, and one takes over when a lease has ended', async () => {
    const dir = await folder();
    const clock = manualClock();
    const a = fileCredentialStore(dir, { clock });
    const b = fileCredentialStore(dir, { clock });
    const first = await a.lease('id', 15_000);
    expect(first?.remainingMs()).toBe(15_000);
    expect(await b.lease('id', 15_000)).toBeUndefined();
    await clock.advance(15_001);
    expect(first?.remainingMs()).toBe(0);
    const takers = await Promise.all(
      Array.from({ length: 20 }, (_, i) => (i % 2 === 0 ? a : b).lease('id', 15_000)),
    );
    expect(takers.filter((lease) => lease !== undefined)).toHaveLength(1);
    // The one that slept through its lease wakes up and releases: not the successor's.
    await first?.release();
    expect(await a.lease('id', 15_000)).toBeUndefined();
  });

  it('a lock of before a reboot (its end lies further off than it was ever given) is taken over', async () => {
    const dir = await folder();
    const clock = manualClock();
    const before = fileCredentialStore(dir, { clock: { ...clock, monotonic: () => 10_000_000 } });
    await before.lease('id', 15_000);
    expect(await fileCredentialStore(dir, { clock }).lease('id', 15_000)).not.toBeUndefined();
  });

  it('a lock file left empty by a crash does not hold for ever', async () => {
    const dir = await folder();
    const clock = manualClock();
    const store = fileCredentialStore(dir, { clock });
    await (await store.lease('id', 1_000))?.release();
    const lease = await store.lease('id', 1_000);
    const [name] = await readdir(dir);
    await writeFile(join(dir, name as string), '');
    expect(lease).toBeDefined();
    expect(await store.lease('id', 1_000)).toBeUndefined();
    await clock.advance(5_001);
    expect(await store.lease('id', 1_000)).toBeDefined();
  });

  it('a damaged record is an error, and stays as it is', async () => {
    const dir = await folder();
    const store = fileCredentialStore(dir);
    await store.compareAndSet('id', undefined, { generation: 1, data: 'x' });
    const [name] = await readdir(dir);
    await writeFile(join(dir, name as string), '{"generation":1,"da');
    expect((await errorOf(store.read('id'))).code).toBe('ERR_STORE_UNAVAILABLE');
    const write = store.compareAndSet('id', undefined, { generation: 2, data: 'y' });
    expect((await errorOf(write)).message).toContain('file credential store');
    expect(await readFile(join(dir, name as string), 'utf8')).toBe('{"generation":1,"da');
  });

  it('a folder that cannot be made is ERR_STORE_UNAVAILABLE', async () => {
    const dir = await folder();
    await writeFile(dir, 'a file');
    const store = fileCredentialStore(dir);
    const error = await errorOf(store.compareAndSet('id', undefined, { generation: 1, data: 'x' }));
    expect(error).toMatchObject({ code: 'ERR_STORE_UNAVAILABLE', retryable: true });
  });
});

describe('encryptedCredentialStore', () => {
  const plain = 'the-plain-secret';

  it('refuses keys of another length before any I/O', () => {
    const touched: CredentialStore = new Proxy({} as CredentialStore, {
      get() {
        throw new Error('touched');
      },
    });
    for (const keys of [
      [],
      ['short'],
      [new Uint8Array(31)],
      [KEY, 'x'],
      [`${KEY.slice(0, 20)}!${KEY.slice(21)}`],
    ]) {
      expect(() => encryptedCredentialStore(touched, { keys })).toThrow(TypeError);
    }
    expect(() => encryptedCredentialStore(touched, { keys: ['c2VjcmV0'] })).toThrow(
      /^keys\[0\] must be 32 bytes/,
    );
  });

  it('writes nothing in clear, with a fresh nonce each time', async () => {
    const inner = memoryCredentialStore();
    const store = encryptedCredentialStore(inner, { keys: [KEY] });
    await store.compareAndSet('a', undefined, { generation: 1, data: plain });
    const first = await inner.read('a');
    await store.compareAndSet('a', 1, undefined);
    await store.compareAndSet('a', undefined, { generation: 1, data: plain });
    expect(everythingOf(first)).not.toContain(plain);
    expect((await inner.read('a'))?.data).not.toBe(first?.data);
    expect(everythingOf(store)).not.toContain(KEY);
  });

  it('reads what an older key wrote, and writes with the current one', async () => {
    const inner = memoryCredentialStore();
    await encryptedCredentialStore(inner, { keys: [OTHER_KEY] }).compareAndSet('a', undefined, {
      generation: 1,
      data: plain,
    });
    const store = encryptedCredentialStore(inner, { keys: [KEY, OTHER_KEY] });
    expect((await store.read('a'))?.data).toBe(plain);
    await store.compareAndSet('a', 1, { generation: 2, data: 'next' });
    expect((await encryptedCredentialStore(inner, { keys: [KEY] }).read('a'))?.data).toBe('next');
  });

  it.each<[string, (record: StoredRecord) => readonly [string, StoredRecord]]>([
    ['moved to another id', (record) => ['b', record] as const],
    ['moved to another generation', (record) => ['a', { ...record, generation: 2 }] as const],
    ['with a flipped bit', (r) => ['a', { ...r, data: `${r.data.slice(0, -4)}AAAA` }] as const],
    ['cut short', (r) => ['a', { ...r, data: r.data.slice(0, 20) }] as const],
    ['in clear', (r) => ['a', { ...r, data: '{"v":1}' }] as const],
  ])('a record %s is an error, never an absence, and is not overwritten', async (_, change) => {
    const inner = memoryCredentialStore();
    const store = encryptedCredentialStore(inner, { keys: [KEY] });
    await store.compareAndSet('a', undefined, { generation: 1, data: plain });
    const record = await inner.read('a');
    await inner.compareAndSet('a', 1, undefined);
    const [id, changed] = change(record as { generation: number; data: string });
    await inner.compareAndSet(id, undefined, changed);
    const error = await errorOf(store.read(id));
    expect(error).toMatchObject({ code: 'ERR_STORE_UNAVAILABLE', reason: 'unreadable' });
    expect(error.message).toContain('encrypted credential store');
    await errorOf(store.compareAndSet(id, changed.generation, { generation: 3, data: 'x' }));
    expect(await inner.read(id)).toEqual(changed);
  });

  it("a record of somebody else's key is named as such and left alone", async () => {
    const inner = memoryCredentialStore();
    await encryptedCredentialStore(inner, { keys: [OTHER_KEY] }).compareAndSet('a', undefined, {
      generation: 1,
      data: plain,
    });
    const store = encryptedCredentialStore(inner, { keys: [KEY] });
    expect((await errorOf(store.read('a'))).message).toContain('another key');
  });
});
