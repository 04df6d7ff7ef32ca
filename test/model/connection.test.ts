/**
 * One handshake at a time; no call on a dead session; `close()` always ends and leaves nothing; what arrives late is
 * released; `executed` is what the server's ledger says; no tool call runs twice. Over sequences of events drawn at
 * random, in fake time, against the real engine. The nightly form is `npm run nightly`.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { replay, runs } from '../fuzz/kit.js';
import { connectionModel } from './property.js';
import { Scene } from './scene.js';

const TRAITS = {
  seed: 1,
  stateful: true,
  listens: true,
  bound: false,
  boundToToken: 'detect',
  probe: 'ping',
  queuedCalls: 'continue',
  resendOn401: 'once',
  maxAttempts: 2,
  idleTimeoutMs: undefined,
  tokenLifetimeMs: undefined,
  canRevoke: false,
} as const;

test('the states of a connection', { timeout: 120_000 }, async () => {
  const property = connectionModel({ replayPath: process.env.HOLDFAST_REPLAY_PATH });
  await fc.assert(property, { numRuns: runs(800), ...replay() });
});

test('what the sequences meet: every state, both verdicts on a call, more than one session', async () => {
  const states = new Set<string>();
  const ends = new Set<string>();
  let mostSessions = 0;
  const property = connectionModel({
    onScene: (scene) => {
      scene.connection.on('state', ({ current }) => states.add(current));
    },
    onFinished: (scene) => {
      mostSessions = Math.max(mostSessions, scene.taken.size);
      for (const { outcome } of scene.calls.values())
        if (outcome !== undefined) ends.add('error' in outcome ? String(outcome.error.executed) : 'answered');
    },
  });
  await fc.assert(property, { numRuns: 300, seed: 1 });
  expect([...states].sort()).toEqual(
    ['blocked', 'closed', 'connecting', 'idle', 'ready', 'recovering', 'unstable'].sort(),
  );
  expect([...ends].sort()).toEqual(['answered', 'false', 'unknown']);
  expect(mostSessions).toBeGreaterThan(2);
});

test.each([
  [
    'a call that ran twice',
    (scene: Scene) => {
      scene.server.ran.set('call-1', 2);
    },
    'ran 2 times',
  ],
  [
    'a session that was never given back',
    (scene: Scene) => {
      scene.server.sessions.set('lost', { id: 'lost', generation: 1, alive: true });
      scene.taken.set(99, 'lost');
    },
    'never given back',
  ],
  [
    'a timer that is left',
    (scene: Scene) => {
      scene.clock.setTimeout(() => {}, 10_000_000);
    },
    'a timer outlived close()',
  ],
  [
    'a listener that is left',
    (scene: Scene) => {
      scene.calls.get(1)?.controller.signal.addEventListener('abort', () => {});
    },
    'left a listener',
  ],
])('the check itself sees %s', async (_, spoil, words) => {
  const scene = new Scene(TRAITS, new Set());
  scene.call('tool', undefined);
  await scene.check();
  for (const exchange of scene.undecided) scene.server.answer(exchange);
  await scene.check();
  spoil(scene);
  await expect(scene.finish(false)).rejects.toThrow(words);
});
