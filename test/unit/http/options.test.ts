import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import type { HttpDispatcher, HttpFetch } from '../../../src/http/exchange.js';
import { HTTP_DEFAULTS, type HttpOptions, resolveHttpOptions } from '../../../src/http/options.js';

const dispatcher: HttpDispatcher = { dispatch: () => true };
const fetch: HttpFetch = () => Promise.reject(new Error('not called'));

describe('resolveHttpOptions', () => {
  it('fills in the defaults and freezes the result', () => {
    const resolved = resolveHttpOptions({ proxy: undefined, headers: undefined });
    expect(resolved).toMatchObject(HTTP_DEFAULTS);
    expect(Object.isFrozen(resolved)).toBe(true);
    expect(Object.isFrozen(HTTP_DEFAULTS)).toBe(true);
    expect(Object.isFrozen(resolved.headers)).toBe(true);
  });

  it('takes what is usable', () => {
    const resolved = resolveHttpOptions({
      headers: { 'X-Api-Key': 'k' },
      proxy: 'http://proxy.test:3128',
      tls: { ca: ['PEM', new Uint8Array(3)], servername: 'mcp.test' },
      headersTimeoutMs: 0,
      maxMessageBytes: 1,
    });
    expect(resolved.headers).toEqual({ 'x-api-key': 'k' });
    expect(String(resolved.proxy)).toBe('http://proxy.test:3128/');
    expect(resolved.tls).toEqual({ ca: ['PEM', new Uint8Array(3)], servername: 'mcp.test' });
    expect(resolveHttpOptions({ dispatcher }).dispatcher).toBe(dispatcher);
    expect(resolveHttpOptions({ fetch: globalThis.fetch }).fetch).toBe(globalThis.fetch);
  });

  // Values that the types forbid stand for what plain JavaScript passes in.
  const refused: Array<[name: string, options: unknown]> = [
    ['http must', null],
    ['http must', []],
    ['http.timeout', { timeout: 1 }],
    ['http.fetch', { fetch: 'fetch' }],
    ['http.dispatcher', { dispatcher: {} }],
    ['http.dispatcher', { dispatcher: null }],
    ['http.dispatcher', { dispatcher, fetch }],
    ['http.proxy', { dispatcher, proxy: 'env' }],
    ['http.tls', { dispatcher, tls: {} }],
    ['http.tls', { fetch, tls: {} }],
    ['http.proxy', { fetch, proxy: 'http://proxy.test' }],
    ['http.proxy', { proxy: 'proxy.test:3128' }],
    ['http.proxy', { proxy: 'socks5://proxy.test' }],
    ['http.proxy', { proxy: true }],
    ['http.proxy', { proxy: '' }],
    ['http.tls must', { tls: 'PEM' }],
    ['http.tls.rejectUnauthorized', { tls: { rejectUnauthorized: false } }],
    ['http.tls.ca', { tls: { ca: [] } }],
    ['http.tls.ca', { tls: { ca: 7 } }],
    ['http.tls.cert', { tls: { cert: 'PEM' } }],
    ['http.tls.key', { tls: { cert: 'PEM', key: 5 } }],
    ['http.tls.servername', { tls: { servername: '' } }],
    ['http.affinityCookies', { affinityCookies: 'yes' }],
    ['http.allowInsecure', { allowInsecure: 1 }],
    ['http.connectTimeoutMs', { connectTimeoutMs: -1 }],
    ['http.connectTimeoutMs', { connectTimeoutMs: 2 ** 31 }],
    ['http.headersTimeoutMs', { headersTimeoutMs: Number.NaN }],
    ['http.headersTimeoutMs', { headersTimeoutMs: Number.POSITIVE_INFINITY }],
    ['http.keepAliveTimeoutMs', { keepAliveTimeoutMs: '4000' }],
    ['http.maxMessageBytes', { maxMessageBytes: 0 }],
    ['http.maxMessageBytes', { maxMessageBytes: 1.5 }],
    ['http.headers', { headers: 'a: b' }],
    ['http.headers', { headers: { 'a b': 'c' } }],
    ['http.headers', { headers: { a: 'b\r\nc: d' } }],
    ['http.headers', { headers: { a: 7 } }],
    ['http.headers', { headers: { A: '1', a: '2' } }],
    ['host', { headers: { Host: 'elsewhere.test' } }],
    ['transfer-encoding', { headers: { 'Transfer-Encoding': 'chunked' } }],
  ];
  it.each(refused)('refuses, naming %s: %o', (name, options) => {
    expect(() => resolveHttpOptions(options as HttpOptions)).toThrow(TypeError);
    expect(() => resolveHttpOptions(options as HttpOptions)).toThrow(name);
  });

  it('never repeats a secret', () => {
    const bad = [
      { proxy: 'ftp://user:hunter2@proxy.test' },
      { headers: { authorization: 'hunter2\n' } },
      { tls: { cert: 'hunter2' } },
    ];
    for (const options of bad) {
      try {
        resolveHttpOptions(options);
        expect.unreachable();
      } catch (error) {
        expect(inspect(error, { depth: 5 }).split('\n')[0]).not.toContain('hunter2');
        expect(String(error)).toContain('http.');
      }
    }
  });
});
