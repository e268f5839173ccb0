#!lua
-- Decides, at this server's own time, whether the claims of one request fit into their logs: all or none.
--
-- KEYS[i]  the log of claim i, a ZSET: for each allowed request one member, named after the request's id,
--          whose score is the time in µs at which it was allowed
-- ARGV     the id; then for each claim its cost, how long its entries are kept in µs (the longest of its
--          windows or more), the number of its limits, and for each of these the most requests and the window in µs
-- Reply    the last 12 hex digits of the id as a number; then for each claim five integers: the verdict, the index
--          of the binding limit (from 0), the requests left, and after how many µs a retry succeeds and the quota grows

local DENIED, FITS, TOO_COSTLY = 0, 1, 2

local time = redis.call('TIME') -- once: it moves on inside a script
local now = time[1] * 1000000 + time[2]

-- A Lua number of more than 14 digits loses its last ones on its way into a command, unless it is formatted.
local function micros(n) return string.format('%.0f', n) end

local id = ARGV[1]
local read = 1
local function argument()
  read = read + 1
  return tonumber(ARGV[read])
end

local function claim_on(key)
  local claim = {key = key, cost = argument(), kept = argument(), limits = {}}
  for i = 1, argument() do
    claim.limits[i] = {max = argument(), window = argument()}
  end
  return claim
end

-- A write keeps the log for twice as long as its entries: Redis counts one from a clock that may lag TIME by a millisecond.
local function expire(claim)
  redis.call('PEXPIRE', claim.key, math.ceil(2 * claim.kept / 1000))
end

-- Drops what need not be kept, a mark of a reset before that among it (reset.lua). An entry ahead of now (the clock stepped back) counts as made now:
-- it was made before now whatever the clock said, and so no key stays shut longer than one window after the first
-- claim that follows the step.
local function settle(claim)
  redis.call('ZREMRANGEBYSCORE', claim.key, micros(claim.kept - now), micros(now - claim.kept))
  local ahead = redis.call('ZRANGEBYSCORE', claim.key, '(' .. micros(now), '+inf')
  for _, member in ipairs(ahead) do
    redis.call('ZADD', claim.key, micros(now), member)
  end
  if #ahead > 0 then expire(claim) end
end

-- Counts the entries in (now - window, now] under each limit, and tells whether the claim fits.
local function fits(claim)
  local all = true
  for _, limit in ipairs(claim.limits) do
    limit.count = redis.call('ZCOUNT', claim.key, '(' .. micros(now - limit.window), '+inf')
    limit.over = limit.count + math.max(claim.cost, 1) - limit.max
    if limit.over > 0 then all = false end
  end
  return all
end

-- The time until the k-th oldest of the entries that limit counts is exactly a window old.
local function leaving(claim, limit, k)
  local rank = k - limit.count - 1 -- from the newest, which is -1
  local entry = redis.call('ZRANGE', claim.key, rank, rank, 'WITHSCORES')
  return math.min(tonumber(entry[2]), now) + limit.window - now
end

-- What one limit answers; charged entries have just been added at now.
local function under(claim, limit, index, charged)
  local answer = {verdict = FITS, limit = index, left = math.max(0, limit.max - limit.count - charged), retry = 0, reset = 0}
  limit.count = limit.count + charged
  if limit.count > 0 then -- the oldest, or as many as lie above a limit that was lowered
    answer.reset = leaving(claim, limit, math.max(1, limit.count - limit.max + 1))
  end
  if limit.over > 0 then
    answer.verdict = DENIED
    if claim.cost > limit.max then
      answer.verdict = TOO_COSTLY
    else
      answer.retry = leaving(claim, limit, limit.over)
    end
  end
  return answer
end

-- Whether answer a binds rather than b.
local function binds(a, b)
  if a.verdict ~= b.verdict then
    return a.verdict == TOO_COSTLY or b.verdict == FITS
  elseif a.verdict == FITS then
    return a.left < b.left or (a.left == b.left and a.reset > b.reset)
  end
  return a.retry > b.retry
end

local function describe(claim, charged)
  local binding
  for i, limit in ipairs(claim.limits) do
    local answer = under(claim, limit, i - 1, charged)
    if not binding or binds(answer, binding) then
      binding = answer
    end
  end
  return binding
end

-- The first entry bears the id itself, the others of a cost above 1 a number behind it.
local function charge(claim)
  redis.call('ZADD', claim.key, micros(now), id)
  for i = 2, claim.cost do
    redis.call('ZADD', claim.key, micros(now), id .. ':' .. i)
  end
  expire(claim)
end

local claims, all, admitted = {}, true, false
for i, key in ipairs(KEYS) do
  local claim = claim_on(key)
  claims[i] = claim
  if claim.cost > 0 then
    settle(claim)
    admitted = admitted or redis.call('ZSCORE', key, id)
  end
  if not fits(claim) then all = false end
end

local reply = {tonumber(string.sub(id, -12), 16)} -- whose answer this is
for _, claim in ipairs(claims) do
  local charged = 0
  if admitted then -- this call was sent twice, and succeeded the first time
    for _, limit in ipairs(claim.limits) do limit.over = 0 end
  elseif all and claim.cost > 0 then
    charge(claim)
    charged = claim.cost
  end
  local answer = describe(claim, charged)
  for _, name in ipairs({'verdict', 'limit', 'left', 'retry', 'reset'}) do
    reply[#reply + 1] = answer[name]
  end
end
return reply
