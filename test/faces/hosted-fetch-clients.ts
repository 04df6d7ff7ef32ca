/** The SDKs' own Clients and transports over `hostedFetch`, alike for v1, v2 and v2 that negotiates. */
import {
  Client as ClientV2,
  StreamableHTTPClientTransport as TransportV2,
} from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { type HostedFetch, hostedFetch } from '../../src/hosted-fetch.js';
import { HostedMcpError, type HostedOptions } from '../../src/index.js';
import { closeLater, machine, type Scene } from '../wire/support.js';

export type Kind = 'v1' | 'v2' | 'v2 auto';
export const KINDS: readonly Kind[] = ['v1', 'v2', 'v2 auto'];

const INFO = { name: 'framework', version: '1.0.0' };

/** One HTTP exchange as the framework's transport sees it. */
export interface Seen {
  readonly method: string;
  readonly rpcMethod: string | undefined;
  readonly sessionId: string | null;
  readonly status: number;
  readonly contentType: string | null;
  readonly givenSessionId: string | null;
}

export interface Framework {
  readonly client: ClientV1;
  readonly transport: TransportV1;
  readonly errors: Error[];
  /** Asked of the client by the server; `answer` is what it says. */
  readonly questions: string[];
}

export interface Faced extends Framework {
  readonly fetch: HostedFetch;
  readonly seen: Seen[];
}

/** A fetch with the machine's own identity unless said otherwise. */
export function makeFetch(scene: Scene, options: HostedOptions = {}): HostedFetch {
  const made = hostedFetch(scene.server.url, {
    credentials: machine(scene),
    clock: scene.clock,
    ...options,
  });
  closeLater(() => made.close());
  return made;
}

/** What crosses the fetch, in order. */
export function watched(fetch: HostedFetch): { fetch: typeof globalThis.fetch; seen: Seen[] } {
  const seen: Seen[] = [];
  const watch = async (input: string | URL | Request, init?: RequestInit) => {
    const response = await fetch(input, init);
    const headers = new Headers(init?.headers);
    seen.push({
      method: init?.method ?? 'GET',
      rpcMethod: typeof init?.body === 'string' ? JSON.parse(init.body).method : undefined,
      sessionId: headers.get('mcp-session-id'),
      status: response.status,
      contentType: response.headers.get('content-type'),
      givenSessionId: response.headers.get('mcp-session-id'),
    });
    return response;
  };
  return { fetch: watch as typeof globalThis.fetch, seen };
}

/** A stock Client of that kind, with its own stock transport over this fetch. */
export async function frameworkOver(
  scene: Scene,
  kind: Kind,
  fetch: typeof globalThis.fetch | HostedFetch,
  how: {
    answer?: (question: string) => Promise<object> | object;
    capabilities?: object;
    prepare?: (client: ClientV1) => void;
    transport?: object;
  } = {},
): Promise<Framework> {
  const capabilities = how.capabilities ?? { elicitation: {} };
  const questions: string[] = [];
  const answer = ({ params }: { params: { message: string } }) => {
    questions.push(params.message);
    return (how.answer?.(params.message) ?? { action: 'accept', content: {} }) as never;
  };
  const url = new URL(scene.server.url);
  const errors: Error[] = [];
  let client: ClientV1;
  let transport: TransportV1;
  if (kind === 'v1') {
    client = new ClientV1(INFO, { capabilities });
    if ('elicitation' in capabilities) client.setRequestHandler(ElicitRequestSchema, answer as never);
    transport = new TransportV1(url, { fetch: fetch as typeof globalThis.fetch, ...how.transport });
  } else {
    const v2 = new ClientV2(INFO, {
      capabilities,
      ...(kind === 'v2 auto' && { versionNegotiation: { mode: 'auto' as const } }),
    });
    if ('elicitation' in capabilities) v2.setRequestHandler('elicitation/create', answer as never);
    client = v2 as unknown as ClientV1;
    transport = new TransportV2(url, {
      fetch: fetch as typeof globalThis.fetch,
      ...how.transport,
    }) as unknown as TransportV1;
  }
  client.onerror = (error) => errors.push(error);
  how.prepare?.(client);
  closeLater(() => client.close());
  await client.connect(transport as Transport);
  await scene.clock.settle();
  return { client, transport, errors, questions };
}

/** A framework of that kind with a fetch of its own. */
export async function connectFace(
  scene: Scene,
  kind: Kind,
  options: HostedOptions = {},
  how: Parameters<typeof frameworkOver>[3] = {},
): Promise<Faced> {
  const made = makeFetch(scene, options);
  const { fetch, seen } = watched(made);
  return { ...(await frameworkOver(scene, kind, fetch, how)), fetch: made, seen };
}

/** A call under an id that the server counts by; `echo` by default. */
export function call(
  { client }: Pick<Framework, 'client'>,
  callId: string,
  name = 'echo',
  args: Record<string, unknown> = { text: callId },
  options?: { signal?: AbortSignal; timeout?: number; onprogress?: (p: { progress: number }) => void },
): Promise<unknown> {
  const params = { name, arguments: args, _meta: { 'mcp-holdfast/callId': callId } };
  // v1 has a schema between the two.
  const isV1 = client instanceof ClientV1;
  return isV1
    ? client.callTool(params, undefined, options)
    : (client as unknown as ClientV2).callTool(params, options);
}

/** What the call failed with, read from the SDK's error; fails the test if it did not fail so. */
export async function carriedBy(promise: Promise<unknown>): Promise<HostedMcpError> {
  const outcome = await promise.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  );
  if (!('error' in outcome)) throw new Error(`expected a failure, got ${JSON.stringify(outcome.value)}`);
  const carried = HostedMcpError.from(outcome.error);
  if (carried === undefined) throw outcome.error;
  return carried;
}

/** A request of no SDK. */
export function post(
  fetch: HostedFetch,
  url: string,
  message: unknown,
  headers: Record<string, string> = {},
  signal?: AbortSignal,
): Promise<Response> {
  return fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...headers,
    },
    body: typeof message === 'string' ? message : JSON.stringify(message),
    ...(signal !== undefined && { signal }),
  });
}

export const INITIALIZE = {
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: INFO },
} as const;

export interface Message {
  readonly id?: string | number | null;
  readonly method?: string;
  readonly params?: { readonly [key: string]: unknown };
  readonly result?: { readonly [key: string]: unknown };
  readonly error?: {
    readonly code: number;
    readonly message: string;
    readonly data?: { readonly holdfast?: object };
  };
}

/** Reads an event stream message by message. */
export function messagesOf(response: Response) {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  return {
    cancel: (reason?: unknown) => reader.cancel(reason),
    async next(): Promise<Message | undefined> {
      for (;;) {
        const end = text.indexOf('\n\n');
        if (end >= 0) {
          const event = text.slice(0, end);
          text = text.slice(end + 2);
          return JSON.parse(event.slice(event.indexOf('data: ') + 6));
        }
        const { done, value } = await reader.read();
        if (done) return undefined;
        text += value;
      }
    },
  };
}

export const methods = (scene: Scene) =>
  scene.server.log.filter(({ path }) => path === '/mcp').map(({ rpcMethod, http }) => rpcMethod ?? http);
export const count = (scene: Scene, method: string) =>
  methods(scene).filter((each) => each === method).length;
