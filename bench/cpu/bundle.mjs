// The baseline as a program can import it: Node 20 does not read TypeScript.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { transform } from 'esbuild';

const OUT = new URL('../../.tmp/bench/', import.meta.url);

/** The path of the module. */
export async function bundleBaseline() {
  const source = readFileSync(new URL('../baseline.ts', import.meta.url), 'utf8');
  const { code } = await transform(source, { loader: 'ts', format: 'esm', target: 'node20' });
  mkdirSync(OUT, { recursive: true });
  const path = fileURLToPath(new URL('baseline.mjs', OUT));
  writeFileSync(path, code);
  return path;
}
