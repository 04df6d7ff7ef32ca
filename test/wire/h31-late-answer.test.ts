import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, it } from 'vitest';
import { HostedTransport, type HostedTransportOptions } from '../../src/index.js';
import type { ToolDefinition } from '../../src/testing/index.js';
import { call, connectOver, SDKS, type StockClient, stockClient } from './stock.js';
import { closeLater, connect, echo, failureOf, machine, type Scene, startServer } from './support.js';

/** Asks a person, and gives back what was said. */
const ASK: ToolDefinition = {
  name: 'ask',
  handler: async (args, context) => {
    const answer = await context.request('elicitation/create', {
      message: String(args.question),
      requestedSchema: { type: 'object', properties: { word: { type: 'string' } } },
    });
    return JSON.stringify(answer);
  },
};
const ECHO: ToolDefinition = { name: 'echo', handler: (args) => String(args.text) };
const TOOLS = [ASK, ECHO];

interface Person {
  /** The next question that is put to the person. */
  next(): Promise<{ question: string; answer(word: string): void }>;
  handler(request: { params: { message: string } }): Promise<{ action: 'accept'; content: { word: string } }>;
}

function person(): Person {
  const asked: { question: string; answer(word: string): void }[] = [];
  const waiting: ((question: { question: string; answer(word: string): void }) => void)[] = [];
  return {
    next: () =>
      new Promise((resolve) => {
        const question = asked.shift();
        if (question === undefined) waiting.push(resolve);
        else resolve(question);
      }),
    handler: ({ params }) =>
      new Promise((resolve) => {
        const question = {
          question: params.message,
          answer: (word: string) => resolve({ action: 'accept', content: { word } }),
        };
        const waiter = waiting.shift();
        if (waiter === undefined) asked.push(question);
        else waiter(question);
      }),
  };
}

/** POSTs that carry an answer of ours, with the session they went to. */
const answersAt = ({ server }: Scene) =>
  server.log
    .filter((entry) => entry.http === 'POST' && entry.path === '/mcp' && entry.rpcMethod === undefined)
    .map((entry) => entry.sessionLabel);

const ask = (client: StockClient, callId: string) => call(client, callId, 'ask', { question: callId });
const said = (word: string) => ({
  content: [{ type: 'text', text: JSON.stringify({ action: 'accept', content: { word } }) }],
});

