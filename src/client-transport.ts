/**
 * HostedTransport beside the SDK v1.
 *
 * Guarantees that with an `authProvider` what a missing authorization throws is the SDK's own `UnauthorizedError`, which
 * apps test for. Changes nothing else.
 */
import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js';
import { HostedTransport as PlainTransport } from './hosted-transport.js';

export class HostedTransport extends PlainTransport {
  protected override readonly unauthorizedError = UnauthorizedError;
}
