import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import type { Credential } from '../../../src/credentials/provider.js';
import { CookieJar } from '../../../src/http/headers.js';
import { Session, type SessionParts } from '../../../src/session/session.js';
import { manualClock } from '../../../src/testing/index.js';

const ID = '6f1b2c3d-secret-session-id';
const KEY = Buffer.alloc(32, 1);
const credential = { generation: 3, headers: () => ({}) } as Credential;

function session(parts: Partial<SessionParts> = {}): Session {
  return new Session({
    number: 1,
    id: ID,
    protocolVersion: '2025-11-25',
    result: {
      serverInfo: { name: 's', version: '1' },
      capabilities: { tools: {} },
      instructions: 'Be kind.',
    },
    credential,
    establishedAtMs: 5,
    fingerprintKey: KEY,
    cookies: new CookieJar(manualClock()),
    ...parts,
  });
}

describe('Session', () => {
  it('shows what the server said of itself', () => {
    expect(session().info).toEqual({
      number: 1,
      fingerprint: expect.stringMatching(/^[0-9a-f]{12}$/),
      protocolVersion: '2025-11-25',
      era: 'initialize',
      serverInfo: { name: 's', version: '1' },
      capabilities: { tools: {} },
      instructions: 'Be kind.',
      establishedAtMs: 5,
    });
  });

  it('keeps its id out of every view but the wire’s', () => {
    const made = session();

    expect(made.revealId()).toBe(ID);
    for (const shown of [
      inspect(made, { depth: 9, showHidden: true }),
      JSON.stringify(made),
      JSON.stringify(made.info),
    ])
      expect(shown).not.toContain(ID);
  });

  it('its fingerprint is stable within a connection and joins nothing across connections', () => {
    const { fingerprint } = session().info;

    expect(session().info.fingerprint).toBe(fingerprint);
    expect(session({ id: 'another' }).info.fingerprint).not.toBe(fingerprint);
    expect(session({ fingerprintKey: Buffer.alloc(32, 2) }).info.fingerprint).not.toBe(fingerprint);
  });

  it('without an id it has no fingerprint', () => {
    const made = session({ id: undefined });

    expect([made.hasId, made.revealId(), made.info.fingerprint]).toEqual([false, undefined, undefined]);
  });

  it('begins as accepted with the credential that opened it, and of no use yet', () => {
    const made = session();

    expect(made).toMatchObject({
      acceptedGeneration: 3,
      answered: 0,
      suspects: 0,
      errorsInRow: 0,
      phase: 'current',
    });
  });

  it.each([null, 'text', 7, ['a'], undefined])('takes %j for no capabilities at all', (odd) => {
    const { info } = session({ result: { serverInfo: odd, capabilities: odd, instructions: odd } });

    expect([info.serverInfo, info.capabilities]).toEqual([{}, {}]);
    expect(info.instructions).toBe(odd === 'text' ? 'text' : undefined);
  });

  it('its info cannot be changed by a listener', () => {
    expect(Object.isFrozen(session().info)).toBe(true);
  });
});
