import { describe, expect, it } from 'vitest';
import type { ScriptedRequest, ServerLogEntry } from '../../src/testing/index.js';
import { connectFace, FACES } from './faces.js';
import { connect, echo, failureOf, startServer } from './support.js';

const mcp = (log: readonly ServerLogEntry[]) => log.filter(({ path }) => path === '/mcp');
const CALL = { http: 'POST', method: 'tools/call' } as const;

/** A call's scripted answer with such cookies; what came in is kept in `seen`. */
function answering(setCookie: string[], seen: (string | undefined)[]) {
  return {
    tool: 'run' as const,
    status: 200,
    headers: { 'content-type': 'application/json', 'set-cookie': setCookie },
    body: (request: ScriptedRequest) => {
      seen.push(request.headers.cookie);
      return request.answer;
    },
  };
}

describe("H40 a load balancer's affinity cookie", () => {
  for (const face of FACES) {
    it(`${face}: sent back with that session, to one node, and nowhere else`, async () => {
      const scene = await startServer({ affinityCookie: true });
      const { server, clock } = scene;
      const caller = await connectFace(face, scene, { streams: { listen: true } });
      for (const callId of ['a', 'b', 'c', 'd', 'e']) await caller.echo(callId);
      await clock.settle();

      const [initialize, ...others] = mcp(server.log);
      expect(initialize?.rpcMethod).toBe('initialize');
      expect(initialize?.headers.cookie).toBeUndefined();
      expect(others.map(({ http }) => http)).toContain('GET');
      expect(new Set(others.map(({ headers }) => headers.cookie))).toEqual(new Set(['cookie#1']));
      expect(new Set(mcp(server.log).map(({ nodeLabel }) => nodeLabel)).size).toBe(1);
      expect(server.counts).toMatchObject({ initializes: 1, executions: { echo: 5 } });
      // The token endpoint is at the same origin, and it is none of the session's business.
      const tokens = server.log.filter(({ path }) => path !== '/mcp');
      expect(tokens.length).toBeGreaterThan(0);
      expect(tokens.filter(({ headers }) => headers.cookie !== undefined)).toEqual([]);
      await caller.connection.close();
      expect(server.log.at(-1)).toMatchObject({ http: 'DELETE', status: 200 });
      expect(server.log.at(-1)?.headers.cookie).toBe('cookie#1');
    });
  }

  it('dropped with the session: the next handshake brings none and may land elsewhere', async () => {
    const scene = await startServer({ affinityCookie: true });
    const { server } = scene;
    const client = await connect(scene);
    await echo(client, 'a');
    server.dropSessions();
    server.reset();
    await failureOf(echo(client, 'lost'));
    await echo(client, 'after');

    const [lost, initialize, ...others] = mcp(server.log);
    expect(lost?.headers.cookie).toBe('cookie#1');
    expect(initialize?.rpcMethod).toBe('initialize');
    expect(initialize?.headers.cookie).toBeUndefined();
    expect(others.every(({ nodeLabel }) => nodeLabel === initialize?.nodeLabel)).toBe(true);
    expect(others.every(({ headers }) => headers.cookie === others[0]?.headers.cookie)).toBe(true);
    expect(server.counts).toMatchObject({ initializes: 1, executionsById: { after: 1 } });
  });

  it('switched off: none is sent, and the nodes do not know each other', async () => {
    const scene = await startServer({ affinityCookie: true });
    const { server } = scene;
    const client = await connect(scene, { http: { affinityCookies: false } });
    for (const callId of ['a', 'b', 'c']) await echo(client, callId).catch(() => {});
    expect(mcp(server.log).filter(({ headers }) => headers.cookie !== undefined)).toEqual([]);
    expect(server.counts.initializes).toBeGreaterThan(1);
  });

  it('changed, added, deleted and not for us: as RFC 6265 has it', async () => {
    const scene = await startServer();
    const { server, clock } = scene;
    const client = await connect(scene);
    const seen: (string | undefined)[] = [];
    const steps: string[][] = [
      ['AWSALB=one; Path=/', 'AWSALBCORS=uno; Path=/; SameSite=None'],
      ['AWSALB=two; Expires=Wed, 21 Oct 2099 07:28:00 GMT; Path=/'],
      ['AWSALBCORS=; Max-Age=0; Path=/', 'secret=s; Secure', 'elsewhere=e; Path=/other', 'broken'],
      ['short=lived; Max-Age=10'],
      [],
    ];
    for (const step of steps) {
      server.replyOnce(CALL, answering(step, seen));
      await echo(client, `step ${seen.length}`);
    }
    await clock.advance(11_000);
    server.replyOnce(CALL, answering([], seen));
    await echo(client, 'last');
    expect(seen).toEqual([
      undefined,
      'AWSALB=one; AWSALBCORS=uno',
      'AWSALBCORS=uno; AWSALB=two',
      'AWSALB=two',
      'AWSALB=two; short=lived',
      'AWSALB=two',
    ]);
    expect(server.counts.executions).toEqual({ echo: 6 });
  });

  it("beside a cookie of the app's own: both are sent", async () => {
    const scene = await startServer();
    const { server } = scene;
    const client = await connect(scene, { http: { headers: { Cookie: 'tenant=blue' } } });
    const seen: (string | undefined)[] = [];
    server.reply(CALL, answering(['node=n1; Path=/'], seen));
    await echo(client, 'a');
    await echo(client, 'b');
    expect(seen).toEqual(['tenant=blue', 'tenant=blue; node=n1']);
  });

  it('an error answer may set it, too, and a redirect to another origin gets nothing', async () => {
    const scene = await startServer();
    const other = await startServer();
    const { server } = scene;
    const client = await connect(scene);
    const seen: (string | undefined)[] = [];
    server.replyOnce(CALL, { status: 502, headers: { 'set-cookie': 'route=r1' }, body: 'away' });
    await failureOf(echo(client, 'away'));
    server.replyOnce(CALL, { status: 307, headers: { location: other.server.url } });
    expect(await failureOf(echo(client, 'moved'))).toMatchObject({ code: 'ERR_REDIRECT', executed: false });
    server.replyOnce(CALL, answering([], seen));
    await echo(client, 'a');
    expect(seen).toEqual(['route=r1']);
    expect(other.server.log).toEqual([]);
  });
});
