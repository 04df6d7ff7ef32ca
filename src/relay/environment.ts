/**
 * What a supervised process is started with: its command line, and every variable it gets.
 *
 * Guarantees that its environment is made of a short list of names and its own entry, nothing inherited beside them,
 * and that no argument holds a secret, for arguments can be read by every process of the machine. Never keeps a value.
 */
import { HostedMcpError } from '../errors.js';
import type { CommandLine } from '../servers/child.js';
import { type CommandEntry, originOf } from '../servers/entry.js';
import { hasPlaceholder, quoted, type Reader, resolveText, type Variables } from '../servers/placeholders.js';
import { secretsOf, soundsSecret } from '../servers/secrets.js';

/** What programs need to find others, a home, a language: no secret has these names. */
export const INHERITED = Object.freeze(['PATH', 'HOME', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR', 'SYSTEMROOT']);
/** Shorter ones stand in ordinary words. */
const SHORTEST_SECRET = 6;
const VARIABLES = /\$\{(?:env:)?([A-Za-z_]\w*)/g;

/** Throws `TypeError` for what can be seen before anything is read. */
export function checkArguments({ command, args = [], cwd }: CommandEntry): void {
  const shown: [field: string, text: string][] = [
    ['command', command],
    ...args.map((arg, index): [string, string] => [`args[${index}]`, arg]),
    ['cwd', cwd ?? ''],
  ];
  for (const [field, text] of shown) {
    if (readsSecret(text))
      throw new TypeError(`${field} must not hold a secret: others can read it; hand it over in "env"`);
  }
  const plain = args.map((arg) => (hasPlaceholder(arg) ? '' : arg));
  if (secretsOf(plain, {}).length > 0)
    throw new TypeError('args must not hold a secret: others can read them; hand it over in "env"');
}

/** Told of each value that is not to be shown: `isSecret` where it is one beyond doubt, and no path or address. */
export type Learn = (value: string, isSecret: boolean) => void;

/** Reads all values of an entry. Rejects with `ERR_CREDENTIAL_SOURCE`. */
export async function commandLine(
  entry: CommandEntry,
  { name, inherit, learn }: { name: string; inherit: readonly string[]; learn: Learn },
): Promise<CommandLine> {
  const { variables } = originOf(entry);
  const hidden: string[] = [];
  const own: Record<string, string> = Object.create(null);
  for (const [key, text] of Object.entries(entry.env ?? {})) {
    const isSecret = soundsSecret(key) || readsSecret(text);
    const hide = (value: string, isBeyondDoubt: boolean) => {
      hidden.push(value);
      learn(value, isBeyondDoubt);
    };
    const reader: Reader = { server: name, variables, learn: (value) => hide(value, isSecret) };
    const value = await resolveText(text, `env.${key}`, reader);
    own[key] = value;
    // Besides the whole: a password in an address.
    for (const found of secretsOf([], { [key]: value })) hide(found, isSecret || found !== value);
  }

  const ofArguments: Reader = { server: name, variables, learn: () => {} };
  const read = async (text: string, field: string) => {
    const value = await resolveText(text, field, ofArguments);
    if (hidden.some((secret) => secret.length >= SHORTEST_SECRET && value.includes(secret)))
      throw new HostedMcpError(
        'ERR_CREDENTIAL_SOURCE',
        `The server ${quoted(name)} cannot be used: "${field}" holds a secret, and others could read it there`,
        { reason: 'argument' },
      );
    return value;
  };
  const command = await read(entry.command, 'command');
  const args: string[] = [];
  for (const [index, arg] of (entry.args ?? []).entries()) args.push(await read(arg, `args[${index}]`));
  const cwd = entry.cwd === undefined ? undefined : await read(entry.cwd, 'cwd');
  return { command, args, cwd, env: Object.assign(inherited(inherit), own) };
}

/** By its placeholders: files hold secrets, and variables of such names do. */
function readsSecret(text: string): boolean {
  const names = [...text.matchAll(VARIABLES)].map(([, name]) => name ?? '');
  return text.includes('${file:') || names.some((name) => soundsSecret(name));
}

/** From this process, whatever the entry's own variables are read from. */
function inherited(names: readonly string[], from: Variables = process.env): Record<string, string> {
  const env: Record<string, string> = Object.create(null);
  for (const name of names) {
    const value = from[name];
    // A shell function that was exported is code.
    if (value !== undefined && !value.startsWith('()')) env[name] = value;
  }
  return env;
}
