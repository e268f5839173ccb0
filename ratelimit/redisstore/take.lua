#!lua
-- Decides requests one after the other, at one moment of this server's own time: of each, all claims fit into their logs
-- and are counted, or none is.
--
-- A log is a ZSET: for each allowed request a member, named after the request's id, whose score is the time in µs at
-- which it was allowed. The entries of a cost above 1 have a number behind the id.
--
-- KEYS   the logs of all claims of all requests, in order
-- ARGV   1 if the call may have been sent before, else 0
--        the number of rules; for each how long its entries are kept in µs (the longest of its windows or more), the
--        number of its limits, and for each of these the most requests and the window in µs
--        the number of requests; for each the number of its claims, for each of these its rule (from 1) and its cost,
--        then the number of its ids, and the ids: several are as many requests of one claim of cost 1
-- Reply  the last 12 hex digits of the last id as a number; then for each claim how many ids were counted, the first of
--        them, or -1 if the key holds no log, and up to two answers: to the first of these ids, and to all others.
--        An answer is five integers: the verdict, the index of the binding limit (from 0), the requests left, and
--        after how many µs a retry succeeds and the quota grows

local DENIED, FITS, TOO_COSTLY = 0, 1, 2

local call, min, max = redis.call, math.min, math.max
local time = redis.call('TIME') -- once: it moves on inside a script
local now = time[1] * 1000000 + time[2]

-- A Lua number of more than 14 digits loses its last ones on its way into a command, unless it is formatted.
local function micros(n) return string.format('%.0f', n) end
local now_text = micros(now)

local args, read = ARGV, 0
local function text()
  read = read + 1
  return args[read]
end
local function number() return tonumber(text()) end

local function read_rule()
  local rule = {kept = number()}
  for i = 1, number() do
    rule[i] = {max = number(), window = number()}
  end
  rule.ttl = math.ceil(2 * rule.kept / 1000) -- twice: Redis counts it from a clock that may lag TIME by a millisecond
  return rule
end

-- The time of the entry at a rank, nil if there is none.
local function at(key, rank)
  local entry = call('ZRANGE', key, rank, rank, 'WITHSCORES')
  return entry[2] and tonumber(entry[2])
end

-- Prepares the log of a claim that may write: drops what need not be kept, and dates entries ahead of now (the clock
-- stepped back) back to now. They were made before now whatever the clock said, and so no key stays shut longer than one
-- window after the first request that follows. Then size, oldest and newest tell of what is left.
local function settle(claim)
  local key, rule = claim.key, claim.rule
  local oldest, marks = at(key, 0), 0
  if oldest and oldest <= now - rule.kept then -- or it is the mark of a reset (reset.lua), which lies below 0
    call('ZREMRANGEBYSCORE', key, micros(rule.kept - now), micros(now - rule.kept))
    oldest = at(key, 0)
    if oldest and oldest < 0 then
      if -oldest > now then call('ZADD', key, '-' .. now_text, 'reset') end
      oldest, marks = at(key, 1), 1
    end
  end
  if not oldest then return end
  local size = call('ZCARD', key) - marks
  local newest = size == 1 and oldest or at(key, -1)
  if newest > now then
    for _, member in ipairs(call('ZRANGEBYSCORE', key, '(' .. now_text, '+inf')) do
      call('ZADD', key, now_text, member)
    end
    call('PEXPIRE', key, rule.ttl)
    newest, oldest = now, min(oldest, now)
  end
  claim.size, claim.oldest, claim.newest = size, oldest, newest
end

-- How many entries lie in (now - window, now]. A settled log holds none that is older than what is kept.
local function count(claim, window)
  if claim.settled and (claim.size == 0 or claim.oldest > now - window) then return claim.size end
  return call('ZCOUNT', claim.key, '(' .. micros(now - window), '+inf')
end

-- Finds out how many more entries a log has room for, under every limit.
local function open(key, rule, cost)
  local claim = {key = key, rule = rule, cost = cost, need = max(cost, 1), settled = cost > 0, size = 0, charged = 0, room = 1 / 0}
  if claim.settled then settle(claim) end -- a look leaves the log as it is
  for i = 1, #rule do
    local n = count(claim, rule[i].window)
    claim[i] = n
    claim.room = min(claim.room, rule[i].max - n)
  end
  return claim
