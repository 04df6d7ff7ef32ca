// Numbers that a seed fixes: each part of a plan draws from its own source, so that none shifts another.

/** A source of numbers in [0, 1), named by `parts`. */
export function randomOf(...parts) {
  let state = hash(parts.join('/'));
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function pick(random, list) {
  return list[Math.floor(random() * list.length)];
}

/** A whole number from `min` to `max`, both included. */
export function between(random, min, max) {
  return min + Math.floor(random() * (max - min + 1));
}

/** One of `list`, the more often the greater its `weight` (1 where it has none). */
export function weighted(random, list) {
  const weightOf = ({ weight = 1 }) => weight;
  let at = random() * list.reduce((sum, each) => sum + weightOf(each), 0);
  for (const each of list) {
    at -= weightOf(each);
    if (at < 0) return each;
  }
  return list.at(-1);
}

/** FNV-1a. */
function hash(text) {
  let value = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
  return value >>> 0;
}
