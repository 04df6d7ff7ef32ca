/**
 * What a renewal of the token does to a session, and what the server says to a token that has lapsed.
 *
 * Guarantees that "bound" is said only where the session refuses the new token and a fresh session takes it, and
 * where the old token would still be taken or is dead: neither a restart nor a bad token passes for it. Never uses a session of anybody else.
 */
import { sleep, untilAborted } from '../../clock.js';
import { classify, PLAIN_CONTEXT } from '../../connection/classify.js';
import type { StreamFacts } from '../../connection/route.js';
import type { Credential } from '../../credentials/provider.js';
import { HostedMcpError } from '../../errors.js';
import type { Session } from '../../session/session.js';
import { failureLine } from '../failure-line.js';
import { expiryOf } from './credential.js';
import { span } from './report.js';
import type { Stage } from './stage.js';

/** Clocks differ a little. */
const AFTER_LAPSE_MS = 1_500;

export async function measureLapse(stage: Stage, maxMs: number): Promise<void> {
  const { aim, line, report, progress, signal } = stage;
  if (aim.credentials.id === 'none') return notMeasured(stage, 'there is no credential');
  progress.step('renewing the token within a session');
  let session: Session;
  let before: Credential;
  let renewed: Credential;
  try {
    session = await line.open(signal);
    before = session.credential;
    renewed = await line.renewed(before, signal);
  } catch (error) {
    signal.throwIfAborted();
    if (!HostedMcpError.isInstance(error)) throw error;
    report.note('credential', { refreshable: 'no' });
    return notMeasured(stage, `the token is not renewed here (${failureLine(error)})`);
  }
  if (renewed.generation === before.generation) {
    report.note('credential', { refreshable: 'no' });
    return notMeasured(stage, 'the source gives the same token again');
  }
  report.note('credential', { refreshable: 'yes', generation: renewed.generation });
  report.add({
    section: 'credential',
    name: 'renewal',
    level: 'ok',
    measured: `works (generation ${before.generation} to ${renewed.generation})`,
  });
  await measureBinding(stage, session, renewed);
  await waitForLapse(stage, session, before, maxMs);
}

function notMeasured({ report }: Stage, why: string): void {
  const measured = `not measured: ${why}`;
  report.add({ section: 'credential', name: 'session bound', level: 'note', measured });
}

async function measureBinding(stage: Stage, session: Session, renewed: Credential): Promise<void> {
  const { line, report, signal } = stage;
  const at = { section: 'credential', name: 'session bound' } as const;
  if (!session.isNamed) {
    report.note('credential', { sessionBoundToToken: 'no' });
    report.add({ ...at, level: 'ok', measured: 'no: this server has no sessions' });
    return;
  }
  const answer = taken(await line.ping(session, { credential: renewed, signal }));
  signal.throwIfAborted();
  if (answer === 'yes') {
    report.note('credential', { sessionBoundToToken: 'no' });
    report.add({ ...at, level: 'ok', measured: 'no: the session goes on with the renewed token' });
    return;
  }
  if (answer === 'cannot tell') return notMeasured(stage, 'the session gave no clear answer');
  // Had the session been lost for another reason, it would be gone for the old token as well.
  const oldAnswer = taken(await line.ping(session, { signal }));
  if (oldAnswer !== 'yes') {
    const { status } = await line.pingOutside(session.credential, signal);
    if (status !== 401) return notMeasured(stage, 'the session was lost meanwhile, to both tokens');
  }
  const fresh = await line.open(signal);
  const freshAnswer = taken(await line.ping(fresh, { credential: renewed, signal }));
  signal.throwIfAborted();
  if (freshAnswer !== 'yes')
    return notMeasured(stage, 'a fresh session does not take the renewed token either');
  const still = oldAnswer === 'yes' ? ' and goes on with the old one' : '; the renewal ended the old one';
  report.note('credential', { sessionBoundToToken: 'yes' });
  report.add({
    ...at,
    level: 'finding',
    measured: `yes: the session refuses the renewed token${still}; a fresh session takes it`,
    meaning: 'each renewal costs the session, with all that the server keeps in it',
    set: 'session.boundToToken: true (the next session is opened before the old one is given up), session.onEstablished for what has to be set up again',
  });
}

