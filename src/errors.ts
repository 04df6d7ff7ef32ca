/**
 * The one error class of this library.
 *
 * Guarantees that every failure of the way to a server and back says what happened to the call
 * (`executed`), that a retryable error is one that certainly did not run, and that the words are ours:
 * no server text, no secret, and none of the phrases that make agent frameworks replay a call by
 * matching an error's text. Never wraps a foreign error object; of a foreign cause only its name and code stay.
 */
import type { ContractDiff } from './contract/types.js';
import { LIMITS } from './limits.js';

/** Did the tool run? `false`: certainly not. `'unknown'`: the request left, no answer arrived. `true`: an answer arrived. */
export type Executed = false | 'unknown' | true;

export type HostedMcpErrorCode =
  | 'ERR_NOT_SENT'
  | 'ERR_SESSION_LOST'
  | 'ERR_SESSION_UNSTABLE'
  | 'ERR_OUTCOME_UNKNOWN'
  | 'ERR_TIMEOUT'
  | 'ERR_ABORTED'
  | 'ERR_CREDENTIAL_REJECTED'
  | 'ERR_CREDENTIAL_SOURCE'
  | 'ERR_DISCOVERY'
  | 'ERR_REAUTHORIZATION_REQUIRED'
  | 'ERR_INSUFFICIENT_SCOPE'
  | 'ERR_TOKEN_ENDPOINT'
  | 'ERR_STORE_UNAVAILABLE'
  | 'ERR_RATE_LIMITED'
  | 'ERR_RATE_WAIT_EXCEEDED'
  | 'ERR_CONTRACT_CHANGED'
  | 'ERR_TOOL_NOT_PINNED'
  | 'ERR_DENIED'
  | 'ERR_CALL_LIMIT'
  | 'ERR_RESULT_REFUSED'
  | 'ERR_MESSAGE_TOO_LARGE'
  | 'ERR_HTTP_STATUS'
  | 'ERR_PROTOCOL'
  | 'ERR_REDIRECT'
  | 'ERR_CLOSED';

export interface HostedMcpErrorFields {
  executed?: Executed | undefined;
  retryable?: boolean | undefined;
  method?: string | undefined;
  tool?: string | undefined;
  gate?: string | undefined;
  reason?: string | undefined;
  status?: number | undefined;
  retryAfterMs?: number | undefined;
  requiredScope?: string | undefined;
  authorizationUrl?: string | undefined;
  taskId?: string | undefined;
  diff?: ContractDiff | undefined;
  serverText?: string | undefined;
  cause?: unknown;
}

const BRAND = Symbol.for('mcp-holdfast.HostedMcpError');

/** What each code means in words for a person or a model, and what to do about it. */
const ADVICE: Readonly<Record<HostedMcpErrorCode, string>> = Object.freeze({
  ERR_NOT_SENT: 'Try again later; if it persists, check the address and the network.',
  ERR_SESSION_LOST: 'The way to the server is being opened anew.',
  ERR_SESSION_UNSTABLE: 'The operator should look at session affinity or at a crash loop of the server.',
  ERR_OUTCOME_UNKNOWN: 'Look at the state of the system before repeating it.',
  ERR_TIMEOUT: 'Allow more time or ask for less.',
  ERR_ABORTED: 'The caller gave it up.',
  ERR_CREDENTIAL_REJECTED: 'The operator has to look at the credential.',
  ERR_CREDENTIAL_SOURCE: 'The operator has to look at where the credential comes from.',
  ERR_DISCOVERY: 'The operator has to look at the authorization metadata.',
  ERR_REAUTHORIZATION_REQUIRED: 'A user has to authorize again.',
  ERR_INSUFFICIENT_SCOPE: 'The credential needs a wider scope.',
  ERR_TOKEN_ENDPOINT: 'Wait; the token endpoint has to come back.',
  ERR_STORE_UNAVAILABLE: 'Wait; the shared store has to come back.',
  ERR_RATE_LIMITED: 'Wait before asking again.',
  ERR_RATE_WAIT_EXCEEDED:
    'Wait before asking again; more calls are asked for than the rate limit leaves room for.',
  ERR_CONTRACT_CHANGED: 'A reviewer has to look at the difference and accept it.',
  ERR_TOOL_NOT_PINNED: 'A reviewer has to look at the tool before it may be called.',
  ERR_DENIED: 'Find another way; this call is not allowed.',
  ERR_CALL_LIMIT: 'Make no further calls in this turn: finish with what is known.',
  ERR_RESULT_REFUSED: 'Do not repeat it: the tool ran, its result was refused here.',
  ERR_MESSAGE_TOO_LARGE: 'Ask for a smaller answer.',
  ERR_HTTP_STATUS: 'The operator should look at the server or a gateway before it.',
  ERR_PROTOCOL: 'The operator should look at the server or a gateway before it.',
  ERR_REDIRECT: 'The operator should configure the address the server redirects to.',
  ERR_CLOSED: 'Open a new client.',
});

