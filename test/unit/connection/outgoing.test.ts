import { describe, expect, it } from 'vitest';
import { answeredAs, isStateless, reissued, routeOf, versionOf } from '../../../src/connection/outgoing.js';
import type { StreamFacts } from '../../../src/connection/route.js';
import type { JsonRpcRequest } from '../../../src/json-rpc.js';

const META = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' };
const request = (method: string, params: Record<string, unknown>): JsonRpcRequest => ({
  jsonrpc: '2.0',
  id: 1,
  method,
  params: { ...params, _meta: META },
});

describe('headers made from a request', () => {
  it.each([
    ['tools/call', { name: 'echo' }, 'echo'],
    ['prompts/get', { name: 'greet' }, 'greet'],
    ['resources/read', { uri: 'memo://welcome' }, 'memo://welcome'],
    ['tasks/get', { taskId: 't-1' }, 't-1'],
    ['tools/list', { name: 'no' }, undefined],
    ['constructor', { name: 'no' }, undefined],
    ['tools/call', { name: 7 }, undefined],
  ])('%s %j: Mcp-Name %s', (method, params, name) => {
    const { protocolVersion, headers } = routeOf(request(method, params), undefined);
    expect(protocolVersion).toBe('2026-07-28');
    expect(headers).toEqual({ 'mcp-method': method, ...(name !== undefined && { 'mcp-name': name }) });
  });

  // The table of the specification, transports, "Value Encoding".
  it.each([
    ['us-west1', 'us-west1'],
    ['two words', 'two words'],
    ['Hello, 世界', '=?base64?SGVsbG8sIOS4lueVjA==?='],
    [' padded ', '=?base64?IHBhZGRlZCA=?='],
    ['line1\nline2', '=?base64?bGluZTEKbGluZTI=?='],
    ['=?base64?literal?=', '=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?='],
    ['', '=?base64??='],
  ])('the name %j travels as %s', (name, value) => {
    expect(routeOf(request('tools/call', { name }), undefined).headers?.['mcp-name']).toBe(value);
  });

  it('are none where the request says no version', () => {
    const plain: JsonRpcRequest = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'echo' } };
    expect(routeOf(plain, undefined)).toEqual({ headers: {} });
    expect(versionOf({ ...plain, params: { _meta: 'text' } })).toBeUndefined();
    expect(versionOf({ ...plain, params: { _meta: Object.create(META) } })).toBeUndefined();
  });

  it('take what a caller adds, in lower case, save for what the engine answers for', () => {
    const given = { 'Mcp-Param-Region': 'eu', AUTHORIZATION: 'x', 'Mcp-Name': 'x', DPoP: 'x' };
    expect(routeOf(request('tools/list', {}), given).headers).toEqual({
      'mcp-method': 'tools/list',
      'mcp-param-region': 'eu',
    });
  });
});

describe('ids', () => {
  it('what goes out again has another one; its answer comes under the first', () => {
    const again = reissued(request('tools/list', {}), 1);
    expect(again.id).not.toBe(1);
    const message = { jsonrpc: '2.0', id: again.id, result: {} } as const;
    const facts = { message, relation: 'own' } as unknown as StreamFacts;
    expect(answeredAs(facts, 1).message?.id).toBe(1);
    const foreign = { message, relation: 'foreign' } as unknown as StreamFacts;
    expect(answeredAs(foreign, 1)).toBe(foreign);
  });
});

it.each([
  ['2024-11-05', false],
  ['2025-11-25', false],
  ['2026-07-28', true],
  ['2027-01-01', true],
])('%s is of the later era: %s', (version, later) => {
  expect(isStateless(version)).toBe(later);
});
