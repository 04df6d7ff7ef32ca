/**
 * `mcp-holdfast`: the engine, the transport, credentials and errors. Imports no SDK.
 *
 * The public surface, name by name; nothing else.
 */
export type { Clock, Timer } from './clock.js';
export type { Challenge } from './connection/challenge.js';
export type { ExchangeFacts } from './connection/facts.js';
export type { Histogram } from './connection/histogram.js';
export type { Revocation } from './connection/revocation.js';
export type { ExchangeDone } from './connection/route.js';
export type {
  CallDone,
  Connection,
  ConnectionEvents,
  ConnectionHealth,
  ConnectionState,
  ConnectionStats,
} from './connection/types.js';
export {
  type ContractChange,
  type ContractChangeKind,
  type ContractDiff,
  type ContractLevel,
  type ContractSide,
  type ContractSnapshot,
  type DiffOptions,
  diffContracts,
  type FormatDiffOptions,
  formatDiff,
  formatSnapshot,
  type JsonObject,
  type LeftOutChange,
  missingTools,
  parseSnapshot,
  type SchemaChangeHow,
  SnapshotError,
  type SnapshotErrorPlace,
  type SnapshotProblem,
  type ToolContract,
} from './contract/index.js';
export type { ContractAction, ContractOptions } from './contract/options.js';
export type { SnapshotOptions } from './contract/read.js';
export {
  type AccessToken,
  type AcquireOptions,
  type AuthorizationCodeOptions,
  type AuthorizationCodeProvider,
  type AuthProviderLike,
  authorizationCodeGrant,
  bearerToken,
  type Callback,
  type ClientAuth,
  type ClientCredentialsOptions,
  type ClientIdentity,
  type Credential,
  type CredentialEvent,
  type CredentialProvider,
  type CredentialStore,
  clientCredentialsGrant,
  type EnterpriseManagedOptions,
  encryptedCredentialStore,
  enterpriseManagedGrant,
  fileCredentialStore,
  fromOAuthClientProvider,
  headerCredential,
  type IdentityProvider,
  type JwtBearerOptions,
  jwtBearerGrant,
  type KeyAuth,
  type Lease,
  memoryCredentialStore,
  type OAuthClientProviderLike,
  type OAuthIssuer,
  type OAuthOptions,
  type OptionalClientAuth,
  type PresentedToken,
  REFRESH_DEFAULTS,
  type RefreshPolicy,
  type RefreshTokenOptions,
  type Registration,
  type Rejection,
  type ResolvedRefreshPolicy,
  refreshTokenGrant,
  type SecretEncoding,
  type StaticOptions,
  type StoredRecord,
  type TokenCommandOptions,
  type TokenExchangeOptions,
  type TokenSource,
  toAuthProvider,
  tokenExchangeGrant,
  tokenFromCommand,
  tokenFromEnv,
  tokenFromFile,
  toOAuthClientProvider,
} from './credentials/index.js';
export type { AsyncDisposer, Disposer } from './disposer.js';
export {
  type Executed,
  HostedMcpError,
  type HostedMcpErrorCode,
  type HostedMcpErrorFields,
} from './errors.js';
export type { AuditLog } from './gates/audit-log.js';
export type {
  AfterVerdict,
  BeforeVerdict,
  CallChain,
  CallFacts,
  Gate,
  GateContext,
  InspectVerdict,
  ListedTool,
  ToolAnnotations,
  ToolResult,
} from './gates/gate.js';
export { type HostedFetch, hostedFetch } from './hosted-fetch.js';
export {
  HostedTransport,
  type HostedTransportOptions,
  type StockTransportOptions,
  type TransportSendOptions,
} from './hosted-transport.js';
export type { ExchangeFailure, HttpDispatcher, HttpFetch } from './http/exchange.js';
export { HTTP_DEFAULTS, type HttpOptions, type HttpTlsOptions, type Pem } from './http/options.js';
export type {
  JsonRpcError,
  JsonRpcMessage,
  JsonRpcNotification,
  JsonRpcRequest,
  JsonRpcResponse,
  JsonRpcResult,
  RequestId,
} from './json-rpc.js';
export {
  type HostedOptions,
  type LogEntry,
  RETRY_DEFAULTS,
  type RetryOptions,
  STREAM_DEFAULTS,
  type StreamOptions,
} from './options.js';
export { memoryRateLimitStore } from './rate-limit/memory-store.js';
export { RATE_LIMIT_DEFAULTS, type RateLimitOptions } from './rate-limit/options.js';
export type { RateLimitStore, Rule, Taken, TakeOptions } from './rate-limit/types.js';
export { SESSION_DEFAULTS, type SessionOptions, type SessionSetup } from './session/options.js';
export type { SessionInfo } from './session/session.js';
export type {
  ConnectionTelemetry,
  RequestTelemetry,
  Telemetry,
  TelemetryEnd,
  TelemetryEvent,
  TelemetryFailure,
  TelemetryRequest,
  TelemetryRequestEvent,
  TelemetryServer,
} from './telemetry.js';
