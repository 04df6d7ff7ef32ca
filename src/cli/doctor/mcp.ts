/**
 * The handshake, and what the server says of itself.
 *
 * Guarantees that a failure of the handshake ends the examination with one clear line, and that the contract is
 * read whole or not at all. Never calls a tool.
 */
import { classify, PLAIN_CONTEXT } from '../../connection/classify.js';
import { type ContractSnapshot, diffContracts } from '../../contract/index.js';
import { readContract } from '../../contract/read.js';
import type { JsonObject } from '../../contract/types.js';
import { HostedMcpError } from '../../errors.js';
import { header } from '../../http/exchange.js';
import { isErrorResponse } from '../../json-rpc.js';
import type { Session } from '../../session/session.js';
import { EXIT, type ExitCode, exitCodeOf } from '../exit-codes.js';
import { failureLine } from '../failure-line.js';
import { shown } from './report.js';
import type { Stage } from './stage.js';

const METHOD_NOT_FOUND = -32601;

/** Throws a `DoctorFailure` where no session can be had. */
export async function shakeHands(stage: Stage): Promise<Session> {
  const { line, report, progress, signal, clock } = stage;
  progress.step('shaking hands');
  const startedMs = clock.monotonic();
  try {
    const session = await line.open(signal);
    const { protocolVersion, era, serverInfo, capabilities } = session.info;
    const handshakeMs = Math.round(clock.monotonic() - startedMs);
    const transport = session.road === undefined ? 'streamable-http' : 'http+sse';
    report.note('mcp', {
      transport,
      protocolVersion,
      era,
      handshakeMs,
      session: session.isNamed,
      serverInfo,
      capabilities,
    });
    const of = [serverInfo.name, serverInfo.version].filter((part) => typeof part === 'string').join(' ');
    const isModern = era === 'stateless';
    report.add({
      section: 'mcp',
      name: 'handshake',
      level: 'ok',
      measured: `protocol ${shown(protocolVersion, 20)}${session.road === undefined ? '' : ' over HTTP+SSE'}, ${session.isNamed ? 'with a session' : 'without sessions'}, ${handshakeMs} ms; server: ${shown(of) || 'unnamed'}`,
      ...(isModern && {
        meaning: 'this server speaks the later era only; HostedClient, over SDK v1, does not',
        set: "HostedTransport under SDK v2's Client",
      }),
    });
    return session;
  } catch (error) {
    signal.throwIfAborted();
    throw failureOf(stage, error);
  }
}

/** What ended the handshake, or came of the credential before it: then it is its source that failed. */
export function failureOf(
  { line, report, aim }: Stage,
  error: unknown,
  by: 'server' | 'source' = 'server',
): unknown {
  if (!HostedMcpError.isInstance(error)) return error;
  const exitCode = exitCodeOf(error);
  const section = exitCode === EXIT.credential ? 'credential' : 'mcp';
  return report.fail(exitCode, { section, ...lineOf(error, exitCode) });

  function lineOf(failure: HostedMcpError, code: ExitCode): { name: string; measured: string; set?: string } {
    const seen =
      failure.status ?? (failure.code === 'ERR_CREDENTIAL_REJECTED' ? line.lastHead?.status : undefined);
    const status = seen === undefined ? '' : ` (status ${seen})`;
    if (code === EXIT.credential) {
      const isNone = aim.credentials.id === 'none';
      const isRefused = failure.code === 'ERR_CREDENTIAL_REJECTED' || failure.code === 'ERR_HTTP_STATUS';
      const measured = isNone
        ? 'the server asks for a credential, and none is configured'
        : isRefused && by === 'server'
          ? `the credential is refused${status}`
          : failureLine(failure);
      const set = isNone
        ? 'HOLDFAST_TOKEN, or HOLDFAST_ISSUER, HOLDFAST_CLIENT_ID and HOLDFAST_CLIENT_SECRET, or "auth" of the entry'
        : failure.code === 'ERR_INSUFFICIENT_SCOPE'
          ? 'the scope of the credential'
          : 'a credential that is valid in this environment';
      return { name: 'credential', measured, set };
    }
    const head = line.lastHead;
    const type = head === undefined ? undefined : header(head, 'content-type');
    const isPage = type !== undefined && !/json|event-stream/i.test(type);
    if (code === EXIT.notMcp && isPage && head !== undefined) {
      const what = shown(line.redactor.text(type).split(';', 1)[0] ?? '', 40);
      const measured = `this is no MCP server: it answers ${what} (status ${head.status})`;
      return { name: 'handshake', measured, set: 'the address of the MCP endpoint, with its path' };
    }
    return { name: 'handshake', measured: `${failureLine(failure)}${status}` };
  }
}

