import { describe, expect, it } from 'vitest';
import { refusalInBand } from '../../../src/connection/discovery.js';
import type { ExchangeFacts } from '../../../src/connection/facts.js';

const facts = (part: Partial<ExchangeFacts>): ExchangeFacts => ({
  method: 'server/discover',
  expectsAnswer: true,
  sent: true,
  sessionSent: false,
  ...part,
});
const error = (code: number, id: string | null, data?: unknown) =>
  ({ jsonrpc: '2.0', id, error: { code, message: 'no', ...(data !== undefined && { data }) } }) as const;

describe('an answer to server/discover', () => {
  it.each([400, 404, 405, 406, 410, 415, 422])('status %d: a server of before', (status) => {
    expect(refusalInBand(facts({ status, text: '<html>' }), 'probe')).toMatchObject({
      id: 'probe',
      error: { code: -32019 },
    });
  });

  it.each([401, 403, 407, 408, 425, 429, 500, 502, 503, 504, 302, 307])(
    'status %d: no evidence',
    (status) => {
      expect(refusalInBand(facts({ status }), 'probe')).toBeUndefined();
      const message = error(-32601, 'probe');
      expect(refusalInBand(facts({ status, message, relation: 'own' }), 'probe')).toBeUndefined();
    },
  );

  it('no answer: no evidence', () => {
    for (const sent of [true, false]) {
      const failure = { sent, phase: 'head', kind: 'network' } as const;
      expect(refusalInBand(facts({ failure, status: 404 }), 'probe')).toBeUndefined();
    }
  });

  it('the server’s own errors pass as they are', () => {
    for (const status of [200, 400, 404]) {
      const message = error(-32601, 'probe');
      expect(refusalInBand(facts({ status, message, relation: 'own' }), 'probe')).toEqual(message);
    }
  });

  it('the versions it speaks pass under whatever id', () => {
    const message = error(-32022, null, { supported: ['2026-07-28'] });
    expect(refusalInBand(facts({ status: 400, message, relation: 'none' }), 'probe')).toEqual({
      ...message,
      id: 'probe',
    });
  });

  it('a session layer’s errors say: a server of before', () => {
    const message = error(-32001, null);
    expect(refusalInBand(facts({ status: 404, message, relation: 'none' }), 'probe')).toMatchObject({
      id: 'probe',
      error: { code: -32019 },
    });
  });

  it('a result, and what is no JSON-RPC under 200, are judged as any other answer', () => {
    const message = { jsonrpc: '2.0', id: 'probe', result: {} } as const;
    expect(refusalInBand(facts({ status: 200, message, relation: 'own' }), 'probe')).toBeUndefined();
    expect(refusalInBand(facts({ status: 200, text: '<html>' }), 'probe')).toBeUndefined();
  });
});
