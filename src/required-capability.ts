/**
 * Which capability of a server a request needs (MCP 2025-11-25, "Lifecycle", "Capability Negotiation").
 *
 * Guarantees the same answers as the SDK's own check. Never looks at anything but what it is given, so
 * that the session in use decides, not the first one.
 */
const NEEDED: Readonly<Record<string, string>> = Object.freeze({
  'logging/setLevel': 'logging',
  'prompts/get': 'prompts',
  'prompts/list': 'prompts',
  'resources/list': 'resources',
  'resources/templates/list': 'resources',
  'resources/read': 'resources',
  'resources/subscribe': 'resources.subscribe',
  'resources/unsubscribe': 'resources',
  'tools/call': 'tools',
  'tools/list': 'tools',
  'completion/complete': 'completions',
});

/** The capability that `method` needs and `capabilities` lack, e.g. `resources.subscribe`. */
export function missingCapability(method: string, capabilities: object | undefined): string | undefined {
  const needed = Object.hasOwn(NEEDED, method) ? NEEDED[method] : undefined;
  let at: unknown = capabilities;
  for (const name of needed?.split('.') ?? []) {
    at = typeof at === 'object' && at !== null ? (at as Record<string, unknown>)[name] : undefined;
    if (at === undefined || at === false || at === null) return needed;
  }
  return undefined;
}