/** How agent frameworks recognise an error after which they run a call again; none may stand in our words. */
const REPLAY_PHRASES =
  /not connected|connection closed|connection refused|econnrefused|fetch failed|terminated|server not initialized|http 40[0134]/gi;
/** Mastra 0.14 does so for this word alone: it may stand only where the call did not run. */
const REPLAY_WORD = /session/gi;

/**
 * A failure of the way to a hosted server and back, or a refusal on that way. A server's own JSON-RPC
 * error is not one: it reaches the caller as the SDK's error.
 */
export class HostedMcpError extends Error {
  override readonly name: string = 'HostedMcpError';
  declare readonly code: HostedMcpErrorCode;
  /** `!error.executed` means the tool certainly did not run; a truthy value means it did or may have. */
  declare readonly executed: Executed;
  /** Implies `executed === false`. */
  declare readonly retryable: boolean;
  declare readonly method?: string;
  declare readonly tool?: string;
  /** The gate that refused. */
  declare readonly gate?: string;
  declare readonly reason?: string;
  /** HTTP status, where an answer had one. */
  declare readonly status?: number;
  declare readonly retryAfterMs?: number;
  declare readonly requiredScope?: string;
  declare readonly authorizationUrl?: string;
  declare readonly taskId?: string;
  /** Of a contract that changed: what concerns the call. It holds the server's words: escape them (`formatDiff` does). */
  declare readonly diff?: ContractDiff;
  /** What the server wrote, cut to 200 characters and cleaned. Never part of `message`: it would be an instruction channel into a model. */
  declare readonly serverText?: string;

  constructor(code: HostedMcpErrorCode, what: string, fields: HostedMcpErrorFields = {}) {
    const executed = fields.executed ?? false;
    super(
      withoutReplayPhrases(
        `${sentence(what)} ${OUTCOME[String(executed) as keyof typeof OUTCOME]}`,
        executed,
      ),
    );
    this.code = code;
    this.executed = executed;
    this.retryable = executed === false && (fields.retryable ?? false);
    for (const key of FIELD_NAMES) {
      const value = fields[key];
      if (value !== undefined)
        Object.defineProperty(this, key, { value, enumerable: !SERVER_WORDS.has(key), configurable: true });
    }
    if (fields.cause !== undefined) {
      Object.defineProperty(this, 'cause', { value: describeCause(fields.cause), configurable: true });
    }
    Object.defineProperty(this, BRAND, { value: true });
  }

  /** The failure as a tool result in our words, for hosts that hand errors to a model. */
  toToolResult(): { isError: true; content: [{ type: 'text'; text: string }] } {
    const wait =
      this.retryAfterMs === undefined ? '' : ` Wait at least ${Math.ceil(this.retryAfterMs / 1000)} s.`;
    const text = withoutReplayPhrases(`${this.message} ${ADVICE[this.code]}${wait}`, this.executed);
    return { isError: true, content: [{ type: 'text', text }] };
  }

  /** Recognises errors of every copy of this library (ESM, CJS, another version) and, if codes are given, of those codes. */
  static isInstance<C extends HostedMcpErrorCode>(
    error: unknown,
    ...codes: C[]
  ): error is HostedMcpError & { readonly code: C } {
    return isBranded(error) && (codes.length === 0 || codes.includes(error.code as C));
  }

  /** The HostedMcpError that `error` is or carries (an SDK error with `data.holdfast`, a `cause`), else undefined. */
  static from(error: unknown): HostedMcpError | undefined {
    return unwrap(error);
  }
}

