import { beforeEach, describe, expect, it } from 'vitest';
import type { JsonRpcMessage, JsonRpcResponse } from '../../../src/json-rpc.js';
import { ServerRequests } from '../../../src/session/server-requests.js';
import type { Session } from '../../../src/session/session.js';

const session = (number: number) => ({ number, phase: 'current' }) as Session;
const ask = (id: string | number): JsonRpcMessage => ({ jsonrpc: '2.0', id, method: 'elicitation/create' });
const accept = (id: string | number): JsonRpcResponse => ({
  jsonrpc: '2.0',
  id,
  result: { action: 'accept' },
});
const cancel = (requestId: unknown): JsonRpcMessage => ({
  jsonrpc: '2.0',
  method: 'notifications/cancelled',
  params: { requestId },
});
const idOf = (message: JsonRpcMessage) => ('id' in message ? (message.id ?? '') : '');

let requests: ServerRequests;
let first: Session;
let second: Session;

beforeEach(() => {
  requests = new ServerRequests();
  first = session(1);
  second = session(2);
});

describe('ServerRequests', () => {
  it('an answer goes to the session that asked, under the server’s own id', () => {
    const seen = requests.incoming(ask(0), first);

    expect(idOf(seen)).not.toBe(0);
    expect(requests.outgoing(accept(idOf(seen)))).toEqual({ session: first, message: accept(0) });
  });

  it('the same id on two sessions is two questions', () => {
    const [one, two] = [requests.incoming(ask(0), first), requests.incoming(ask(0), second)];

    expect(requests.outgoing(accept(idOf(two)))?.session).toBe(second);
    expect(requests.outgoing(accept(idOf(one)))?.session).toBe(first);
  });

  it('0 and "0" are two questions', () => {
    const [number, text] = [requests.incoming(ask(0), first), requests.incoming(ask('0'), first)];

    expect(requests.outgoing(accept(idOf(text)))?.message.id).toBe('0');
    expect(requests.outgoing(accept(idOf(number)))?.message.id).toBe(0);
  });

  it('answers once: a second answer, or one to nothing, goes nowhere', () => {
    const id = idOf(requests.incoming(ask(5), first));
    requests.outgoing(accept(id));

    expect(requests.outgoing(accept(id))).toBeUndefined();
    expect(requests.outgoing(accept(5))).toBeUndefined();
    expect(requests.outgoing(accept('1:99'))).toBeUndefined();
  });

  it('a person’s late answer reaches nobody once the session is gone', () => {
    const id = idOf(requests.incoming(ask(0), first));
    requests.incoming(ask(0), second);
    first.phase = 'ended';

    expect(requests.outgoing(accept(id))).toBeUndefined();
  });

  it('a session that is being retired still gets its answer', () => {
    const id = idOf(requests.incoming(ask(0), first));
    first.phase = 'retired';

    expect(requests.outgoing(accept(id))?.session).toBe(first);
  });

  it('the server’s cancellation names the rewritten id', () => {
    const id = idOf(requests.incoming(ask(0), first));

    expect(requests.incoming(cancel(0), first)).toMatchObject({ params: { requestId: id } });
    expect(requests.outgoing(accept(id))).toBeUndefined();
  });

  it('a cancellation of another session, or of nothing, touches no question', () => {
    const id = idOf(requests.incoming(ask(0), first));

    for (const message of [cancel(0), cancel(1), cancel(null)])
      expect(requests.incoming(message, second)).toBe(message);

    expect(requests.outgoing(accept(id))?.session).toBe(first);
  });

  it('withdraws the questions of a lost session, each once', () => {
    const ids = [idOf(requests.incoming(ask(0), first)), idOf(requests.incoming(ask(1), first))];
    const kept = idOf(requests.incoming(ask(0), second));

    const notices = requests.withdraw(first);

    expect(notices.map((notice) => notice.params?.requestId)).toEqual(ids);
    expect(requests.withdraw(first)).toEqual([]);
    expect(requests.outgoing(accept(kept))?.session).toBe(second);
  });

  it('leaves answers and notifications as they are', () => {
    const notice: JsonRpcMessage = { jsonrpc: '2.0', method: 'notifications/message', params: {} };

    expect(requests.incoming(notice, first)).toBe(notice);
    expect(requests.incoming(accept(1), first)).toEqual(accept(1));
  });

  it('forgets the oldest of more than a thousand', () => {
    const ids = Array.from({ length: 1_001 }, (_, id) => idOf(requests.incoming(ask(id), first)));

    expect(requests.outgoing(accept(ids[0] ?? ''))).toBeUndefined();
    expect(requests.outgoing(accept(ids[1] ?? ''))?.message.id).toBe(1);
    expect(requests.outgoing(accept(ids[1_000] ?? ''))?.message.id).toBe(1_000);
  });
});
