import { createHash } from 'node:crypto';
import { calculateJwkThumbprint, EmbeddedJWK, type JWTPayload, jwtVerify } from 'jose';
import { beforeEach, describe, expect, it } from 'vitest';
import { makeCredential } from '../../../src/credentials/credential.js';
import { Dpop, DpopKey, ProofSite } from '../../../src/credentials/dpop.js';
import { Holding } from '../../../src/credentials/held-token.js';
import { momentOf } from '../../../src/credentials/moment.js';
import { resolveRefreshPolicy } from '../../../src/credentials/options.js';
import type { StoredRecord } from '../../../src/credentials/provider.js';
import { Rejections } from '../../../src/credentials/rejections.js';
import { Secret } from '../../../src/credentials/secret.js';
import { type ManualClock, manualClock } from '../../../src/testing/manual-clock.js';
import { errorOf, everythingOf, skewedClock } from './support.js';

const URL_OF_CALL = new URL('https://mcp.example:8443/mcp/v1?tenant=7&x=%20#top');

let clock: ManualClock;
beforeEach(() => {
  clock = manualClock();
});

/** Reads a proof as a server does, with the key that stands in it. */
async function read(proof: string): Promise<{ claims: JWTPayload & Record<string, unknown>; jkt: string }> {
  const { payload, protectedHeader } = await jwtVerify(proof, EmbeddedJWK, {
    typ: 'dpop+jwt',
    algorithms: ['ES256'],
    currentDate: new Date(clock.now()),
  });
  expect(Object.keys(protectedHeader).sort()).toEqual(['alg', 'jwk', 'typ']);
  expect(Object.keys(protectedHeader.jwk ?? {}).sort()).toEqual(['crv', 'kty', 'x', 'y']);
  return { claims: payload, jkt: await calculateJwkThumbprint(protectedHeader.jwk ?? {}) };
}

describe('a proof', () => {
  it('is for one method and address, without query and fragment, dated now', async () => {
    const key = DpopKey.generate();
    const { claims } = await read(await new ProofSite(clock).prove(key, { method: 'GET', url: URL_OF_CALL }));
    expect(claims).toEqual({
      jti: expect.stringMatching(/^.{22,}$/),
      htm: 'GET',
      htu: 'https://mcp.example:8443/mcp/v1',
      iat: Math.floor(clock.now() / 1000),
    });
  });

  it('has another jti each time, also among a thousand at once', async () => {
    const key = DpopKey.generate();
    const site = new ProofSite(clock);
    const proofs = await Promise.all(
      Array.from({ length: 1000 }, () => site.prove(key, { method: 'POST', url: URL_OF_CALL })),
    );
    const ids = proofs.map((proof) => JSON.parse(atob(proof.split('.')[1] ?? '')).jti);
    expect(new Set(ids).size).toBe(1000);
  });

  it('holds a manual clock while it is made: it would be dated in the past', async () => {
    const key = DpopKey.generate();
    await new ProofSite(clock).prove(key, { method: 'POST', url: URL_OF_CALL });
    const made: number[] = [];
    for (let i = 0; i < 20; i++) {
      void new ProofSite(clock)
        .prove(key, { method: 'POST', url: URL_OF_CALL })
        .then(() => made.push(clock.monotonic()));
    }
    await clock.advance(60_000);
    expect(made).toEqual(Array(20).fill(0));
  });

  it('carries the nonce that came last, and none of what cannot be one', async () => {
    const key = DpopKey.generate();
    const site = new ProofSite(clock);
    const nonce = async () =>
      (await read(await site.prove(key, { method: 'POST', url: URL_OF_CALL }))).claims.nonce;
    expect(await nonce()).toBeUndefined();
    site.heard({ dpopNonce: 'first' });
    expect(await nonce()).toBe('first');
    site.heard({ dpopNonce: 'second' });
    site.heard({});
    for (const useless of ['', 'a b', 'a"b', 'a\\b', 'é', 'x'.repeat(1025)])
      site.heard({ dpopNonce: useless });
    expect(await nonce()).toBe('second');
  });

  it('is dated by the server only once it was refused, and again by another date when that moves', async () => {
    const key = DpopKey.generate();
    const site = new ProofSite(clock);
    const ahead = async () => {
      const proof = await site.prove(key, { method: 'POST', url: URL_OF_CALL });
      return Number(JSON.parse(atob(proof.split('.')[1] ?? '')).iat) - Math.floor(clock.now() / 1000);
    };
    const date = (aheadMs: number) => new Date(clock.now() + aheadMs).toUTCString();
    site.heard({ date: date(-600_000) });
    expect(await ahead()).toBe(0);
    expect(site.correctClock()).toBe(true);
    expect(await ahead()).toBe(-600);
    await clock.advance(60_000);
    site.heard({ date: date(-600_000) });
    expect(site.correctClock()).toBe(false);
    site.heard({ date: date(0) });
    expect(site.correctClock()).toBe(true);
    expect(await ahead()).toBe(0);
  });

  it('is not dated anew for a second of difference, for no date or for nonsense', () => {
    const site = new ProofSite(clock);
    expect(site.correctClock()).toBe(false);
    for (const date of [new Date(clock.now() + 1_000).toUTCString(), 'yesterday', '']) {
      site.heard({ date });
      expect(site.correctClock()).toBe(false);
    }
  });
});

