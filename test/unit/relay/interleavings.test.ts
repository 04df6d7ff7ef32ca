/**
 * Answers, crashes and new processes in a thousand random orders: no answer ever reaches another request.
 */
import { expect, it } from 'vitest';
import { HostedMcpError } from '../../../src/index.js';
import { isResult, type JsonRpcRequest } from '../../../src/json-rpc.js';
import { GENERATION, split } from '../../../src/relay/messages.js';
import { manualClock } from '../../../src/testing/index.js';
import { type FakeChild, fakeSupervisor, outcome, textOf, toolCall, turns } from './support.js';

const SEEDS = 1_000;
const STEPS = 40;

/** Marsaglia's xorshift32. */
function generator(seed: number): (below: number) => number {
  let state = seed * 2_654_435_761 + 1;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
}

interface Count {
  answered: number;
  unknown: number;
  notRun: number;
  processes: number;
  stale: number;
}

async function play(seed: number, count: Count): Promise<void> {
  const pick = generator(seed);
  const clock = manualClock();
  const concurrency = 1 + pick(4);
  const { supervisor, children } = fakeSupervisor({ clock, concurrency, restartDelayMs: 0 });
  const results: Promise<void>[] = [];
  let sent = 0;
  const controllers: AbortController[] = [];
  /** What the server would answer to a request: its own words. */
  const answerTo = (request: JsonRpcRequest) => ({
    jsonrpc: '2.0',
    id: request.id,
    result: { content: [], echo: textOf(request) },
  });
  /** Some name the process they mean: the latest, or one before it. */
  const meant = () =>
    pick(3) > 0 ? {} : { _meta: { [GENERATION]: Math.max(1, supervisor.generation - pick(2)) } };
  const call = () => {
    sent += 1;
    const text = `${seed}-${sent}`;
    const controller = new AbortController();
    controllers.push(controller);
    // Two askers may choose the same ids.
    const message = { ...toolCall('echo', { text }, meant()), id: pick(3) };
    const asked = supervisor.handle(message, { deadlineMs: 1_000_000, signal: controller.signal });
    results.push(
      outcome(asked).then((each) => {
        if ('error' in each) {
          if (!HostedMcpError.isInstance(each.error)) throw each.error;
          const wasWritten = children.some((child) =>
            child.requests().some((request) => textOf(request) === text),
          );
          // Never "did not run" of what had been written.
          if (each.error.executed === false) {
            expect(wasWritten).toBe(false);
            count.notRun += 1;
          } else {
            expect(wasWritten).toBe(true);
            count.unknown += 1;
          }
          return;
        }
        const { answer } = split(each.value);
        expect(answer?.id).toBe(message.id);
        expect(isResult(answer) && answer.result.echo).toBe(text);
        count.answered += 1;
      }),
    );
  };

  for (let step = 0; step < STEPS; step += 1) {
    const child = children[pick(Math.max(1, children.length))];
    const latest = children.at(-1);
    const open = child?.requests() ?? [];
    switch (pick(9)) {
      case 0:
      case 1:
      case 2:
        call();
        break;
      case 3:
      case 4: {
        // Of any process, dead ones too; twice, or out of order.
        const request = open[pick(Math.max(1, open.length))];
        if (request === undefined) break;
        if (child !== latest) count.stale += 1;
        child?.say(answerTo(request));
        break;
      }
      case 5: {
        // A new process answers what an earlier one was asked.
        const old = children[0]?.requests() ?? [];
        const request = old[pick(Math.max(1, old.length))];
        if (request === undefined || latest === children[0]) break;
        count.stale += 1;
        latest?.say(answerTo(request));
        break;
      }
      case 6:
        latest?.crash();
        break;
      case 7:
        controllers[pick(Math.max(1, controllers.length))]?.abort();
        break;
      default:
        latest?.sayRaw('not json');
        latest?.say({ jsonrpc: '2.0', id: pick(50) + 10_000, result: { echo: 'of nobody' } });
    }
    await turns(1 + pick(30));
  }
  // Nobody is left waiting: whatever is open ends with the server.
  const before = results.length;
  const closing = supervisor.close();
  for (const controller of controllers) controller.abort();
  await Promise.all(results);
  await closing;
  expect(results).toHaveLength(before);
  expect(clock.pendingTimers).toBe(0);
  // Each was written at most once, to one process.
  const written = children.flatMap((each: FakeChild) => each.requests().map(textOf));
  expect(new Set(written).size).toBe(written.length);
  count.processes += children.length;
}

it(`${SEEDS} random interleavings`, async () => {
  const count: Count = { answered: 0, unknown: 0, notRun: 0, processes: 0, stale: 0 };
  for (let seed = 1; seed <= SEEDS; seed += 1) await play(seed, count);
  // The dice have thrown everything there is.
  expect(count.answered).toBeGreaterThan(1_000);
  expect(count.unknown).toBeGreaterThan(1_000);
  expect(count.notRun).toBeGreaterThan(500);
  expect(count.stale).toBeGreaterThan(1_000);
  expect(count.processes).toBeGreaterThan(2_000);
});
