// Storms in several processes: one mostly waits for what its own faults have put off.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const STORM = fileURLToPath(new URL('../storm.mjs', import.meta.url));
/** What a lane ends with where it has done its work: nothing was wrong, or something was. */
const ENDS = [0, 1];

/** Each of n lanes has every n-th seed. Resolves with all storms, in the order of seeds. */
export async function inLanes({ lanes, seeds, calls, faces, kinds, minutes, shrink }) {
  const shares = Array.from({ length: lanes }, (_, lane) => seeds.filter((_seed, at) => at % lanes === lane));
  const common = [
    ...['--calls', calls, '--face', faces.join(',')],
    ...(kinds === undefined ? [] : ['--faults', kinds.join(',')]),
    ...(Number.isFinite(minutes) ? ['--minutes', minutes] : []),
    ...(shrink ? ['--shrink'] : []),
  ];
  const results = await Promise.all(
    shares
      .filter((share) => share.length > 0)
      .map((share) => lane([...common, '--seeds', share.join(',') + (share.length === 1 ? ',' : '')])),
  );
  return results.flat().sort((one, other) => one.seed - other.seed);
}

async function lane(args) {
  const child = spawn(process.execPath, ['--no-warnings', STORM, '--json', ...args.map(String)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const endIt = () => child.kill();
  process.once('exit', endIt);
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (chunk) => {
    text += chunk;
  });
  const [status] = await once(child, 'close');
  process.off('exit', endIt);
  if (!ENDS.includes(status)) throw new Error(`a lane ended with ${status}`);
  return JSON.parse(text).storms.map((storm) => ({ ...storm, rows: new Map(Object.entries(storm.rows)) }));
}
