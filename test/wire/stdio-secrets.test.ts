/**
 * Secrets of a started server: read at use, and nowhere to be seen but in the process they are for.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { connectServer, parseServersConfig } from '../../src/client.js';
import { type ConnectionEvents, formatSnapshot, HostedMcpError, type LogEntry } from '../../src/index.js';
import { bench, call, placeholder, textOf, until } from './stdio-support.js';
import { failureOf } from './support.js';

const EVENTS = [
  'state',
  'session-established',
  'session-lost',
  'session-replaced',
  'stream-cut',
  'stream-unavailable',
  'credential-failed',
  'contract-changed',
  'call',
  'exchange',
] as const satisfies (keyof ConnectionEvents)[];

const SECRETS = {
  literal: 'canary-literal-in-env-1',
  variable: 'canary+of/variable=2',
  file: 'canary-of-file-3',
  flag: 'canary-behind-flag-4',
  assigned: 'canary-assigned-5',
  url: 'canary-in-url-6',
};

function secretive() {
  const server = bench({ API_KEY: placeholder('MY_KEY'), OTHER: SECRETS.literal, MODE: 'production' });
  const file = join(server.folder, 'secret');
  writeFileSync(file, `${SECRETS.file}\n`);
  server.entry.args.push(
    `--from-file=\${file:${file}}`,
    '--api-key',
    SECRETS.flag,
    `GITHUB_TOKEN=${SECRETS.assigned}`,
    `postgres://user:${SECRETS.url}@localhost/db`,
  );
  return { server, file, variables: { MY_KEY: SECRETS.variable } as Record<string, string | undefined> };
}

describe('secrets', () => {
  it('reach the process, and stand in no error, event, log, snapshot or printed object', async () => {
    const { server, variables } = secretive();
    const said: string[] = [];
    const note = (what: unknown) =>
      said.push(inspect(what, { depth: 10, showHidden: true }), JSON.stringify(what));
    const client = await server.connect(
      { logger: (entry: LogEntry) => note(entry), onStderr: note, contract: {} },
      variables,
    );
    for (const event of EVENTS) client.connection.on(event, note);

    const args = JSON.parse(await textOf(call(client, 'args'))) as string[];
    expect(args[0]).toBe(`--from-file=${SECRETS.file}`);
    expect(JSON.parse(await textOf(call(client, 'variables')))).toMatchObject({
      API_KEY: SECRETS.variable,
      OTHER: SECRETS.literal,
    });
    note(await call(client, 'leakInResult'));
    const thrown = await call(client, 'leakInError').catch((error: unknown) => error);
    note(thrown);
    note((thrown as Error).stack);
    note(formatSnapshot(await client.snapshot()));
    note(client.getInstructions());
    const cut = await failureOf(call(client, 'die'));
    note(cut);
    note(cut.stack);
    await call(client, 'pid');
    note(client);
    note(client.connection);
    note(client.connection.health());
    note(parseServersConfig({ mine: { command: 'x', env: { A: placeholder('MY_KEY') } } }, variables));

    const all = said.join('\n');
    expect(all).toContain('the key is [redacted]');
    expect(all).toContain('uses [redacted]');
    for (const secret of Object.values(SECRETS)) expect(all).not.toContain(secret);
    expect((await client.snapshot()).url).toMatch(/^stdio:node/);
  });

  it('words that are none are left in what a server says', async () => {
    const server = bench({ API_KEY: 'production', MODE: 'leakInError', PORT: '808080' });
    const plain = bench({ MODE: 'production' });
    const client = await server.connect();
    const other = await plain.connect();
    // Under a name that says so, even a word is a secret.
    await expect(call(client, 'leakInError')).rejects.toThrow('the key is [redacted]');
    plain.entry.env.API_KEY = '';
    await expect(call(other, 'leakInError')).rejects.toThrow('the key is');
    expect(await textOf(call(client, 'leakInResult'))).toBe('the key is [redacted]');
  });
});

describe('placeholders', () => {
  it.each([
    ['env.API_KEY', 'MY_KEY', () => ({ MISSING: 'x' })],
    ['env.API_KEY', 'MY_KEY', () => ({ MISSING: 'x', MY_KEY: '' })],
    ['args[1]', 'MISSING', () => ({ MY_KEY: 'x' })],
  ])('unset at use: %s names %s, and nothing is started', async (field, variable, variables) => {
    const server = bench({ API_KEY: placeholder('MY_KEY') });
    server.entry.args.push(placeholder('MISSING'));

    const failure = await failureOf(server.connect({}, variables()));

    expect(failure).toMatchObject({ code: 'ERR_CREDENTIAL_SOURCE', executed: false, retryable: false });
    expect(failure.message).toContain(`The server "mine" cannot be used: of its configuration, "${field}"`);
    expect(failure.message).toContain(variable);
    expect(server.pids()).toEqual([]);
  });

  it('are read for each process anew', async () => {
    const { server, file, variables } = secretive();
    const client = await server.connect({}, variables);
    writeFileSync(file, 'canary-of-file-new\r\n');
    variables.MY_KEY = 'canary-of-variable-new';

    const before = JSON.parse(await textOf(call(client, 'args'))) as string[];
    await failureOf(call(client, 'die'));
    const after = JSON.parse(await textOf(call(client, 'args'))) as string[];

    expect(before[0]).toBe(`--from-file=${SECRETS.file}`);
    expect(after[0]).toBe('--from-file=canary-of-file-new');
    expect(await textOf(call(client, 'leakInResult'))).toBe('the key is [redacted]');
    expect(JSON.parse(await textOf(call(client, 'variables'))).API_KEY).toBe('canary-of-variable-new');
  });

  it('gone when the process is to be started again: said by name to who calls, and well again with it', async () => {
    const { server, variables } = secretive();
    const client = await server.connect({}, variables);
    delete variables.MY_KEY;

    await failureOf(call(client, 'die'));
    const failure = await failureOf(call(client, 'pid'));
    expect(failure).toMatchObject({ code: 'ERR_CREDENTIAL_SOURCE', executed: false });
    expect(failure.message).toContain('the environment variable MY_KEY is not set');
    expect(server.pids()).toHaveLength(1);

    variables.MY_KEY = 'canary-that-is-back';
    expect(await textOf(call(client, 'leakInResult'))).toBe('the key is [redacted]');
    expect(server.pids()).toHaveLength(2);
  });

  it('a copy of an entry still means the same variables', async () => {
    const server = bench({ API_KEY: placeholder('ONLY_HERE') });
    const { mine } = parseServersConfig({ mine: server.entry }, { ONLY_HERE: 'canary-only-here' });
    const client = await connectServer({ name: 't', version: '1' }, {
      ...mine!,
      args: [...server.entry.args, 'more'],
    } as never);
    expect(JSON.parse(await textOf(call(client, 'variables'))).API_KEY).toBe('canary-only-here');
    expect(JSON.parse(await textOf(call(client, 'args')))).toEqual(['more']);
    await client.close();
    await until(() => server.lines().some(({ eof }) => eof === true));
  });
});

it('is our error class throughout', async () => {
  const server = bench({ API_KEY: placeholder('NOT_THERE') });
  const failure = await server
    .connect({ lazyConnect: true }, {})
    .then((client) => failureOf(call(client, 'pid')));
  expect(HostedMcpError.isInstance(failure, 'ERR_CREDENTIAL_SOURCE')).toBe(true);
});
