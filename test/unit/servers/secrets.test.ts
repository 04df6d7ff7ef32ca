import { expect, it } from 'vitest';
import { secretsOf } from '../../../src/servers/secrets.js';

it.each<[string[], Record<string, string>, string[]]>([
  [[], { GITHUB_TOKEN: 'production' }, ['production']],
  [[], { NODE_ENV: 'production', PORT: '8080', DEBUG: 'true' }, []],
  [[], { ANYTHING: 'ghp_12345' }, ['ghp_12345']],
  [[], { DATABASE_URL: 'postgres://u:pw-123@h/db' }, ['postgres://u:pw-123@h/db', 'pw-123']],
  [['--api-key', 'k-1', '--verbose', 'yes'], {}, ['k-1']],
  [['--api-key=k=2', '--name=mine'], {}, ['k=2']],
  [['-e', 'MY_SECRET=s-3', '-e', 'MODE=x'], {}, ['s-3']],
  [['--token', '--other'], {}, []],
  [['https://user:p4@host/x', 'https://host:8080/@scope/name'], {}, ['p4']],
  [['-y', '@scope/server-of-mine'], {}, []],
])('%j %j', (args, env, expected) => {
  expect(secretsOf(args, env)).toEqual(expected);
});
