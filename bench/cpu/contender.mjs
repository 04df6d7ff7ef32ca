// One contender in a process of its own: opens, checks what it is answered, and makes rounds of calls when asked.

import { serve } from '../kit/processes.mjs';
import { repeat, round } from '../kit/rounds.mjs';
import { CONTENDERS } from './contenders.mjs';

const SMALL = { name: 'echo', arguments: { text: 'hello' } };

await serve(async ({ name, tool, characters, ...options }) => {
  const { call, close, cpuOfOthersUs } = await CONTENDERS[name].open(options);
  const params = { ...SMALL, name: tool };
  const answer = await call(params);
  const text = answer?.content?.[0]?.text;
  if (text?.length !== characters)
    throw new Error(`${name} was answered ${JSON.stringify(answer)?.slice(0, 200)}`);
  return {
    first: null,
    close,
    async answer({ count, concurrency, warmUp }) {
      await repeat(() => call(params), warmUp, concurrency);
      // As many sockets as it needs, opened before the clock runs: those of the last round may have been given up since.
      await repeat(() => call(SMALL), 2 * concurrency, concurrency);
      return round(() => call(params), count, concurrency, cpuOfOthersUs);
    },
  };
});
