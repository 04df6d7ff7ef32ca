// The shortest list of faults with which a storm still goes wrong.
//
// Sockets are real and their interleaving is not fixed: one run in which nothing goes wrong says little. A list is kept
// when one of several runs goes wrong with it.

/** Runs for each list that is tried. */
export const TRIES = 5;

/**
 * `goesWrong(faults)` runs the storm with these faults alone. Gives a list from which no part of any size tried could be
 * left out (delta debugging), `undefined` where the whole list does not go wrong again, and how many runs it took.
 */
export async function shrink(faults, goesWrong, { tries = TRIES, onStep = () => {} } = {}) {
  let runs = 0;
  const holds = async (list) => {
    for (let attempt = 0; attempt < tries; attempt += 1) {
      runs += 1;
      if (await goesWrong(list)) return true;
    }
    return false;
  };
  if (!(await holds(faults))) return { faults: undefined, runs };
  let list = faults;
  let parts = 2;
  while (list.length > 0) {
    const smaller = await smallerOf(list, Math.min(parts, list.length), holds);
    if (smaller !== undefined) {
      list = smaller.list;
      onStep(list.length);
      parts = smaller.isPart ? 2 : Math.max(2, parts - 1);
    } else if (parts >= list.length) break;
    else parts = Math.min(list.length, parts * 2);
  }
  return { faults: list, runs };
}

/** One part alone, or all but one part. */
async function smallerOf(list, parts, holds) {
  const chunks = chunksOf(list, parts);
  if (parts > 1) {
    for (const chunk of chunks)
      if (chunk.length < list.length && (await holds(chunk))) return { list: chunk, isPart: true };
  } else if (await holds([])) return { list: [], isPart: true };
  if (parts < 3) return undefined;
  for (const chunk of chunks) {
    const rest = list.filter((each) => !chunk.includes(each));
    if (await holds(rest)) return { list: rest, isPart: false };
  }
  return undefined;
}

function chunksOf(list, parts) {
  const size = Math.ceil(list.length / parts);
  const chunks = [];
  for (let at = 0; at < list.length; at += size) chunks.push(list.slice(at, at + size));
  return chunks;
}

/** The same plan with these faults, and no more calls than they need. */
export function withFaults(plan, faults) {
  const last = Math.max(0, ...faults.map(({ at }) => at));
  return { ...plan, faults, calls: Math.min(plan.calls, last + CALLS_AFTER) };
}

/** What a fault does may show some calls later. */
const CALLS_AFTER = 100;
