// What the judge's stamps say. Pure functions; all times are milliseconds on one clock.

/** Windows are kept longer by so much: a request may be so late, another not at all. */
export function paddedMs(intervalMs) {
  return intervalMs + padMs(intervalMs);
}

export function padMs(intervalMs) {
  return Math.max(250, Math.ceil(intervalMs * 0.02));
}

/** The most in any window of this length, wherever it begins; its end does not belong to it. */
export function mostIn(timesMs, windowMs) {
  const sorted = [...timesMs].sort((a, b) => a - b);
  let most = 0;
  let first = 0;
  for (let last = 0; last < sorted.length; last += 1) {
    while (sorted[last] - sorted[first] >= windowMs) first += 1;
    most = Math.max(most, last - first + 1);
  }
  return most;
}

/** Where that window is, for whoever wants to know why. */
export function fullestWindow(requests, windowMs) {
  const sorted = [...requests].sort((a, b) => a.atMs - b.atMs);
  let found = [];
  let first = 0;
  for (let last = 0; last < sorted.length; last += 1) {
    while (sorted[last].atMs - sorted[first].atMs >= windowMs) first += 1;
    if (last - first + 1 > found.length) found = sorted.slice(first, last + 1);
  }
  return found;
}

/** How long after it was let go a request was at the server. */
export function lateMs({ atMs, grantedAtMs }) {
  return atMs - grantedAtMs;
}

/**
 * When requests were at the server, less what this machine itself held them up for: that a process was not run for
 * half a second is no request of the library's at the wrong time. One that was let go and then came later than the pad
 * counts from when it was let go: nothing in its process could look again in between. `countStalls`: also what was
 * beyond the pad before the library let a request go.
 */
export function timesWithinPad(requests, intervalMs, { countStalls = true } = {}) {
  const pad = padMs(intervalMs);
  return requests.map((request) => {
    const afterMs = lateMs(request);
    if (afterMs > pad) return request.grantedAtMs;
    return request.atMs - Math.max(0, afterMs + (countStalls ? request.stalledMs : 0) - pad);
  });
}

/** Requests in so many padded windows from the first on, of those that the limit allows. */
export function usage(requests, { limit, intervalMs }, windows) {
  const fromMs = Math.min(...requests.map(({ atMs }) => atMs));
  const untilMs = fromMs + windows * paddedMs(intervalMs);
  const count = requests.filter(({ atMs }) => atMs < untilMs).length;
  return count / (limit * windows);
}

/** Of each replica in so many padded windows from the first request on. */
export function shares(requests, { intervalMs }, windows) {
  const fromMs = Math.min(...requests.map(({ atMs }) => atMs));
  const untilMs = fromMs + windows * paddedMs(intervalMs);
  const counted = requests.filter(({ atMs }) => atMs < untilMs);
  const counts = {};
  for (const { replica } of counted) counts[replica] = (counts[replica] ?? 0) + 1;
  return Object.fromEntries(
    Object.entries(counts).map(([replica, count]) => [replica, count / counted.length]),
  );
}

/** By client: the longest time without a request that was counted, the times at both ends included. */
export function longestGaps(requests, clients, fromMs, untilMs) {
  return clients.map((client) => {
    const times = requests.filter((request) => request.client === client).map(({ atMs }) => atMs);
    const marks = [fromMs, ...times.filter((atMs) => atMs > fromMs && atMs < untilMs), untilMs];
    let longest = 0;
    for (let index = 1; index < marks.length; index += 1)
      longest = Math.max(longest, marks[index] - marks[index - 1]);
    return longest;
  });
}
