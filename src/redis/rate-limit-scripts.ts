/**
 * The rate-limit bucket as Redis keeps it: the scripts, and nothing else.
 *
 * Guarantees that time is Redis' own (`TIME`) and that each script is all or nothing. Never names a key that was not
 * handed to it, so that Redis Cluster can route it.
 *
 * A bucket is one sorted set, so that it is lost (restart, eviction, failover) as a whole or not at all: a log that
 * went without its marks would look like an empty one. Grants have their instant as score. The marks have theirs
 * negated, which keeps them out of every range of grants:
 *   epoch     made up with the bucket: another one means that the log was lost in between
 *   longest   the longest window in use, which says how long a grant is kept
 *   pause     no grants before it;  paced: the last grant that was given after it
 *   marked    since when replicas keep their share;  shared: until when;  hushed: until when not even that
 *   others    how many grants of others (1 more than that) stand in as `others:1`, `others:2`, ... after a loss;
 *   othersAt  their instant
 */
import { script } from './client.js';

const COMMON = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- All of them at once: a look asks for most.
local function marksOf(key)
  local flat = redis.call('ZRANGEBYSCORE', key, '-inf', '(0', 'WITHSCORES')
  local marks = {}
  for n = 1, #flat, 2 do marks[flat[n]] = -tonumber(flat[n + 1]) end
  return marks
end
local function put(key, mark, value)
  redis.call('ZADD', key, -value, mark)
end
local function text(number)
  return string.format('%.0f', number or 0)
end
-- Half of it is always left after a look, and a look seldom writes.
local function keep(key, ms)
  if redis.call('PTTL', key) < ms / 2 then redis.call('PEXPIRE', key, ms) end
end
local function epochOf(key, marks, candidate)
  if not marks.epoch then
    marks.epoch = candidate
    put(key, 'epoch', candidate)
  end
  return marks.epoch
end
local ask = cjson.decode(ARGV[1])
`;

/**
 * One token under all rules, or none. First answers are `kind, ms, used`: kind 0 ask again in `ms`, 1 granted in `ms`,
 * 2 keep your share for `ms`, 3 the log was lost since the caller last looked; then per bucket `epoch, held, marked`.
 */
export const TAKE = script(`${COMMON}
local at, pausedUntil, hushedUntil, sharedUntil, quietUntil, lost = now, 0, 0, 0, 0, false
local used, fullest = 0, -1
local told = {}
for i, bucket in ipairs(ask.buckets) do
  local key = KEYS[i]
  local marks = marksOf(key)
  local pause = marks.pause or 0
  pausedUntil = math.max(pausedUntil, pause)
  local epoch, held, marked = 0, 0, 0
  if bucket.longest > 0 then
    epoch = epochOf(key, marks, bucket.candidate)
    if bucket.known > 0 and bucket.known ~= epoch then
      lost = true
      if not marks.marked then
        marks.marked = now
        marks.shared = now + math.min(ask.restoreMs, bucket.longest)
        marks.hushed = now + math.min(ask.quietMs, bucket.longest)
        put(key, 'marked', marks.marked)
        put(key, 'shared', marks.shared)
        put(key, 'hushed', marks.hushed)
      end
    end
    marked = marks.marked or 0
    local shared = marks.shared or 0
    sharedUntil = math.max(sharedUntil, shared)
    hushedUntil = math.max(hushedUntil, marks.hushed or 0)
    if shared > 0 then quietUntil = math.max(quietUntil, shared + ask.quietMs) end
    held = redis.call('ZCOUNT', key, now - bucket.longest + 1, '+inf')
    for _, rule in ipairs(bucket.rules) do
      local count = rule.window == bucket.longest and held or redis.call('ZCOUNT', key, now - rule.window + 1, '+inf')
      -- The rule that will be fullest with this one.
      if (count + 1) / rule.limit > fullest then
        fullest = (count + 1) / rule.limit
        used = count
      end
      if count >= rule.limit then
        local nth = redis.call('ZREVRANGE', key, rule.limit - 1, rule.limit - 1, 'WITHSCORES')
        at = math.max(at, tonumber(nth[2]) + rule.window)
      end
    end
  end
  keep(key, bucket.ttl)
  told[i] = { epoch, held, marked, pause, marks.paced, marks.longest or 0 }
end

local kind, ms
if lost then
  kind, ms = 3, 0
