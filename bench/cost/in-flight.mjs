// Its program: all calls in flight at the same time on one connection; the server answers none before the last is there.

import { hostedOptions, INFO } from '../cpu/contenders.mjs';
import { serve } from '../kit/processes.mjs';

await serve(async ({ origin, calls }) => {
  const warnings = [];
  process.on('warning', ({ name, message }) => warnings.push(`${name}: ${message}`));
  const url = `${origin}/json`;
  const library = await import('mcp-holdfast/client');
  const client = new library.HostedClient(INFO, { url, ...(await hostedOptions(library, { url, origin })) });
  await client.connect();
  const startedMs = performance.now();
  const params = { name: 'hold', arguments: { until: calls } };
  const outcomes = await Promise.allSettled(
    Array.from({ length: calls }, () => client.callTool(params, undefined, { timeout: 60_000 })),
  );
  const ms = Math.round(performance.now() - startedMs);
  await client.close();
  const failures = outcomes
    .filter(({ status }) => status === 'rejected')
    .map(({ reason }) => String(reason).replace(/\d+/g, 'N'));
  // Warnings are told in a turn of their own.
  await new Promise((resolve) => setTimeout(resolve, 50));
  return {
    first: {
      calls,
      answered: calls - failures.length,
      failures: [...new Set(failures)].slice(0, 5),
      warnings,
      ms,
    },
  };
});
