/**
 * What kind of network an IP address belongs to (IANA's special-purpose address registries, RFC 6890).
 *
 * Guarantees that an IPv4 address inside of an IPv6 one (mapped, or of NAT64's well-known prefix) counts as what it
 * leads to, and that what no registry calls global is not public. Never resolves a name.
 */
import net, { isIP, isIPv4 } from 'node:net';

import { needsPart } from '../../runtime/needs-part.js';

export type AddressClass =
  | 'public'
  | 'loopback'
  | 'private'
  /** Between a network operator and its customers (RFC 6598). */
  | 'shared'
  | 'link-local'
  /** Where clouds hand out credentials to whoever asks from the machine. */
  | 'instance-metadata'
  /** `0.0.0.0` reaches this machine on many systems. */
  | 'unspecified'
  | 'multicast'
  | 'reserved';

/** The first that fits counts. */
const RANGES: readonly (readonly [AddressClass, readonly string[]])[] = [
  [
    'instance-metadata',
    [
      '169.254.169.254/32',
      '169.254.170.2/32',
      '169.254.170.23/32',
      '100.100.100.200/32',
      '168.63.129.16/32',
      '192.0.0.192/32',
      'fd00:ec2::254/128',
      'fd00:ec2::23/128',
      'fd20:ce::254/128',
    ],
  ],
  ['loopback', ['127.0.0.0/8', '::1/128']],
  ['private', ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7', 'fec0::/10']],
  ['shared', ['100.64.0.0/10']],
  ['link-local', ['169.254.0.0/16', 'fe80::/10']],
  ['unspecified', ['0.0.0.0/8', '::/128']],
  ['multicast', ['224.0.0.0/4', 'ff00::/8']],
  [
    'reserved',
    [
      '192.0.0.0/24',
      '192.0.2.0/24',
      '192.88.99.0/24',
      '198.18.0.0/15',
      '198.51.100.0/24',
      '203.0.113.0/24',
      '240.0.0.0/4',
      // Teredo and other tunnels, 6to4: they lead to IPv4 addresses that are not looked at here.
      '2001::/23',
      '2002::/16',
      '2001:db8::/32',
      '3fff::/20',
    ],
  ],
];
/** IPv6 addresses whose last 32 bits are the IPv4 address that is reached (RFC 4291, 2.5.5.2; RFC 6052, 2.1). */
const LEADS_TO_IPV4 = ['::ffff:0:0/96', '64:ff9b::/96'];
/** All of IPv6 that has been given out as global unicast. */
const GLOBAL_IPV6 = '2000::/3';

/** The classes of addresses as `node:dns` and `node:net` write them. */
export class AddressClasses {
  readonly #ranges = RANGES.map(([name, subnets]) => ({ name, list: listOf(subnets) }));
  readonly #leadsToIpv4 = listOf(LEADS_TO_IPV4);
  readonly #globalIpv6 = listOf([GLOBAL_IPV6]);

  /** `reserved` for what is no IP address. */
  of(address: string): AddressClass {
    // A zone (`fe80::1%eth0`) says through which interface, not whereto.
    const bare = address.replace(/%.*$/, '');
    if (isIP(bare) === 0) return 'reserved';
    if (isIPv4(bare)) return this.#find(bare, 'ipv4') ?? 'public';
    if (this.#leadsToIpv4.check(bare, 'ipv6')) return this.of(lastFourBytes(bare));
    return this.#find(bare, 'ipv6') ?? (this.#globalIpv6.check(bare, 'ipv6') ? 'public' : 'reserved');
  }

  #find(address: string, family: 'ipv4' | 'ipv6'): AddressClass | undefined {
    return this.#ranges.find(({ list }) => list.check(address, family))?.name;
  }
}

function listOf(subnets: readonly string[]): net.BlockList {
  needsPart('ERR_DISCOVERY', 'Finding an authorization server', 'node:net', net.BlockList);
  const list = new net.BlockList();
  for (const subnet of subnets) {
    const [network = '', bits] = subnet.split('/');
    list.addSubnet(network, Number(bits), isIPv4(network) ? 'ipv4' : 'ipv6');
  }
  return list;
}

/** As an IPv4 address. What stands before the last `::` must be no part of them. */
function lastFourBytes(ipv6: string): string {
  // One spelling instead of many: the URL parser's (RFC 5952).
  const canonical = new URL(`http://[${ipv6}]`).hostname.slice(1, -1);
  const tail = canonical.slice(canonical.lastIndexOf('::') + 2);
  const groups = tail.split(':').filter((group) => group !== '');
  const [high = 0, low = 0] = ['0', ...groups].slice(-2).map((group) => Number.parseInt(group, 16));
  return [high >> 8, high & 255, low >> 8, low & 255].join('.');
}
