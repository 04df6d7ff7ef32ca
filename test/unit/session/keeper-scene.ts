/** A keeper over a wire that says what the test wants, with everything that is told written down. */
import type { StreamFacts } from '../../../src/connection/route.js';
import type { Wire } from '../../../src/connection/wire.js';
import type { Credential, CredentialProvider } from '../../../src/credentials/provider.js';
import { HostedMcpError } from '../../../src/errors.js';
import type { JsonRpcMessage } from '../../../src/json-rpc.js';
import { SessionKeeper } from '../../../src/session/keeper.js';
import type { KeeperParts, Suspicion } from '../../../src/session/keeper-parts.js';
import { resolveSessionOptions, type SessionOptions } from '../../../src/session/options.js';
import { Session } from '../../../src/session/session.js';
import { manualClock } from '../../../src/testing/index.js';

export type Reply = Partial<StreamFacts>;

export const credential = (generation: number) => ({ generation }) as Credential;

/** The server does not know the session. */
export const REFUSED: Reply = { status: 404, text: '' };
export const OVERLOADED: Reply = { status: 503, text: '' };
/** What a suspect answer would be if the session lived. */
const PAGE = { kind: 'failed', code: 'ERR_HTTP_STATUS', executed: 'unknown', reason: 'a page' } as const;
const ANSWER = {
  kind: 'answer',
  message: { jsonrpc: '2.0', id: 1, error: { code: 1, message: '' } },
} as const;
export const VAGUE: Suspicion = { strong: false, reason: 'vague', otherwise: PAGE };
export const STRONG: Suspicion = { strong: true, reason: 'strong', otherwise: PAGE };
/** Errors in a caller's own answer. */
export const VAGUE_ANSWER: Suspicion = { strong: false, reason: 'errors in a row', otherwise: ANSWER };
export const STRONG_ANSWER: Suspicion = { strong: true, reason: 'names the session', otherwise: ANSWER };

export function scene(options: SessionOptions = {}, parts: Partial<KeeperParts> = {}) {
  const clock = manualClock();
  const told: string[] = [];
  const sent: string[] = [];
  const deleted: (number | undefined)[] = [];
  /** Replies in turn, by method; what is not scripted goes well. */
  const script = new Map<string, (Reply | Promise<Reply> | (() => never))[]>();
  const hold: {
    deletes?: Promise<void>;
    pay?: (urgency: string, signal?: AbortSignal) => Promise<void> | undefined;
  } = {};
  let opened = 0;

  const reply = (message: JsonRpcMessage, sessionSent: boolean): Promise<StreamFacts> | StreamFacts => {
    const method = 'method' in message ? message.method : '';
    const expects = 'id' in message ? message.id : undefined;
    sent.push(method);
    const plain = {
      method,
      expectsAnswer: expects !== undefined,
      sent: true,
      sessionSent,
      events: 0,
      sessionIds: [],
    };
    const scripted = script.get(method)?.shift();
    if (typeof scripted === 'function') scripted();
    if (scripted !== undefined)
      return Promise.resolve(scripted as Reply).then((facts) => ({ ...plain, ...facts }));
    if (expects === undefined || expects === null) return { ...plain, status: 202, text: '' };
    const result = method === 'initialize' ? { protocolVersion: '2025-11-25' } : {};
    if (method === 'initialize') opened += 1;
    return {
      ...plain,
      status: 200,
      relation: 'own',
      message: { jsonrpc: '2.0', id: expects, result },
      sessionIds: method === 'initialize' ? [`session-${opened}`] : [],
    };
  };

  const wire = {
    pay: (urgency: string, { signal }: { signal?: AbortSignal }) => hold.pay?.(urgency, signal),
    send: async (message: JsonRpcMessage, way: { session?: Session }) =>
      reply(message, way.session !== undefined),
    delete: async ({ session }: { session?: Session }) => {
      deleted.push(session?.number);
      await hold.deletes;
      return {} as StreamFacts;
    },
  } as unknown as Wire;

  const held = { current: credential(1), asked: 0 };
  const credentials = {
    acquire: async () => {
      held.asked += 1;
      return held.current;
    },
  } as unknown as CredentialProvider;
  const setUps: { number: number; previous: number | undefined; reason: string; signal: AbortSignal }[] = [];
  const keeper = new SessionKeeper({
    clock,
    wire,
    credentials,
    target: new URL('https://mcp.example/mcp'),
    options: resolveSessionOptions(options),
    maxAttempts: 1,
    maxElapsedMs: 50_000,
    onState: (state, previous, error) => told.push(`${previous}>${state}${error ? `:${error.code}` : ''}`),
    onMessage: () => {},
    setUp: async (session, previous, reason, signal) => {
      setUps.push({ number: session.number, previous: previous?.number, reason, signal });
    },
    onEstablished: (session, previous, reason) =>
      told.push(`established ${session.number} after ${previous?.number}: ${reason}`),
    onSuspect: (session, reason) => told.push(`suspect ${session.number}: ${reason}`),
    onLost: (session, reason, cause) => told.push(`lost ${session.number} (${cause}): ${reason}`),
    ...parts,
  });
  keeper.capture({ jsonrpc: '2.0', id: 0, method: 'initialize', params: {} });

  return {
    clock,
    keeper,
    told,
    sent,
    setUps,
    deleted,
    hold,
    held,
    /** What the next requests of this method get. */
    next: (method: string, ...replies: (Reply | Promise<Reply> | (() => never))[]) =>
      script.set(method, [...(script.get(method) ?? []), ...replies]),
    count: (method: string) => sent.filter((each) => each === method).length,
    open: async () => await keeper.ready(),
    stateless: (number: number) =>
      new Session({
        number,
        id: undefined,
        protocolVersion: '2026-07-28',
        result: {},
        credential: credential(1),
        establishedAtMs: 0,
        fingerprintKey: new Uint8Array(32),
        cookies: undefined as never,
        era: 'stateless',
      }),
  };
}

/** A reply that comes when the test says so. */
export function later() {
  let give: (reply: Reply) => void = () => {};
  const reply = new Promise<Reply>((resolve) => {
    give = resolve;
  });
  return { reply, give };
}

/** What a promise was rejected with. */
export const code = (work: Promise<unknown>) =>
  work.then(
    () => 'no failure',
    (error) => (HostedMcpError.isInstance(error) ? error.code : String(error)),
  );
/** The same, of what may throw at once. */
export const thrown = (work: () => unknown) => code((async () => await work())());