elseif math.max(hushedUntil, pausedUntil) > now and now < math.max(hushedUntil, sharedUntil) then
  -- Sharing is no leave to break a pause. And a share is a part of what is left: first those who are about tell.
  kind, ms = 0, math.max(hushedUntil, pausedUntil) - now
elseif now < sharedUntil then
  kind, ms = 2, sharedUntil - now
elseif now < quietUntil then
  -- What replicas granted until just now is still on its way here.
  kind, ms = 0, quietUntil - now
else
  at = math.max(at, pausedUntil)
  for i, bucket in ipairs(ask.buckets) do
    local paced = told[i][4] > 0 and at < told[i][4] + ask.paceForMs and told[i][5]
    if paced then at = math.max(at, paced + ask.paceMs) end
  end
  if at - now > ask.horizonMs then
    kind, ms = 0, at - now
  else
    kind, ms = 1, at - now
    used = used + (fullest >= 0 and 1 or 0)
    for i, bucket in ipairs(ask.buckets) do
      local key = KEYS[i]
      if told[i][4] > 0 and at < told[i][4] + ask.paceForMs then put(key, 'paced', at) end
      if bucket.longest > 0 then
        local longest = math.max(bucket.longest, told[i][6])
        if longest > told[i][6] then put(key, 'longest', longest) end
        if ask.tidy or told[i][2] == 0 then redis.call('ZREMRANGEBYSCORE', key, 0, now - longest) end
        redis.call('ZADD', key, at, ask.member)
        told[i][2] = told[i][2] + 1
      end
    end
  end
end
local reply = { kind, math.ceil(ms), used }
for _, each in ipairs(told) do
  reply[#reply + 1] = text(each[1])
  reply[#reply + 1] = each[2]
  reply[#reply + 1] = text(each[3])
end
return reply
`);

/**
 * Adds a replica's own grants. Without `seed` it was away, or tells what it granted while it kept its share; with
 * `seed` the log was lost, and this is the part of it that the replica had. Answers per bucket `epoch, marked`.
 */
export const ADD = script(`${COMMON}
local reply = {}
for i, bucket in ipairs(ask.buckets) do
  local key = KEYS[i]
  local marks = marksOf(key)
  local epoch = epochOf(key, marks, bucket.candidate)
  local others, othersAt = 0, 0
  local isFirst = false
  if ask.seed then
    local standing = marks.others
    isFirst = not standing
    others = standing and standing - 1 or bucket.others
    othersAt = standing and marks.othersAt or now - bucket.othersAgo
    if isFirst and others > 0 then
      for n = 1, others do redis.call('ZADD', key, othersAt, 'others:' .. n) end
    end
  end
  for n, ago in ipairs(bucket.ago) do
    local stamp = now - ago
    if stamp > now - bucket.longest then
      redis.call('ZADD', key, stamp, ask.member .. ':' .. n)
      -- It was counted when the first replica that seeded last looked: now it stands for itself.
      if ask.seed and not isFirst and others > 0 and stamp <= othersAt then
        redis.call('ZREM', key, 'others:' .. others)
        others = others - 1
      end
    end
  end
  if ask.seed then
    put(key, 'others', others + 1)
    put(key, 'othersAt', othersAt)
  end
  local marked = marks.marked or 0
  if not ask.seed and bucket.seen ~= marked or marked == 0 then
    local shared = marks.shared or 0
    local untilMs = now + math.min(ask.restoreMs, bucket.longest)
    if marked > 0 and now < shared + ask.quietMs then
      put(key, 'shared', math.max(shared, math.min(untilMs, marked + bucket.longest)))
    else
      marked = now
      put(key, 'marked', now)
      put(key, 'shared', untilMs)
    end
  end
  put(key, 'longest', math.max(bucket.longest, marks.longest or 0))
  keep(key, bucket.ttl)
  reply[#reply + 1] = text(epoch)
  reply[#reply + 1] = text(marked)
end
return reply
`);

/** A pause is never made shorter: three replicas that report the same refusal make one pause. */
export const PAUSE = script(`${COMMON}
local untilMs = now + ask.forMs
if (marksOf(KEYS[1]).pause or 0) < untilMs then put(KEYS[1], 'pause', untilMs) end
if redis.call('PTTL', KEYS[1]) < ask.forMs + ask.ttl / 2 then
  redis.call('PEXPIRE', KEYS[1], ask.forMs + ask.ttl)
end
return 1
`);

/** Gives back a grant whose caller had gone when the answer came. */
export const UNDO = script(`
for i = 1, #KEYS do redis.call('ZREM', KEYS[i], ARGV[1]) end
return 1
`);
