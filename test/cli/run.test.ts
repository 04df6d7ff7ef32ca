import { describe, expect, it } from 'vitest';
import { readArguments } from '../../src/cli/arguments.js';
import { type Command, type CommandIo, UsageError } from '../../src/cli/command.js';
import { nearest } from '../../src/cli/nearest.js';
import { Progress } from '../../src/cli/progress.js';
import { runCli } from '../../src/cli/run.js';
import { formatSnapshot } from '../../src/contract/index.js';
import { manualClock } from '../../src/testing/index.js';
import { LOCAL } from './seed.js';
import { folder, run } from './support.js';

describe('the program', () => {
  it('without words: what there is, exit 2; with --help: the same, exit 0', async () => {
    const bare = await run([]);
    expect(bare).toMatchObject({ status: 2, stdout: '' });
    for (const words of [['--help'], ['-h'], ['help']]) {
      expect(await run(words)).toEqual({ status: 0, stdout: bare.stderr, stderr: '' });
    }
    for (const name of ['snapshot', 'diff', 'check', 'doctor']) expect(bare.stderr).toContain(`  ${name} `);
  });

  it.each(['snapshot', 'diff', 'check'])('%s --help', async (name) => {
    const { status, stdout, stderr } = await run([name, '--help']);
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(stdout).toContain(`Usage: mcp-holdfast ${name} `);
    expect(stdout).toContain('--json');
    for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(100);
    expect(await run(['help', name])).toEqual({ status, stdout, stderr });
    expect(await run([name, '--nonsense', '-h'])).toEqual({ status, stdout, stderr });
  });

  it('--version', async () => {
    const { status, stdout } = await run(['--version']);
    expect(status).toBe(0);
    expect(stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  });

  it.each<[words: string[], line: string]>([
    [['snapshto'], 'mcp-holdfast: Unknown command snapshto; did you mean snapshot?'],
    [['Diff', 'a', 'b'], 'mcp-holdfast: Unknown command Diff; did you mean diff?'],
    [['frobnicate'], 'mcp-holdfast: Unknown command frobnicate; see mcp-holdfast --help.'],
    [['--versoin'], 'mcp-holdfast: Unknown option --versoin; did you mean --version?'],
    [['a.json', 'b.json'], 'mcp-holdfast: A command comes first; see mcp-holdfast --help.'],
    [['help', 'dif'], 'mcp-holdfast: Unknown command dif; did you mean diff?'],
    [
      ['diff', '--marckdown', 'a', 'b'],
      'mcp-holdfast diff: Unknown option --marckdown; did you mean --markdown?',
    ],
    [['diff', '-x', 'a', 'b'], 'mcp-holdfast diff: Unknown option -x; see --help.'],
    [['diff', 'a', 'b', '--json', '--json'], 'mcp-holdfast diff: --json is given twice.'],
    [['diff', 'a', 'b', '--json=yes'], 'mcp-holdfast diff: --json takes no value.'],
    [['diff', 'a', 'b', '--no-json'], 'mcp-holdfast diff: Unknown option --no-json; see --help.'],
    [['diff', 'a', 'b', '--ignore'], 'mcp-holdfast diff: --ignore needs a value.'],
    [['diff', 'a', 'b', '--ignore', '--json'], 'mcp-holdfast diff: --ignore needs a value.'],
    [['snapshot', 'a', '-o', ''], 'mcp-holdfast snapshot: -o needs a value.'],
    [['diff', 'a'], 'mcp-holdfast diff: Two snapshots expected, 1 given; see --help.'],
    [['diff', 'a', 'b', 'c'], 'mcp-holdfast diff: Two snapshots expected, 3 given; see --help.'],
    [['diff', '-', '-'], 'mcp-holdfast diff: Only one of the two can be standard input.'],
    [
      ['diff', 'a', 'b', '--json', '--markdown'],
      'mcp-holdfast diff: --json and --markdown exclude each other.',
    ],
    [['snapshot'], 'mcp-holdfast snapshot: One address or configuration expected, 0 given; see --help.'],
  ])('%j: exit 2', async (words, line) => {
    expect(await run(words)).toEqual({ status: 2, stdout: '', stderr: `${line}\n` });
  });

  it('words behind -- are no options', async () => {
    const cwd = await folder({ '--json': formatSnapshot(LOCAL) });
    const { status, stdout } = await run(['diff', '--json', '--', '--json', './--json'], { cwd });
    expect(status).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ identical: true });
  });

  const command = (act: (io: CommandIo) => Promise<number>): Command => ({
    name: 'act',
    summary: '',
    help: '',
    run: (_args, io) => act(io),
  });
  async function acting(act: (io: CommandIo) => Promise<number>, signal = new AbortController().signal) {
    let stderr = '';
    const io = { signal, stderr: { write: (text: string) => (stderr += text) } } as unknown as CommandIo;
    const status = await runCli(['act'], io, [{ name: 'act', summary: '', load: async () => command(act) }]);
    return { status, stderr };
  }

  it('after Ctrl-C: 130 and nothing said, whether the command rejects or ends', async () => {
    for (const end of [() => Promise.resolve(1), () => Promise.reject(new Error('stopped'))]) {
      const stop = new AbortController();
      const running = acting(() => {
        stop.abort();
        return end();
      }, stop.signal);
      expect(await running).toEqual({ status: 130, stderr: '' });
    }
  });

  it('what a command throws is told in one line', async () => {
    expect(await acting(() => Promise.reject(new UsageError('Not so.')))).toEqual({
      status: 2,
      stderr: 'mcp-holdfast act: Not so.\n',
    });
    expect(await acting(() => Promise.reject(new TypeError('of token abc')))).toEqual({
      status: 70,
      stderr: 'mcp-holdfast act: An unexpected failure, and a fault of this program: TypeError.\n',
    });
  });
});

