/**
 * An app's `OAuthClientProvider` as the SDK v1's examples have it: everything in memory.
 *
 * Guarantees that what it was asked to do is kept, in order.
 */
import type { OAuthClientProvider } from '@modelcontextprotocol/sdk/client/auth.js';
import type {
  OAuthClientInformationMixed,
  OAuthClientMetadata,
  OAuthTokens,
} from '@modelcontextprotocol/sdk/shared/auth.js';
import { REDIRECT_URI } from './support.js';

export class InMemoryProvider implements OAuthClientProvider {
  readonly calls: string[] = [];
  readonly sentTo: URL[] = [];
  saved: OAuthTokens | undefined;
  client: OAuthClientInformationMixed | undefined;
  verifier = '';
  redirectUrl = REDIRECT_URI;
  clientMetadata: OAuthClientMetadata = { client_name: 'app', redirect_uris: [REDIRECT_URI] };

  clientInformation() {
    return this.client;
  }
  saveClientInformation(information: OAuthClientInformationMixed) {
    this.calls.push('saveClientInformation');
    this.client = information;
  }
  tokens() {
    return this.saved;
  }
  saveTokens(tokens: OAuthTokens) {
    this.calls.push('saveTokens');
    this.saved = tokens;
  }
  redirectToAuthorization(url: URL) {
    this.calls.push('redirectToAuthorization');
    this.sentTo.push(url);
  }
  saveCodeVerifier(verifier: string) {
    this.verifier = verifier;
  }
  codeVerifier() {
    return this.verifier;
  }
  invalidateCredentials(what: 'all' | 'client' | 'tokens' | 'verifier' | 'discovery') {
    this.calls.push(`invalidateCredentials ${what}`);
    if (what === 'tokens') this.saved = undefined;
  }
  times(call: string): number {
    return this.calls.filter((each) => each === call).length;
  }
}
