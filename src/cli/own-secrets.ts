/**
 * What a command knows of its own secrets, taken out of what a server says.
 *
 * Guarantees that a token, key or password that was given to a server does not come back in a snapshot: a server may
 * echo it in a description, and a snapshot goes into a repository. Never changes a snapshot that holds none.
 */
import { type ContractSnapshot, type JsonObject, makeSnapshot } from '../contract/index.js';
import type { Credential, CredentialProvider } from '../credentials/provider.js';
import { Redactor } from '../redactor.js';
import type { ServerEntry } from '../servers/entry.js';
import { secretsOf } from '../servers/secrets.js';

const PLACEHOLDER = /\$\{(?:env:)?(\w+)(?::-([^}]*))?\}/g;

export class OwnSecrets {
  readonly #redactor = new Redactor();

  /** The secret itself, or a header's value with a scheme before it. */
  add(value: string): void {
    this.#redactor.add(value);
    if (value.includes(' ')) for (const word of value.split(' ')) this.#redactor.add(word);
  }

  /** What an entry of a configuration holds, and what its placeholders stand for in `variables`. */
  addEntry(entry: ServerEntry, variables: Readonly<Record<string, string | undefined>>): void {
    const read = (text: string) =>
      text.replace(PLACEHOLDER, (_, name: string, otherwise: string | undefined) => {
        const value = variables[name] ?? otherwise ?? '';
        this.add(value);
        return value;
      });
    if (entry.command !== undefined) {
      const env = Object.entries(entry.env ?? {}).map(([name, value]) => [name, read(value)]);
      const secrets = secretsOf((entry.args ?? []).map(read), Object.fromEntries(env));
      for (const secret of secrets) this.add(secret);
      return;
    }
    read(String(entry.url));
    const { token, clientSecret } = (entry.auth ?? {}) as { token?: string; clientSecret?: string };
    const given = [...Object.values(entry.headers ?? {}), token, clientSecret];
    for (const value of given) if (value !== undefined) this.add(read(value));
  }

  /** The same provider; what it gives out becomes known here. */
  watching(provider: CredentialProvider): CredentialProvider {
    return {
      id: provider.id,
      acquire: async (target, options) => this.#watched(await provider.acquire(target, options)),
      onEvent: provider.onEvent?.bind(provider),
      forget: provider.forget?.bind(provider),
      close: provider.close?.bind(provider),
    } as CredentialProvider;
  }

  /** The text without what is known here. */
  text(text: string): string {
    return this.#redactor.text(text);
  }

  /** The snapshot itself where it holds no secret. */
  without(snapshot: ContractSnapshot): ContractSnapshot {
    const cleaned = this.#redactor.value(snapshot) as ContractSnapshot;
    if (cleaned === snapshot) return snapshot;
    const { holdfast: _, digest: __, tools, ...rest } = cleaned;
    return makeSnapshot({ ...rest, tools: tools.map(({ definition }) => definition as JsonObject) });
  }

  #watched(credential: Credential): Credential {
    return {
      ...credential,
      headers: async (request) => {
        const headers = await credential.headers(request);
        for (const value of Object.values(headers)) this.add(value);
        return headers;
      },
    };
  }
}
