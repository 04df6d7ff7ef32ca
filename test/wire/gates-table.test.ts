import { describe, expect, it } from 'vitest';
import {
  allowTools,
  approve,
  chainAlarm,
  denyTools,
  type Gate,
  type Inspected,
  type Inspector,
  inspect,
  maxCalls,
} from '../../src/gates/index.js';
import type { HostedMcpError } from '../../src/index.js';
import { connect, failureOf, startServer } from './support.js';

const never = () => new Promise<never>(() => {});
const throws = (): never => {
  throw new Error('canary-of-a-gate');
};
const rejects = () => Promise.reject(new Error('canary-of-a-gate'));

/** What is expected of one call of `pay` with `{ amount: 1 }`. */
interface Outcome {
  /** None: it is answered. */
  readonly code?: HostedMcpError['code'];
  readonly gate?: string;
  /** What the tool was run with; none: it was not run. */
  readonly ran?: object;
  /** What the caller gets. */
  readonly text?: string;
  /** How long the clock has to be moved until it is over. */
  readonly afterMs?: number;
}

const PAID: Outcome = { ran: { amount: 1 }, text: 'paid' };
const refused = (gate: string, afterMs?: number): Outcome => ({
  code: 'ERR_DENIED',
  gate,
  ...(afterMs !== undefined && { afterMs }),
});
const tooLate = (gate: string, afterMs?: number): Outcome => ({
  code: 'ERR_RESULT_REFUSED',
  gate,
  ran: { amount: 1 },
  ...(afterMs !== undefined && { afterMs }),
});
const on = (what: Inspected, answer: Inspector) => inspect(answer, { on: [what], timeoutMs: 2_000 });
const custom = (steps: Omit<Gate, 'name'>): Gate => ({ name: 'own', timeoutMs: 500, ...steps });
const MASKED = { content: [{ type: 'text', text: 'masked' }] };

const ROWS: readonly (readonly [string, readonly Gate[], Outcome])[] = [
  ['no gate', [], PAID],

  ['allowTools: named', [allowTools(['pay', 'echo'])], PAID],
  ['allowTools: not named', [allowTools(['echo'])], refused('allowTools')],
  ['allowTools: nobody is named', [allowTools([])], refused('allowTools')],
  ['allowTools: another spelling', [allowTools(['Pay', 'pay '])], refused('allowTools')],
  ['allowTools: a function says yes', [allowTools(({ arguments: a }) => a?.amount === 1)], PAID],
  ['allowTools: a function says yes later', [allowTools(async () => true)], PAID],
  ['allowTools: a function says no', [allowTools(() => false)], refused('allowTools')],
  ['allowTools: a function says something else', [allowTools((() => 'yes') as never)], refused('allowTools')],
  ['allowTools: a function throws', [allowTools(throws)], refused('allowTools')],
  ['allowTools: a function rejects', [allowTools(rejects)], refused('allowTools')],
  ['allowTools: a function hangs', [allowTools(never)], refused('allowTools', 30_000)],

  ['denyTools: not named', [denyTools(['drop'])], PAID],
  ['denyTools: named', [denyTools(['drop', 'pay'])], refused('denyTools')],
  ['denyTools: a function says yes', [denyTools(() => true)], refused('denyTools')],
  ['denyTools: a function says nothing', [denyTools((() => undefined) as never)], refused('denyTools')],
  ['denyTools: a function throws', [denyTools(throws)], refused('denyTools')],
  ['denyTools: a function hangs', [denyTools(never)], refused('denyTools', 30_000)],

  ['approve: yes', [approve(() => true)], PAID],
  ['approve: yes, after a while', [approve(async () => true)], PAID],
  ['approve: no', [approve(() => false)], refused('approve')],
  ['approve: anything else', [approve((() => 1) as never)], refused('approve')],
  ['approve: throws', [approve(throws)], refused('approve')],
  ['approve: rejects', [approve(rejects)], refused('approve')],
  ['approve: hangs', [approve(never, { timeoutMs: 90_000 })], refused('approve', 90_000)],
  ['approve: of another tool only', [approve(() => false, { tools: ['drop'] })], PAID],
  ['approve: which tools cannot be said', [approve(() => true, { tools: throws })], refused('approve')],
  [
    'approve: what was rewritten before it',
    [
      custom({ before: () => ({ arguments: { amount: 2 } }) }),
      approve((call) => call.arguments?.amount === 2),
    ],
    { ran: { amount: 2 }, text: 'paid' },
  ],
  [
    'approve: what is rewritten behind its back',
    [approve(() => true), custom({ before: () => ({ arguments: { amount: 999 } }) })],
    refused('approve'),
  ],

  ['maxCalls: room', [maxCalls(1)], PAID],
  ['maxCalls: none', [maxCalls(0)], { code: 'ERR_CALL_LIMIT', gate: 'maxCalls' }],
  ['maxCalls: not counted', [maxCalls(0, { per: () => undefined })], PAID],
  ['maxCalls: cannot count', [maxCalls(9, { per: throws })], refused('maxCalls')],
  ['maxCalls: counts by nothing', [maxCalls(9, { per: (() => ({})) as never })], refused('maxCalls')],

  ['chainAlarm: pass', [chainAlarm()], PAID],
  ['chainAlarm: its own judge throws', [chainAlarm({ isOutside: throws })], tooLate('chainAlarm')],

  ['inspect arguments: pass', [on('arguments', () => 'allow')], PAID],
  ['inspect arguments: refuse', [on('arguments', () => ({ deny: 'too much' }))], refused('inspect')],
  ['inspect arguments: throw', [on('arguments', throws)], refused('inspect')],
  ['inspect arguments: hang', [on('arguments', never)], refused('inspect', 2_000)],
  ['inspect arguments: no verdict', [on('arguments', (() => undefined) as never)], refused('inspect')],
  [
    'inspect arguments: rewrite',
    [on('arguments', () => ({ replace: { amount: 7 } }))],
    { ran: { amount: 7 }, text: 'paid' },
  ],
  [
    'inspect arguments: rewrite to no arguments',
    [on('arguments', () => ({ replace: [1] }))],
    refused('inspect'),
  ],

  ['inspect result: pass', [on('result', () => 'allow')], PAID],
  ['inspect result: refuse', [on('result', async () => ({ deny: 'an instruction' }))], tooLate('inspect')],
  ['inspect result: throw', [on('result', throws)], tooLate('inspect')],
  ['inspect result: hang', [on('result', never)], tooLate('inspect', 2_000)],
  [
    'inspect result: rewrite',
    [on('result', () => ({ replace: MASKED }))],
    { ran: { amount: 1 }, text: 'masked' },
  ],
  ['inspect result: rewrite to nothing', [on('result', () => ({ replace: undefined }))], tooLate('inspect')],
  ['inspect tools alone: a call passes', [on('tools', () => ({ deny: 'no' }))], PAID],

  ['own: pass', [custom({ before: () => 'allow', after: async () => 'allow' as const })], PAID],
  ['own: refuse', [custom({ before: async () => ({ deny: 'no' }) })], refused('own')],
  ['own: throw', [custom({ before: throws })], refused('own')],
  ['own: hang', [custom({ before: never })], refused('own', 500)],
  ['own: rewrite', [custom({ before: async () => ({ arguments: {} }) })], { ran: {}, text: 'paid' }],
  ['own: throw after', [custom({ after: throws })], tooLate('own')],
  ['own: hang after', [custom({ after: never })], tooLate('own', 500)],
  [
    'own: rewrite after',
    [custom({ after: () => ({ result: MASKED }) })],
    { ran: { amount: 1 }, text: 'masked' },
  ],
  ['own: does not stand', [custom({ before: () => 'allow', stands: () => false })], refused('own')],
  ['own: cannot say whether it stands', [custom({ before: () => 'allow', stands: throws })], refused('own')],

  [
    'the first that refuses ends it',
    [allowTools(['pay']), denyTools(['pay']), approve(throws)],
    refused('denyTools'),
  ],
  [
    'all of them let it pass',
    [
      allowTools(['pay']),
      denyTools(['drop']),
      maxCalls(3),
      chainAlarm(),
      approve(() => true),
      on('result', () => 'allow'),
    ],
    PAID,
  ],
];

