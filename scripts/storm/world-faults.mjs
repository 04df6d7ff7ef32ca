// The faults of the simulator that befall everybody, as data that a seed draws and a person can read. Some go on for a while.
import { HTML, page, SHAPES } from './faults.mjs';
import { between, pick } from './random.mjs';

/**
 * `begin` gives, where the fault goes on, what ends it. `redis`, `sessions`: only where there are such. `everywhere`: also where
 * the server is relayed. `voidsTokens`: seldom, see plan.mjs.
 */
export const OF_THE_WORLD = [
  {
    kind: 'tokens expire',
    weight: 3,
    voidsTokens: true,
    draw: () => ({}),
    begin: ({ server }) => server.expireTokens(),
  },
  {
    kind: 'tokens revoked',
    weight: 2,
    voidsTokens: true,
    draw: () => ({}),
    begin: ({ server }) => server.revokeTokens(),
  },
  {
    kind: 'token endpoint down',
    weight: 2,
    voidsTokens: true,
    draw: (r) => ({
      form: pick(r, ['503', '429', 'html']),
      expire: r() < 0.6,
      forMs: between(r, 300, 3_000),
    }),
    begin({ server }, { form, expire }) {
      const replies = {
        503: { status: 503, body: 'away' },
        429: { status: 429, headers: { 'retry-after': '1' }, body: '' },
        html: { status: 502, headers: HTML, body: page(502) },
      };
      server.failTokenEndpoint(replies[form]);
      if (expire) server.expireTokens();
      return () => server.restoreTokenEndpoint();
    },
  },
  {
    kind: 'sessions dropped',
    weight: 2,
    sessions: true,
    draw: (r) => ({ status: pick(r, [400, 401, 403, 404, 200]) }),
    begin({ server }, { status }) {
      server.set({ sessionLostStatus: status });
      server.dropSessions();
    },
  },
  {
    kind: 'redeployed',
    draw: (r) => ({ version: `1.${between(r, 1, 99)}.0`, tools: r() < 0.5 }),
    begin({ server, tools }, { version, tools: changes }) {
      server.deploy({
        serverInfo: { name: 'storm', version },
        ...(changes && { tools: tools(version) }),
        restart: true,
      });
    },
  },
  {
    kind: 'streams cut',
    weight: 3,
    draw: (r) => ({ shape: pick(r, [...SHAPES, 'status']) }),
    begin: ({ server }, { shape }) => server.cutStreams(shape),
  },
  {
    kind: 'throttled',
    draw: (r) => ({ forMs: between(r, 200, 1_500) }),
    begin: ({ server }, { forMs }) => server.throttle(forMs),
  },
  {
    kind: "the server's limit",
    draw: (r) => ({
      limit: between(r, 5, 40),
      headers: pick(r, ['none', 'retry-after', 'ratelimit', 'x-ratelimit']),
      body: pick(r, ['text', 'json-rpc']),
      forMs: between(r, 500, 2_500),
    }),
    begin({ server }, { limit, headers, body }) {
      server.set({ rateLimit: { limit, intervalMs: 1_000, per: 'tenant', headers, body } });
      return () => server.set({ rateLimit: undefined });
    },
  },
  {
    kind: 'idle limit of a proxy',
    weight: 2,
    draw: (r) => ({
      ms: between(r, 50, 400),
      shape: pick(r, [...SHAPES, 'status']),
      forMs: between(r, 500, 3_000),
    }),
    begin({ server }, { ms, shape }) {
      server.set({ idleCutMs: ms, cutShape: shape });
      return () => server.set({ idleCutMs: undefined, cutShape: undefined });
    },
  },
  {
    kind: 'age limit of a proxy',
    draw: (r) => ({
      ms: between(r, 50, 800),
      shape: pick(r, [...SHAPES, 'status']),
      forMs: between(r, 500, 3_000),
    }),
    begin({ server }, { ms, shape }) {
      server.set({ ageCutMs: ms, cutShape: shape });
      return () => server.set({ ageCutMs: undefined, cutShape: undefined });
    },
  },
  {
    kind: 'streams go silent',
    draw: (r) => ({ ms: between(r, 0, 300), forMs: between(r, 300, 1_200) }),
    begin({ server }, { ms }) {
      server.set({ silentDropMs: ms });
      return () => {
        server.set({ silentDropMs: undefined });
        // What has gone silent stays so until somebody cuts it.
        server.cutStreams('fin');
      };
    },
  },
  {
    kind: 'clients that left are kept',
    sessions: true,
    draw: (r) => ({ forMs: between(r, 500, 2_000) }),
    begin({ server }) {
      server.set({ abortNotPropagated: true });
      return () => {
        server.set({ abortNotPropagated: undefined });
        server.releaseStreams();
      };
    },
  },
  {
    kind: 'answers change their form',
    weight: 2,
    draw(r) {
      const answer = pick(r, ['json', 'sse', undefined]);
      // Brotli on event streams would cost the simulator more than all the rest.
      return { answer, compress: pick(r, ['gzip', undefined, answer === 'json' ? 'br' : undefined]) };
    },
    begin: ({ server }, { answer, compress }) => server.set({ answer, compress }),
  },
  {
    kind: 'no affinity',
    sessions: true,
    weight: 0.5,
    draw: (r) => ({ forMs: between(r, 100, 600) }),
    begin({ server }) {
      server.set({ nodesWithoutAffinity: 2 });
      return () => server.set({ nodesWithoutAffinity: undefined });
    },
  },
  {
    kind: 'no listen stream',
    sessions: true,
    draw: (r) => ({ forMs: between(r, 300, 2_000) }),
    begin({ server }) {
      server.set({ listen: false });
      server.cutStreams();
      return () => server.set({ listen: undefined });
    },
  },
  {
    kind: 'Redis hangs',
    redis: true,
    draw: (r) => ({ forMs: between(r, 1_000, 5_000) }),
    begin({ redis }) {
      redis.freeze();
      return () => redis.thaw();
    },
  },
  {
    kind: 'Redis down and back empty',
    redis: true,
    draw: (r) => ({ forMs: between(r, 300, 3_000) }),
    async begin({ redis }) {
      await redis.kill();
      return () => redis.start();
    },
  },
  {
    kind: "the client's clock jumps",
    everywhere: true,
    draw: (r) => ({ ms: pick(r, [-3_600_000, -90_000, -5_000, 5_000, 90_000, 3_600_000]) }),
    begin: ({ clock }, { ms }) => clock.jump(ms),
  },
  {
    kind: "the server's clock jumps",
    voidsTokens: true,
    draw: (r) => ({ ms: pick(r, [-600_000, -5_000, 5_000, 600_000]) }),
    begin: ({ serverClock }, { ms }) => serverClock.jump(ms),
  },
  {
    // Every so many calls, see plan.mjs.
    kind: 'the client is replaced',
    weight: 0,
    everywhere: true,
    draw: () => ({}),
    begin: ({ replace }) => replace(),
  },
];
