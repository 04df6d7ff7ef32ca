import type { LookupAddress } from 'node:dns';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type AddressClass, AddressClasses } from '../../../../src/credentials/discovery/address-class.js';
import {
  AddressGuard,
  addressRefused,
  isAddressRefusal,
} from '../../../../src/credentials/discovery/address-guard.js';
import { errorOf } from '../support.js';
import { nameServer } from './support.js';

const PUBLIC = new URL('https://mcp.example/mcp');
const guardOf = (target: string | URL = PUBLIC) =>
  new AddressGuard(new URL(target), { lookup: nameServer({}) });

function refusal(guard: AddressGuard, url: string): string | undefined {
  try {
    guard.check(new URL(url), 'The token endpoint');
    return undefined;
  } catch (error) {
    expect(error).toMatchObject({ code: 'ERR_DISCOVERY', reason: 'address', executed: false });
    return (error as Error).message;
  }
}

/** As node:net asks. */
function lookUp(guard: AddressGuard, name: string, all = true): Promise<LookupAddress[] | string> {
  return new Promise((resolve, reject) => {
    guard.lookup(name, all ? { all: true } : {}, (error, found) => {
      if (error === null) resolve(found);
      else reject(error);
    });
  });
}

describe('the class of an address', () => {
  it.each<[AddressClass, string[]]>([
    ['public', ['1.1.1.1', '9.255.255.255', '11.0.0.0', '100.63.255.255', '100.128.0.0', '126.255.255.255']],
    [
      'public',
      ['128.0.0.0', '169.253.255.255', '169.255.0.0', '172.15.255.255', '172.32.0.0', '192.167.255.255'],
    ],
    ['public', ['192.169.0.0', '198.17.255.255', '198.20.0.0', '223.255.255.255']],
    ['public', ['2606:4700::1111', '2001:200::1', '::ffff:8.8.8.8', '64:ff9b::8.8.8.8', '64:ff9b::808:808']],
    ['loopback', ['127.0.0.1', '127.255.255.255', '::1', '::ffff:127.0.0.1', '64:ff9b::7f00:1']],
    [
      'private',
      ['10.0.0.0', '10.255.255.255', '172.16.0.0', '172.31.255.255', '192.168.0.0', '192.168.255.255'],
    ],
    ['private', ['fc00::', 'fdff::1', 'fec0::1', '::ffff:a00:1', '64:ff9b::192.168.1.1']],
    ['shared', ['100.64.0.0', '100.127.255.255', '::ffff:100.64.0.1']],
    ['link-local', ['169.254.0.0', '169.254.255.255', 'fe80::1', 'fe80::1%eth0', 'febf::1']],
    ['instance-metadata', ['169.254.169.254', '100.100.100.200', 'fd00:ec2::254', '::ffff:169.254.169.254']],
    ['unspecified', ['0.0.0.0', '0.255.255.255', '::', '64:ff9b::', '64:ff9b::1', '::ffff:0.0.0.0']],
    ['multicast', ['224.0.0.1', '239.255.255.255', 'ff02::1']],
    ['reserved', ['192.0.0.1', '192.0.2.1', '198.18.0.1', '198.19.255.255', '203.0.113.9', '240.0.0.0']],
    ['reserved', ['255.255.255.255', '2001::1', '2001:db8::1', '2002:a00:1::1', '3fff::1', '4000::1']],
    ['reserved', ['::10.0.0.1', '::8.8.8.8', '64:ff9b:1::a00:1', '::ffff:0:10.0.0.1', '100::1', 'name', '']],
  ])('%s: %j', (name, addresses) => {
    const classes = new AddressClasses();
    expect(addresses.map((address) => [address, classes.of(address)])).toEqual(
      addresses.map((address) => [address, name]),
    );
  });
});

