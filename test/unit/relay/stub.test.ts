import { describe, expect, it } from 'vitest';
import { toStub } from '../../../src/relay/index.js';
import { checkStub } from '../../../src/relay/stub.js';

const entry = {
  command: '/opt/canary-command',
  args: ['--browser', 'canary-argument'],
  env: { API_KEY: 'sk-canary-secret', PLAIN: 'canaryplain' },
  cwd: '/canary-folder',
};

describe('toStub', () => {
  it('has a name and a route, and nothing else of the entry', () => {
    const stub = toStub(entry, { name: 'browser', route: 'sandbox-7/browser' });
    expect(stub).toEqual({ type: 'relay', name: 'browser', route: 'sandbox-7/browser' });
    expect(JSON.stringify(stub)).not.toContain('canary');
    expect(Reflect.ownKeys(stub)).toEqual(['type', 'name', 'route']);
    expect(Object.isFrozen(stub)).toBe(true);
    expect(checkStub(JSON.parse(JSON.stringify(stub)))).toEqual(stub);
  });

  it.each<[string, object, object]>([
    ['a name that no error may hold', entry, { name: 'a b', route: 'r' }],
    ['no name', entry, { route: 'r' }],
    ['no route', entry, { name: 'n', route: '' }],
    ['a placeholder', entry, { name: 'n', route: `\${HOST}` }],
    ['a secret of its variables', entry, { name: 'n', route: 'http://127.0.0.1/?key=sk-canary-secret' }],
    [
      'a secret of its arguments',
      { command: 'x', args: ['--token', 'canary-token'] },
      { name: 'n', route: 'canary-token' },
    ],
    [
      'a token',
      { url: 'https://x.example', auth: { token: 'canary-token' } },
      { name: 'canary-token', route: 'r' },
    ],
    [
      'a header',
      { url: 'https://x.example', headers: { 'x-key': 'canary-key' } },
      { name: 'n', route: 'canary-key' },
    ],
    ['an entry that is none', { command: 'x', url: 'https://x.example' }, { name: 'n', route: 'r' }],
  ])('refuses %s', (_, given, how) => {
    expect(() => toStub(given as never, how as never)).toThrow(TypeError);
    try {
      toStub(given as never, how as never);
    } catch (error) {
      expect((error as Error).message).not.toContain('canary');
    }
  });

  it('what is read back has no more than a stub has', () => {
    expect(() => checkStub({ name: 'n', route: 'r', command: 'x' })).toThrow(TypeError);
    expect(() => checkStub({ name: 'n', route: 'r', type: 'http' })).toThrow(TypeError);
    expect(() => checkStub('r')).toThrow(TypeError);
  });
});
