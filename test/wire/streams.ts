/** What tests of streams need beside `support.ts`: a client that listens, and the server's log read by GETs. */
import {
  LoggingMessageNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { HostedClient, type HostedClientOptions } from '../../src/client.js';
import type { HostedServerOptions, ServerLogEntry, ToolCallContext } from '../../src/testing/index.js';
import { closeLater, machine, type Scene, startServer } from './support.js';

export const DAY_MS = 86_400_000;
export const GET = { http: 'GET' } as const;
export const CALL = { http: 'POST', method: 'tools/call' } as const;

/** A server whose tokens outlive the test: nothing but its streams is under test. */
export function startStreams(options: HostedServerOptions = {}): Promise<Scene> {
  return startServer({ tokenLifetimeMs: DAY_MS, ...options });
}

type StreamEventName = 'stream-cut' | 'stream-reopened' | 'stream-gap' | 'stream-unavailable';

export interface Listening {
  readonly client: HostedClient;
  /** `data` of each `notifications/message`, and `list_changed`. */
  readonly heard: unknown[];
  readonly events: (Record<string, unknown> & { type: StreamEventName })[];
  readonly errors: Error[];
}

/** A connected HostedClient with a notification handler: it listens. */
export async function listening(
  scene: Scene,
  options: Partial<HostedClientOptions> = {},
): Promise<Listening> {
  const client = new HostedClient(
    { name: 'test', version: '1.0.0' },
    { url: scene.server.url, credentials: machine(scene), clock: scene.clock, ...options },
  );
  closeLater(() => client.close());
  const heard: unknown[] = [];
  const errors: Error[] = [];
  const events: Listening['events'] = [];
  client.onerror = (error) => errors.push(error);
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => {
    heard.push('list_changed');
  });
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => {
    heard.push(params.data);
  });
  for (const type of ['stream-cut', 'stream-reopened', 'stream-gap', 'stream-unavailable'] as const)
    client.connection.on(type, (event) => events.push({ type, ...event }));
  await client.connect();
  await scene.clock.settle();
  return { client, heard, events, errors };
}

export function tell(scene: Scene, data: unknown): void {
  scene.server.notify('notifications/message', { level: 'info', data });
}

/** The requests for a stream, in order. */
export const gets = (scene: Scene): readonly ServerLogEntry[] =>
  scene.server.log.filter(({ http, path }) => http === 'GET' && path === new URL(scene.server.url).pathname);

/** Milliseconds between the GETs. */
export function gaps(scene: Scene): number[] {
  const times = gets(scene).map(({ at }) => at);
  return times.slice(1).map((at, index) => at - (times[index] ?? 0));
}

/** `Last-Event-ID` as the server reads it: the bytes are UTF-8. */
export function cursors(scene: Scene): (string | undefined)[] {
  return gets(scene).map(({ headers }) => {
    const value = headers['last-event-id'];
    return value === undefined ? undefined : Buffer.from(value, 'latin1').toString('utf8');
  });
}

/** A tool that goes on until `open()`, and tells its progress by `progress()`. */
export function gatedTool() {
  let open!: () => void;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  let context: ToolCallContext | undefined;
  const tool = {
    name: 'gated',
    handler: async (_args: unknown, call: ToolCallContext) => {
      context = call;
      await opened;
      return 'done';
    },
  };
  return { tool, open: () => open(), progress: (n: number) => context?.progress(n) };
}

/** The outcome of a call that is still under way, so that nobody is surprised by a rejection. */
export function outcomeOf<T>(promise: Promise<T>): Promise<{ result: T } | { error: unknown }> {
  return promise.then(
    (result) => ({ result }),
    (error: unknown) => ({ error }),
  );
}

/**
 * Moves the clock in steps until the promise has settled, or what was waited for is so, and at most so far: on a
 * busy machine traffic may lag behind a clock that is moved in one go.
 */
export async function advanceUntil(
  { clock }: Scene,
  done: Promise<unknown> | (() => boolean),
  mostMs: number,
): Promise<void> {
  let settled = false;
  if (typeof done !== 'function') {
    const onSettled = () => {
      settled = true;
    };
    done.then(onSettled, onSettled);
  }
  await clock.settle();
  for (let leftMs = mostMs; leftMs > 0 && !settled && !(typeof done === 'function' && done()); leftMs -= 500)
    await clock.advance(Math.min(500, leftMs));
}