describe('H31 a person answers the question of a session that is gone', () => {
  it('under HostedClient: the late answer reaches nobody, the second question gets its own', async () => {
    const scene = await startServer({ tools: TOOLS });
    const { server, clock } = scene;
    const somebody = person();
    const client = await connect(scene, { capabilities: { elicitation: {} } });
    client.setRequestHandler(ElicitRequestSchema, somebody.handler);
    const first = failureOf(ask(client as StockClient, 'first'));
    const late = await somebody.next();

    server.dropSessions();
    await failureOf(echo(client, 'lost'));
    const second = ask(client as StockClient, 'second');
    const current = await somebody.next();
    late.answer('late');
    await clock.settle();
    const before = answersAt(scene);
    current.answer('mine');

    expect(await second).toMatchObject(said('mine'));
    expect(before).toEqual([]);
    expect(answersAt(scene)).toEqual(['session#2']);
    await clock.advance(5_000);
    expect(await first).toMatchObject({ code: 'ERR_SESSION_LOST', executed: 'unknown' });
    expect(server.counts.executionsById).toEqual({ first: 1, second: 1 });
  });

  for (const sdk of SDKS) {
    it(`under the stock ${sdk} Client: the same`, async () => {
      const scene = await startServer({ tools: TOOLS, sessionLostStatus: 400 });
      const { server, clock } = scene;
      const somebody = person();
      const client = stockClient(sdk, { elicitation: {} });
      if (sdk === 'v1')
        (client as never as V1Handlers).setRequestHandler(ElicitRequestSchema, somebody.handler);
      else (client as never as V2Handlers).setRequestHandler('elicitation/create', somebody.handler);
      await connectOver(scene, client);
      const stock = client as StockClient;
      const first = failureOf(ask(stock, 'first'));
      const late = await somebody.next();

      server.dropSessions();
      await failureOf(call(stock, 'lost'));
      const second = ask(stock, 'second');
      const current = await somebody.next();
      late.answer('late');
      await clock.settle();
      expect(answersAt(scene)).toEqual([]);
      current.answer('mine');

      expect(await second).toMatchObject(said('mine'));
      expect(answersAt(scene)).toEqual(['session#2']);
      await clock.advance(5_000);
      await first;
      expect(server.counts.executionsById).toEqual({ first: 1, second: 1 });
    });
  }

  it('a face that answers although the question was withdrawn: still nobody hears it', async () => {
    const scene = await startServer({ tools: TOOLS });
    const { server, clock } = scene;
    const face = await bareFace(scene);
    face.open();
    await face.answered('initialize');
    face.request('first', 'ask', { question: 'first' });
    const first = await face.heard('elicitation/create', 1);
    server.dropSessions();
    face.request('lost', 'echo', { text: 'x' });
    await face.heard('notifications/cancelled', 1);
    face.request('second', 'ask', { question: 'second' });
    const second = await face.heard('elicitation/create', 2);

    await face.answer(first.id, 'late');
    await face.answer(first.id, 'later still');
    expect(answersAt(scene)).toEqual([]);
    await face.answer(second.id, 'mine');

    expect((await face.answered('second')).result).toMatchObject(said('mine'));
    expect(first.id).not.toBe(second.id);
    expect(answersAt(scene)).toEqual(['session#2']);
    await clock.advance(5_000);
  });

  it('a question of a set-up that failed is withdrawn, and not answered in the session of the next one', async () => {
    const scene = await startServer({ tools: TOOLS });
    let setUps = 0;
    let outcome: unknown;
    const face = await bareFace(scene, {
      session: {
        onEstablished: async (setup) => {
          setUps += 1;
          const asked = setup.callTool({ name: 'ask', arguments: { question: `set-up ${setUps}` } });
          if (setUps > 1) {
            outcome = await asked;
            return;
          }
          asked.catch(() => {});
          await face.heard('elicitation/create', 1);
          throw new Error('the set-up changes its mind');
        },
      },
    });
    face.open();
    const first = await face.heard('elicitation/create', 1);
    const second = await face.heard('elicitation/create', 2);

    await face.answer(first.id, 'late');
    await scene.clock.settle();
    const before = { outcome, answers: answersAt(scene) };
    await face.answer(second.id, 'mine');
    await face.answered('initialize');

    expect(before).toEqual({ outcome: undefined, answers: [] });
    expect(outcome).toMatchObject(said('mine'));
    expect(answersAt(scene)).toEqual(['session#2']);
    const withdrawn = await face.heard('notifications/cancelled', 1);
    expect(withdrawn.params).toMatchObject({ requestId: first.id });
  });

  it('after a change of token both questions live: each answer goes to its own session', async () => {
    const scene = await startServer({ tools: TOOLS, bindSession: 'token' });
    const { server, clock } = scene;
    const somebody = person();
    const client = await connect(scene, { capabilities: { elicitation: {} }, streams: { listen: false } });
    client.setRequestHandler(ElicitRequestSchema, somebody.handler);
    const first = ask(client as StockClient, 'first');
    const question1 = await somebody.next();
    await clock.advance(46_000);
    const second = ask(client as StockClient, 'second');
    const question2 = await somebody.next();
    expect(server.counts.initializes).toBe(2);

    question2.answer('two');
    expect(await second).toMatchObject(said('two'));
    question1.answer('one');

    expect(await first).toMatchObject(said('one'));
    expect(answersAt(scene)).toEqual(['session#2', 'session#1']);
    expect(server.counts.executionsById).toEqual({ first: 1, second: 1 });
  });
});

interface V1Handlers {
  setRequestHandler(schema: typeof ElicitRequestSchema, handler: Person['handler']): void;
}
interface V2Handlers {
  setRequestHandler(method: string, handler: Person['handler']): void;
}

interface Message {
  id?: unknown;
  method?: string;
  params?: unknown;
  result?: unknown;
}

interface BareFace {
  open(): void;
  request(id: string, name: string, args: object): void;
  answer(id: unknown, word: string): Promise<void>;
  /** The nth message of this method, once it is there. */
  heard(method: string, nth: number): Promise<Message>;
  answered(id: string): Promise<Message>;
}

/** A Client of the barest sort: it hears everything, and answers whatever it likes. */
async function bareFace(scene: Scene, options: HostedTransportOptions = {}): Promise<BareFace> {
  const transport = new HostedTransport(scene.server.url, {
    credentials: machine(scene),
    clock: scene.clock,
    streams: { listen: false },
    ...options,
  });
  closeLater(() => transport.connection.close());
  const messages: Message[] = [];
  const tell = new Set<() => void>();
  transport.onmessage = (message: Message) => {
    messages.push(message);
    for (const each of tell) each();
    tell.clear();
  };
  await transport.start();
  const find = async (nth: number, match: (message: Message) => boolean): Promise<Message> => {
    for (;;) {
      const found = messages.filter(match)[nth - 1];
      if (found !== undefined) return found;
      await new Promise<void>((resolve) => tell.add(resolve));
    }
  };
  const send = (message: object) => transport.send({ jsonrpc: '2.0', ...message }).catch(() => {});
  const params = {
    protocolVersion: '2025-11-25',
    capabilities: { elicitation: {} },
    clientInfo: { name: 'bare', version: '1.0.0' },
  };
  return {
    open: () => void send({ id: 'initialize', method: 'initialize', params }),
    request: (id, name, args) => void send({ id, method: 'tools/call', params: { name, arguments: args } }),
    answer: (id, word) => send({ id, result: { action: 'accept', content: { word } } }),
    heard: (method, nth) => find(nth, (message) => message.method === method),
    answered: (id) => find(1, (message) => message.id === id && message.method === undefined),
  };
}
