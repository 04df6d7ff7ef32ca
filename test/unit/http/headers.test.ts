import { describe, expect, it } from 'vitest';
import { CookieJar, HeaderCheck } from '../../../src/http/headers.js';

const findUnusableHeader = (headers: Record<string, string>) => new HeaderCheck().findUnusable(headers);

describe('what is unusable in headers', () => {
  it('lets visible ASCII, tabs and latin1 pass', () => {
    expect(
      findUnusableHeader({
        authorization: 'Bearer abc',
        'last-event-id': 'ev-\xe2\x9c\x93',
        'x-tab': 'a\tb',
      }),
    ).toBe(undefined);
  });

  it.each(['a\rb', 'a\nb', 'a\0b', 'a\x7fb', 'ev-✓', 'a\r\nx-injected: 1'])(
    'names the header and not its value: %o',
    (value) => {
      const found = findUnusableHeader({ fine: '1', 'last-event-id': value });
      expect(found).toContain('last-event-id');
      expect(found).not.toContain(value);
    },
  );

  it('refuses names that are no tokens', () => {
    expect(findUnusableHeader({ 'a b': '1' })).toBeDefined();
    expect(findUnusableHeader({ 'a\r\nb': '1' })).not.toContain('\n');
    expect(findUnusableHeader({ '': '1' })).toBeDefined();
  });

  it('is found under a name that was good before, and after any number of names', () => {
    const check = new HeaderCheck();
    expect(check.findUnusable({ a: '1' })).toBeUndefined();
    expect(check.findUnusable({ a: '1\n' })).toContain('header a');
    expect(check.findUnusable({ a: '1' })).toBeUndefined();
    for (let name = 0; name < 1_000; name += 1) check.findUnusable({ [`n${name}`]: '1' });
    expect(check.findUnusable({ n999: '\0' })).toContain('n999');
    expect(check.findUnusable({ n1: '\0' })).toContain('n1');
  });
});

describe('CookieJar', () => {
  const secure = new URL('https://mcp.test/api/mcp');
  const plain = new URL('http://mcp.test/api/mcp');
  const jarWith = (...lines: string[]) => {
    const clock = { at: 1_000_000, now: () => clock.at };
    const jar = new CookieJar(clock);
    for (const line of lines) jar.store({ status: 200, headers: { 'set-cookie': line } });
    return { jar, clock };
  };

  it('sends back what was set, newest value of each name', () => {
    const { jar } = jarWith('AWSALB=one; Path=/', 'route=b', 'AWSALB=two=2; Path=/');
    expect(jar.header(secure)).toBe('route=b; AWSALB=two=2');
    expect(jarWith().jar.header(secure)).toBe(undefined);
  });

  it('reads several headers at once', () => {
    const { jar } = jarWith();
    jar.store({ status: 200, headers: { 'set-cookie': ['a=1', 'b=2'] } });
    expect(jar.header(secure)).toBe('a=1; b=2');
  });

  it('honours Path and Secure', () => {
    const { jar } = jarWith('a=1; Path=/api', 'b=2; Path=/ap', 'c=3; Secure', 'd=4; Path=/api/');
    expect(jar.header(secure)).toBe('a=1; c=3; d=4');
    expect(jar.header(plain)).toBe('a=1; d=4');
    expect(jar.header(new URL('https://mcp.test/api'))).toBe('a=1; c=3');
  });

  it('deletes on Max-Age=0 and on a date in the past, and forgets what has expired', () => {
    const { jar, clock } = jarWith(
      'a=1',
      'b=2',
      'c=3; Max-Age=60',
      'a=; Max-Age=0',
      'b=; Expires=Thu, 01 Jan 1970 00:00:00 GMT',
    );
    expect(jar.header(secure)).toBe('c=3');
    clock.at += 60_000;
    expect(jar.header(secure)).toBe(undefined);
  });

  it('is bounded and takes nothing that could not be sent back', () => {
    const { jar } = jarWith(
      ...Array.from({ length: 30 }, (_, i) => `c${i}=${i}`),
      `big=${'x'.repeat(4096)}`,
      'evil=a\r\nx-injected: 1',
      'utf=✓',
      '=nameless',
      'no-equals-sign',
    );
    expect(jar.header(secure)?.split('; ')).toEqual(
      Array.from({ length: 20 }, (_, i) => `c${i + 10}=${i + 10}`),
    );
  });
});
