/**
 * SHA-256 (FIPS 180-4) and HMAC with it (RFC 2104), for runtimes without `node:crypto`: the web's own digests are
 * promises, and names are needed at once.
 *
 * Guarantees the same bytes as `node:crypto`. Names things (sessions, credentials, contracts); never signs, encrypts or
 * compares a secret, for it is not written to take the same time for each input.
 */
const BLOCK_BYTES = 64;
const LENGTH_BYTES = 8;
const { constants: ROUND_CONSTANTS, start: START } = firstPrimes(64);

export function sha256(bytes: Uint8Array): Uint8Array {
  const blocks = Math.ceil((bytes.byteLength + 1 + LENGTH_BYTES) / BLOCK_BYTES);
  const padded = new Uint8Array(blocks * BLOCK_BYTES);
  padded.set(bytes);
  padded[bytes.byteLength] = 0x80;
  const view = new DataView(padded.buffer);
  view.setBigUint64(padded.byteLength - LENGTH_BYTES, BigInt(bytes.byteLength) * 8n);
  const state = Uint32Array.from(START);
  const words = new Uint32Array(64);
  for (let block = 0; block < padded.byteLength; block += BLOCK_BYTES) {
    for (let i = 0; i < 16; i++) words[i] = view.getUint32(block + i * 4);
    mix(state, words);
  }
  const digest = new DataView(new ArrayBuffer(32));
  for (const [i, word] of state.entries()) digest.setUint32(i * 4, word);
  return new Uint8Array(digest.buffer);
}

export function hmacSha256(key: Uint8Array, bytes: Uint8Array): Uint8Array {
  const block = new Uint8Array(BLOCK_BYTES);
  block.set(key.byteLength > BLOCK_BYTES ? sha256(key) : key);
  const inner = sha256(chained(block, 0x36, bytes));
  return sha256(chained(block, 0x5c, inner));
}

function chained(block: Uint8Array, pad: number, bytes: Uint8Array): Uint8Array {
  const whole = new Uint8Array(BLOCK_BYTES + bytes.byteLength);
  whole.set(block.map((byte) => byte ^ pad));
  whole.set(bytes, BLOCK_BYTES);
  return whole;
}

/** 6.2.2 of the standard; `words` holds the block in its first sixteen. */
function mix(state: Uint32Array, words: Uint32Array): void {
  const word = (i: number) => words[i] as number;
  for (let i = 16; i < 64; i++) {
    const [early, late] = [word(i - 15), word(i - 2)];
    const sigma0 = turned(early, 7) ^ turned(early, 18) ^ (early >>> 3);
    const sigma1 = turned(late, 17) ^ turned(late, 19) ^ (late >>> 10);
    words[i] = word(i - 16) + sigma0 + word(i - 7) + sigma1;
  }
  let [a, b, c, d, e, f, g, h] = state as unknown as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  for (let i = 0; i < 64; i++) {
    const sum1 = turned(e, 6) ^ turned(e, 11) ^ turned(e, 25);
    const choice = (e & f) ^ (~e & g);
    const first = (h + sum1 + choice + (ROUND_CONSTANTS[i] as number) + word(i)) >>> 0;
    const sum0 = turned(a, 2) ^ turned(a, 13) ^ turned(a, 22);
    const majority = (a & b) ^ (a & c) ^ (b & c);
    const second = (sum0 + majority) >>> 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) >>> 0, c, b, a, (first + second) >>> 0];
  }
  for (const [i, value] of [a, b, c, d, e, f, g, h].entries()) state[i] = (state[i] as number) + value;
}

/** To the right, by so many bits. */
function turned(word: number, bits: number): number {
  return (word >>> bits) | (word << (32 - bits));
}

/** The standard takes its constants from the fractions of the first primes' cube roots and square roots. */
function firstPrimes(count: number): { constants: Uint32Array; start: Uint32Array } {
  const primes: number[] = [];
  for (let n = 2; primes.length < count; n++) if (primes.every((prime) => n % prime !== 0)) primes.push(n);
  const fraction = (root: number) => Math.floor((root - Math.floor(root)) * 2 ** 32);
  return {
    constants: Uint32Array.from(primes, (prime) => fraction(Math.cbrt(prime))),
    start: Uint32Array.from(primes.slice(0, 8), (prime) => fraction(Math.sqrt(prime))),
  };
}
