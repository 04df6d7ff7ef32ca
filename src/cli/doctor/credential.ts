/**
 * The credential as this environment has it.
 *
 * Guarantees that of a token only its times are told. Never shows a part of it, nor a claim.
 */
import type { Credential } from '../../credentials/provider.js';
import { jwtTimes } from '../../credentials/token-value.js';
import { failureOf } from './mcp.js';
import { span } from './report.js';
import type { Stage } from './stage.js';

/** Throws a `DoctorFailure` where none can be had. */
export async function lookAtCredential(stage: Stage): Promise<Credential> {
  const { aim, line, report, progress, signal, clock } = stage;
  progress.step('getting the credential');
  report.note('credential', {
    configured: aim.credentials.id !== 'none',
    generation: null,
    lifetimeMs: null,
    expiresAtMs: null,
    refreshable: 'not measured',
    sessionBoundToToken: 'not measured',
    lapsedToken: 'not measured',
  });
  let credential: Credential;
  try {
    credential = await line.credential(signal);
  } catch (error) {
    signal.throwIfAborted();
    throw failureOf(stage, error, 'source');
  }
  if (aim.credentials.id === 'none') {
    const measured = 'none is configured';
    report.add({ section: 'credential', name: 'token', level: 'note', measured });
    return credential;
  }
  const expiresAtMs = await expiryOf(stage, credential);
  const lifetimeMs = expiresAtMs === undefined ? null : Math.max(0, Math.round(expiresAtMs - clock.now()));
  report.note('credential', {
    generation: credential.generation,
    lifetimeMs,
    expiresAtMs: expiresAtMs ?? null,
  });
  report.add({
    section: 'credential',
    name: 'token',
    level: lifetimeMs === null ? 'note' : 'ok',
    measured:
      lifetimeMs === null
        ? `its lifetime is not stated (generation ${credential.generation})`
        : `lives another ${span(lifetimeMs)} (generation ${credential.generation})`,
    ...(lifetimeMs === null && {
      meaning: 'it is renewed only once a server has refused it, so that a call meets that refusal first',
      set: 'credentials: clientCredentialsGrant, or a token function that gives expiresAtMs',
    }),
  });
  return credential;
}

/** Where the provider does not say it, the token may (RFC 9068). */
export async function expiryOf({ aim }: Stage, credential: Credential): Promise<number | undefined> {
  if (credential.expiresAtMs !== undefined) return credential.expiresAtMs;
  const headers = await credential.headers({ method: 'POST', url: aim.url });
  const [, token] = /^bearer +(.+)$/i.exec(headers.authorization ?? '') ?? [];
  return token === undefined ? undefined : jwtTimes(token)?.expiresAtMs;
}
