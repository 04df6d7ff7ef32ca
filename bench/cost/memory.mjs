// What an idle session holds, at a thousand of them in one process, and what ten thousand calls at once do to one connection.
import { runProgram } from '../kit/processes.mjs';

const SESSIONS = 1_000;
const IN_FLIGHT = 10_000;

export async function measureMemory(port, { baseline, say }) {
  const options = { origin: `http://127.0.0.1:${port}`, baseline, sessions: SESSIONS };
  const execArgv = ['--expose-gc'];
  say(`memory of ${SESSIONS} idle sessions`);
  const ours = await runProgram('cost/idle-sessions.mjs', { ...options, what: 'sessions' }, { execArgv });
  say(`memory of ${SESSIONS} bare sockets`);
  const bare = await runProgram('cost/idle-sessions.mjs', { ...options, what: 'sockets' }, { execArgv });
  say(`timers of ${SESSIONS} idle sessions`);
  const { timers } = await runProgram('cost/idle-sessions.mjs', { ...options, what: 'timers' }, { execArgv });
  say(`${IN_FLIGHT} calls in flight`);
  const inFlight = await runProgram('cost/in-flight.mjs', { ...options, calls: IN_FLIGHT });
  return { sessions: SESSIONS, ours, bare, timers, inFlight };
}
