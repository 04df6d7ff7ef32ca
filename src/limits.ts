/**
 * Every bound on what a network may hand us, in one table.
 *
 * Guarantees that nothing read from a server, a token endpoint or a proxy grows without end. Never a
 * matter of taste: each number has its reason beside it.
 */
export const LIMITS = Object.freeze({
  /** Decoded bytes of one JSON answer, and of one SSE line or event: far above any sane tool result. */
  messageBytes: 16 * 1024 * 1024,
  /** An SSE event id travels back in a header; more than this is no cursor but an attack or a bug. */
  eventIdBytes: 1024,
  /** The address in an `endpoint` event of HTTP+SSE; none in use comes near it. */
  endpointBytes: 2 * 1024,
  /** Visible ASCII only (MCP 2025-11-25, transports, "Session Management"). */
  sessionIdBytes: 1024,
  /** Ceiling of the SSE `retry:` field, so that a server cannot park us for a day. */
  retryFieldMs: 60_000,
  /** Response head; undici's own default is the same. */
  headerBytes: 16 * 1024,
  tools: 10_000,
  pages: 100,
  discoveryBytes: 256 * 1024,
  discoveryRequests: 8,
  tokenResponseBytes: 64 * 1024,
  challengeBytes: 8 * 1024,
  /** Followed only for 307 and 308 within the origin. */
  redirects: 3,
  /** Characters of server text kept on an error. */
  serverTextLength: 200,
  /** How much of an error body is searched for words about sessions. */
  classifyTextLength: 2048,
});