describe('a key', () => {
  it('comes back from what is stored as the same one', async () => {
    const key = DpopKey.generate();
    const again = DpopKey.read(JSON.parse(JSON.stringify(key.reveal())));
    const site = new ProofSite(clock);
    const request = { method: 'POST', url: URL_OF_CALL };
    const [one, two] = await Promise.all([site.prove(key, request), site.prove(again as DpopKey, request)]);
    expect((await read(one)).jkt).toBe((await read(two)).jkt);
    expect(again?.isSame(key)).toBe(true);
    expect(DpopKey.generate().isSame(key)).toBe(false);
  });

  it.each<[string, (good: Record<string, unknown>) => unknown]>([
    ['nothing', () => undefined],
    ['text', (good) => JSON.stringify(good)],
    ['no private part', ({ d: _, ...others }) => others],
    ['another curve', (good) => ({ ...good, crv: 'P-384' })],
    ['another kind', (good) => ({ ...good, kty: 'oct', k: 'AAAA' })],
    ['numbers', (good) => ({ ...good, d: 7 })],
    ['a point off the curve', (good) => ({ ...good, x: good.y })],
    ['inherited fields', (good) => Object.create(good)],
  ])('is not read from %s', (_, spoil) => {
    expect(DpopKey.read(spoil({ ...DpopKey.generate().reveal() }))).toBeUndefined();
  });

  it('is not in anything that can be printed', async () => {
    const dpop = new Dpop(clock);
    const key = dpop.obtainKey();
    const { d } = key.reveal();
    const credential = makeCredential({
      generation: 1,
      origin: URL_OF_CALL.origin,
      header: 'authorization',
      prefix: 'Bearer ',
      secret: new Secret('CANARY-token', 1),
      bound: { key, site: dpop.resource },
    });
    for (const thing of [dpop, key, credential, { deep: [key] }]) {
      expect(everythingOf(thing)).not.toContain(d);
      expect(everythingOf(thing)).not.toContain('CANARY');
    }
  });
});

