/**
 * The simulator's options, checked and filled in.
 *
 * Guarantees that a bad value is a `TypeError` that names its option, before any socket is opened. Never
 * keeps or changes the object it was given.
 */
import { type Clock, systemClock } from '../clock.js';
import type { RateLimitSettings } from './rate-limiter.js';
import { defaultTools } from './tools.js';
import type { HostedServerOptions, StreamCutShape, ToolDefinition } from './types.js';

/** Newest first. */
export const KNOWN_VERSIONS: readonly string[] = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];

/** The first revision without handshake, sessions and GET. */
export const MODERN_VERSION = '2026-07-28';

export interface ServerOptions {
  readonly tools: readonly ToolDefinition[];
  readonly pageSize: number;
  readonly auth: boolean;
  readonly tokenLifetimeMs: number;
  readonly rotateRefreshTokens: boolean;
  readonly tokenDelayMs: number;
  readonly bindSession: 'none' | 'token';
  readonly challenge: 'bearer' | 'none';
  readonly dpop: boolean | 'nonce';
  readonly sessions: boolean;
  readonly sessionLostStatus: 400 | 401 | 403 | 404 | 200;
  readonly answer: 'json' | 'sse' | undefined;
  readonly compress: 'gzip' | 'br' | undefined;
  readonly eventStore: boolean | 'deaf';
  readonly heartbeatMs: number | undefined;
  readonly retryFieldMs: number | undefined;
  /** Infinite where there is no such limit. */
  readonly idleCutMs: number;
  readonly ageCutMs: number;
  readonly silentDropMs: number;
  readonly cutShape: StreamCutShape;
  /** How long a stream that its client left stays open for the server; undefined: not at all. */
  readonly keepAbandonedMs: number | undefined;
  readonly rateLimit: RateLimitSettings | undefined;
  readonly keepAliveHintMs: number | undefined;
  readonly listen: boolean;
  /** How many nodes there are. */
  readonly nodes: number;
  readonly affinityCookie: boolean;
  readonly protocolVersion: string | undefined;
  readonly wire: 'streamable' | 'legacy-sse' | 'modern';
  readonly legacyRefusalStatus: 400 | 404 | 405;
  readonly legacyEndpoint: string;
  readonly handshakeStatus: 200 | 202 | 204;
  readonly clock: Clock;
}

/** An hour: what most authorization servers give. */
const DEFAULT_TOKEN_LIFETIME_MS = 3_600_000;

export function resolveServerOptions(given: HostedServerOptions): ServerOptions {
  const affinityCookie = flag(given, 'affinityCookie', false);
  const protocolVersion = text(given, 'protocolVersion');
  return {
    tools: toolList(given.tools) ?? defaultTools(),
    pageSize: number(given, 'pageSize', Number.POSITIVE_INFINITY, 1),
    auth: flag(given, 'auth', true),
    tokenLifetimeMs: number(given, 'tokenLifetimeMs', DEFAULT_TOKEN_LIFETIME_MS, 1),
    rotateRefreshTokens: flag(given, 'rotateRefreshTokens', false),
    tokenDelayMs: number(given, 'tokenDelayMs', 0, 0),
    bindSession: oneOf(given, 'bindSession', ['none', 'token'] as const) ?? 'none',
    challenge: oneOf(given, 'challenge', ['bearer', 'none'] as const) ?? 'bearer',
    dpop: oneOf(given, 'dpop', [true, false, 'nonce'] as const) ?? false,
    sessions: flag(given, 'sessions', true),
    sessionLostStatus: oneOf(given, 'sessionLostStatus', [400, 401, 403, 404, 200] as const) ?? 404,
    answer: oneOf(given, 'answer', ['json', 'sse'] as const),
    compress: oneOf(given, 'compress', ['gzip', 'br'] as const),
    eventStore: oneOf(given, 'eventStore', [true, false, 'deaf'] as const) ?? false,
    heartbeatMs: optionalNumber(given, 'heartbeatMs', 1),
    retryFieldMs: optionalNumber(given, 'retryFieldMs', Number.NEGATIVE_INFINITY),
    idleCutMs: number(given, 'idleCutMs', Number.POSITIVE_INFINITY, 1),
    ageCutMs: number(given, 'ageCutMs', Number.POSITIVE_INFINITY, 1),
    silentDropMs: number(given, 'silentDropMs', Number.POSITIVE_INFINITY, 0),
    cutShape: oneOf(given, 'cutShape', ['fin', 'eof', 'reset', 'status'] as const) ?? 'fin',
    keepAbandonedMs: abandonment(given.abortNotPropagated),
    rateLimit: rateLimitOf(given.rateLimit),
    keepAliveHintMs: optionalNumber(given, 'keepAliveHintMs', 0),
    listen: flag(given, 'listen', true),
    // A cookie that chooses between nodes means nothing with one node.
    nodes: number(given, 'nodesWithoutAffinity', affinityCookie ? 2 : 1, 1),
    affinityCookie,
    protocolVersion,
    wire: wireOf(oneOf(given, 'transport', ['streamable', 'legacy-sse'] as const), protocolVersion),
    legacyRefusalStatus: oneOf(given, 'legacyRefusalStatus', [400, 404, 405] as const) ?? 404,
    legacyEndpoint: text(given, 'legacyEndpoint') ?? '/messages',
    handshakeStatus: oneOf(given, 'handshakeStatus', [200, 202, 204] as const) ?? 202,
    clock: given.clock ?? systemClock(),
  };
}

