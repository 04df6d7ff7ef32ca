// What befalls a server that is relayed: on the way there, on the way back, and its process.
import { between, pick } from './random.mjs';

/** `relay`: what the way does with the call. `args`: what the server does. `befallsOthers`: whoever else waits for it meets it, too. */
export const RELAY_OF_A_CALL = [
  { kind: 'lost on the way there', weight: 2, draw: () => ({}), relay: () => ({ before: 'throw' }) },
  { kind: 'refused by the relay', draw: () => ({}), relay: () => ({ before: 'refuse' }) },
  { kind: 'lost on the way back', weight: 2, draw: () => ({}), relay: () => ({ after: 'throw' }) },
  { kind: 'answer of nobody', draw: () => ({}), relay: () => ({ after: 'foreign' }) },
  {
    kind: 'kept by the relay (not passed on)',
    draw: () => ({}),
    relay: () => ({ before: 'keep' }),
    call: () => ({ timeoutMs: 3_000 }),
  },
  {
    kind: 'kept by the relay (run)',
    draw: () => ({}),
    relay: () => ({ after: 'keep' }),
    call: () => ({ timeoutMs: 3_000 }),
  },
  {
    kind: 'process ends before it ran',
    befallsOthers: true,
    draw: () => ({}),
    call: () => ({ args: { end: 'before' } }),
  },
  {
    kind: 'process ends after it ran',
    befallsOthers: true,
    draw: () => ({}),
    call: () => ({ args: { end: 'after' } }),
  },
  {
    kind: 'garbled line before the answer',
    draw: (r) => ({ form: pick(r, ['not json', 'foreign', 'half']) }),
    call: ({ form }) => ({ args: { noise: form } }),
  },
  {
    kind: 'server never answers',
    draw: () => ({}),
    call: () => ({ args: { silent: true }, timeoutMs: 3_000 }),
  },
  {
    kind: 'slow answer',
    weight: 2,
    draw: (r) => ({ ms: between(r, 300, 3_000), timeoutMs: r() < 0.3 ? 1_000 : 10_000 }),
    call: ({ ms, timeoutMs }) => ({ args: { ms }, timeoutMs }),
  },
];

export const RELAY_OF_THE_WORLD = [
  { kind: 'process killed', draw: () => ({}), begin: ({ signal }) => signal('SIGKILL') },
  {
    kind: 'process stopped',
    draw: (r) => ({ forMs: between(r, 300, 2_000) }),
    begin({ signal }) {
      signal('SIGSTOP');
      return () => signal('SIGCONT');
    },
  },
  {
    kind: 'process does not start',
    draw: (r) => ({ forMs: between(r, 300, 2_500) }),
    begin({ signal, refuseStarts }) {
      refuseStarts(true);
      signal('SIGKILL');
      return () => refuseStarts(false);
    },
  },
];
