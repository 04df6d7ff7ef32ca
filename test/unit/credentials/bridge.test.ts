import type { OAuthClientProvider } from '@modelcontextprotocol/sdk/client/auth.js';
import { describe, expect, it, vi } from 'vitest';
import {
  type AuthProviderLike,
  bearerToken,
  fromOAuthClientProvider,
  type OAuthClientProviderLike,
  toAuthProvider,
  toOAuthClientProvider,
} from '../../../src/credentials/index.js';
import { bearerOf, errorOf, everythingOf, TARGET } from './support.js';

function clientProvider(tokens: () => unknown): OAuthClientProviderLike {
  return {
    redirectUrl: 'http://127.0.0.1/callback',
    clientMetadata: { redirect_uris: ['http://127.0.0.1/callback'] },
    tokens,
    saveTokens() {},
    clientInformation: () => undefined,
    redirectToAuthorization() {
      throw new Error('a browser was opened');
    },
    saveCodeVerifier() {},
    codeVerifier: () => '',
  };
}
const refusedAt = (generation: number) => ({ rejected: { generation, status: 401 } });

describe('fromOAuthClientProvider', () => {
  it('reads tokens() at every acquire; a new value is a new generation', async () => {
    let current = 'a';
    const provider = fromOAuthClientProvider(
      clientProvider(async () => ({ access_token: current, token_type: 'x' })),
    );
    expect(await bearerOf(await provider.acquire(TARGET))).toBe('Bearer a');
    current = 'b';
    expect((await provider.acquire(TARGET)).generation).toBe(2);
    current = 'c';
    expect(await bearerOf(await provider.acquire(TARGET, refusedAt(2)))).toBe('Bearer c');
  });

  it('without tokens the server is asked first, without a credential', async () => {
    const none = fromOAuthClientProvider(clientProvider(() => undefined));
    const credential = await none.acquire(TARGET);
    expect(credential.generation).toBe(0);
    expect(await credential.headers({ method: 'POST', url: TARGET })).toEqual({});
  });

  it('where there is no redirect URL nobody is sent away', async () => {
    const machine = { ...clientProvider(() => ({ access_token: 'a' })), redirectUrl: undefined };
    const stuck = fromOAuthClientProvider(machine);
    await stuck.acquire(TARGET);
    expect((await errorOf(stuck.acquire(TARGET, refusedAt(1)))).code).toBe('ERR_REAUTHORIZATION_REQUIRED');
  });

  it('what a foreign provider throws is wrapped, not attached', async () => {
    const provider = fromOAuthClientProvider(
      clientProvider(() => {
        throw new Error('CANARY');
      }),
    );
    const error = await errorOf(provider.acquire(TARGET));
    expect(error.code).toBe('ERR_CREDENTIAL_SOURCE');
    expect(everythingOf(error)).not.toContain('CANARY');
  });

  it('takes the SDK type as it is', () => {
    const typed = undefined as unknown as OAuthClientProvider;
    const check = () => fromOAuthClientProvider(typed);
    expect(check).toThrow();
    expect(() => fromOAuthClientProvider({} as never)).toThrow(/tokens or token/);
  });

  it('an AuthProvider is told of a refusal first, once for all callers', async () => {
    let current = 'a';
    const onUnauthorized = vi.fn(async (context: { response: Response; serverUrl: URL }) => {
      expect(context.response.status).toBe(401);
      expect(context.serverUrl.href).toBe(TARGET.href);
      current = 'b';
    });
    const provider = fromOAuthClientProvider({ token: async () => current, onUnauthorized });
    await provider.acquire(TARGET);
    const got = await Promise.all(Array.from({ length: 10 }, () => provider.acquire(TARGET, refusedAt(1))));
    expect(got.every((c) => c.generation === 2)).toBe(true);
    expect(onUnauthorized).toHaveBeenCalledTimes(1);
  });

  it('an AuthProvider that needs a person, that has nothing, or that cannot renew', async () => {
    const make = (provider: AuthProviderLike) => fromOAuthClientProvider(provider);
    const person = make({
      token: async () => 'a',
      onUnauthorized: async () => {
        throw Object.assign(new Error('CANARY'), { name: 'UnauthorizedError' });
      },
    });
    await person.acquire(TARGET);
    expect((await errorOf(person.acquire(TARGET, refusedAt(1)))).code).toBe('ERR_REAUTHORIZATION_REQUIRED');
    expect((await errorOf(make({ token: async () => undefined }).acquire(TARGET))).code).toBe(
      'ERR_REAUTHORIZATION_REQUIRED',
    );
    const fixed = make({ token: async () => 'a' });
    await fixed.acquire(TARGET);
    expect((await errorOf(fixed.acquire(TARGET, refusedAt(1)))).code).toBe('ERR_CREDENTIAL_REJECTED');
  });
});

describe('towards the SDKs', () => {
  it('toOAuthClientProvider gives tokens and renews after the SDK tried to redirect', async () => {
    const asked: boolean[] = [];
    const source = bearerToken(({ rejected }) => {
      asked.push(rejected);
      return rejected ? 'b' : 'a';
    });
    const bridged = toOAuthClientProvider(source, TARGET.href);
    // Fits where the SDK's type is wanted.
    const typed: Pick<OAuthClientProvider, 'tokens' | 'redirectUrl' | 'redirectToAuthorization'> = bridged;
    expect(await typed.tokens()).toEqual({ access_token: 'a', token_type: 'Bearer' });
    expect(() => bridged.redirectToAuthorization(new URL('https://as.example/authorize'))).toThrow(
      expect.objectContaining({ code: 'ERR_REAUTHORIZATION_REQUIRED' }),
    );
    expect(await bridged.tokens()).toEqual({ access_token: 'b', token_type: 'Bearer' });
    expect(asked).toEqual([false, true]);
  });

  it('toAuthProvider forwards a refusal as one of the generation it gave last', async () => {
    const source = bearerToken(({ rejected }) => (rejected ? 'b' : 'a'), { cacheMs: 60_000 });
    const bridged = toAuthProvider(source, TARGET);
    expect(await bridged.token()).toBe('a');
    await bridged.onUnauthorized({});
    expect(await bridged.token()).toBe('b');
    expect((await errorOf(bridged.onUnauthorized({}))).code).toBe('ERR_CREDENTIAL_REJECTED');
  });
});
