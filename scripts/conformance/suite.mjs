/**
 * The official suite, as a program: which scenarios it has, and how one of them went.
 *
 * Guarantees that the scenarios are the suite's own list, and that a verdict counts the exit status, the checks and
 * that at least one check passed: a client that did nothing has not passed. Never starts more than what it is asked
 * for; the suite itself starts everything at once.
 */
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { REFUSED } from '../../test/conformance/scenarios.mjs';

export const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const HOOK = new URL('../../test/conformance/hook.mjs', import.meta.url).href;
const PACKAGE = join(ROOT, 'node_modules/@modelcontextprotocol/conformance');
const PROGRAM = join(PACKAGE, 'dist/index.js');
/** For one client; the suite's own default is half of it, which a busy machine needs to start two processes. */
const CLIENT_TIMEOUT_MS = 60_000;
/** What the suite gets beyond that, to start and to write. */
const GRACE_MS = 30_000;

export function suiteVersion() {
  return JSON.parse(readFileSync(join(PACKAGE, 'package.json'), 'utf8')).version;
}

/** Every client scenario, with the revisions that have it; an extension's belongs to none. */
export async function clientScenarios() {
  const { printed } = await runSuite(['list', '--client']);
  const scenarios = [...printed.matchAll(/^ {2}- (\S+) \[(.+)\]$/gm)].map(([, name, where]) => ({
    name,
    revisions: where === 'extension' ? [] : where.split(','),
  }));
  if (scenarios.length === 0) throw new Error(`The suite lists no client scenarios:\n${printed}`);
  return scenarios;
}

/** The names of the client scenarios that count for a revision. */
export async function scoredAt(revision) {
  const { printed } = await runSuite(['list', '--client', '--requirements', revision]);
  const [, section = ''] = /^Client scenarios.*\n((?: {2}- .*\n)+)/m.exec(printed) ?? [];
  const names = [...section.matchAll(/^ {2}- (\S+)/gm)].map(([, name]) => name);
  if (names.length === 0)
    throw new Error(`The suite requires nothing of a client at ${revision}:\n${printed}`);
  return new Set(names);
}

/**
 * Runs one scenario; `judged` says what of: `['client', '--command', ...]` or `['server', '--url', ...]`. What the
 * suite wrote stays in `folder`, which is emptied first. `refusal`: the error that the client has to end with.
 */
export async function runScenario({ scenario, judged, folder, refusal, env = {} }) {
  rmSync(folder, { recursive: true, force: true });
  const timeout = judged[0] === 'client' ? ['--timeout', String(CLIENT_TIMEOUT_MS)] : [];
  const { exitCode, printed } = await runSuite(
    [...judged, ...timeout, '--scenario', scenario, '-o', folder],
    env,
  );
  const checks = readWritten(folder, 'checks.json');
  const ended = readWritten(folder, 'stderr.txt');
  return {
    scenario,
    exitCode,
    printed: `${printed}${ended ?? ''}`,
    ...verdictOf(exitCode, checks === undefined ? undefined : JSON.parse(checks), { refusal, ended }),
  };
}

/** Arguments with which the suite runs a driver; relative, because it splits them at spaces. */
export function clientCommand(driver) {
  return ['client', '--command', `${process.execPath} ${relative(ROOT, driver)}`];
}

/** `ended`: what the client wrote last, with `refusal` in a line of its own where it had to refuse. */
export function verdictOf(exitCode, checks, { refusal, ended = '' } = {}) {
  if (checks === undefined) return { verdict: 'failed', passed: 0, failed: ['no result was written'] };
  const withStatus = (...statuses) =>
    checks.filter(({ status }) => statuses.includes(status)).map(({ id }) => id);
  const passed = withStatus('SUCCESS').length;
  const failed = [...new Set(withStatus('FAILURE', 'WARNING'))];
  if (failed.length === 0 && exitCode !== 0) failed.push(`exit status ${exitCode}`);
  if (refusal !== undefined && !ended.split('\n').includes(`${REFUSED}${refusal}`))
    failed.push(`not refused with ${refusal}`);
  if (failed.length > 0) return { verdict: 'failed', passed, failed };
  if (passed > 0) return { verdict: 'passed', passed, failed };
  return withStatus('SKIPPED').length > 0
    ? { verdict: 'skipped', passed, failed }
    : { verdict: 'failed', passed, failed: ['no check passed'] };
}

/** The suite makes folders of its own in there, after the scenario and the time. */
function readWritten(folder, name) {
  try {
    const [file = ''] = readdirSync(folder, { recursive: true }).filter((path) => path.endsWith(name));
    return readFileSync(join(folder, file), 'utf8');
  } catch {
    return undefined;
  }
}

function runSuite(args, env = {}) {
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      ['--import', HOOK, PROGRAM, ...args],
      {
        cwd: ROOT,
        env: { ...process.env, ...env },
        timeout: CLIENT_TIMEOUT_MS + GRACE_MS,
        maxBuffer: 64 * 1024 * 1024,
      },
      (error, stdout, stderr) => {
        const exitCode = error === null ? 0 : typeof error.code === 'number' ? error.code : 1;
        resolve({ exitCode, printed: `${stdout}${stderr}` });
      },
    );
  });
}
