// One round: so many calls, so many of them at once, and what they cost this process.

/**
 * CPU and wall time in microseconds a call. `cpuOfOthersUs` gives the CPU that another process has spent on them, as a
 * running total.
 */
export async function round(call, count, concurrency, cpuOfOthersUs = () => 0) {
  const othersBefore = cpuOfOthersUs();
  const before = process.cpuUsage();
  const startedMs = performance.now();
  await repeat(call, count, concurrency);
  const wallUs = (performance.now() - startedMs) * 1_000;
  const { user, system } = process.cpuUsage(before);
  return { cpuUs: (user + system + cpuOfOthersUs() - othersBefore) / count, wallUs: wallUs / count };
}

export async function repeat(call, count, concurrency) {
  let left = count;
  const worker = async () => {
    while (left-- > 0) await call();
  };
  await Promise.all(Array.from({ length: Math.min(count, concurrency) }, worker));
}