describe('check', () => {
  it.each([
    ['http://as.example/token', /^The token endpoint is not https\./],
    ['http://localhost.evil.example/', /is not https/],
    ['http://10.0.0.1/', /is not https/],
    ['ftp://as.example/', /is not https/],
    ['file:///etc/passwd', /is not https/],
    ['data:application/json,{}', /is not https/],
    ['https://user@as.example/', /user name or password/],
    ['https://:secret@as.example/', /user name or password/],
    ['http://127.0.0.1/', /where the MCP server is not/],
    ['https://localhost/', /where the MCP server is not/],
    ['https://LOCALHOST./', /where the MCP server is not/],
    ['https://as.localhost/', /where the MCP server is not/],
    ['https://169.254.169.254/latest/meta-data', /where the MCP server is not/],
    ['https://[fd00:ec2::254]/', /where the MCP server is not/],
    ['https://2852039166/', /where the MCP server is not/],
    ['https://0xA9.0376.43518/', /where the MCP server is not/],
    ['https://10.1/', /where the MCP server is not/],
    ['https://127.0.0.1./', /where the MCP server is not/],
    ['https://[::ffff:10.0.0.1]/', /where the MCP server is not/],
    ['https://[0:0:0:0:0:FFFF:0A00:0001]/', /where the MCP server is not/],
    ['https://[64:ff9b::10.0.0.1]/', /where the MCP server is not/],
    ['https://0/', /where the MCP server is not/],
  ])('%s is refused, and not repeated', (url, message) => {
    const words = refusal(guardOf(), url);
    expect(words).toMatch(message);
    expect(words).not.toMatch(/secret|example|\d/);
  });

  it.each([
    'https://as.example/token?x=1',
    'https://8.8.8.8/',
    'https://134744072/',
    'https://[2606:4700::1111]:8443/',
    'https://[::ffff:8.8.8.8]/',
  ])('%s passes', (url) => {
    expect(refusal(guardOf(), url)).toBeUndefined();
  });

  it.each<[string, string[], string[]]>([
    [
      'https://10.0.0.5/mcp',
      ['https://10.0.0.5/', 'https://192.168.7.7/', 'https://[fd12::1]/', 'https://[::ffff:172.16.0.1]/'],
      ['https://127.0.0.1/', 'https://100.64.0.1/', 'https://169.254.1.1/', 'https://169.254.169.254/'],
    ],
    [
      'http://localhost:3000/mcp',
      ['http://127.0.0.1:9000/', 'http://[::1]:9000/', 'https://localhost/', 'https://as.example/'],
      ['https://10.0.0.1/', 'https://0.0.0.0/', 'https://169.254.169.254/', 'http://10.0.0.1/'],
    ],
    ['https://[::1]:1/', ['http://127.9.9.9/'], ['https://[fe80::1]/', 'https://[::]/']],
    ['https://100.64.3.3/', ['https://100.100.1.1/'], ['https://100.100.100.200/', 'https://10.0.0.1/']],
    [
      'https://169.254.7.7/',
      ['https://169.254.8.8/'],
      ['https://169.254.169.254/', 'https://[fd00:ec2::254]/'],
    ],
    ['https://8.8.8.8/', ['https://1.1.1.1/'], ['https://10.0.0.1/']],
  ])('of a server at %s: the same kind of network passes, another one does not', (target, good, bad) => {
    const guard = guardOf(target);
    expect(good.filter((url) => refusal(guard, url) !== undefined)).toEqual([]);
    expect(bad.filter((url) => refusal(guard, url) === undefined)).toEqual([]);
  });

  it('a literal address waits for where the name of the server leads', async () => {
    const lookup = nameServer({ 'mcp.example': [['10.0.0.7']] });
    const guard = new AddressGuard(PUBLIC, { lookup });
    const url = new URL('https://10.0.0.8/');
    expect(guard.isOpen(url)).toBe(true);
    expect(refusal(guard, url.href)).toMatch(/where the MCP server is not/);
    await guard.locate();
    expect(refusal(guard, url.href)).toBeUndefined();
    expect(refusal(guard, 'https://127.0.0.1/')).toMatch(/where the MCP server is not/);
  });
});