describe('each gate, each answer', () => {
  it('has at least forty rows', () => {
    expect(ROWS.length).toBeGreaterThanOrEqual(40);
  });

  it.each(ROWS)('%s', async (_name, gates, { code, gate, ran, text, afterMs }) => {
    const runs: unknown[] = [];
    const scene = await startServer({
      tools: [
        {
          name: 'pay',
          handler: (args) => {
            runs.push(args);
            return 'paid';
          },
        },
        { name: 'echo' },
      ],
    });
    const client = await connect(scene, { gates });
    const sentBefore = scene.server.log.filter(({ rpcMethod }) => rpcMethod === 'tools/call').length;
    const calling = client.callTool({ name: 'pay', arguments: { amount: 1 } }, { timeout: 60_000 });
    const outcome = code === undefined ? calling : failureOf(calling);
    if (afterMs !== undefined) {
      let isOver = false;
      const over = () => {
        isOver = true;
      };
      outcome.then(over, over);
      await scene.clock.advance(afterMs - 1);
      expect(isOver).toBe(false);
      await scene.clock.advance(1);
    }

    const ended = await outcome;

    expect(runs).toEqual(ran === undefined ? [] : [ran]);
    const sent = scene.server.log.filter(({ rpcMethod }) => rpcMethod === 'tools/call').length - sentBefore;
    expect(sent).toBe(ran === undefined ? 0 : 1);
    if (code === undefined) {
      expect(ended).toMatchObject({ content: [{ type: 'text', text }] });
      return;
    }
    const failure = ended as HostedMcpError;
    expect(failure).toMatchObject({ code, gate, tool: 'pay', executed: ran !== undefined, retryable: false });
    expect(`${JSON.stringify(failure)}${failure}${failure.stack}`).not.toContain('canary');
    // Whoever reads only the message knows which gate it was, or that the turn is over.
    expect(failure.message).toContain(code === 'ERR_CALL_LIMIT' ? 'This turn' : `"${gate}"`);
    expect(client.connection.stats.waits.gates[gate as string]?.count).toBeGreaterThan(0);
    expect(client.connection.stats.calls.failed).toEqual({ [code]: 1 });
  });
});
