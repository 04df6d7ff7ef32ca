import { describe, expect, it } from 'vitest';
import { missingCapability } from '../../src/required-capability.js';

describe('missingCapability', () => {
  it.each([
    ['tools/call', {}, 'tools'],
    ['tools/call', { tools: {} }, undefined],
    ['tools/list', undefined, 'tools'],
    ['prompts/get', { tools: {} }, 'prompts'],
    ['resources/read', { resources: {} }, undefined],
    ['resources/subscribe', { resources: {} }, 'resources.subscribe'],
    ['resources/subscribe', { resources: { subscribe: false } }, 'resources.subscribe'],
    ['resources/subscribe', { resources: { subscribe: true } }, undefined],
    ['resources/subscribe', {}, 'resources.subscribe'],
    ['completion/complete', { completions: {} }, undefined],
    ['logging/setLevel', {}, 'logging'],
    ['ping', {}, undefined],
    ['initialize', undefined, undefined],
    ['vendor/method', {}, undefined],
    ['toString', {}, undefined],
  ])('%s under %j lacks %s', (method, capabilities, expected) => {
    expect(missingCapability(method, capabilities)).toBe(expected);
  });
});