function isBranded(error: unknown): error is HostedMcpError {
  return typeof error === 'object' && error !== null && BRAND in error;
}

function unwrap(error: unknown): HostedMcpError | undefined {
  for (let at: unknown = error, depth = 0; typeof at === 'object' && at !== null && depth < 5; depth++) {
    if (isBranded(at)) return at;
    const carried = (at as { data?: { holdfast?: unknown } }).data?.holdfast;
    if (isCarried(carried)) {
      const { retryAfterMs: stated } = carried;
      const retryAfterMs = Number.isFinite(stated) && Number(stated) >= 0 ? Number(stated) : undefined;
      return new HostedMcpError(carried.code, 'The call failed on its way.', {
        executed: carried.executed,
        retryable: retryAfterMs !== undefined,
        retryAfterMs,
      });
    }
    at = (at as { cause?: unknown }).cause;
  }
  return undefined;
}

/** Not shown by those who log an error whole. */
const SERVER_WORDS: ReadonlySet<string> = new Set(['serverText', 'diff']);

const FIELD_NAMES = [
  'method',
  'tool',
  'gate',
  'reason',
  'status',
  'retryAfterMs',
  'diff',
  'requiredScope',
  'authorizationUrl',
  'taskId',
  'serverText',
] as const satisfies readonly (keyof HostedMcpErrorFields)[];

const OUTCOME = Object.freeze({
  false: 'The call did not run.',
  unknown: 'The call may have run: check before repeating it.',
  true: 'The call ran.',
});

function isCarried(
  value: unknown,
): value is { code: HostedMcpErrorCode; executed: Executed; retryAfterMs?: unknown } {
  if (typeof value !== 'object' || value === null) return false;
  const { code, executed } = value as { code?: unknown; executed?: unknown };
  return (
    typeof code === 'string' &&
    Object.hasOwn(ADVICE, code) &&
    (executed === false || executed === true || executed === 'unknown')
  );
}

function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

/** Only an app's own words (a gate's reason) can bring such a phrase in; it is taken apart rather than passed on. */
function withoutReplayPhrases(text: string, executed: Executed): string {
  const apart = (phrase: string) => `${phrase.slice(0, 1)}…${phrase.slice(-1)}`;
  const without = text.replace(REPLAY_PHRASES, apart);
  return executed === false ? without : without.replace(REPLAY_WORD, apart);
}

/** Of a foreign error: its name and code. Its message may quote addresses, headers or tokens. */
function describeCause(cause: unknown): unknown {
  if (HostedMcpError.isInstance(cause)) return cause;
  const code = codeOf(cause);
  const name = typeof cause === 'object' && cause !== null && 'name' in cause ? cause.name : undefined;
  const described: Error & { code?: string } = new Error('The underlying error is named by its code.');
  described.name = typeof name === 'string' && /^[A-Za-z]{1,40}$/.test(name) ? name : 'Error';
  if (code !== undefined) described.code = code;
  delete described.stack;
  return described;
}

/** `error.code` if it is a plain identifier; works on errors of another realm, where `instanceof` does not. */
export function codeOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined;
  return typeof error.code === 'string' && /^[A-Z0-9_]{1,60}$/.test(error.code) ? error.code : undefined;
}

/** Terminal control sequences (ECMA-48: CSI, the string commands such as OSC, and the short ones), with all that belongs to them. */
const ESCAPE_SEQUENCES =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
  /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]|\u001b[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b[ -/]*[0-~]/g;

/**
 * Characters that must not reach a terminal, a log or a model: controls, line separators, bidi and tag characters,
 * whatever else is not shown (variation selectors carry hidden text), and halves of surrogate pairs.
 */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

/** Server text made safe to keep on an error: escape sequences and invisible characters gone, cut to 200 characters. */
export function cleanServerText(text: string): string {
  const head = text.slice(0, LIMITS.serverTextLength * 4);
  return Array.from(head.replace(ESCAPE_SEQUENCES, '').replace(UNSAFE, ' ').replace(/\s+/g, ' ').trim())
    .slice(0, LIMITS.serverTextLength)
    .join('');
}