describe('a credential', () => {
  const parts = (dpop?: Dpop) => ({
    generation: 3,
    origin: URL_OF_CALL.origin,
    header: 'authorization',
    prefix: 'Bearer ',
    secret: new Secret('the-token', 3),
    bound: dpop && { key: dpop.obtainKey(), site: dpop.resource },
  });

  it('that is bound sends the token with a proof for it, for this request', async () => {
    const dpop = new Dpop(clock);
    const credential = makeCredential(parts(dpop));
    const promised = credential.headers({ method: 'POST', url: URL_OF_CALL });
    expect(promised).toBeInstanceOf(Promise);
    const { authorization, dpop: proof = '', ...others } = await promised;
    expect(others).toEqual({});
    expect(authorization).toBe('DPoP the-token');
    const { claims } = await read(proof);
    expect(claims).toMatchObject({ htm: 'POST', htu: 'https://mcp.example:8443/mcp/v1' });
    expect(claims.ath).toBe(createHash('sha256').update('the-token').digest('base64url'));
    const other = await credential.headers({ method: 'DELETE', url: new URL('/other', URL_OF_CALL) });
    expect((await read(other.dpop ?? '')).claims).toMatchObject({
      htm: 'DELETE',
      htu: 'https://mcp.example:8443/other',
    });
  });

  it('that is bound takes the nonce of an answer', async () => {
    const credential = makeCredential(parts(new Dpop(clock)));
    credential.answered?.({ dpopNonce: 'n-1' });
    const { dpop: proof = '' } = await credential.headers({ method: 'POST', url: URL_OF_CALL });
    expect((await read(proof)).claims.nonce).toBe('n-1');
  });

  it('that is bound makes no proof for another origin', async () => {
    const credential = makeCredential(parts(new Dpop(clock)));
    for (const url of ['https://mcp.example/mcp', 'http://mcp.example:8443/', 'https://evil.example:8443/']) {
      const error = await errorOf(Promise.resolve(credential.headers({ method: 'POST', url: new URL(url) })));
      expect(error.reason).toBe('origin');
    }
  });

  it('that is a bearer token has its header at hand, and is told nothing', () => {
    const credential = makeCredential(parts());
    expect(credential.headers({ method: 'POST', url: URL_OF_CALL })).toEqual({
      authorization: 'Bearer the-token',
    });
    expect(credential.answered).toBeUndefined();
  });
});

describe('a refusal', () => {
  const token = { generation: 4, lifetimeMs: 600_000 } as never;
  const refusal = (challenge: string, dpopNonce?: string) => ({
    rejected: { generation: 4, status: 401, challenge, dpopNonce },
  });

  it('for want of a nonce says nothing against the token, however often it comes', async () => {
    const dpop = new Dpop(clock);
    const rejections = new Rejections(clock, () => {}, dpop);
    for (let i = 0; i < 20; i++) rejections.note(refusal('use_dpop_nonce', `n-${i}`), token);
    expect(rejections.refused).toBeUndefined();
    expect(rejections.latchError(4)).toBeUndefined();
    const proof = await dpop.resource.prove(dpop.obtainKey(), { method: 'POST', url: URL_OF_CALL });
    expect((await read(proof)).claims.nonce).toBe('n-19');
  });

  it('for want of a nonce that gives none is one of the token', () => {
    const rejections = new Rejections(clock, () => {}, new Dpop(clock));
    rejections.note(refusal('use_dpop_nonce'), token);
    expect(rejections.refused).toBe(4);
  });

  it('that names a nonce where tokens are not bound is one of the token', () => {
    const rejections = new Rejections(clock, () => {});
    rejections.note(refusal('use_dpop_nonce', 'n'), token);
    expect(rejections.refused).toBe(4);
  });

  it('of a proof is one of its date where the clocks differ, for stragglers too, but not for ever', async () => {
    const dpop = new Dpop(clock);
    const rejections = new Rejections(clock, () => {}, dpop);
    dpop.resource.heard({ date: new Date(clock.now() + 300_000).toUTCString() });
    for (let i = 0; i < 5; i++) rejections.note(refusal('invalid_dpop_proof'), token);
    expect(rejections.refused).toBeUndefined();
    await clock.advance(10_000);
    rejections.note(refusal('invalid_dpop_proof'), token);
    expect(rejections.refused).toBe(4);
  });

  it.each(['invalid_dpop_proof', 'invalid_token', undefined])(
    '%s is one of the token where the clocks agree',
    (challenge) => {
      const dpop = new Dpop(clock);
      const rejections = new Rejections(clock, () => {}, dpop);
      dpop.resource.heard({ date: new Date(clock.now()).toUTCString() });
      rejections.note(refusal(challenge as string, 'n'), token);
      expect(rejections.refused).toBe(4);
    },
  );
});

