/**
 * Which addresses that were found by discovery may be asked (MCP 2025-11-25, security best practices, "SSRF").
 *
 * Guarantees https off loopback, no user name or password, and no address in a network of its own (private, link-local,
 * loopback, reserved ...) unless the MCP server itself, or what else the app named, is in a network of that kind; for names, that the addresses that
 * were checked are the ones connected to. Never sends anything, and never repeats an address in an error.
 *
 * Behind a proxy of the environment, and with a `fetch` of the app's, names are resolved elsewhere: literal addresses
 * are checked then, and where names lead is for the proxy to decide.
 */
import { type LookupAddress, type LookupAllOptions, lookup as systemLookup } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { HostedMcpError } from '../../errors.js';
import { isLoopbackHost } from '../../http/address.js';
import { type AddressClass, AddressClasses } from './address-class.js';

/** `lookup` of `node:dns`, with `all: true`. */
export type LookupAll = (
  hostname: string,
  options: LookupAllOptions,
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

export interface AddressGuardOptions {
  readonly lookup?: LookupAll | undefined;
  /** Beside the MCP server, e.g. an issuer that the app names: what leads there, or to a network of that kind, passes too. */
  readonly named?: readonly URL[] | undefined;
}

const UNNAMED = 'An address found by discovery';
const ELSEWHERE =
  'is in a network of its own (private, link-local, loopback or reserved) where the MCP server is not';

/** What the app named, and the networks it was found in. */
interface Place {
  readonly hostname: string;
  /** By its address alone. */
  readonly stated: AddressClass | undefined;
  /** Where its certificate was good, which no answer of a name server can pretend. */
  readonly met: Set<AddressClass>;
  /** Where its name leads, by the last answer. */
  resolved: ReadonlySet<AddressClass>;
}

export class AddressGuard {
  /** For `connect: { lookup }`. node:net asks it for names only: a literal address is for `check`. */
  readonly lookup: LookupFunction;
  readonly #lookupAll: LookupAll;
  readonly #classes = new AddressClasses();
  readonly #places: Place[];
  #isBound = false;

  /** `target`: the MCP server's address. Until it is known (`bind`) only public addresses pass. */
  constructor(target?: URL | undefined, options: AddressGuardOptions = {}) {
    this.#lookupAll =
      options.lookup ?? ((hostname, more, callback) => systemLookup(hostname, more, callback));
    this.#places = (options.named ?? []).map((url) => this.#placeOf(url));
    if (target !== undefined) this.bind(target);
    this.lookup = (hostname, more, callback) => {
      this.#resolveChecked(hostname, more).then(
        (addresses) => {
          if (more.all === true) callback(null, addresses);
          else callback(null, addresses[0]?.address ?? '', addresses[0]?.family);
        },
        (error) => callback(error, ''),
      );
    };
  }

  /** Says where the MCP server is; the first word counts. */
  bind(target: URL): void {
    if (this.#isBound) return;
    this.#isBound = true;
    this.#places.push(this.#placeOf(target));
  }

  /** Throws `ERR_DISCOVERY` with the reason `address`. `named`: what the address is, as the subject of a sentence. */
  check(url: URL, named: string = UNNAMED): void {
    checkScheme(url, named);
    const found = this.#classOfHost(url);
    if (found !== undefined && !this.#allows(found)) throw addressRefused(named);
  }

  /** True where `check` would need to know where the names that the app gave lead: `locate` finds out. */
  isOpen(url: URL): boolean {
    const found = this.#classOfHost(url);
    return found !== undefined && !this.#allows(found) && this.#places.some(isNowhereYet);
  }

  /** Finds out where the names that the app gave lead, unless that is known better. Rejects as the name server fails. */
  async locate(): Promise<void> {
    const locateOne = async (place: Place): Promise<void> => {
      const found = await this.#resolve(place.hostname, {});
      const classes = new Set(found.map(({ address }) => this.#classes.of(address)));
      // One public address is enough to be anybody's server: who owns the name could add any other to it.
      place.resolved = classes.has('public') ? new Set() : classes;
    };
    await Promise.all(this.#places.filter(isNowhereYet).map(locateOne));
  }

  /** A TLS connection for `hostname` stands: its certificate was good. */
  connected(hostname: string, address: string | undefined): void {
    if (address === undefined) return;
    for (const place of this.#places) {
      if (place.hostname === hostname) place.met.add(this.#classes.of(address));
    }
  }

  async #resolveChecked(hostname: string, options: object): Promise<LookupAddress[]> {
    const addresses = await this.#resolve(hostname, options);
    const classes = new Set(addresses.map(({ address }) => this.#classes.of(address)));
    // Plain http is safe there only because it stays on this machine.
    if (isLoopbackHost(withoutDot(hostname))) {
      if (classes.size !== 1 || !classes.has('loopback')) throw addressRefused();
    }
    // Where that is was said by the app; to the MCP server every call goes, too.
    if (this.#places.some((place) => place.hostname === hostname)) return addresses;
    for (const found of classes) {
      if (!this.#allows(found)) await this.locate();
      if (!this.#allows(found)) throw addressRefused();
    }
    return addresses;
  }

  #resolve(hostname: string, options: object): Promise<LookupAddress[]> {
    return new Promise((resolve, reject) => {
      this.#lookupAll(hostname, { ...options, all: true }, (error, addresses) => {
        if (error !== null && error !== undefined) reject(error);
        else if (addresses.length > 0) resolve(addresses);
        else reject(Object.assign(new Error('The name has no address'), { code: 'ENOTFOUND' }));
      });
    });
  }

  #allows(found: AddressClass): boolean {
    return (
      found === 'public' ||
      this.#places.some(({ stated, met, resolved }) =>
        stated !== undefined ? stated === found : (met.size > 0 ? met : resolved).has(found),
      )
    );
  }

  #placeOf(url: URL): Place {
    return {
      hostname: url.hostname,
      stated: this.#classOfHost(url),
      met: new Set(),
      resolved: new Set(),
    };
  }

  /** Undefined for a name that says nothing by itself. */
  #classOfHost(url: URL): AddressClass | undefined {
    const host = withoutDot(url.hostname).replace(/^\[|\]$/g, '');
    if (isIP(host) !== 0) return this.#classes.of(host);
    return isLoopbackHost(host) ? 'loopback' : undefined;
  }
}

function isNowhereYet({ stated, met }: Place): boolean {
  return stated === undefined && met.size === 0;
}

/** https, or plain http on loopback, and no user name or password. Throws as `AddressGuard.check` does. */
export function checkScheme(url: URL, named: string = UNNAMED): void {
  if (url.username !== '' || url.password !== '') {
    throw addressRefused(named, 'must not carry a user name or password');
  }
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && isLoopbackHost(url.hostname))) {
    throw addressRefused(named, 'is not https');
  }
}

export function addressRefused(named: string = UNNAMED, why: string = ELSEWHERE): HostedMcpError {
  return new HostedMcpError('ERR_DISCOVERY', `${named} ${why}`, { reason: 'address' });
}

/** The refusal that an error is or carries: `fetch` puts what a lookup threw into its cause. */
export function isAddressRefusal(error: unknown): boolean {
  const found = HostedMcpError.from(error);
  return found?.code === 'ERR_DISCOVERY' && found.reason === 'address';
}

function withoutDot(hostname: string): string {
  return hostname.replace(/\.$/, '');
}
