// Other programs, run to their end in an environment that npm and test runners have not written into.
import { execFile } from 'node:child_process';

const INHERITED_NOISE = /^(NODE_OPTIONS|NODE_ENV|NODE_PATH|VITEST|npm_)/;
/** The unit tests of a slow machine; whatever takes longer hangs. */
const LONGEST_MS = 40 * 60_000;

/** `{ ok, stdout, stderr }`; never rejects. */
export function run(program, args, { cwd, env = {} }) {
  const clean = Object.entries(process.env).filter(([name]) => !INHERITED_NOISE.test(name));
  const options = {
    cwd,
    env: { ...Object.fromEntries(clean), ...env },
    maxBuffer: 64 * 1024 * 1024,
    timeout: LONGEST_MS,
    killSignal: 'SIGKILL',
  };
  return new Promise((resolve) => {
    execFile(program, args, options, (error, stdout, stderr) => {
      const started = error === null || typeof error.code !== 'string';
      resolve({ ok: error === null, stdout, stderr: started ? stderr : `${program}: ${error.code}` });
    });
  });
}

/** What npm writes to its standard output; an Error with the end of what it complains about. */
export async function npm(args, cwd) {
  const quiet = ['--no-audit', '--no-fund', '--no-update-notifier', '--loglevel=error'];
  const { ok, stdout, stderr } = await run(
    process.platform === 'win32' ? 'npm.cmd' : 'npm',
    [...args, ...quiet],
    {
      cwd,
    },
  );
  if (!ok) throw new Error(`npm ${args[0]} failed: ${lastLines(stderr || stdout)}`);
  return stdout;
}

export function lastLines(text, count = 12) {
  return text.trim().split('\n').slice(-count).join('\n');
}
