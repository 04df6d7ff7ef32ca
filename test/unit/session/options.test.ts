import { describe, expect, it } from 'vitest';
import { resolveSessionOptions, resultOf, SESSION_DEFAULTS } from '../../../src/session/options.js';

describe('resolveSessionOptions', () => {
  it('has the documented defaults', () => {
    expect(resolveSessionOptions(undefined)).toEqual({
      onEstablished: undefined,
      setupTimeoutMs: 15_000,
      probe: 'ping',
      boundToToken: 'detect',
      queuedCalls: 'continue',
      graceMs: 5_000,
      idleTimeoutMs: undefined,
      isLost: undefined,
      restore: true,
    });
    expect(Object.isFrozen(SESSION_DEFAULTS)).toBe(true);
  });

  it('takes what it is given, 0 and false included, and changes nothing of it', () => {
    const given = Object.freeze({
      graceMs: 0,
      restore: false,
      boundToToken: false,
      probe: 'off' as const,
      queuedCalls: 'reject' as const,
      idleTimeoutMs: 1,
      setupTimeoutMs: undefined,
    });

    expect(resolveSessionOptions(given)).toMatchObject({ ...given, setupTimeoutMs: 15_000 });
  });

  it.each([
    [{ onEstablished: true }, 'session.onEstablished'],
    [{ isLost: 'yes' }, 'session.isLost'],
    [{ setupTimeoutMs: -1 }, 'session.setupTimeoutMs'],
    [{ graceMs: Number.NaN }, 'session.graceMs'],
    [{ graceMs: '5s' }, 'session.graceMs'],
    [{ idleTimeoutMs: 0 }, 'session.idleTimeoutMs'],
    [{ probe: 'pong' }, 'session.probe'],
    [{ boundToToken: 'yes' }, 'session.boundToToken'],
    [{ queuedCalls: 'drop' }, 'session.queuedCalls'],
    [{ restore: 1 }, 'session.restore'],
    [{ idleTimeout: 1000 }, 'session.idleTimeout'],
    ['fast', 'session'],
  ])('refuses %j by name', (given, name) => {
    expect(() => resolveSessionOptions(given as never)).toThrow(TypeError);
    expect(() => resolveSessionOptions(given as never)).toThrow(name);
  });
});

describe('resultOf', () => {
  it('gives the result of an answer, and nothing of an error', () => {
    expect(resultOf({ jsonrpc: '2.0', id: 1, result: { a: 1 } })).toEqual({ a: 1 });
    expect(resultOf({ jsonrpc: '2.0', id: 1, error: { code: 1, message: '' } })).toBeUndefined();
  });
});
