/**
 * What may be given to a browser: the server chose the address.
 */
import { describe, expect, it } from 'vitest';
import { checkAuthorizationUrl } from '../../../src/loopback/authorization-url.js';
import { errorOf, STATE, scene } from './support.js';

const OWN = 'http://127.0.0.1:50000/callback';
const check = (url: string) => checkAuthorizationUrl(new URL(url), OWN);

describe('addresses', () => {
  it.each([
    'https://as.example/authorize',
    'https://127.0.0.1/authorize',
    'http://127.0.0.1:9000/authorize',
    'http://localhost/authorize',
    'http://[::1]:9000/authorize',
    'http://as.localhost/authorize',
  ])('%s may be opened', (address) => {
    expect(check(`${address}?state=s`)).toEqual({ url: new URL(`${address}?state=s`), state: 's' });
  });

  it.each([
    'http://as.example/authorize',
    'http://10.0.0.1/authorize',
    'http://127.0.0.1.as.example/authorize',
    'http://localhost.as.example/authorize',
    'file:///usr/bin/true',
    'javascript:alert(1)//',
    'data:text/html,x',
    'ms-msdt:/id',
    'search-ms:query',
    'ftp://as.example/authorize',
    'ssh://as.example/-oProxyCommand=x',
    'vscode://as.example/authorize',
    'https://user:secret@as.example/authorize',
    'https://user@as.example/authorize',
    'http://user@127.0.0.1/authorize',
  ])('%s is refused before anything is opened', async (address) => {
    const { onRedirect, opened, clock } = await scene();
    const error = await errorOf(onRedirect(new URL(`${address}?state=${STATE}`)));
    expect(error).toMatchObject({ code: 'ERR_DISCOVERY', executed: false, retryable: false });
    expect(error.authorizationUrl).toBeUndefined();
    expect(opened).toEqual([]);
    expect(clock.pendingTimers).toBe(0);
  });

  it('a refused one does not use the helper up', async () => {
    const { onRedirect, authorization, callback } = await scene();
    await errorOf(onRedirect(new URL(`http://as.example/?state=${STATE}`)));
    const result = onRedirect(authorization);
    await fetch(callback());
    expect((await result).searchParams.get('state')).toBe(STATE);
  });
});

describe('what the callback is known by', () => {
  it.each([
    ['no state', ''],
    ['an empty one', '?state='],
    ['two', '?state=a&state=b'],
    ['the same twice', '?state=a&state=a'],
    ['one in the fragment', '#state=a'],
  ])('%s is a TypeError, and nothing is opened', async (_, rest) => {
    const { onRedirect, opened } = await scene();
    expect(await errorOf(onRedirect(new URL(`https://as.example/authorize${rest}`)))).toBeInstanceOf(
      TypeError,
    );
    expect(opened).toEqual([]);
  });

  it.each([
    'http://127.0.0.1:50001/callback',
    'http://localhost:50000/callback',
    'http://127.0.0.1:50000/callback/',
    'http://127.0.0.1:50000/',
    'https://app.example/callback',
  ])('the redirect URI %s would never come back here', (uri) => {
    const query = new URLSearchParams({ state: 's', redirect_uri: uri });
    expect(() => check(`https://as.example/authorize?${query}`)).toThrow(TypeError);
    query.set('redirect_uri', OWN);
    expect(check(`https://as.example/authorize?${query}`).state).toBe('s');
    query.append('redirect_uri', uri);
    expect(() => check(`https://as.example/authorize?${query}`)).toThrow(TypeError);
  });

  it.each([undefined, null, '', 'authorize', 7, {}])('%s is no URL', (given) => {
    expect(() => checkAuthorizationUrl(given as unknown as URL, OWN)).toThrow(TypeError);
  });
});