describe('readArguments', () => {
  const SPEC = {
    env: { type: 'string' },
    output: { type: 'string', short: 'o' },
    ignore: { type: 'string', multiple: true },
    json: { type: 'boolean' },
  } as const;
  const read = (...args: string[]) => readArguments(args, SPEC, { min: 0, max: 9, what: 'Words' });

  it('forms of one option', () => {
    for (const args of [['-o', 'x'], ['-ox'], ['--output', 'x'], ['--output=x']]) {
      expect(read(...args).one('output')).toBe('x');
    }
    expect(read('--env=-x').one('env')).toBe('-x');
    expect(read('-o', '-').one('output')).toBe('-');
    expect(read('--ignore', 'a', '--ignore', 'b').all('ignore')).toEqual(['a', 'b']);
    expect(read('a', '--json', 'b').positionals).toEqual(['a', 'b']);
    expect([read().flag('json'), read().one('env'), read().all('ignore')]).toEqual([false, undefined, []]);
  });

  it('names that objects have by nature are unknown', () => {
    for (const name of ['__proto__', 'constructor', 'toString']) {
      expect(() => read(`--${name}`)).toThrow('Unknown option');
    }
  });
});

describe('nearest', () => {
  const NAMES = ['snapshot', 'diff', 'check', 'doctor'];
  it.each([
    ['snapshot', 'snapshot'],
    ['snapsht', 'snapshot'],
    ['dfif', 'diff'],
    ['DOCTOR', 'doctor'],
    ['chek', 'check'],
    ['frobnicate', undefined],
    ['', undefined],
  ])('%j: %s', (given, expected) => {
    expect(nearest(given, NAMES)).toBe(expected);
  });
});

it('nearest: what is no name is not compared', () => {
  expect(nearest('x'.repeat(1_000_000), ['x'.repeat(1_000_000)])).toBeUndefined();
});

describe('Progress', () => {
  function scene(isTTY: boolean, forced = false, env = {}) {
    const clock = manualClock();
    let text = '';
    const stderr = { write: (more: string) => (text += more) };
    const io = { clock, stderr, env, isTTY: { stdout: false, stderr: isTTY } } as unknown as CommandIo;
    return { clock, progress: new Progress(io, { forced }), said: () => text };
  }

  it('says nothing of what takes less than a second', async () => {
    const { clock, progress, said } = scene(true);
    progress.step('Reading');
    await clock.advance(999);
    progress.end();
    await clock.advance(60_000);
    expect(said()).toBe('');
  });

  it('keeps one line of a terminal up to date, and takes it away', async () => {
    const { clock, progress, said } = scene(true);
    progress.step('Reading');
    await clock.advance(2_000);
    progress.step('Comparing');
    progress.end();
    await clock.advance(60_000);
    expect(said().split('\r\u001b[K')).toEqual([
      '',
      'Reading ... 1 s',
      'Reading ... 2 s',
      'Comparing ...',
      '',
    ]);
  });

  it('writes few lines into a log, and only where it is asked for', async () => {
    const log = scene(false, true);
    log.progress.step('Reading');
    await log.clock.advance(22_000);
    log.progress.end();
    expect(log.said()).toBe('Reading ... 1 s\nReading ... 11 s\nReading ... 21 s\n');
    for (const quiet of [scene(false), scene(true, false, { TERM: 'dumb' })]) {
      quiet.progress.step('Reading');
      await quiet.clock.advance(60_000);
      expect(quiet.said()).toBe('');
    }
  });
});
