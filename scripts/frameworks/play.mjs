// One row: the example and the stock wiring at the same time, each in its own process against a server of its own.
import { fileURLToPath } from 'node:url';
import { startPlayer } from './child.mjs';
import { installExample, versionOf } from './install.mjs';
import { claimsOnCuts, claimsOnRun, figuresOf, outcomeOf } from './judge.mjs';
import { CUTS, FORGOTTEN, playCuts, playRun } from './scenario.mjs';

const PLAYER = fileURLToPath(new URL('player.mjs', import.meta.url));
const CUT_NAMES = CUTS.map(({ name }) => name);

/** Rejects where it cannot be installed; what goes wrong later is in the claims. */
export async function playRow(row, { root, cache, tarball, say }) {
  const { directory, isFresh } = await installExample({
    example: `${root}examples/${row.folder}`,
    cache,
    tarball,
    extraFiles: {
      'player.mjs': PLAYER,
      'stock.mjs': fileURLToPath(new URL(`stock/${row.folder}.mjs`, import.meta.url)),
    },
  });
  if (isFresh) say(`    installed ${row.folder}`);
  const [own, stock] = await Promise.all([
    playProgram(row, directory, row.program, { forgets: row.forgets }),
    // It would only wait for its own time to be up.
    playProgram(row, directory, 'stock.mjs', { forgets: false }),
  ]);
  const claims = own.error === undefined ? claimsOf(row, own) : [broken('it could be run', own.error)];
  return {
    name: row.name,
    packageName: row.packageName,
    version: versionOf(directory, row.packageName),
    way: row.way,
    holds: claims.every(({ holds }) => holds),
    claims,
    own: shown(own),
    stock: shown(stock),
    /** What the example has printed last, where something went wrong. */
    said: own.said,
  };
}

async function playProgram(row, directory, program, how) {
  let player;
  try {
    player = await startPlayer(directory, `${directory}/player.mjs`, [`${directory}/${program}`, row.opens]);
    const run = await playRun(player, row.server, row.script);
    const cuts = row.cuts ? await playCuts(player, row.server, how) : undefined;
    return { run, cuts, said: player.said() };
  } catch (error) {
    return { error: String(error?.message ?? error), said: player?.said() };
  } finally {
    await player?.end();
  }
}

function claimsOf(row, { run, cuts }) {
  const names = row.forgets ? [...CUT_NAMES, FORGOTTEN] : CUT_NAMES;
  const ofCuts = cuts === undefined ? [] : claimsOnCuts(cuts, names);
  return [
    ...claimsOnRun(run, row.script),
    ...ofCuts.map(({ text, ...claim }) => ({ text: `answers lost: ${text}`, ...claim })),
  ];
}

function shown({ run, cuts, error }) {
  if (run === undefined) return { error };
  return {
    run: figuresOf(run),
    failures: run.calls.filter(({ done }) => done !== true).map((call) => outcomeOf(call)),
    cuts: cuts?.calls
      .filter(({ ticket }) => [...CUT_NAMES, FORGOTTEN].includes(ticket))
      .map((call) => ({ name: call.ticket, runs: call.runs, outcome: outcomeOf(call) })),
  };
}

function broken(text, found) {
  return { text, holds: false, found };
}