describe('a stored record', () => {
  const holding = (dpop?: Dpop) => {
    const held = new Holding({ clock, policy: resolveRefreshPolicy(undefined), dpop });
    held.resource = 'https://mcp.example/mcp';
    return held;
  };
  const issue = (held: Holding, dpop: Dpop | undefined, access: string, refresh?: string) =>
    held.take(
      {
        kind: 'token',
        accessToken: new Secret(access),
        expiresInMs: 60_000,
        refreshToken: refresh === undefined ? undefined : new Secret(refresh),
        dpop: dpop?.obtainKey(),
      },
      momentOf(clock),
    );
  const spoilt = (record: StoredRecord, change: (data: Record<string, unknown>) => object): StoredRecord => ({
    ...record,
    data: JSON.stringify(change(JSON.parse(record.data))),
  });

  it('carries the key with the token: another process uses it, and proves with it', async () => {
    const [one, two] = [new Dpop(clock), new Dpop(clock)];
    const writer = holding(one);
    issue(writer, one, 'A1', 'R1');
    const reader = holding(two);
    two.obtainKey();
    expect(reader.adopt(writer.toRecord())).toBe(true);
    expect(reader.token?.access.reveal()).toBe('A1');
    expect(reader.token?.dpop?.isSame(one.obtainKey())).toBe(true);
    expect(two.key).toBe(reader.token?.dpop);
    expect(JSON.parse(reader.toRecord().data).dpop).toEqual(one.obtainKey().reveal());
  });

  it('of a bearer token gives no token to who asks for bound ones, but its refresh token', () => {
    const writer = holding();
    issue(writer, undefined, 'A1', 'R1');
    const reader = holding(new Dpop(clock));
    expect(reader.adopt(writer.toRecord())).toBe(true);
    expect(reader.token).toBeUndefined();
    expect(reader.refresh?.reveal()).toBe('R1');
  });

  it('of a bound token gives no token to who has no use for keys', () => {
    const dpop = new Dpop(clock);
    const writer = holding(dpop);
    issue(writer, dpop, 'A1', 'R1');
    const reader = holding();
    expect(reader.adopt(writer.toRecord())).toBe(true);
    expect(reader.token).toBeUndefined();
    expect(reader.refresh?.reveal()).toBe('R1');
  });

  it.each<[string, (data: Record<string, unknown>) => object]>([
    ['missing', ({ dpop: _, ...others }) => others],
    ['text', (data) => ({ ...data, dpop: 'key' })],
    ['damaged', (data) => ({ ...data, dpop: { ...(data.dpop as object), d: '%%%' } })],
    [
      "of another key's half",
      (data) => ({ ...data, dpop: { ...(data.dpop as object), d: DpopKey.generate().reveal().d } }),
    ],
    ['null', (data) => ({ ...data, dpop: null })],
  ])('whose key is %s gives no token, and no error', (_, change) => {
    const dpop = new Dpop(clock);
    const writer = holding(dpop);
    issue(writer, dpop, 'A1', 'R1');
    const own = new Dpop(clock);
    const key = own.obtainKey();
    const reader = holding(own);
    expect(reader.adopt(spoilt(writer.toRecord(), change))).toBe(true);
    expect(reader.token).toBeUndefined();
    expect(reader.refresh?.reveal()).toBe('R1');
    expect(own.key).toBe(key);
  });

  it('never joins a token with the key of another one', () => {
    const dpop = new Dpop(clock);
    const reader = holding(dpop);
    issue(reader, dpop, 'A1');
    const other = new Dpop(clock);
    const writer = holding(other);
    writer.asked = 'another-scope';
    issue(writer, other, 'B1', 'R1');
    reader.adopt(writer.toRecord());
    const data = JSON.parse(reader.toRecord().data);
    expect(data.access).toBeUndefined();
    expect(data.dpop).toEqual(other.obtainKey().reveal());
  });

  it('is the end of a key when it is dropped', () => {
    const dpop = new Dpop(clock);
    const held = holding(dpop);
    issue(held, dpop, 'A1');
    const before = dpop.obtainKey();
    held.clear();
    expect(dpop.key).toBeUndefined();
    expect(dpop.obtainKey().isSame(before)).toBe(false);
  });
});

it('a wall clock that is set apart shows in the date of proofs alone', async () => {
  const skewed = skewedClock();
  skewed.skewMs = 300_000;
  const site = new ProofSite(skewed);
  const proof = await site.prove(DpopKey.generate(), { method: 'POST', url: URL_OF_CALL });
  expect(JSON.parse(atob(proof.split('.')[1] ?? '')).iat).toBe(Math.floor(clock.now() / 1000) + 300);
});
