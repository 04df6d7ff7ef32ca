/**
 * What can happen to a connection: each command is one event, of the agent, the server, the network, the token or time.
 *
 * `Book` is what a command may know before it runs.
 */
import fc from 'fast-check';
import { AUTOMATIC, type CallKind, type Scene, type Traits } from './scene.js';
import { REPLIES, type Reply } from './server.js';
import type { Purpose } from './wire.js';

/** The model's own account: enough to tell which command makes sense. */
export interface Book {
  calls: number;
  isClosed: boolean;
  network: 'up' | 'slow' | 'down';
}

type Step = fc.AsyncCommand<Book, Scene>;

function step(
  name: string,
  run: (scene: Scene, book: Book) => void | Promise<void>,
  mayRun: (book: Readonly<Book>) => boolean = () => true,
): Step {
  return {
    check: mayRun,
    async run(book, scene) {
      await run(scene, book);
      await scene.check();
    },
    toString: () => name,
  };
}

const pick = fc.nat({ max: 5 });
const at = <T>(list: readonly T[], index: number): T | undefined => list[index % Math.max(1, list.length)];
const replies = Object.keys(REPLIES) as Reply[];

const call = fc
  .record({
    kind: fc.constantFrom<CallKind>('tool', 'tool', 'tool', 'safe', 'read'),
    timeoutMs: fc.option(fc.constantFrom(500, 10_000, 60_000), { nil: undefined }),
    count: fc.constantFrom(1, 1, 1, 3),
  })
  .map(({ kind, timeoutMs, count }) =>
    step(`${count}x ${kind}${timeoutMs === undefined ? '' : ` within ${timeoutMs}`}`, (scene, book) => {
      for (let n = 0; n < count; n += 1) scene.call(kind, timeoutMs);
      book.calls += count;
    }),
  );

const cancel = fc
  .tuple(pick, fc.constantFrom('signal' as const, 'notification' as const))
  .map(([index, how]) =>
    step(
      `cancel ${index} by ${how}`,
      (scene) => {
        const tracked = at(scene.pending, index);
        if (tracked !== undefined) scene.cancel(tracked, how);
      },
      ({ calls, isClosed }) => calls > 0 && !isClosed,
    ),
  );

const answer = pick.map((index) =>
  step(`answer ${index}`, (scene) => {
    const exchange = at(scene.undecided, index);
    if (exchange !== undefined) scene.server.answer(exchange);
  }),
);

const answerAll = fc.constant(
  step('answer all', (scene) => {
    for (const exchange of scene.undecided) scene.server.answer(exchange);
  }),
);

const reply = fc.tuple(pick, fc.constantFrom(...replies), fc.boolean()).map(([index, how, runs]) =>
  step(`reply ${how}${runs ? ' and run' : ''} to ${index}`, async (scene) => {
    const exchange = at(scene.undecided, index);
    if (exchange === undefined) return;
    const { sessionId = '', id } = exchange;
    // Of what may go out once more, the next try may find something of its own.
    const isOnce = typeof id === 'number' && scene.calls.get(id)?.kind === 'tool';
    const isStale = isOnce && sessionId !== scene.current && [...scene.taken.values()].includes(sessionId);
    const before = scene.taken.size;
    scene.server.reply(exchange, how, runs);
    // Late news of a session that is gone changes nothing.
    if (!isStale || !how.startsWith('404')) return;
    await scene.clock.settle();
    if (scene.taken.size !== before) scene.violations.push('late news of an old session made a new one');
  }),
);

const cutStream = fc.tuple(pick, fc.boolean()).map(([index, cleanly]) =>
  step(`${cleanly ? 'end' : 'cut'} stream ${index}`, (scene) => {
    const stream = at(scene.streams, index);
    if (cleanly) stream?.end();
    else stream?.fail('network', 'ECONNRESET');
  }),
);

const onStream = fc
  .tuple(pick, fc.constantFrom('notification', 'question', 'cursor', 'comment', 'garbage'))
  .map(([index, what]) =>
    step(`${what} on stream ${index}`, (scene) => {
      const stream = at(scene.streams, index);
      if (stream === undefined) return;
      if (what === 'question') scene.ask(stream);
      else if (what === 'notification')
        stream.data('data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n');
      else if (what === 'cursor') stream.data('id: listen-1\ndata:\n\n');
      else stream.data(what === 'comment' ? ': alive\n\n' : 'data: {"jsonrpc\n\n');
    }),
  );

const respond = pick.map((index) => step(`the face responds to ${index}`, (scene) => scene.respond(index)));

const manual = fc.subarray([...AUTOMATIC]).map((purposes: Purpose[]) =>
  step(`by hand: ${purposes.join(', ')}`, (scene) => {
    scene.automatic = new Set(AUTOMATIC.filter((purpose) => !purposes.includes(purpose)));
  }),
);

