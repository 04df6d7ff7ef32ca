/**
 * `mcp-holdfast bridge`: stdio on one side, a hosted server on the other, for hosts that only launch commands.
 *
 * Guarantees what the engine guarantees: a call leaves once, a lost session and an expired credential are healed, each
 * failure says what happened to the call. Ends within a few seconds of the end of its input or of a signal, with the
 * session deleted. Never writes to standard output what is no JSON-RPC.
 */
import { sleep, untilAborted } from '../../clock.js';
import { HostedConnection } from '../../connection/connection.js';
import { HostedMcpError } from '../../errors.js';
import { resolveHostedOptions } from '../../options.js';
import { COMMON_OPTIONS, type ReadWords, readArguments } from '../arguments.js';
import { type Command, type CommandIo, UsageError } from '../command.js';
import { EXIT } from '../exit-codes.js';
import { TARGET_HELP } from '../target.js';
import { Bridge } from './bridge.js';
import { HostInput } from './host-input.js';
import { HostOutput } from './host-output.js';
import { BridgeLog, LEVELS, type Level } from './log.js';
import { CONSENT_MS } from './login.js';
import { readSetting, type Setting } from './setting.js';

const OPTIONS = Object.freeze({
  ...COMMON_OPTIONS,
  server: { type: 'string' },
  login: { type: 'boolean' },
  store: { type: 'string' },
  port: { type: 'string' },
  'client-id': { type: 'string' },
  'client-metadata-url': { type: 'string' },
  scope: { type: 'string' },
  'token-file': { type: 'string' },
  'header-env': { type: 'string', multiple: true },
  'log-level': { type: 'string' },
} as const);

const ENDING = Object.freeze({
  /** Calls under way when the input ends: an answer that is near is still passed on. */
  answersMs: 1_000,
  /** The session's DELETE takes 2 s at most; stock hosts kill 4 s after they closed the input. */
  closeMs: 2_500,
});

export const bridge: Command = {
  name: 'bridge',
  summary: 'stdio on one side, a hosted server on the other: for hosts that launch commands',
  help: `Usage: mcp-holdfast bridge <url|config> [--server NAME] [--login] [--token-file FILE]
                           [--header-env NAME=VARIABLE]... [--log-level LEVEL] [--json]

For desktop clients and editors that know servers by a command only: what the host says on
standard input goes to the hosted server, and back. Sessions, credentials, cut streams and limits
are healed on the way; a call leaves once. Failures are JSON-RPC errors from -32018 to -32010 whose
data.holdfast says what happened to the call. Standard output carries JSON-RPC alone, the log goes
to standard error.

  --server NAME     the server NAME of a configuration file; the same as FILE#NAME
  --login           the user's consent, in the browser, when the server first asks for a credential
  --store DIR       where the consent is kept, readable to this user alone (default
                    $XDG_STATE_HOME/mcp-holdfast, or ~/.local/state/mcp-holdfast)
  --port N          the port on loopback that the browser comes back to (default: one that belongs
                    to the server's address)
  --client-id ID    the client at the authorization server (default: registered at first use); a
                    secret of it is HOLDFAST_CLIENT_SECRET, with HOLDFAST_ISSUER
  --client-metadata-url URL   a client metadata document in its place
  --scope SCOPE     asked for at the consent
  --token-file FILE a file with a bearer token, read again when it changes
  --header-env NAME=VARIABLE  the header NAME from an environment variable; more than once
  --log-level LEVEL debug, info, warn or error (default info)
  --json            each line of the log is a JSON object

${TARGET_HELP}

Exit status: 0 the input ended, or a signal came; 2 unusable arguments, configuration or
environment. A server that cannot be reached, or refuses the credential, does not end it: the host
gets the error.`,

  async run(args, io) {
    const words = readArguments(args, OPTIONS, { min: 1, max: 1, what: 'One address or configuration' });
    const level = levelOf(words);
    const said: { setting?: Setting } = {};
    const log = new BridgeLog({
      stderr: io.stderr,
      clock: io.clock,
      level,
      json: words.flag('json'),
      redact: (text) => said.setting?.secrets.text(text) ?? text,
    });
    const setting = await readSetting(words, io, (...line) => log.say(...line));
    said.setting = setting;
    await serve(setting, io, log);
    return EXIT.ok;
  },
};

async function serve(setting: Setting, io: CommandIo, log: BridgeLog): Promise<void> {
  const { clock } = io;
  const { label, credentials, isLogin } = setting;
  const engine = engineFor(setting, io, log);
  const stop = new AbortController();
  const onSignal = () => stop.abort();
  io.signal.addEventListener('abort', onSignal, { once: true });
  if (io.signal.aborted) stop.abort();
  const output = new HostOutput({
    stdout: io.stdout,
    onGone: (reason) => {
      if (reason === 'unread') log.say('error', 'host-unread', 'The host reads nothing: the bridge ends.');
      stop.abort();
    },
  });
  const host = new Bridge({
    engine,
    output,
    log,
    clock,
    label,
    consentMs: isLogin ? CONSENT_MS : undefined,
    advice: isLogin ? '' : 'For a consent of the user in the browser, add --login.',
  });
  try {
    await readHost(io, new HostInput(host), output, stop.signal);
    await Promise.race([host.settled(), sleep(clock, ENDING.answersMs, stop.signal).catch(() => {})]);
  } finally {
    io.signal.removeEventListener('abort', onSignal);
    const closing = Promise.all([engine.close(), credentials?.close?.({ drainMs: ENDING.closeMs })]);
    await Promise.race([closing.catch(() => {}), sleep(clock, ENDING.closeMs)]);
    if (output.missed > 0) {
      const what = 'Progress and log messages were left out, because the host did not read in time.';
      log.say('warn', 'messages-missed', what, { count: output.missed });
    }
  }
}

/** Until the input ends, fails, or `signal` does. */
async function readHost(
  io: CommandIo,
  input: HostInput,
  output: HostOutput,
  signal: AbortSignal,
): Promise<void> {
  const chunks = io.stdin[Symbol.asyncIterator]();
  try {
    for (;;) {
      // What the host does not read, it shall not ask for more of.
      if (output.draining !== undefined) await untilAborted(output.draining, signal);
      const { value, done } = await untilAborted(chunks.next(), signal);
      if (done === true) break;
      input.push(value);
    }
    input.end();
  } catch {
    // Stopped, or the pipe broke: both are an end.
  }
}

function engineFor(
  { label, url, credentials, http }: Setting,
  { clock }: CommandIo,
  log: BridgeLog,
): HostedConnection {
  try {
    return new HostedConnection(resolveHostedOptions(url, { credentials, http, clock, logger: log.entry }));
  } catch (error) {
    // It names the option, never its value.
    if (error instanceof TypeError && !HostedMcpError.isInstance(error)) {
      throw new UsageError(`${label}: ${error.message}.`);
    }
    throw error;
  }
}

function levelOf(words: ReadWords): Level {
  const given = words.one('log-level') ?? 'info';
  const level = LEVELS.find((each) => each === given);
  if (level === undefined) throw new UsageError(`--log-level must be one of ${LEVELS.join(', ')}.`);
  return level;
}
