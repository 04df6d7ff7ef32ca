/**
 * As which client an authorization server is asked (MCP 2025-11-25, authorization, "Client Registration Approaches").
 *
 * Guarantees that an identity that one authorization server gave is used there and nowhere else; that a client registers
 * again only where its registration is over or does not fit any more, never because a refresh failed; and that a metadata
 * document's address is used only where the server says that it reads such documents. Never sends a secret of the app's
 * to a server that the app did not name.
 */
import type { Clock } from '../../clock.js';
import { HostedMcpError } from '../../errors.js';
import { type ClientAuthenticator, clientAuthenticator } from '../client-auth.js';
import type { ServerMetadata } from '../metadata.js';
import type { KeyAuth } from '../oauth.js';
import type { TokenHttp } from '../token-fetch.js';
import { type RegisteredClient, textIn } from './record.js';
import { applicationType, registerClient } from './registration.js';

/** What a server shows the user of a client that registers itself. */
export interface Registration {
  name: string;
  /** The client's home page. */
  uri?: string | undefined;
}

/** Given by the operator of the authorization server; a metadata document (its address is the client id); or registered at first use. */
export type ClientIdentity =
  | { clientId: string; clientSecret?: string | undefined; privateKey?: undefined }
  | ({ clientId: string } & KeyAuth)
  | {
      metadataUrl: string;
      /** Used where the server does not read metadata documents. */
      register?: Registration | undefined;
    }
  | { register: Registration };

export interface Client {
  readonly clientId: string;
  readonly auth: ClientAuthenticator;
  /** To be kept for the next time. */
  readonly registered?: RegisteredClient | undefined;
}

export interface IdentifyOptions {
  readonly identity: ClientIdentity;
  readonly redirectUri: string;
  readonly scope: string | undefined;
  readonly http: TokenHttp;
  readonly clock: Clock;
  readonly timeoutMs: number;
}

/** The client at the server of `metadata`; `kept`: what it was there before. Throws `ERR_DISCOVERY` or `ERR_TOKEN_ENDPOINT`. */
export async function identify(
  options: IdentifyOptions,
  metadata: ServerMetadata,
  kept: RegisteredClient | undefined,
): Promise<Client> {
  const given = givenClient(options.identity);
  if (given !== undefined) return given;
  const { identity } = options;
  if ('metadataUrl' in identity && metadata.clientIdMetadataDocumentSupported === true) {
    return { clientId: identity.metadataUrl, auth: clientAuthenticator({}) };
  }
  if (kept !== undefined && isGood(kept, options)) return { ...clientOf(kept), registered: kept };
  const registration = 'register' in identity ? identity.register : undefined;
  if (registration === undefined || metadata.registrationEndpoint === undefined) {
    throw new HostedMcpError(
      'ERR_DISCOVERY',
      'metadataUrl' in identity
        ? 'The authorization server reads no client metadata documents: give a client id for it, or a registration'
        : 'The authorization server registers no clients by itself: give a client id for it',
      { reason: 'no_client' },
    );
  }
  const registered = await register(options, registration, metadata, metadata.registrationEndpoint);
  return { ...clientOf(registered), registered };
}

/** The client that the app was given, which needs nobody's word. */
export function givenClient(identity: ClientIdentity): Client | undefined {
  if (!('clientId' in identity)) return undefined;
  return { clientId: identity.clientId, auth: clientAuthenticator(identity) };
}

/** The client of before, for a refresh: also one whose time is over, for the server has the last word on that. */
export function clientBefore(
  identity: ClientIdentity,
  clientId: string | undefined,
  kept: RegisteredClient | undefined,
): Client | undefined {
  const given = givenClient(identity);
  if (given !== undefined) return given.clientId === clientId ? given : undefined;
  if ('metadataUrl' in identity && clientId === identity.metadataUrl) {
    return { clientId, auth: clientAuthenticator({}) };
  }
  return kept !== undefined && kept.clientId === clientId ? clientOf(kept) : undefined;
}

function clientOf(registered: RegisteredClient): Client {
  const { clientId, clientSecret, authMethod } = registered;
  const isPublic = clientSecret === undefined || authMethod === 'none';
  const method = authMethod === 'client_secret_post' ? authMethod : 'client_secret_basic';
  return { clientId, auth: clientAuthenticator(isPublic ? {} : { clientSecret, method }) };
}

function isGood(kept: RegisteredClient, { redirectUri, clock }: IdentifyOptions): boolean {
  // One that listens on another port each time is the same to a server that keeps to RFC 8252, 7.3; not all do.
  if (kept.redirectUri !== redirectUri) return false;
  return kept.secretExpiresAtMs === undefined || kept.secretExpiresAtMs > clock.now();
}

async function register(
  options: IdentifyOptions,
  { name, uri }: Registration,
  metadata: ServerMetadata,
  endpoint: string,
): Promise<RegisteredClient> {
  const { redirectUri, scope } = options;
  const method = methodFor(metadata.authMethods);
  const body = await registerClient({
    ...options,
    endpoint,
    metadata: {
      client_name: name,
      ...(uri === undefined ? {} : { client_uri: uri }),
      redirect_uris: [redirectUri],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: method,
      application_type: applicationType(redirectUri),
      ...(scope === undefined ? {} : { scope }),
    },
  });
  const expires = body.client_secret_expires_at;
  return {
    clientId: body.client_id,
    redirectUri,
    clientSecret: textIn(body, 'client_secret'),
    authMethod: textIn(body, 'token_endpoint_auth_method') ?? method,
    // RFC 7591, 3.2.1: seconds; 0 is never.
    secretExpiresAtMs: typeof expires === 'number' && expires > 0 ? expires * 1_000 : undefined,
  };
}

/** A public client where that will do: a secret that anybody may register protects nothing. */
export function methodFor(supported: readonly string[] | undefined): string {
  const order = ['none', 'client_secret_basic', 'client_secret_post'];
  return order.find((method) => supported?.includes(method)) ?? 'none';
}
