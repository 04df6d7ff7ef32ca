/**
 * A failure as one line for a person: what is wrong, and what to look at.
 *
 * Guarantees one line, in our words: no text of a server, no message of a foreign error, no secret.
 */
import { SnapshotError } from '../contract/index.js';
import { codeOf, HostedMcpError } from '../errors.js';
import { UsageError } from './command.js';
import { causeCodes, EXIT, exitCodeOf, isServerRefusal, tlsCodeOf } from './exit-codes.js';

/** What the ledger says of a call; a command is none. */
const OUTCOME = / The call (?:did not run|may have run: check before repeating it|ran)\.$/;

/** Why no connection came about, by the name the system gives it. */
const REACHING: Readonly<Record<string, string>> = Object.freeze({
  ENOTFOUND: 'no such host: check the name, and the DNS of this machine',
  EAI_AGAIN: 'the name could not be looked up: the DNS of this machine does not answer',
  ECONNREFUSED: 'nothing listens at that port',
  ECONNRESET: 'the other side, or a firewall between, hung up',
  EHOSTUNREACH: 'there is no route to the host',
  ENETUNREACH: 'there is no route to the network',
  ETIMEDOUT: 'no answer in time: often a firewall',
  UND_ERR_CONNECT_TIMEOUT: 'no answer in time: often a firewall',
  UND_ERR_SOCKET: 'the other side, or a firewall between, hung up',
});

/** Of a process that was started, the message says all there is to say. */
const SYSTEM_CODE = /^(?:UND_ERR_[A-Z_]+|E(?!RR_|XIT_|NOENT$|ACCES$)[A-Z_]+)$/;

const TLS: readonly (readonly [RegExp, string])[] = [
  [/EXPIRED/, 'the certificate has expired'],
  [/NOT_YET_VALID/, 'the certificate is not valid yet: check the clock of this machine'],
  [/ALTNAME|HOSTNAME/, 'the certificate is for another name'],
  [
    /SELF_SIGNED|UNABLE_TO|DEPTH_ZERO|UNTRUSTED|ISSUER|INVALID_CA/,
    'the certificate is not signed by an authority that this machine trusts: for a private one set NODE_EXTRA_CA_CERTS',
  ],
  [
    /WRONG_VERSION|PACKET_LENGTH|HTTP_REQUEST|EPROTO/,
    'what answers does not speak TLS: check the port, http or https, and a proxy in between',
  ],
  [/CERTIFICATE_REQUIRED|HANDSHAKE_FAILURE/, 'the server wants a client certificate or other terms'],
];

/** `error` in one line; `where`, made visible, names what was being spoken to. */
export function failureLine(error: unknown, where?: string | undefined): string {
  const at = where === undefined ? '' : `${where}: `;
  if (error instanceof UsageError) return oneLine(error.message);
  if (SnapshotError.isInstance(error)) {
    const tool = error.tool === undefined ? '' : ` Tool: ${error.tool}.`;
    return oneLine(`${at}${error.message.replaceAll('snapshot', 'contract of the server')}${tool}`);
  }
  const failure = HostedMcpError.from(error);
  if (failure !== undefined) {
    const what = failure.message.replace(OUTCOME, '');
    const why = whyOf(failure);
    return oneLine(why === undefined ? `${at}${what}` : `${at}${what.replace(/[.]$/, '')}: ${why}.`);
  }
  if (isServerRefusal(error)) {
    return oneLine(`${at}The server refused to open a session (JSON-RPC error ${error.code}).`);
  }
  const name = error instanceof Error && /^[A-Za-z]{1,40}$/.test(error.name) ? error.name : 'Error';
  const code = codeOf(error);
  return `${at}An unexpected failure, and a fault of this program: ${name}${code === undefined ? '' : ` ${code}`}.`;
}

function whyOf(failure: HostedMcpError): string | undefined {
  const exit = exitCodeOf(failure);
  if (exit === EXIT.tls) {
    const code = tlsCodeOf(failure) ?? '';
    return `TLS: ${TLS.find(([pattern]) => pattern.test(code))?.[1] ?? code}`;
  }
  if (exit === EXIT.unreachable || failure.code === 'ERR_TOKEN_ENDPOINT') {
    const codes = causeCodes(failure);
    const known = codes.find((code) => Object.hasOwn(REACHING, code));
    return known === undefined ? codes.find((code) => SYSTEM_CODE.test(code)) : REACHING[known];
  }
  if (exit === EXIT.notMcp) return 'not an MCP endpoint, or not at this path: check the address';
  if (exit !== EXIT.credential) return undefined;
  if (failure.code === 'ERR_INSUFFICIENT_SCOPE') return 'the credential needs a wider scope';
  return failure.code === 'ERR_CREDENTIAL_REJECTED' || failure.code === 'ERR_HTTP_STATUS'
    ? 'check the credential: HOLDFAST_TOKEN for an address, "auth" or "headers" for an entry of a file'
    : undefined;
}

/** Parts that others wrote were made visible where they came in. */
function oneLine(text: string): string {
  return text.replace(/\s*\n\s*/g, ' ');
}