describe('what else the app named', () => {
  it('passes, and so does what is in a network of its kind', async () => {
    const lookup = nameServer({
      'mcp.example': [['9.9.9.9']],
      'login.corp': [['10.0.0.1']],
      'token.corp': [['10.0.0.2']],
      'other.corp': [['100.64.0.1']],
    });
    const guard = new AddressGuard(PUBLIC, { lookup, named: [new URL('https://login.corp')] });
    expect(await lookUp(guard, 'login.corp')).toHaveLength(1);
    expect(await lookUp(guard, 'token.corp')).toHaveLength(1);
    expect((await errorOf(lookUp(guard, 'other.corp'))).reason).toBe('address');
    const literal = new AddressGuard(PUBLIC, { lookup, named: [new URL('https://[fd00::1]/x')] });
    expect(refusal(literal, 'https://[fd00::1]/token')).toBeUndefined();
    expect(refusal(literal, 'https://127.0.0.1/token')).toMatch(/where the MCP server is not/);
  });

  it('a server that becomes known later: until then only public addresses pass, and the first word counts', async () => {
    const lookup = nameServer({ 'mcp.example': [['10.0.0.1']], 'as.example': [['10.0.0.2']] });
    const guard = new AddressGuard(undefined, { lookup });
    expect((await errorOf(lookUp(guard, 'as.example'))).reason).toBe('address');
    expect(refusal(guard, 'https://127.0.0.1/')).toMatch(/where the MCP server is not/);
    expect(refusal(guard, 'https://8.8.8.8/')).toBeUndefined();
    guard.bind(PUBLIC);
    guard.bind(new URL('http://127.0.0.1/'));
    expect(await lookUp(guard, 'as.example')).toHaveLength(1);
    expect(refusal(guard, 'https://10.0.0.3/')).toBeUndefined();
    expect(refusal(guard, 'https://127.0.0.1/')).toMatch(/where the MCP server is not/);
  });
});

// ---- every spelling of every address that is not public

const byte = fc.integer({ min: 0, max: 255 });
const within = (network: number, bits: number) =>
  fc.nat({ max: 2 ** (32 - bits) - 1 }).map((host) => network * 2 ** 24 + host);
const v4 = (a: number, b = 0, c = 0) => a + b / 2 ** 8 + c / 2 ** 16;
const privateIpv4 = fc.oneof(
  within(v4(0), 8),
  within(v4(10), 8),
  within(v4(100, 64), 10),
  within(v4(127), 8),
  within(v4(169, 254), 16),
  within(v4(172, 16), 12),
  within(v4(192, 0, 2), 24),
  within(v4(192, 168), 16),
  within(v4(198, 18), 15),
  within(v4(224), 4),
  within(v4(240), 4),
  fc.constantFrom(0xa9fea9fe, 0x646464c8, 0x7f000001, 0, 0xffffffff),
);
const numberIn = (value: number) =>
  fc.constantFrom(
    String(value),
    `0x${value.toString(16)}`,
    `0X${value.toString(16).toUpperCase()}`,
    `0x000${value.toString(16)}`,
    `0${value.toString(8)}`,
    `000${value.toString(8)}`,
  );
/** One to four numbers, each in a base of its own; a dot behind; percent-encoded or in full-width digits. */
const spellingsOfIpv4 = (address: number) =>
  fc.integer({ min: 1, max: 4 }).chain((count) => {
    const parts: number[] = [];
    for (let at = 0; at < count - 1; at++) parts.push(Math.floor(address / 2 ** (24 - 8 * at)) % 256);
    parts.push(address % 2 ** (32 - 8 * (count - 1)));
    return fc
      .tuple(
        fc.tuple(...parts.map(numberIn)),
        fc.constantFrom('.', '\u3002', '%2e'),
        fc.boolean(),
        fc.constantFrom('plain', 'percent', 'wide'),
      )
      .map(([numbers, dot, hasDotBehind, dress]) => {
        const text = numbers
          .map((number) => [...number].map((sign) => dressed(sign, dress)).join(''))
          .join(dot);
        return `${text}${hasDotBehind ? '.' : ''}`;
      });
  });
