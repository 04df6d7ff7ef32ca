import { describe, expect, it } from 'vitest';
import { CredentialUse } from '../../../src/connection/credential-use.js';
import type { AcquireOptions, Credential, CredentialProvider } from '../../../src/credentials/provider.js';

const TARGET = new URL('https://mcp.example.com/mcp');

/** Gives credentials of these generations, one per acquire. */
function use(generations: readonly number[], expiresAtMs?: number) {
  const asked: (AcquireOptions | undefined)[] = [];
  const left = [...generations];
  const provider: CredentialProvider = {
    id: 'test',
    async acquire(_target, options) {
      asked.push(options);
      const generation = left.shift() ?? 0;
      return { generation, headers: () => ({}), ...(expiresAtMs !== undefined && { expiresAtMs }) };
    },
  };
  return { use: new CredentialUse(provider, TARGET), asked };
}

async function acquireAll(generations: readonly number[], expiresAtMs?: number) {
  const made = use(generations, expiresAtMs);
  for (const _ of generations) await made.use.acquire();
  return made.use;
}

describe('CredentialUse', () => {
  it('knows the generation in use', async () => {
    expect((await acquireAll([])).generation).toBe(0);
    expect((await acquireAll([1, 1, 2])).generation).toBe(2);
  });

  it('hands on what the caller asks for', async () => {
    const { use: made, asked } = use([1]);
    const options = { maxWaitMs: 5, rejected: { generation: 1, status: 401 } };

    await made.acquire(options);

    expect(asked).toEqual([options]);
  });

  it.each([
    ['new at each use', [1, 2, 3], true],
    ['the same', [1, 1, 1, 1], false],
    ['refreshed now and then', [1, 1, 2, 2, 2, 3], false],
    ['refreshed right away, once', [1, 2, 2, 3, 3], false],
    ['new at each use, until it was not', [1, 2, 3, 3, 4], false],
  ])('a source that is %s', async (_name, generations, isAlwaysNew) => {
    expect((await acquireAll(generations)).isAlwaysNew).toBe(isAlwaysNew);
  });

  it('a credential that says when it ends is one that is refreshed, not one that is new at each use', async () => {
    expect((await acquireAll([1, 2, 3, 4], 1_000)).isAlwaysNew).toBe(false);
  });

  it('callers at once who share an answer are one use of it', async () => {
    const { use: made } = use([1, 2, 2, 2, 3, 4, 4]);
    await made.acquire();
    await Promise.all([made.acquire(), made.acquire(), made.acquire()]);
    await made.acquire();
    await Promise.all([made.acquire(), made.acquire()]);

    expect(made.isAlwaysNew).toBe(true);
  });

  it('an older generation that arrives late is no news', async () => {
    const late = withResolvers();
    let first = true;
    const made = new CredentialUse(
      {
        id: 'test',
        acquire: () => {
          const answer = first ? late.promise : Promise.resolve({ generation: 2, headers: () => ({}) });
          first = false;
          return answer;
        },
      },
      TARGET,
    );
    const straggler = made.acquire();
    await made.acquire();

    late.resolve({ generation: 1, headers: () => ({}) });

    expect((await straggler).generation).toBe(1);
    expect(made.generation).toBe(2);
  });
});

function withResolvers() {
  let resolve!: (credential: Credential) => void;
  const promise = new Promise<Credential>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