end

-- The time until the k-th newest entry is exactly a window old, once so many have been added at now.
local function leaving(claim, k, window, added)
  local made = now
  if k > added then
    k = k - added
    if k == claim.size and claim.oldest then
      made = claim.oldest
    else
      made = min(at(claim.key, -k - claim.charged), now)
    end
  end
  return made + window - now
end

local reply, last = {0}, 1
local function put(n)
  last = last + 1
  reply[last] = n
end

-- Answers what the limit that binds says, once so many entries have been added at now.
local function describe(claim, added, counted)
  local verdict, index, left, retry, reset
  for i = 1, #claim.rule do
    local most, window = claim.rule[i].max, claim.rule[i].window
    local n = claim[i] + added
    local v, l, w, g = FITS, max(0, most - n), 0, 0
    if n > 0 then -- the oldest, or as many as lie above a limit that was lowered
      g = leaving(claim, min(n, most), window, added)
    end
    if counted then -- whatever it counts by now
    elseif claim.need > most then
      v = TOO_COSTLY
    elseif n + claim.need > most then
      v, w = DENIED, leaving(claim, most - claim.need + 1, window, added)
    end
    local binds = not verdict
    if binds then -- the first
    elseif v ~= verdict then
      binds = v == TOO_COSTLY or verdict == FITS
    elseif v == FITS then
      binds = l < left or (l == left and g > reset)
    else
      binds = w > retry
    end
    if binds then verdict, index, left, retry, reset = v, i - 1, l, w, g end
  end
  put(verdict) put(index) put(left) put(retry) put(reset)
end

-- Counts n requests. The first entry of each bears its id, the others of a cost above 1 a number behind it.
local function charge(claim, ids, n)
  for i = 1, n do
    call('ZADD', claim.key, now_text, ids[i])
    for k = 2, claim.cost do
      call('ZADD', claim.key, now_text, ids[i] .. ':' .. k)
    end
  end
  claim.charged = n * claim.cost
  -- The first write in each half of what is kept sets the TTL: so it never runs below one and a half of that.
  local half = claim.rule.kept / 2
  if not claim.newest or math.floor(claim.newest / half) ~= math.floor(now / half) then
    call('PEXPIRE', claim.key, claim.rule.ttl)
  end
end

-- Decides one request, or several that are equal.
local function decide(claims, ids, again)
  local all, admitted = true, false
  for i = 1, #claims, 3 do
    local claim = open(claims[i], claims[i + 1], claims[i + 2])
    claims[i] = claim
    admitted = admitted or again and claim.cost > 0 and call('ZSCORE', claim.key, ids[1])
    all = all and claim.room >= claim.need
  end
  for i = 1, #claims, 3 do
    local claim, n, added = claims[i], 0, 0
    if admitted then -- this call was sent twice, and succeeded the first time
      n = 1
    elseif all and claim.cost > 0 then
      n, added = min(#ids, math.floor(claim.room / claim.cost)), claim.cost
      charge(claim, ids, n)
    end
    put(n)
    if n > 0 then describe(claim, added, true) end
    if n < #ids then describe(claim, n * added, false) end
  end
end

local again, rules, keys = number() == 1, {}, 0
for i = 1, number() do rules[i] = read_rule() end

for _ = 1, number() do
  local claims, ids, before = {}, {}, last
  for i = 1, 3 * number(), 3 do
    keys = keys + 1
    claims[i], claims[i + 1], claims[i + 2] = KEYS[keys], rules[number()], number()
  end
  for i = 1, number() do ids[i] = text() end
  local n = #claims / 3
  local ok, err = pcall(decide, claims, ids, again)
  if not ok then -- one key that holds something else harms no other request
    local why = type(err) == 'table' and err.err or tostring(err)
    if not string.find(why, 'WRONGTYPE', 1, true) then return redis.error_reply(why) end
    last = before
    for _ = 1, n do put(-1) end
  end
  reply[1] = tonumber(string.sub(ids[#ids], -12), 16)
end
return reply