function dressed(sign: string, dress: string): string {
  if (dress === 'percent') return `%${sign.charCodeAt(0).toString(16)}`;
  return dress === 'wide' ? String.fromCharCode(sign.charCodeAt(0) + 0xfee0) : sign;
}
const dotted = (address: number) => [24, 16, 8, 0].map((shift) => (address >>> shift) & 255).join('.');
const groupsOf = (address: number) => [address >>> 16, address & 0xffff];
const group = fc.integer({ min: 0, max: 0xffff });
/** Eight groups. */
const privateIpv6 = fc.oneof(
  privateIpv4.map((address) => [0, 0, 0, 0, 0, 0xffff, ...groupsOf(address)]),
  privateIpv4.map((address) => [0x64, 0xff9b, 0, 0, 0, 0, ...groupsOf(address)]),
  privateIpv4.map((address) => [0, 0, 0, 0, 0, 0, ...groupsOf(address)]),
  privateIpv4.map((address) => [0, 0, 0, 0, 0xffff, 0, ...groupsOf(address)]),
  fc
    .tuple(privateIpv4, fc.array(group, { minLength: 5, maxLength: 5 }))
    .map(([address, more]) => [0x2002, ...groupsOf(address), ...more]),
  fc
    .tuple(
      fc.oneof(
        fc.integer({ min: 0xfc00, max: 0xffff }),
        fc.integer({ min: 0x4000, max: 0xfbff }),
        fc.constantFrom(0x0100, 0x0200, 0x1fff),
      ),
      fc.array(group, { minLength: 7, maxLength: 7 }),
    )
    .map(([first, more]) => [first, ...more]),
  fc.array(group, { minLength: 6, maxLength: 6 }).map((more) => [0x2001, 0xdb8, ...more]),
  fc.array(group, { minLength: 6, maxLength: 6 }).map((more) => [0x2001, 0, ...more]),
  fc.array(group, { minLength: 6, maxLength: 6 }).map((more) => [0x3fff, 0x0fff, ...more]),
  fc.constantFrom([0, 0, 0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 0, 0]),
);
const spellingsOfIpv6 = (groups: readonly number[]) =>
  fc.tuple(fc.boolean(), fc.boolean(), fc.boolean(), fc.boolean()).map(([padded, upper, short, tail]) => {
    const write = (value: number) => {
      const text = value.toString(16);
      return padded ? text.padStart(4, '0') : text;
    };
    const high = groups[6] ?? 0;
    const low = groups[7] ?? 0;
    const words = groups.slice(0, 6).map(write);
    const end = tail ? [dotted(high * 65_536 + low)] : [write(high), write(low)];
    let text = [...words, ...end].join(':');
    const zeros = groups.slice(0, 6).findIndex((value, at) => value === 0 && groups[at + 1] === 0 && at < 5);
    if (short && zeros >= 0) {
      const before = words.slice(0, zeros).join(':');
      const after = [...words.slice(zeros + 2), ...end].join(':');
      text = `${before}::${after}`;
    }
    return upper ? text.toUpperCase() : text;
  });

describe('no address that is not public passes, however it is written', () => {
  const runs = { numRuns: 3_000 };

  it('IPv4, as a URL has it', () => {
    const guard = guardOf();
    const seen = new Set<string>();
    fc.assert(
      fc.property(
        privateIpv4.chain((address) => fc.tuple(fc.constant(address), spellingsOfIpv4(address))),
        ([address, text]) => {
          const url = new URL(`https://${text}/`);
          // The spelling is one of that address, or nothing would be shown.
          expect(url.hostname).toBe(dotted(address));
          seen.add(text);
          expect(refusal(guard, url.href)).toMatch(/where the MCP server is not/);
        },
      ),
      runs,
    );
    expect(seen.size).toBeGreaterThan(1_000);
  });

  it('IPv6, as a URL has it', () => {
    const guard = guardOf();
    fc.assert(
      fc.property(privateIpv6.chain(spellingsOfIpv6), (text) => {
        expect(refusal(guard, `https://[${text}]/`)).toMatch(/where the MCP server is not/);
      }),
      runs,
    );
  });

  it('either, as a name server has it, alone and among public ones', async () => {
    const addresses = fc.oneof(privateIpv4.map(dotted), privateIpv6.chain(spellingsOfIpv6));
    const among = fc.array(fc.constantFrom('8.8.8.8', '2606:4700::1111'), { maxLength: 3 });
    await fc.assert(
      fc.asyncProperty(addresses, among, byte, async (address, others, place) => {
        const answer: string[] = [...others];
        answer.splice(place % (answer.length + 1), 0, address);
        const lookup = nameServer({ 'as.example': [answer], 'mcp.example': [['9.9.9.9']] });
        const guard = new AddressGuard(PUBLIC, { lookup });
        expect(isAddressRefusal(await errorOf(lookUp(guard, 'as.example')))).toBe(true);
      }),
      { numRuns: 1_000 },
    );
  });
});

