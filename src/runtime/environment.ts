/**
 * Variables of the environment.
 *
 * Guarantees that a runtime without an environment has no variables, rather than no way to ask. Never keeps a value.
 */
export function environmentVariable(name: string): string | undefined {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return process?.env?.[name];
}
