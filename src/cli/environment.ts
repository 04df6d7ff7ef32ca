/**
 * The credential that the environment holds for a bare address.
 *
 * Guarantees that what is set by halves, twice over or empty is refused by the variable's name: a command that goes
 * without its credential would measure another server. Never shows a value.
 */
import { clientCredentialsGrant } from '../credentials/index.js';
import type { CredentialProvider } from '../credentials/provider.js';
import { bearerToken } from '../credentials/static.js';
import { type CommandIo, UsageError } from './command.js';

const TOKEN = 'HOLDFAST_TOKEN';
const CLIENT = ['HOLDFAST_ISSUER', 'HOLDFAST_CLIENT_ID', 'HOLDFAST_CLIENT_SECRET'] as const;

/** Undefined where nothing is set: the server may want none. Throws a `UsageError`. */
export function credentialFromEnvironment({ env, clock, fetch }: CommandIo): CredentialProvider | undefined {
  for (const name of [TOKEN, ...CLIENT]) {
    if (env[name]?.trim() === '') throw new UsageError(`${name} is set, but empty.`);
  }
  const set = CLIENT.filter((name) => env[name] !== undefined);
  if (env[TOKEN] !== undefined) {
    if (set.length > 0) throw new UsageError(`${TOKEN} and ${set[0]} are both set: which of them counts?`);
    return usable(TOKEN, () => bearerToken(env[TOKEN]?.trim() ?? ''));
  }
  if (set.length === 0) return undefined;
  const missing = CLIENT.find((name) => env[name] === undefined);
  if (missing !== undefined) throw new UsageError(`${set[0]} is set, but ${missing} is not.`);
  const [issuer = '', clientId = '', clientSecret = ''] = CLIENT.map((name) => env[name]?.trim());
  return usable(CLIENT.join(', '), () =>
    clientCredentialsGrant({ issuer, clientId, clientSecret, clock, ...(fetch !== undefined && { fetch }) }),
  );
}

function usable(names: string, make: () => CredentialProvider): CredentialProvider {
  try {
    return make();
  } catch (error) {
    // The option's name and what it has to be: resolved without a value in its words.
    const why = error instanceof TypeError ? `: ${error.message}` : '';
    throw new UsageError(`${names} cannot be used${why}.`);
  }
}
