// Everything that Redis was told in a whole run, and everything that it keeps: no secret is in it.
import { randomBytes } from 'node:crypto';
import { claim, elapse, isStarved, limitHeld, onStage } from './stage.mjs';

const TOKEN_LIFETIME_MS = 2_000;
const CANARY = `canary-${randomBytes(12).toString('hex')}`;

/** `grant: 'refresh'`: rotating refresh tokens in the shared store; else client credentials, stored as well. */
export async function secretsKept({
  grant = 'refresh',
  limit = 30,
  intervalMs = 2_000,
  runMs = 5_000,
  seed = 11,
} = {}) {
  const rule = { limit, intervalMs };
  const server = {
    tokenLifetimeMs: TOKEN_LIFETIME_MS,
    rotateRefreshTokens: grant === 'refresh',
  };
  return await onStage({ rule, server }, async (stage) => {
    const lines = await stage.redis.monitor();
    const encryptionKeys = [randomBytes(32).toString('base64')];
    const refreshToken = grant === 'refresh' ? stage.opened.client.refreshToken : undefined;
    await stage.start(3, { callers: 4, seed, encryptionKeys, ...(refreshToken && { refreshToken }) });
    await stage.until(1, 30_000);
    await elapse(runMs);
    const report = await stage.report();
    const dump = await keptBy(stage.redis);
    // What would be found has to be findable: by the same way as the rest.
    await stage.redis.command('SET', 'canary', CANARY);
    await stage.until(Number.POSITIVE_INFINITY, 200);
    const said = lines.join('\n');
    const secrets = new Map([
      [stage.opened.client.secret, 'client secret'],
      [stage.key, 'key'],
      [encryptionKeys[0], 'encryption key'],
      ...(refreshToken === undefined ? [] : [[refreshToken, 'first refresh token']]),
    ]);
    for (const { secrets: seen } of report.replicas)
      for (const secret of seen) if (!secrets.has(secret)) secrets.set(secret, 'token or session id');
    const found = [...secrets].filter(([secret]) => isIn(said, secret) || isIn(dump, secret));
    const [records, buckets] = [/}:record"/, /}:bucket:/].map(
      (name) => lines.filter((line) => name.test(line)).length,
    );
    return {
      name: grant === 'refresh' ? 'secrets, rotating refresh token' : 'secrets, client credentials',
      parameters: `3 processes, redisRateLimitStore and redisCredentialStore, tokens of ${TOKEN_LIFETIME_MS / 1000} s, MONITOR over the run, then every key`,
      figures: {
        commands: lines.length,
        secrets: secrets.size,
        'token requests': report.counts.tokenRequests,
      },
      isStarved: isStarved(report),
      claims: [
        claim('MONITOR hears what is said: a value put there on purpose', said.includes(CANARY), 'found'),
        claim(
          'both stores were used',
          records > 0 && buckets > 0,
          `${records} commands on records, ${buckets} on buckets`,
        ),
        claim(
          'tokens were renewed in the run',
          report.counts.tokenRequests >= 2,
          report.counts.tokenRequests,
        ),
        claim(
          'secrets were in use: tokens, session ids',
          secrets.size >= 6,
          `${secrets.size} different ones looked for`,
        ),
        claim(
          'none of them is in clear in any command or key',
          found.length === 0,
          found.map(([, kind]) => kind).join(', ') || '0',
        ),
        limitHeld(report, rule),
      ],
    };
  });
}

/** In clear, or in an encoding that anybody undoes. */
function isIn(text, secret) {
  const bytes = Buffer.from(secret);
  return [
    secret,
    bytes.toString('base64').replace(/=+$/, ''),
    bytes.toString('base64url'),
    bytes.toString('hex'),
  ]
    .filter((form) => form.length > 0)
    .some((form) => text.includes(form));
}

async function keptBy(redis) {
  const names = (await redis.command('KEYS', '*')).split('\r\n').filter((line) => !/^[*$+\-:]\d*/.test(line));
  const dumps = [];
  for (const name of names.filter((each) => each !== ''))
    dumps.push(name, await redis.command('HGETALL', name), await redis.command('ZRANGE', name, 0, -1));
  return dumps.join('\n');
}
