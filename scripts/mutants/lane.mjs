// One lane of `npm run mutants`: holds a Vitest instance over a private copy of the tree, puts one mutant after the
// other into it and says which test fails. It is ended from outside where a mutant never comes to an end.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createVitest } from 'vitest/node';

const { root } = JSON.parse(process.argv[2]);

/**
 * Far above what any test needs, for a mutant may make one wait for ever; and the silence after which it is taken for a
 * loop without end. On a clock of their own tests take milliseconds.
 */
const UNIT = { testMs: 4_000, silenceMs: 15_000 };
const WIRE = { testMs: 10_000, silenceMs: 30_000 };

const vitest = await createVitest(
  'test',
  {
    root,
    config: false,
    watch: false,
    include: ['test/**/*.test.ts'],
    reporters: [{}],
    pool: 'threads',
    maxWorkers: 1,
    bail: 1,
    testTimeout: WIRE.testMs,
    hookTimeout: WIRE.testMs,
    teardownTimeout: 2_000,
  },
  { configFile: false, root, cacheDir: join(root, '.cache'), server: { watch: null }, clearScreen: false },
);

/** Unhandled errors that were told of. */
const told = new WeakSet();

process.on('message', async (task) => {
  try {
    process.send({ id: task.id, ...(await judge(task)) });
  } catch (error) {
    process.send({ id: task.id, outcome: 'broken', by: String(error?.stack ?? error) });
  }
});
process.on('disconnect', () => process.exit(0));
process.send({ ready: true });

/** The groups in turn, until one fails. */
async function judge({ file, original, text, groups }) {
  put(file, text);
  try {
    for (const group of groups) {
      const failure = await run(group);
      if (failure !== undefined) return failure;
    }
    return { outcome: 'survived' };
  } finally {
    put(file, original);
  }
}

function put(file, text) {
  const path = join(root, file);
  writeFileSync(path, text);
  vitest.invalidateFile(path);
}

async function run(files) {
  const project = vitest.getRootProject();
  const { testMs, silenceMs } = files.every((file) => file.startsWith('test/unit/')) ? UNIT : WIRE;
  project.config.testTimeout = testMs;
  project.config.hookTimeout = testMs;
  process.send({ silenceMs });
  const specifications = files.map((file) => project.createSpecification(join(root, file)));
  const outcome = await vitest.runTestSpecifications(specifications);
  // The instance tells of earlier runs as well: their failures are none of this mutant's.
  const testModules = outcome.testModules.filter(({ relativeModuleId }) => files.includes(relativeModuleId));
  const unhandledErrors = outcome.unhandledErrors.filter((error) => !told.has(error));
  for (const error of unhandledErrors) told.add(error);
  if (testModules.length < files.length) throw new Error(`not run: ${files.join(', ')}`);
  for (const module of testModules) {
    for (const test of module.children.allTests('failed')) {
      const words = test.result().errors.map(({ message }) => message.split('\n')[0]);
      const isTimeout = words.length > 0 && words.every((word) => /timed out in \d+ms/.test(word));
      return {
        outcome: isTimeout ? 'timed out' : 'killed',
        by: module.relativeModuleId,
        test: test.fullName,
        words: words[0],
      };
    }
  }
  for (const module of testModules) {
    if (module.state() === 'failed')
      return { outcome: 'killed', by: module.relativeModuleId, words: module.errors()[0]?.message };
  }
  if (unhandledErrors.length > 0)
    return { outcome: 'killed', by: files[0], words: String(unhandledErrors[0]?.message) };
  return undefined;
}