export interface ReadContract {
  readonly snapshot: ContractSnapshot;
}

/** Undefined where it cannot be read, which is a finding. */
export async function lookAtContract(
  stage: Stage,
  session: Session,
  reviewed: ContractSnapshot | undefined,
): Promise<ContractSnapshot | undefined> {
  const { aim, line, report, progress, signal, clock } = stage;
  progress.step('reading the tools');
  const ask = async (method: string, params: JsonObject): Promise<JsonObject | undefined> => {
    const verdict = classify(await line.ask(session, method, params, { signal }), PLAIN_CONTEXT);
    signal.throwIfAborted();
    if (verdict.kind !== 'answer')
      throw new HostedMcpError('ERR_PROTOCOL', `The server does not list its tools (${verdict.kind})`);
    const { message } = verdict;
    if (!isErrorResponse(message)) return message.result;
    if (message.error.code === METHOD_NOT_FOUND) return undefined;
    throw new HostedMcpError('ERR_PROTOCOL', 'The server does not list its tools');
  };
  const { protocolVersion, capabilities, serverInfo, instructions } = session.info;
  let snapshot: ContractSnapshot;
  try {
    const origin = { protocolVersion, capabilities, serverInfo, instructions, url: aim.url };
    snapshot = await readContract(ask, () => origin, new Date(clock.now()));
  } catch (error) {
    signal.throwIfAborted();
    report.note('mcp', { tools: null, digest: null, diff: null });
    report.add({
      section: 'mcp',
      name: 'tools',
      level: 'finding',
      measured: failureLine(error),
      meaning: 'agents do not see the tools of this server',
    });
    return undefined;
  }
  const tools = snapshot.tools.length;
  report.note('mcp', { tools, digest: snapshot.digest, diff: null });
  const kinds = Object.keys(capabilities).map((name) => shown(name, 30));
  report.add({
    section: 'mcp',
    name: 'tools',
    level: 'ok',
    measured: `${tools} ${tools === 1 ? 'tool' : 'tools'}; capabilities: ${kinds.join(', ') || 'none'}`,
  });
  const digest = `${snapshot.digest.slice(0, 16)}…`;
  if (reviewed === undefined) report.add({ section: 'mcp', name: 'contract', level: 'ok', measured: digest });
  else compare(stage, reviewed, snapshot, digest);
  return snapshot;
}

function compare({ report }: Stage, reviewed: ContractSnapshot, now: ContractSnapshot, digest: string): void {
  const diff = diffContracts(reviewed, now);
  report.note('mcp', { diff: { level: diff.level ?? null, changes: diff.changes.length } });
  const isGrave = diff.level === 'breaking' || diff.level === 'behaviour';
  const count = `${diff.changes.length} ${diff.changes.length === 1 ? 'change' : 'changes'}`;
  report.add({
    section: 'mcp',
    name: 'contract',
    level: isGrave ? 'finding' : diff.identical ? 'ok' : 'note',
    measured: diff.identical
      ? `${digest}, as in the snapshot`
      : `${digest}, differs from the snapshot: ${diff.level ?? 'nothing that counts'}, ${count}`,
    ...(isGrave && {
      meaning:
        diff.level === 'breaking'
          ? 'calls that worked may fail'
          : 'nothing fails, but a model acts differently',
      set: 'review it with `mcp-holdfast diff`, then contract.pinned',
    }),
  });
}
