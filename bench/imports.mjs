// How long our entries take to be imported: five processes each, the middle one.
import { execFileSync } from 'node:child_process';
import { median } from './kit/statistics.mjs';

const ENTRIES = ['mcp-holdfast', 'mcp-holdfast/client', 'mcp-holdfast/redis', 'mcp-holdfast/testing'];
const SAMPLES = 5;

export function measureImports() {
  return Object.fromEntries(ENTRIES.map((name) => [name, Math.round(importMs(name))]));
}

function importMs(name) {
  const code = `const s = performance.now(); await import('${name}'); process.stdout.write(String(performance.now() - s))`;
  const once = () => Number(execFileSync(process.execPath, ['--input-type=module', '-e', code]));
  return median(Array.from({ length: SAMPLES }, once));
}
