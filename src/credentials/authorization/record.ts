/**
 * What one authorization rests on, as it is kept in a store: the authorization server, the client's identity there, the
 * scope that was granted.
 *
 * Guarantees that a record which cannot be read counts as none, that a client's identity is kept for the issuer that
 * gave it, and that two writers do not lose each other's words. Never holds a token.
 */
import { HostedMcpError } from '../../errors.js';
import type { StoredRecord } from '../provider.js';
import { type SharedRecord, storeError } from '../shared-record.js';

/** An identity that an authorization server gave (RFC 7591). */
export interface RegisteredClient {
  readonly clientId: string;
  readonly clientSecret?: string | undefined;
  readonly authMethod?: string | undefined;
  /** Epoch milliseconds; undefined: it does not expire. */
  readonly secretExpiresAtMs?: number | undefined;
  readonly redirectUri: string;
}

export interface AuthorizationData {
  readonly issuer: string;
  readonly isFallback: boolean;
  readonly resource?: string | undefined;
  readonly scopesSupported?: readonly string[] | undefined;
  /** As which client; undefined: before the first authorization. */
  readonly clientId?: string | undefined;
  /** Asked for and granted. */
  readonly scope?: string | undefined;
  /** By issuer. */
  readonly clients: Readonly<Record<string, RegisteredClient>>;
}

const WRITE_TRIES = 4;
/** A server that moves each day must not fill a store. */
const MAX_CLIENTS = 20;

export class AuthorizationRecord {
  readonly #record: SharedRecord;

  constructor(record: SharedRecord) {
    this.#record = record;
  }

  /** Throws `ERR_STORE_UNAVAILABLE`. */
  async read(): Promise<AuthorizationData | undefined> {
    return parse((await this.#record.read())?.data);
  }

  /** Writes what `change` makes of what is there. Throws `ERR_STORE_UNAVAILABLE`. */
  async update(
    change: (data: AuthorizationData | undefined) => AuthorizationData | undefined,
  ): Promise<AuthorizationData | undefined> {
    for (let tries = 0; tries < WRITE_TRIES; tries++) {
      const stored = await this.#record.read();
      const next = change(parse(stored?.data));
      if (next === undefined && stored === undefined) return undefined;
      const record: StoredRecord | undefined =
        next === undefined
          ? undefined
          : { generation: (stored?.generation ?? 0) + 1, data: JSON.stringify({ v: 1, ...bounded(next) }) };
      if (await this.#record.compareAndSet(stored?.generation, record)) return next;
    }
    throw storeError('is written by others all the time');
  }

  async delete(): Promise<void> {
    await this.update(() => undefined);
  }
}

function bounded(data: AuthorizationData): AuthorizationData {
  const clients = Object.entries(data.clients).slice(-MAX_CLIENTS);
  return { ...data, clients: Object.fromEntries(clients) };
}

function parse(text: string | undefined): AuthorizationData | undefined {
  const value = objectOf(text);
  if (value === undefined || value.v !== 1) return undefined;
  const issuer = textIn(value, 'issuer');
  if (issuer === undefined || !URL.canParse(issuer)) return undefined;
  const clients: Record<string, RegisteredClient> = {};
  for (const [name, given] of Object.entries(recordIn(value, 'clients') ?? {})) {
    const client = clientOf(given);
    if (client !== undefined && name !== '__proto__') clients[name] = client;
  }
  const scopes = value.scopesSupported;
  return {
    issuer,
    isFallback: value.isFallback === true,
    resource: textIn(value, 'resource'),
    scopesSupported: Array.isArray(scopes) ? scopes.filter((each) => typeof each === 'string') : undefined,
    clientId: textIn(value, 'clientId'),
    scope: textIn(value, 'scope'),
    clients,
  };
}

function clientOf(given: unknown): RegisteredClient | undefined {
  if (typeof given !== 'object' || given === null) return undefined;
  const value = given as Record<string, unknown>;
  const clientId = textIn(value, 'clientId');
  const redirectUri = textIn(value, 'redirectUri');
  if (clientId === undefined || redirectUri === undefined) return undefined;
  const expires = value.secretExpiresAtMs;
  return {
    clientId,
    redirectUri,
    clientSecret: textIn(value, 'clientSecret'),
    authMethod: textIn(value, 'authMethod'),
    secretExpiresAtMs: typeof expires === 'number' && Number.isFinite(expires) ? expires : undefined,
  };
}

/** An object in JSON, or undefined. */
export function objectOf(text: string | undefined): Record<string, unknown> | undefined {
  if (text === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

/** Own text of that name that is not empty. */
export function textIn(value: Record<string, unknown>, name: string): string | undefined {
  const found = Object.hasOwn(value, name) ? value[name] : undefined;
  return typeof found === 'string' && found !== '' ? found : undefined;
}

function recordIn(value: Record<string, unknown>, name: string): Record<string, unknown> | undefined {
  const found = Object.hasOwn(value, name) ? value[name] : undefined;
  return typeof found === 'object' && found !== null ? (found as Record<string, unknown>) : undefined;
}

/** A failed read where it is better to go on without. */
export async function readOrNothing(record: AuthorizationRecord): Promise<AuthorizationData | undefined> {
  try {
    return await record.read();
  } catch (error) {
    if (HostedMcpError.isInstance(error, 'ERR_STORE_UNAVAILABLE')) return undefined;
    throw error;
  }
}
