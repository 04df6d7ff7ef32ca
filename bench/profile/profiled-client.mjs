// Its program.
import { Session } from 'node:inspector/promises';
import { CONTENDERS } from '../cpu/contenders.mjs';
import { serve } from '../kit/processes.mjs';
import { repeat } from '../kit/rounds.mjs';
import { selfTimes } from './self-times.mjs';

const CALL = { name: 'echo', arguments: { text: 'hello' } };
const SAMPLE_US = 200;

await serve(async ({ calls, concurrency, lines, name = 'client', ...options }) => {
  const { call, close } = await CONTENDERS[name].open(options);
  await repeat(() => call(CALL), Math.max(6_000, calls / 2), concurrency);
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.setSamplingInterval', { interval: SAMPLE_US });
  await session.post('Profiler.start');
  await repeat(() => call(CALL), calls, concurrency);
  const { profile } = await session.post('Profiler.stop');
  session.disconnect();
  await close();
  return { first: { calls, ...selfTimes(profile, { lines, calls }) } };
});
