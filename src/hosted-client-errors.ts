/**
 * How HostedClient refuses, and what it takes for a transport.
 */
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { HostedMcpError } from './errors.js';

export function isTransport(value: unknown): value is Transport {
  return typeof value === 'object' && value !== null && 'send' in value && 'start' in value;
}

export function listError(how: string): HostedMcpError {
  return new HostedMcpError('ERR_PROTOCOL', `The server ${how}`, { method: 'tools/list', executed: true });
}

export function closedError(): HostedMcpError {
  return new HostedMcpError('ERR_CLOSED', 'The client was closed here');
}
