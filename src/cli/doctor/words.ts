/**
 * The system's codes in words.
 *
 * Guarantees one short clause for every code, known or not. Never shows an error's own message: it may quote
 * an address or a token.
 */

const NETWORK: Readonly<Record<string, string>> = Object.freeze({
  ECONNREFUSED: 'nothing listens on that port',
  ECONNRESET: 'the connection was reset',
  EHOSTUNREACH: 'no route leads to that host',
  ENETUNREACH: 'no route leads to that network',
  ETIMEDOUT: 'no connection came about in time',
  UND_ERR_CONNECT_TIMEOUT: 'no connection came about in time',
  UND_ERR_SOCKET: 'the connection was ended before an answer',
  EPIPE: 'the connection was ended before an answer',
  ENOTFOUND: 'the name is not known to DNS',
  EAI_AGAIN: 'DNS does not answer',
  ENODATA: 'the name has no address in DNS',
  EACCES: 'this machine does not allow the connection',
});

const TLS: Readonly<Record<string, string>> = Object.freeze({
  DEPTH_ZERO_SELF_SIGNED_CERT: 'the certificate is signed by itself',
  SELF_SIGNED_CERT_IN_CHAIN: 'an authority that is not trusted here stands in the chain',
  UNABLE_TO_GET_ISSUER_CERT: 'the authority that signed it is not known here',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    'the authority that signed it is not known here, or the server leaves out an intermediate certificate',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    'the authority that signed it is not known here, or the server leaves out an intermediate certificate',
  CERT_HAS_EXPIRED: 'the certificate has expired',
  CERT_NOT_YET_VALID: 'the certificate is not yet valid, or the clock of this machine is wrong',
  CERT_REVOKED: 'the certificate was revoked',
  ERR_TLS_CERT_ALTNAME_INVALID: 'the certificate is for another name',
  HOSTNAME_MISMATCH: 'the certificate is for another name',
  ERR_SSL_WRONG_VERSION_NUMBER: 'what listens there does not speak TLS',
  ERR_SSL_PACKET_LENGTH_TOO_LONG: 'what listens there does not speak TLS',
  EPROTO: 'the two sides have no TLS version or cipher in common',
  ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION: 'the two sides have no TLS version in common',
  ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED: 'the server asks for a client certificate',
  ECONNRESET: 'the handshake was cut off',
  ETIMEDOUT: 'the handshake did not end in time',
});

export function networkWords(code: string | undefined): string {
  return (code !== undefined && Object.hasOwn(NETWORK, code) && NETWORK[code]) || 'no connection came about';
}

/** With the code, by which its meaning can be looked up. */
export function tlsWords(code: string | undefined): string {
  if (code === undefined) return 'the handshake failed';
  return `${(Object.hasOwn(TLS, code) && TLS[code]) || 'the handshake failed'} (${code})`;
}
