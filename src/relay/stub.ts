/**
 * What the brain knows of a server that runs elsewhere: its name and the route to it.
 *
 * Guarantees that nothing of the entry but these two is in a stub, and that neither of them holds one of the entry's
 * secrets. Never reads a placeholder.
 */
import { checkEntry, fieldName, isRecord, originOf, own, type ServerEntry } from '../servers/entry.js';
import { hasPlaceholder } from '../servers/placeholders.js';
import { secretsOf } from '../servers/secrets.js';
import { hopName } from './hop.js';

/** A server that is reached through a relay; plain data, fit for JSON. */
export interface ServerStub {
  readonly type: 'relay';
  readonly name: string;
  /** How the app finds the relay: an address, a key; whatever its `relay` function understands. */
  readonly route: string;
  readonly command?: undefined;
  readonly url?: undefined;
}

const KEYS: ReadonlySet<string> = new Set(['type', 'name', 'route']);

/**
 * The sanitized form of an entry, for the configuration of those who may call the server and must not know its
 * command, its variables or its secrets.
 *
 * Throws `TypeError` for a name or a route that cannot be used, or that holds a secret of the entry.
 */
export function toStub(entry: ServerEntry, { name, route }: { name: string; route: string }): ServerStub {
  const checked = checkEntry(entry, originOf(entry ?? {}), (path, what) => {
    return new TypeError(`The entry${path.length === 0 ? '' : `, key ${fieldName(path)}`} ${what}`);
  });
  const stub = checkStub({ type: 'relay', name, route });
  const secrets =
    checked.command !== undefined
      ? [...secretsOf(checked.args ?? [], checked.env ?? {})]
      : [...Object.values(checked.headers ?? {}), ...Object.values({ ...checked.auth, grant: '' })];
  for (const secret of secrets) {
    if (
      secret !== undefined &&
      secret.length > 3 &&
      (stub.name.includes(secret) || stub.route.includes(secret))
    )
      throw new TypeError('A stub must not hold a secret of its entry');
  }
  return stub;
}

export function isStub(value: unknown): value is ServerStub {
  return isRecord(value) && own(value, 'route') !== undefined;
}

/** A frozen copy. Throws `TypeError`. */
export function checkStub(value: unknown): ServerStub {
  if (!isRecord(value)) throw new TypeError('A stub must be an object');
  for (const key of Object.keys(value)) {
    if (!KEYS.has(key) && value[key] !== undefined)
      throw new TypeError(`A stub has a name and a route alone, not ${fieldName([key])}`);
  }
  const type = own(value, 'type');
  if (type !== undefined && type !== 'relay') throw new TypeError('type must be "relay" for a stub');
  const route = own(value, 'route');
  if (typeof route !== 'string' || route === '' || route.length > 2048 || route.includes('\0'))
    throw new TypeError('route must be a text of 1 to 2,048 characters');
  if (hasPlaceholder(route)) throw new TypeError('route must not hold a placeholder');
  return Object.freeze({ type: 'relay', name: hopName(own(value, 'name')), route });
}
