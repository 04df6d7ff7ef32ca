import { describe, expect, it } from 'vitest';
import { checkAddress, isLoopbackHost } from '../../../src/http/address.js';

describe('checkAddress', () => {
  it.each([
    'https://example.com/mcp',
    'http://localhost:3000/mcp',
    'http://mcp.localhost/',
    'http://127.0.0.1/',
    'http://127.8.9.10/',
    'http://127.1/',
    'http://[::1]:8080/mcp',
  ])('lets %s pass', (address) => {
    expect(checkAddress(address, false).href).toBe(new URL(address).href);
  });

  it.each([
    'http://example.com/',
    'http://localhost.example.com/',
    'http://127.0.0.1.example.com/',
    'http://notlocalhost/',
    'http://10.0.0.1/',
    'http://[::2]/',
  ])('refuses plain http to %s unless it is allowed', (address) => {
    expect(() => checkAddress(address, false)).toThrow(/http\.allowInsecure/);
    expect(checkAddress(address, true).href).toBe(address);
  });

  it.each(['ftp://example.com/', 'file:///etc/passwd', 'ws://localhost/', 'javascript:0'])(
    'refuses %s',
    (address) => {
      expect(() => checkAddress(address, true)).toThrow(TypeError);
    },
  );

  it('never repeats what it refuses', () => {
    for (const address of [
      'https://user:hunter2@example.com/',
      'https://hunter2@example.com/',
      'no url hunter2',
    ]) {
      let message = '';
      try {
        checkAddress(address, true);
      } catch (error) {
        expect(error).toBeInstanceOf(TypeError);
        message = String(error);
      }
      expect(message).not.toBe('');
      expect(message).not.toContain('hunter2');
    }
  });

  it('returns a copy without the fragment', () => {
    const given = new URL('https://example.com/mcp?tenant=1#part');
    const checked = checkAddress(given, false);
    expect(checked.href).toBe('https://example.com/mcp?tenant=1');
    expect(given.hash).toBe('#part');
  });
});

it('tells loopback by name and by number', () => {
  expect(isLoopbackHost('localhost')).toBe(true);
  expect(isLoopbackHost('localhost.')).toBe(false);
  expect(isLoopbackHost('128.0.0.1')).toBe(false);
});