describe('lookup', () => {
  const PRIVATE = [['10.0.0.1']];

  it('gives what net asks for: all addresses, or the first with its family', async () => {
    const lookup = nameServer({ 'as.example': [['8.8.8.8', '2606:4700::1']] });
    const guard = new AddressGuard(PUBLIC, { lookup });
    expect(await lookUp(guard, 'as.example')).toEqual([
      { address: '8.8.8.8', family: 4 },
      { address: '2606:4700::1', family: 6 },
    ]);
    expect(await lookUp(guard, 'as.example', false)).toBe('8.8.8.8');
    // No name server is asked about the MCP server where that is of no use.
    expect(lookup.asked).toEqual(['as.example', 'as.example']);
  });

  it('a name that does not exist stays a failure of the network', async () => {
    const guard = new AddressGuard(PUBLIC, { lookup: nameServer({ 'empty.example': [[]] }) });
    await expect(lookUp(guard, 'gone.example')).rejects.toMatchObject({ code: 'ENOTFOUND' });
    await expect(lookUp(guard, 'empty.example')).rejects.toMatchObject({ code: 'ENOTFOUND' });
  });

  it.each<[string, string[], boolean]>([
    ['in the same kind of network', ['192.168.1.1'], true],
    ['at several such addresses', ['10.0.0.7', 'fd00::7'], true],
    ['in another kind of network', ['127.0.0.1'], false],
    ['on the internet', ['9.9.9.9'], false],
    ['on the internet, and says that it is in such a network as well', ['9.9.9.9', '10.0.0.7'], false],
  ])('a private address, the server being %s: %j', async (_, server, passes) => {
    const lookup = nameServer({ 'as.example': PRIVATE, 'mcp.example': [server] });
    const found = lookUp(new AddressGuard(PUBLIC, { lookup }), 'as.example');
    if (passes) expect(await found).toHaveLength(1);
    else expect((await errorOf(found)).code).toBe('ERR_DISCOVERY');
  });

  it('where the server was met counts more than what name servers say now', async () => {
    const lookup = nameServer({ 'as.example': PRIVATE, 'mcp.example': [['10.0.0.7']] });
    const guard = new AddressGuard(PUBLIC, { lookup });
    guard.connected('other.example', '10.0.0.7');
    guard.connected('mcp.example', '9.9.9.9');
    expect((await errorOf(lookUp(guard, 'as.example'))).reason).toBe('address');
    expect(refusal(guard, 'https://10.0.0.9/')).toMatch(/where the MCP server is not/);
    expect(lookup.asked).toEqual(['as.example']);
    guard.connected('mcp.example', '10.0.0.7');
    expect(await lookUp(guard, 'as.example')).toHaveLength(1);
  });

  it('the name of the MCP server itself leads wherever it leads: the app said so', async () => {
    const lookup = nameServer({ 'mcp.example': PRIVATE });
    expect(await lookUp(new AddressGuard(PUBLIC, { lookup }), 'mcp.example')).toHaveLength(1);
  });

  it('a loopback name that leads off this machine is refused: plain http would leave it', async () => {
    const lookup = nameServer({ 'as.localhost': [['8.8.8.8']], localhost: [['127.0.0.1', '10.0.0.1']] });
    const guard = new AddressGuard(new URL('http://localhost:1/mcp'), { lookup });
    expect((await errorOf(lookUp(guard, 'as.localhost'))).reason).toBe('address');
    expect((await errorOf(lookUp(guard, 'localhost'))).reason).toBe('address');
  });
});

it('a refusal is known through the causes that fetch wraps it in', () => {
  expect(isAddressRefusal(new TypeError('x', { cause: new Error('y', { cause: addressRefused() }) }))).toBe(
    true,
  );
  expect(isAddressRefusal(new TypeError('x', { cause: new Error('y') }))).toBe(false);
});
