import { describe, expect, it } from 'vitest';
import { LOOPBACK_DEFAULTS, type LoopbackOptions, loopbackRedirect } from '../../../src/loopback/index.js';
import { resolveLoopbackOptions } from '../../../src/loopback/options.js';
import { errorOf, heldServers } from './support.js';

it('defaults: a port of the system, /callback, five minutes', () => {
  expect(resolveLoopbackOptions(undefined)).toMatchObject({ ...LOOPBACK_DEFAULTS, open: undefined });
  expect(LOOPBACK_DEFAULTS).toEqual({ port: 0, path: '/callback', timeoutMs: 300_000 });
  expect(resolveLoopbackOptions({ port: undefined, timeoutMs: undefined, signal: undefined })).toMatchObject(
    LOOPBACK_DEFAULTS,
  );
});

it.each(['/', '/callback', '/oauth2/back.html', '/a-b_c~d/', `/${'a'.repeat(199)}`])(
  'the path %s is taken as it is',
  (path) => {
    expect(resolveLoopbackOptions({ path }).path).toBe(path);
  },
);

describe('a TypeError names the option', () => {
  it.each([
    ['path', ''],
    ['path', 'callback'],
    ['path', '//evil.example'],
    ['path', '/a//b'],
    ['path', '/a/../b'],
    ['path', '/.'],
    ['path', '/callback?x=1'],
    ['path', '/callback#x'],
    ['path', '/call back'],
    ['path', '/caf\u00e9'],
    ['path', '/%63allback'],
    ['path', '/a\\b'],
    ['path', '/callback\n'],
    ['path', `/${'a'.repeat(200)}`],
    ['path', 7],
    ['path', null],
    ['port', -1],
    ['port', 65_536],
    ['port', 8080.5],
    ['port', '8080'],
    ['port', Number.NaN],
    ['timeoutMs', 0],
    ['timeoutMs', -1],
    ['timeoutMs', Number.POSITIVE_INFINITY],
    ['timeoutMs', '300'],
    ['open', 'firefox'],
    ['open', null],
    ['signal', {}],
    ['signal', null],
    ['clock', {}],
    ['clock', null],
    ['host', '0.0.0.0'],
  ])('%s: %j', async (name, value) => {
    const before = await heldServers();
    const error = await errorOf(loopbackRedirect({ [name]: value } as LoopbackOptions));
    expect(error).toBeInstanceOf(TypeError);
    expect(error.message).toMatch(new RegExp(`^${name} `));
    expect(await heldServers()).toBe(before);
  });

  it.each([null, 'x', 7, []])('%j is no group of options', async (options) => {
    expect(await errorOf(loopbackRedirect(options as unknown as LoopbackOptions))).toBeInstanceOf(TypeError);
  });
});