const network = fc.constantFrom('up' as const, 'slow' as const, 'down' as const).map((state) =>
  step(
    `network ${state}`,
    (scene, book) => {
      book.network = state;
      scene.wire.network = state;
      if (state === 'up') scene.wire.connectAll();
      if (state === 'down') {
        for (const exchange of [...scene.wire.underWay])
          if (exchange.phase === 'waiting') exchange.fail('network', 'ECONNREFUSED');
      }
    },
    (book) => book.network !== state,
  ),
);

const connectOne = pick.map((index) =>
  step(
    `a socket for ${index}`,
    (scene) =>
      at(
        [...scene.wire.underWay].filter(({ phase }) => phase === 'waiting'),
        index,
      )?.leave(),
    ({ network: state }) => state === 'slow',
  ),
);

const rotate = fc.constantFrom('keeps', 'refuses').map((how) =>
  step(`a new token, the server ${how} the old one`, (scene) => {
    scene.credentials.rotate();
    if (how === 'refuses') scene.server.leastGeneration = scene.credentials.generation;
  }),
);

const expel = fc.constant(
  step('the server refuses the token', (scene) => {
    scene.server.leastGeneration = scene.credentials.generation + 1;
  }),
);

const renewals = fc.constantFrom('ready' as const, 'waits' as const, 'fails' as const).map((mode) =>
  step(`renewals: ${mode}`, (scene) => {
    scene.credentials.mode = mode;
  }),
);

const arrive = fc.constant(step('a token arrives', (scene) => scene.credentials.arrive()));

const restart = fc.constant(step('the server restarts', (scene) => scene.server.restart()));

const pass = fc
  .constantFrom(1, 100, 300, 1_000, 5_000, 16_000, 61_000, 310_000)
  .map((ms) => step(`${ms} ms pass`, (scene) => scene.clock.advance(ms)));

const notify = fc.constant(step('notify', (scene) => scene.notify()));

const rest = fc.constant(step('terminateSession', (scene) => void scene.connection.terminateSession()));

/** A server that cannot keep a session. */
const crashLoop = fc.constantFrom(2, 3, 6).map((times) =>
  step(`${times} restarts with a read after each`, async (scene, book) => {
    for (let n = 0; n < times; n += 1) {
      scene.server.restart();
      scene.call('read', undefined);
      book.calls += 1;
      await scene.clock.settle();
      for (const exchange of scene.undecided) scene.server.answer(exchange);
      await scene.clock.settle();
    }
  }),
);

const late = pick.map((index) => step(`a late run ${index}`, (scene) => scene.runLate(index)));

const close = fc.constantFrom('close' as const, 'close' as const, 'revoke' as const).map((how) =>
  step(how, (scene, book) => {
    book.isClosed = true;
    scene.close(how);
  }),
);

const revocation = fc
  .constantFrom('revoked' as const, 'unsupported' as const, 'hangs' as const, 'rejects' as const)
  .map((how) =>
    step(`revocation: ${how}`, (scene) => {
      scene.credentials.revocation = how;
    }),
  );

/** How often each is drawn, roughly: `close` ends most of what there is to see, so it is rare. */
const WEIGHED: readonly (readonly [number, fc.Arbitrary<Step>])[] = [
  [6, call],
  [2, cancel],
  [3, answer],
  [2, answerAll],
  [6, reply],
  [2, cutStream],
  [2, onStream],
  [1, respond],
  [2, manual],
  [2, network],
  [1, connectOne],
  [2, rotate],
  [1, expel],
  [1, renewals],
  [1, arrive],
  [1, restart],
  [1, crashLoop],
  [4, pass],
  [1, notify],
  [1, rest],
  [1, late],
  [1, revocation],
];

export const commandArbitraries: fc.Arbitrary<Step>[] = [
  ...WEIGHED.flatMap(([weight, arbitrary]) => new Array<fc.Arbitrary<Step>>(2 * weight).fill(arbitrary)),
  close,
];

export const traits: fc.Arbitrary<Traits> = fc.record({
  seed: fc.nat({ max: 0xffff }),
  stateful: fc.constantFrom(true, true, true, true, false),
  listens: fc.constantFrom(true, true, false),
  bound: fc.constantFrom(false as const, false as const, '401' as const, '404' as const),
  boundToToken: fc.constantFrom('detect' as const, 'detect' as const, true, false),
  probe: fc.constantFrom('ping' as const, 'ping' as const, 'off' as const),
  queuedCalls: fc.constantFrom('continue' as const, 'continue' as const, 'reject' as const),
  resendOn401: fc.constantFrom('once' as const, 'once' as const, 'never' as const),
  maxAttempts: fc.constantFrom(1, 2, 2, 3),
  idleTimeoutMs: fc.constantFrom(undefined, undefined, 20_000),
  tokenLifetimeMs: fc.constantFrom(undefined, undefined, 30_000),
  canRevoke: fc.boolean(),
});