/** Whether the question was answered by the session, or refused for the credential or the session. */
function taken(facts: StreamFacts): 'yes' | 'no' | 'cannot tell' {
  const verdict = classify(facts, { ...PLAIN_CONTEXT, credentialNewer: true });
  switch (verdict.kind) {
    case 'answer':
      return 'yes';
    case 'credential':
    case 'scope':
    case 'session-lost':
    case 'session-suspect':
      return 'no';
    default:
      return 'cannot tell';
  }
}

/** Holds a stream under the old token until that has lapsed, then asks with it. */
async function waitForLapse(stage: Stage, session: Session, old: Credential, maxMs: number): Promise<void> {
  const { line, report, clock, progress, signal } = stage;
  const at = { section: 'credential', name: 'lapsed token' } as const;
  const expiresAtMs = await expiryOf(stage, old);
  const leftMs =
    expiresAtMs === undefined ? Number.POSITIVE_INFINITY : expiresAtMs - clock.now() + AFTER_LAPSE_MS;
  if (leftMs > maxMs) {
    const why = expiresAtMs === undefined ? 'its end is not stated' : `it lives another ${span(leftMs)}`;
    const measured = `not measured: ${why}, and ${span(maxMs)} are waited at most (--max)`;
    report.add({ ...at, level: 'note', measured });
    return;
  }
  progress.step('waiting for the old token to lapse');
  const lapsed = new AbortController();
  const onAbort = () => lapsed.abort(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  let isOpen = false;
  let isCut = false;
  const holding = line
    .hold(session, lapsed.signal, { onOpen: () => (isOpen = true), onBytes: () => {} })
    .then(({ failure }) => {
      isCut = isOpen && failure?.kind !== 'aborted';
    });
  holding.catch(() => {});
  try {
    await sleep(clock, Math.max(0, leftMs), signal);
    const stream = !isOpen ? 'none was held' : isCut ? 'cut' : 'kept';
    const facts = await untilAborted(line.ping(session, { credential: old, signal }), signal);
    tellLapse(stage, facts, stream);
  } finally {
    lapsed.abort();
    signal.removeEventListener('abort', onAbort);
    await holding.catch(() => {});
  }
}

function tellLapse(
  { report }: Stage,
  { status, challenges }: StreamFacts,
  stream: 'cut' | 'kept' | 'none was held',
): void {
  const at = { section: 'credential', name: 'lapsed token' } as const;
  const isChallenged = challenges?.some(({ scheme }) => scheme === 'bearer' || scheme === 'dpop') === true;
  const open = stream === 'none was held' ? '' : `; a stream that was open is ${stream}`;
  report.note('credential', {
    lapsedToken:
      status === 401
        ? isChallenged
          ? 'challenged'
          : 'refused'
        : status === 200
          ? 'accepted'
          : `status ${status}`,
    streamOverLapse: stream === 'none was held' ? null : stream,
  });
  if (status === 401 && isChallenged) {
    report.add({
      ...at,
      level: 'ok',
      measured: `refused before anything runs (401 with a challenge)${open}`,
      meaning: 'a call that meets it goes out once more, after the renewal',
    });
    return;
  }
  if (status !== undefined && status < 300) {
    report.add({ ...at, level: 'note', measured: `still taken after its end (status ${status})${open}` });
    return;
  }
  report.add({
    ...at,
    level: 'finding',
    measured: `refused without a challenge (${status === undefined ? 'no answer' : `status ${status}`})${open}`,
    meaning: 'nobody can tell whether a call ran before the refusal, so it is not sent again',
    set: 'retry.safeTools for tools that may run twice; at the server: WWW-Authenticate',
  });
}
