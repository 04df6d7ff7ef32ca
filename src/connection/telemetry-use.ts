/**
 * A connection as telemetry sees it: its requests from hand-in to end, its sessions, and what befell both.
 *
 * Guarantees that each request is told of in its caller's own turn and ends once, and that a session which ended has
 * been told of once, with how long it stood. Never keeps a call: what is under way is the ledger's to know.
 */
import type { SessionInfo } from '../session/session.js';
import type { ConnectionTelemetry, Telemetry, TelemetryEvent, TelemetryServer } from '../telemetry.js';
import { CallTrace, type CallTraceParts, harmless, requestFacts } from './call-trace.js';
import type { ObservedParts } from './diagnostics.js';
import type { Call } from './ledger.js';
import { LISTEN } from './outgoing.js';
import type { Connection } from './types.js';

export class TelemetryUse {
  readonly #parts: ObservedParts;
  readonly #connection: Pick<Connection, 'session'>;
  readonly #telemetry: ConnectionTelemetry;
  readonly #callParts: CallTraceParts;
  #session: { readonly info: SessionInfo; readonly sinceMs: number } | undefined;
  /** The server dropped the session, and none has taken its place. */
  #isLost = false;

  constructor(telemetry: Telemetry, connection: Pick<Connection, 'session'>, parts: ObservedParts) {
    const { options, redactor } = parts;
    this.#parts = parts;
    this.#connection = connection;
    this.#telemetry = telemetry.connection(serverOf(parts));
    this.#callParts = {
      clock: options.clock,
      redactor,
      wantsSessionId: telemetry.wantsSessionId === true,
    };
  }

  start(): void {
    const { emitter, ledger } = this.#parts;
    ledger.onAdd = (call) => this.#began(call);
    emitter.on('session-established', ({ session }) => this.#stands(session));
    emitter.on('session-lost', ({ session }) => {
      this.#isLost = true;
      if (this.#session?.info.number === session.number) this.#ended(true);
      for (const call of ledger.all()) {
        if (call.session?.number === session.number)
          call.trace?.happened({ type: 'session-lost', session: session.number });
      }
    });
    emitter.on('session-replaced', ({ previous, current }) => {
      this.#tell({ type: 'session-replaced', cause: this.#isLost ? 'server' : 'credential' });
      this.#isLost = false;
      const numbers = { previous: previous.number, current: current.number };
      for (const call of ledger.all()) call.trace?.happened({ type: 'session-replaced', ...numbers });
    });
    emitter.on('state', ({ current }) => {
      if (current === 'idle' || current === 'closed') this.#ended(false);
      // One of before a restart, that nobody had to open.
      const { session } = this.#connection;
      if (current === 'ready' && this.#session === undefined && session !== undefined) this.#stands(session);
    });
    emitter.on('credential-refreshed', () => this.#tell({ type: 'credential-refreshed' }));
    emitter.on('credential-adopted', () => this.#tell({ type: 'credential-adopted' }));
    emitter.on('credential-failed', ({ error }) =>
      this.#tell({ type: 'credential-failed', code: error.code }),
    );
    emitter.on('stream-cut', ({ method = LISTEN }) =>
      this.#tell({ type: 'stream-cut', stream: method === LISTEN ? 'listen' : 'response' }),
    );
  }

  #began(call: Call): void {
    // A subscription stands for days: no operation that could be timed.
    if (call.method === LISTEN) return;
    const request = harmless(() => this.#telemetry.request(requestFacts(call, this.#callParts)));
    if (request === undefined) return;
    const trace = new CallTrace(call, this.#callParts, request);
    call.trace = trace;
    call.promise.then(
      (answer) => trace.ended(answer, undefined),
      (error: unknown) => trace.ended(undefined, error),
    );
  }

  #stands(info: SessionInfo): void {
    this.#ended(false);
    if (info.era === 'initialize') this.#session = { info, sinceMs: this.#parts.options.clock.monotonic() };
  }

  #ended(lost: boolean): void {
    if (this.#session === undefined) return;
    const { info, sinceMs } = this.#session;
    this.#session = undefined;
    const durationMs = this.#parts.options.clock.monotonic() - sinceMs;
    this.#tell({ type: 'session-ended', durationMs, protocolVersion: info.protocolVersion, lost });
  }

  #tell(event: TelemetryEvent): void {
    harmless(() => this.#telemetry.event(event));
  }
}

function serverOf({ options }: ObservedParts): TelemetryServer {
  const { url, http } = options;
  if (url.hostname === '') return { transport: 'pipe' };
  return {
    transport: 'tcp',
    // An IPv6 address stands in brackets in an address of the web alone.
    address: url.hostname.replace(/^\[|\]$/g, ''),
    port: Number(url.port || (url.protocol === 'https:' ? 443 : 80)),
    // What the app brings in its place may speak another.
    ...(http.fetch === undefined && http.dispatcher === undefined && { httpVersion: '1.1' }),
  };
}
