import { describe, expect, it } from 'vitest';
import {
  isErrorResponse,
  isNotification,
  isRequest,
  isRequestId,
  isResponse,
  isResult,
  toolOf,
} from '../../src/json-rpc.js';

const GUARDS = { isRequest, isNotification, isResult, isErrorResponse, isResponse };
const error = { code: -32000, message: 'no' };

describe('the guards', () => {
  it.each<[string, unknown, (keyof typeof GUARDS)[]]>([
    ['a request', { jsonrpc: '2.0', id: 0, method: 'ping' }, ['isRequest']],
    ['a request with a text id', { id: '', method: 'ping' }, ['isRequest']],
    ['a notification', { jsonrpc: '2.0', method: 'x' }, ['isNotification']],
    ['a result', { id: 1, result: {} }, ['isResult', 'isResponse']],
    ['an error', { id: 1, error }, ['isErrorResponse', 'isResponse']],
    ['an error with id null', { id: null, error }, ['isErrorResponse', 'isResponse']],
    ['an error without id', { error }, ['isErrorResponse', 'isResponse']],
    ['a request with id null', { id: null, method: 'ping' }, []],
    ['a request whose id is no number', { id: Number.NaN, method: 'ping' }, []],
    ['a request whose id is an object', { id: {}, method: 'ping' }, []],
    ['a result that is a text', { id: 1, result: 'x' }, []],
    ['a result that is a list', { id: 1, result: [] }, []],
    ['a result without id', { result: {} }, []],
    ['an error that is a text', { id: 1, error: 'no' }, []],
    ['an error whose code is a text', { id: 1, error: { code: '-32000', message: '' } }, []],
    ['a method that is no text', { id: 1, method: 7 }, []],
    ['null', null, []],
    ['a text', 'ping', []],
    ['a list', [{ id: 1, method: 'ping' }], []],
    [
      'an id that is only inherited',
      Object.assign(Object.create({ id: 1 }), { method: 'x' }),
      ['isNotification'],
    ],
    ['a result that is only inherited', Object.assign(Object.create({ result: {} }), { id: 1 }), []],
  ])('%s', (_name, value, expected) => {
    const true_ = Object.entries(GUARDS).filter(([, guard]) => guard(value));

    expect(true_.map(([name]) => name)).toEqual(expected);
  });

  it('ids are texts and finite numbers', () => {
    const ids = [0, -1, 1.5, '', 'a', Number.NaN, Number.POSITIVE_INFINITY, null, undefined, {}, true];

    expect(ids.filter(isRequestId)).toEqual([0, -1, 1.5, '', 'a']);
  });
});

describe('toolOf', () => {
  it('is the name of a tools/call', () => {
    expect(toolOf({ method: 'tools/call', params: { name: 'pay' } })).toBe('pay');
    expect(toolOf({ method: 'tools/call', params: { name: 7 } })).toBeUndefined();
    expect(toolOf({ method: 'tools/call' })).toBeUndefined();
    expect(toolOf({ method: 'prompts/get', params: { name: 'pay' } })).toBeUndefined();
  });
});
