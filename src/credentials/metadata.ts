/**
 * What an authorization server says about itself (RFC 8414, OpenID Connect Discovery; MCP 2025-03-26 where it says
 * nothing).
 *
 * Guarantees that only the locations derived from the issuer are asked, that the document names that very issuer, and
 * that the endpoints found are https (or loopback where the issuer is). Never follows a redirect, never asks the MCP
 * server who the issuer is: where a secret goes is the app's word.
 */
import type { Clock } from '../clock.js';
import { HostedMcpError } from '../errors.js';
import { memberOf, readDocument, stringsIn, unusable } from './discovery/document.js';
import { isLoopback, isSafeEndpoint, type TokenHttp } from './token-fetch.js';

export interface ServerMetadata {
  readonly issuer: string;
  readonly tokenEndpoint: string;
  readonly authorizationEndpoint?: string | undefined;
  readonly registrationEndpoint?: string | undefined;
  readonly revocationEndpoint?: string | undefined;
  /** `token_endpoint_auth_methods_supported`; undefined where the server does not say. */
  readonly authMethods?: readonly string[] | undefined;
  readonly scopesSupported?: readonly string[] | undefined;
  /** `code_challenge_methods_supported` (RFC 7636). */
  readonly codeChallengeMethods?: readonly string[] | undefined;
  /** The callback names its issuer (RFC 9207). */
  readonly issParameterSupported?: boolean | undefined;
  readonly clientIdMetadataDocumentSupported?: boolean | undefined;
  /** `dpop_signing_alg_values_supported` (RFC 9449). */
  readonly dpopAlgorithms?: readonly string[] | undefined;
  /** There is no document: the endpoints are those of MCP 2025-03-26. */
  readonly isAssumed?: boolean | undefined;
}

/** Where metadata of `issuer` may be, in the order MCP prescribes: OAuth inserted, OpenID inserted, OpenID appended. */
export function metadataLocations(issuer: string): string[] {
  const url = new URL(issuer);
  const path = url.pathname.replace(/\/$/, '');
  const locations = [
    `${url.origin}/.well-known/oauth-authorization-server${path}`,
    `${url.origin}/.well-known/openid-configuration${path}`,
  ];
  if (path !== '') locations.push(`${url.origin}${path}/.well-known/openid-configuration`);
  return locations;
}

export interface MetadataOptions {
  readonly issuer: string | undefined;
  readonly tokenEndpoint: string | undefined;
  /**
   * The issuer was found by discovery: its metadata must name it byte for byte (RFC 8414, 3.3), and an endpoint that
   * must not be used condemns them. By default a bare origin with and without its slash is one issuer (RFC 3986, 6.2.3),
   * for apps write it either way.
   */
  readonly exact?: boolean | undefined;
  /** MCP 2025-03-26: an issuer without any document has its endpoints at `/authorize`, `/token` and `/register`. For the MCP server's own origin. */
  readonly fallback?: boolean | undefined;
  readonly http: TokenHttp;
  readonly clock: Clock;
  readonly timeoutMs: number;
}

/** The metadata of one provider: asked for once, kept after success. */
export class MetadataSource {
  readonly #options: MetadataOptions;
  #found: Promise<ServerMetadata> | undefined;

  constructor(options: MetadataOptions) {
    this.#options = options;
  }

  /** Throws `ERR_DISCOVERY` (the configuration is wrong) or `ERR_TOKEN_ENDPOINT` (the issuer is down). */
  get(): Promise<ServerMetadata> {
    this.#found ??= metadataOf(this.#options).catch((error) => {
      this.#found = undefined;
      throw error;
    });
    return this.#found;
  }
}

/** Asked for now. Throws as `MetadataSource.get`. */
export async function metadataOf(options: MetadataOptions): Promise<ServerMetadata> {
  const { issuer, tokenEndpoint, http, clock, timeoutMs } = options;
  // RFC 7523, 3: the token endpoint's address identifies the server where no issuer is known.
  if (tokenEndpoint !== undefined) return { issuer: tokenEndpoint, tokenEndpoint };
  if (issuer === undefined) {
    throw new HostedMcpError('ERR_DISCOVERY', 'Neither an issuer nor a token endpoint is configured');
  }
  for (const url of metadataLocations(issuer)) {
    const document = await readDocument({
      url,
      party: 'The issuer',
      title: 'authorization metadata',
      named: 'The authorization server that the MCP server names',
      http,
      clock,
      timeoutMs,
    });
    if (document.kind === 'object') return checkedMetadata(document.value, issuer, options);
  }
  if (options.fallback === true) return assumedMetadata(issuer);
  throw unusable('The issuer publishes no authorization metadata at the well-known locations', 'no_metadata');
}

function checkedMetadata(document: object, issuer: string, options: MetadataOptions): ServerMetadata {
  const { http, exact = false } = options;
  const named = memberOf(document, 'issuer');
  if (typeof named !== 'string' || !(named === issuer || (!exact && isSameOrigin(named, issuer)))) {
    throw unusable('The authorization metadata name another issuer', 'issuer_mismatch');
  }
  const endpoint = (member: string, what: string): string | undefined => {
    const value = memberOf(document, member);
    const url = typeof value === 'string' && URL.canParse(value) ? new URL(value) : undefined;
    if (url === undefined) return undefined;
    if (!isSafeEndpoint(url) || (isLoopback(url) && !isLoopback(new URL(issuer)))) {
      // Of an issuer that the app named, nobody may ever use it.
      if (!exact && member !== 'token_endpoint') return undefined;
      throw unusable(`The authorization metadata name ${what} that is not https`, 'address');
    }
    http.check(url, `${what.replace(/^an? /, 'The ')} that the authorization server names`);
    return url.href;
  };
  const tokenEndpoint = endpoint('token_endpoint', 'a token endpoint');
  if (tokenEndpoint === undefined) {
    throw unusable('The authorization metadata name no token endpoint', 'no_token_endpoint');
  }
  const says = (member: string) => (memberOf(document, member) === true ? true : undefined);
  return {
    issuer: named,
    tokenEndpoint,
    authorizationEndpoint: endpoint('authorization_endpoint', 'an authorization endpoint'),
    registrationEndpoint: endpoint('registration_endpoint', 'a registration endpoint'),
    revocationEndpoint: endpoint('revocation_endpoint', 'a revocation endpoint'),
    authMethods: stringsIn(document, 'token_endpoint_auth_methods_supported'),
    scopesSupported: stringsIn(document, 'scopes_supported'),
    codeChallengeMethods: stringsIn(document, 'code_challenge_methods_supported'),
    issParameterSupported: says('authorization_response_iss_parameter_supported'),
    clientIdMetadataDocumentSupported: says('client_id_metadata_document_supported'),
    dpopAlgorithms: stringsIn(document, 'dpop_signing_alg_values_supported'),
  };
}

/** MCP 2025-03-26, authorization, "Fallbacks for Servers without Metadata Discovery". */
function assumedMetadata(issuer: string): ServerMetadata {
  const { origin } = new URL(issuer);
  return {
    issuer,
    tokenEndpoint: `${origin}/token`,
    authorizationEndpoint: `${origin}/authorize`,
    registrationEndpoint: `${origin}/register`,
    isAssumed: true,
  };
}

/** Equal, save for the slash of a bare origin. */
function isSameOrigin(named: string, configured: string): boolean {
  return withoutRootSlash(named) === withoutRootSlash(configured);
}

function withoutRootSlash(issuer: string): string {
  return /^https?:\/\/[^/]+\/$/.test(issuer) ? issuer.slice(0, -1) : issuer;
}
