// The scenarios of a shared rate limit, in the form of the full run and in the form of the tests.
import { crowd } from './crowd.mjs';
import { absentAtStart, emptied, restartedEmpty, unreachable } from './outages.mjs';
import { pauseForAll } from './pause.mjs';
import { toolsMissing } from './redis.mjs';
import { clocksApart, killed, stopped, stutters } from './replicas.mjs';
import { secretsKept } from './secrets.mjs';
import { burst, steady } from './steady.mjs';

/** Small windows: the pad is then an eighth of them, and everything else is as it is. */
const SMALL = { limit: 20, intervalMs: 2_000 };

/** `full` and `scaled` are the parameters of each. */
export const SCENARIOS = [
  { name: 'steady', play: steady, full: {}, scaled: {} },
  { name: 'steady-minute', play: steady, full: { limit: 60, intervalMs: 60_000 } },
  { name: 'burst', play: burst, full: {}, scaled: { ...SMALL, calls: 20 } },
  { name: 'redis-restarted', play: restartedEmpty, full: {}, scaled: { ...SMALL, awayMs: 1_000 } },
  { name: 'redis-emptied', play: emptied, full: {}, scaled: SMALL },
  { name: 'redis-absent', play: absentAtStart, full: {}, scaled: SMALL },
  { name: 'redis-unreachable', play: unreachable, full: {}, scaled: { ...SMALL, awayMs: 5_000 } },
  { name: 'replica-killed', play: killed, full: {}, scaled: { ...SMALL, windows: 4 } },
  { name: 'replica-stopped', play: stopped, full: {}, scaled: { ...SMALL, stoppedMs: 6_000 } },
  { name: 'replica-stutters', play: stutters, full: {}, scaled: SMALL },
  { name: 'clocks-apart', play: clocksApart, full: {}, scaled: SMALL },
  {
    name: 'clocks-jump',
    play: clocksApart,
    full: { jumps: true, seed: 14 },
    scaled: { ...SMALL, jumps: true, windows: 4, seed: 14 },
  },
  { name: 'crowd', play: crowd, full: {}, scaled: { intervalMs: 2_000, windows: 8 } },
  { name: 'pause', play: pauseForAll, full: { after: 3 }, scaled: {} },
  { name: 'secrets-refresh', play: secretsKept, full: { runMs: 20_000 }, scaled: {} },
  {
    name: 'secrets-client',
    play: secretsKept,
    full: { grant: 'client', runMs: 20_000 },
    scaled: { grant: 'client', runMs: 4_000 },
  },
];

/** Undefined where everything is there, installed now if need be. */
export function fleetToolsMissing() {
  return toolsMissing('redis-server', 'faketime');
}

/** `form`: 'full' or 'scaled'. Resolves with the figures and what was promised. */
export async function playScenario(name, form) {
  const scenario = SCENARIOS.find((each) => each.name === name);
  if (scenario?.[form] === undefined) throw new Error(`There is no ${form} scenario named ${name}`);
  return await scenario.play(scenario[form]);
}
