/** The command that runs the official suite: that it misses nothing, and what it takes for passed. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { COLUMNS, isQuick, plan, revisionFor } from '../../scripts/conformance/columns.mjs';
import { cellOf, page, withColumns } from '../../scripts/conformance/report.mjs';
import { type Check, clientScenarios, scoredAt, verdictOf } from '../../scripts/conformance/suite.mjs';
import { SCENARIOS } from './scenarios.mjs';

const all = await clientScenarios();
const ours = COLUMNS.filter(({ isOurs }) => isOurs);
const runsIn = (id: string) =>
  plan(
    COLUMNS.filter((column) => column.id === id),
    all,
  );
const check = (id: string, status: Check['status']): Check => ({ id, status });

describe('what is run', () => {
  it('is what the suite has: a scenario on either side alone would show here', () => {
    expect(Object.keys(SCENARIOS).sort()).toEqual(all.map(({ name }) => name).sort());
  });

  it.each([
    ['2025-11-25', 'ours-v1', 18],
    ['2026-07-28', 'ours-v2', 32],
  ])(
    'has every scenario that is scored at %s at that revision, in the column %s',
    async (revision, id, count) => {
      const scored = await scoredAt(revision);
      const run = runsIn(id).filter((each) => each.revision === revision);
      expect(scored.size).toBe(count);
      expect([...scored].filter((name) => !run.some(({ scenario }) => scenario === name))).toEqual([]);
    },
  );

  it('has all of 2026-07-28, and every scenario about authorization in each column of ours', () => {
    const later = all.filter(({ revisions }) => revisions.includes('2026-07-28'));
    expect(later).toHaveLength(33);
    for (const { name } of later) {
      const run = runsIn('ours-v2').find(({ scenario }) => scenario === name);
      expect(run).toMatchObject({ revision: '2026-07-28' });
      expect(run?.judged.slice(-3)).toEqual(['--spec-version', '2026-07-28', '--force']);
    }
    for (const { name } of all.filter((each) => each.name.startsWith('auth/')))
      for (const { id } of ours) expect(runsIn(id).some(({ scenario }) => scenario === name)).toBe(true);
  });

  it('has a scenario that nobody here has heard of, so that the driver fails it', () => {
    const unknown = { name: 'auth/not-yet-there', revisions: ['2026-07-28'] };
    expect(COLUMNS.map((column) => revisionFor(column, unknown))).toEqual([
      '2025-11-25',
      '2026-07-28',
      '2025-11-25',
      '2026-07-28',
    ]);
  });

  it('is, in the short form, all that is not about authorization and a part of what is', () => {
    const short = all.filter(({ name }) => isQuick(name));
    const about = (list: typeof all) => list.filter(({ name }) => name.startsWith('auth/')).length;
    expect(short.length - about(short)).toBe(all.length - about(all));
    expect(about(short)).toBeGreaterThan(10);
    expect(about(short)).toBeLessThan(about(all));
  });
});

describe('what counts as passed', () => {
  it.each<[string, number, Check[] | undefined, ReturnType<typeof verdictOf>]>([
    [
      'checks that passed',
      0,
      [check('a', 'SUCCESS'), check('b', 'INFO')],
      { verdict: 'passed', passed: 1, failed: [] },
    ],
    [
      'a failure',
      1,
      [check('a', 'SUCCESS'), check('b', 'FAILURE')],
      { verdict: 'failed', passed: 1, failed: ['b'] },
    ],
    [
      'a warning',
      0,
      [check('a', 'SUCCESS'), check('b', 'WARNING')],
      { verdict: 'failed', passed: 1, failed: ['b'] },
    ],
    [
      'one check failed twice',
      1,
      [check('b', 'FAILURE'), check('b', 'FAILURE')],
      { verdict: 'failed', passed: 0, failed: ['b'] },
    ],
    [
      'a client that ended badly',
      1,
      [check('a', 'SUCCESS')],
      { verdict: 'failed', passed: 1, failed: ['exit status 1'] },
    ],
    [
      'a client that did nothing',
      0,
      [check('a', 'INFO')],
      { verdict: 'failed', passed: 0, failed: ['no check passed'] },
    ],
    ['nothing to judge', 0, [check('a', 'SKIPPED')], { verdict: 'skipped', passed: 0, failed: [] }],
    ['no result', 0, undefined, { verdict: 'failed', passed: 0, failed: ['no result was written'] }],
  ])('%s', (_name, exitCode, checks, expected) => {
    expect(verdictOf(exitCode, checks)).toEqual(expected);
  });
});

describe('what had to be refused', () => {
  const refusal = 'ERR_DISCOVERY resource_mismatch';
  const checks = [check('a', 'SUCCESS')];

  it('passes with its own error, wherever that stands among what the client wrote', () => {
    const ended = `Warning: x\nrefused: ${refusal}\n    at y\n`;
    expect(verdictOf(0, checks, { refusal, ended })).toMatchObject({ verdict: 'passed' });
  });

  it.each([
    ['went on', ''],
    ['failed by itself', 'TypeError: x is not a function\n'],
    ['had another error', 'refused: ERR_TOKEN_ENDPOINT\n'],
    ['had another reason', 'refused: ERR_DISCOVERY no_metadata\n'],
    ['had a reason that only begins so', `refused: ${refusal}es\n`],
  ])('fails where the client %s, whatever the suite says', (_name, ended) => {
    expect(verdictOf(0, checks, { refusal, ended })).toEqual({
      verdict: 'failed',
      passed: 1,
      failed: [`not refused with ${refusal}`],
    });
  });

  it('is asked of ours alone', () => {
    const refusals = plan(COLUMNS, all).filter((run) => run.refusal !== undefined);
    expect(new Set(refusals.map(({ column }) => column.id))).toEqual(new Set(['ours-v1', 'ours-v2']));
    expect(refusals).toHaveLength(14);
  });
});

describe('the page', () => {
  const column = (cells: Record<string, string>) => ({
    date: '2026-01-02',
    node: '20.0.0',
    driven: 'x 1.0.0',
    cells,
  });
  const scored = { '2025-11-25': new Set(['initialize']), '2026-07-28': new Set<string>() };

  it('shows what failed by name, what was not run, and what is for the other SDK alone', () => {
    const results = withColumns({ columns: {} }, '9.9.9', {
      'stock-v1': column({}),
      'ours-v1': column({
        initialize: cellOf({ verdict: 'passed', passed: 4, failed: [] }),
        tools_call: cellOf({ verdict: 'failed', passed: 1, failed: ['a', 'b'] }),
      }),
    });
    const lines = page(results, all, scored).split('\n');
    const line = (start: string) => lines.find((each) => each.startsWith(`| ${start} |`));
    expect(line('scenario')).toBe('| scenario | scored at | HostedClient (SDK v1) | SDK v1 alone |');
    expect(line('`initialize`')).toBe('| `initialize` | 2025-11-25 | passed 4 | not run |');
    expect(line('`tools_call`')).toBe('| `tools_call` | not scored | **failed**: `a`, `b` | not run |');
    expect(line('`request-metadata`')).toBe('| `request-metadata` | not scored | n/a | n/a |');
    expect(line('`auth/dpop`')).toBe('| `auth/dpop` | extension | not run | not offered |');
    expect(line('HostedClient (SDK v1)')).toContain('| 1 | 1 | 0 |');
    expect(lines.filter((each) => each.startsWith('| `'))).toHaveLength(all.length);
  });

  it('keeps the columns of an earlier run, but none of another suite', () => {
    const before = withColumns({ columns: {} }, '1.0.0', { 'stock-v1': column({ initialize: 'passed 1' }) });
    const after = withColumns(before, '1.0.0', { 'ours-v1': column({ initialize: 'passed 2' }) });
    expect(Object.keys(after.columns)).toEqual(['ours-v1', 'stock-v1']);
    expect(Object.keys(withColumns(after, '1.0.1', { 'ours-v1': column({}) }).columns)).toEqual(['ours-v1']);
  });
});

describe('the command', () => {
  const command = (...args: string[]) =>
    spawnSync(
      process.execPath,
      [fileURLToPath(new URL('../../scripts/conformance.mjs', import.meta.url)), ...args],
      {
        encoding: 'utf8',
      },
    );

  it('says how it is used', () => {
    expect(command('--help')).toMatchObject({ status: 0, stdout: expect.stringContaining('--only PATTERN') });
  });

  it.each([[['--nothing']], [['--only', '(']], [['--column', 'theirs']], [['--only', 'no such scenario']]])(
    'refuses %j',
    (args) => {
      const { status, stdout, stderr } = command(...args);
      expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
      expect(stderr).not.toBe('');
    },
  );

  it('gives the results as JSON, and the progress beside them', () => {
    const { status, stdout, stderr } = command('--only', '^initialize$', '--column', 'ours-v1', '--json');
    expect(stderr).toContain('1/1 ours-v1 2025-11-25 initialize: passed');
    expect(JSON.parse(stdout).columns['ours-v1'].cells).toEqual({
      initialize: expect.stringMatching(/^passed \d+$/),
    });
    expect(status).toBe(0);
  });
});