/** Refuses a list that no server could have. */
export function toolList(tools: unknown): readonly ToolDefinition[] | undefined {
  if (tools === undefined) return undefined;
  if (!Array.isArray(tools)) throw new TypeError('tools must be an array');
  const names = new Set<string>();
  for (const tool of tools as readonly ToolDefinition[]) {
    if (typeof tool?.name !== 'string' || tool.name === '') {
      throw new TypeError('tools: every tool needs a name');
    }
    if (names.has(tool.name)) throw new TypeError(`tools: there are two tools named ${tool.name}`);
    names.add(tool.name);
  }
  return [...tools];
}

type Key = keyof HostedServerOptions;

function flag(given: HostedServerOptions, key: Key, fallback: boolean): boolean {
  const value = given[key];
  if (value === undefined) return fallback;
  if (typeof value !== 'boolean') throw new TypeError(`${key} must be true or false`);
  return value;
}

function number(given: HostedServerOptions, key: Key, fallback: number, min: number): number {
  const value = given[key];
  if (value === undefined) return fallback;
  if (typeof value !== 'number' || !Number.isFinite(value) || value < min) {
    throw new TypeError(
      `${key} must be a number${min === Number.NEGATIVE_INFINITY ? '' : `, ${min} or more`}`,
    );
  }
  return value;
}

function optionalNumber(given: HostedServerOptions, key: Key, min: number): number | undefined {
  return given[key] === undefined ? undefined : number(given, key, 0, min);
}

function abandonment(given: unknown): number | undefined {
  if (given === undefined || given === false) return undefined;
  if (given === true) return Number.POSITIVE_INFINITY;
  const forMs = typeof given === 'object' && given !== null && 'forMs' in given ? given.forMs : undefined;
  if (typeof forMs !== 'number' || !Number.isFinite(forMs) || forMs < 0) {
    throw new TypeError('abortNotPropagated must be true, false or { forMs: 0 or more }');
  }
  return forMs;
}

function rateLimitOf(given: unknown): RateLimitSettings | undefined {
  if (given === undefined) return undefined;
  const fields: Record<string, unknown> = typeof given === 'object' ? { ...given } : {};
  const { limit, intervalMs, per, headers = 'retry-after', body = 'text' } = fields;
  if (typeof limit !== 'number' || !Number.isInteger(limit) || limit < 1) {
    throw new TypeError('rateLimit.limit must be a whole number, 1 or more');
  }
  if (typeof intervalMs !== 'number' || !Number.isFinite(intervalMs) || intervalMs < 1) {
    throw new TypeError('rateLimit.intervalMs must be a number, 1 or more');
  }
  return {
    limit,
    intervalMs,
    per: choice('rateLimit.per', per, ['credential', 'tenant']),
    headers: choice('rateLimit.headers', headers, ['none', 'retry-after', 'ratelimit', 'x-ratelimit']),
    body: choice('rateLimit.body', body, ['text', 'json-rpc']),
  };
}

function wireOf(
  transport: 'streamable' | 'legacy-sse' | undefined,
  protocolVersion: string | undefined,
): ServerOptions['wire'] {
  if (protocolVersion !== MODERN_VERSION) return transport ?? 'streamable';
  if (transport === 'legacy-sse') {
    throw new TypeError(`transport 'legacy-sse' does not go with protocolVersion '${MODERN_VERSION}'`);
  }
  return 'modern';
}

function text(given: HostedServerOptions, key: Key): string | undefined {
  const value = given[key];
  if (value !== undefined && typeof value !== 'string') throw new TypeError(`${key} must be a string`);
  return value;
}

function oneOf<const T>(given: HostedServerOptions, key: Key, allowed: readonly T[]): T | undefined {
  const value: unknown = given[key];
  return value === undefined ? undefined : choice(key, value, allowed);
}

function choice<const T>(name: string, value: unknown, allowed: readonly T[]): T {
  if (!allowed.includes(value as T)) throw new TypeError(`${name} must be one of ${allowed.join(', ')}`);
  return value as T;
}
