/**
 * An entry that names an address, made ready to be used: its placeholders read, its authorization a credential.
 *
 * Guarantees that what a placeholder holds goes into headers and credentials and nowhere else. Never connects.
 */
import {
  bearerToken,
  type CredentialProvider,
  clientCredentialsGrant,
  headerCredential,
} from '../credentials/index.js';
import type { HttpOptions } from '../http/options.js';
import type { HostedOptions } from '../options.js';
import { originOf, type ServerEntry, type UrlEntry } from './entry.js';
import { hasPlaceholder, type Reader, resolveText } from './placeholders.js';

export interface ResolvedUrlEntry {
  readonly url: string | URL;
  /** Made here, and to be closed by who asked for it. */
  readonly credentials: CredentialProvider | undefined;
  /** The given options, with the entry's headers. */
  readonly http: HttpOptions;
}

/** Rejects with `ERR_CREDENTIAL_SOURCE` for a placeholder that cannot be read. */
export async function resolveUrlEntry(
  entry: UrlEntry,
  options: Pick<HostedOptions, 'clock' | 'http'>,
): Promise<ResolvedUrlEntry> {
  const reader = readerOf(entry, () => {});
  const credentials = await credentialsOf(entry, options, reader);
  const headers: Record<string, string> = Object.create(null);
  for (const [name, value] of Object.entries(entry.headers ?? {})) {
    if (isReadAtEachUse(name, value)) continue;
    headers[name.toLowerCase()] = await resolveText(value, `headers.${name}`, reader);
  }
  for (const [name, value] of Object.entries(options.http?.headers ?? {}))
    headers[name.toLowerCase()] = value;
  const url = typeof entry.url === 'string' ? await resolveText(entry.url, 'url', reader) : entry.url;
  return { url, credentials, http: { ...options.http, headers } };
}

export function readerOf(entry: ServerEntry, learn: (value: string) => void): Reader {
  const { name, variables } = originOf(entry);
  return { server: name, variables, learn };
}

/** A token that something else renews is not to be kept as it was at the start. */
function isReadAtEachUse(header: string, value: string): boolean {
  return header.toLowerCase() === 'authorization' && hasPlaceholder(value);
}

async function credentialsOf(
  { auth, headers }: UrlEntry,
  { clock, http }: Pick<HostedOptions, 'clock' | 'http'>,
  reader: Reader,
): Promise<CredentialProvider | undefined> {
  for (const [name, value] of Object.entries(headers ?? {})) {
    if (isReadAtEachUse(name, value))
      return headerCredential({ name, value: () => resolveText(value, `headers.${name}`, reader), clock });
  }
  if (auth === undefined) return undefined;
  if (auth.grant === undefined) {
    const { token } = auth;
    return bearerToken(hasPlaceholder(token) ? () => resolveText(token, 'auth.token', reader) : token, {
      clock,
    });
  }
  const value = (name: 'issuer' | 'clientId' | 'clientSecret' | 'scope') =>
    resolveText(auth[name] ?? '', `auth.${name}`, reader);
  return clientCredentialsGrant({
    issuer: await value('issuer'),
    clientId: await value('clientId'),
    clientSecret: await value('clientSecret'),
    ...(auth.scope !== undefined && { scope: await value('scope') }),
    ...(http?.fetch !== undefined && { fetch: http.fetch }),
    clock,
  });
}
