/**
 * Which values of a started server's configuration are treated as secrets.
 *
 * Guarantees that a value read through a placeholder is one, and a variable's value unless it is a plain word or number
 * under a name that does not sound secret. Never a whole command line: a server's own name often stands in it, and
 * would be taken out of what it says of itself.
 */

const SECRET_NAME = /token|key|secret|pass|pwd|auth|cred|pat\b|dsn|cookie|session/i;
/** `production`, `true`, `8080`: taken out of a server's words they would take away their sense. */
const PLAIN = /^(?:[A-Za-z]{1,24}|\d{1,6})$/;
/** `--api-key=x`, `GITHUB_TOKEN=x` (after `docker run -e`). */
const ASSIGNMENT = /^-{0,2}([A-Za-z][\w.-]*)=(.+)$/s;
const FLAG = /^--?([A-Za-z][\w.-]*)$/;
/** `https://user:password@host`, `postgres://...`. */
const PASSWORD_IN_URL = /^[a-z][a-z0-9+.-]*:\/\/[^/?#@\s]*:([^/?#@\s]+)@/i;

export function soundsSecret(name: string): boolean {
  return SECRET_NAME.test(name);
}

export function secretsOf(args: readonly string[], env: Readonly<Record<string, string>>): string[] {
  const secrets: string[] = [];
  for (const [name, value] of Object.entries(env)) {
    if (SECRET_NAME.test(name) || !PLAIN.test(value)) secrets.push(value);
    addPassword(value, secrets);
  }
  args.forEach((arg, index) => {
    addPassword(arg, secrets);
    const [, assigned, value] = ASSIGNMENT.exec(arg) ?? [];
    if (assigned !== undefined && value !== undefined && SECRET_NAME.test(assigned)) secrets.push(value);
    const [, flag] = FLAG.exec(args[index - 1] ?? '') ?? [];
    if (flag !== undefined && SECRET_NAME.test(flag) && !arg.startsWith('-')) secrets.push(arg);
  });
  return secrets;
}

function addPassword(text: string, secrets: string[]): void {
  const [, password] = PASSWORD_IN_URL.exec(text) ?? [];
  if (password !== undefined) secrets.push(password);
}
