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
-- Reply  the last 12 hex digits of the last id as a number; then for each claim eleven integers: how many ids were
--        counted, the first of them, or -1 if the key holds no log; and twice, for the first of these ids and for all
--        others, the verdict, the index of the binding limit (from 0), the requests left, and after how many µs a retry
--        succeeds and the quota grows

local DENIED, FITS, TOO_COSTLY = 0, 1, 2
local SMALL = 16 -- of a log from which no more is needed, all that is needed is read at once

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
  local rule = {kept = number(), most = 0}
  for i = 1, number() do
    rule[i] = {max = number(), window = number()}
    rule.most = max(rule.most, rule[i].max)
  end
  rule.ttl = math.ceil(2 * rule.kept / 1000) -- twice: Redis counts it from a clock that may lag TIME by a millisecond
  return rule
end

-- A claim knows the times of the newest entries of its log, newest first, as many as can matter; none of a long log.
local function open(key, rule, cost)
  local claim = {key = key, rule = rule, cost = cost, need = max(cost, 1), charged = 0}
  if rule.most <= SMALL then
    local entries, times, n = call('ZRANGE', key, -rule.most, -1, 'WITHSCORES'), {}, 0
    for i = #entries, 2, -2 do
      n = n + 1
      times[n] = tonumber(entries[i])
    end
    claim.times, claim.known = times, n
  end
  return claim
end

-- The time of the k-th newest entry from before this request. One ahead of now (the clock stepped back) counts as made now: it was made before now
-- whatever the clock said, and so no key stays shut longer than one window after the first request that follows.
local function made(claim, k)
  if claim.times then return min(claim.times[k], now) end
  k = k + claim.charged
  return min(tonumber(call('ZRANGE', claim.key, -k, -k, 'WITHSCORES')[2]), now)
end

-- How many entries lie in (now - window, now]; of more than can matter, those that do.
local function count(claim, window)
  local times = claim.times
  if not times then
    return call('ZCOUNT', claim.key, '(' .. micros(now - window), '+inf')
  end
  local n, since = claim.known, now - window
  while n > 0 and times[n] <= since do n = n - 1 end
  return n
end

-- Drops what need not be kept, a mark of a reset before that among it (reset.lua), and dates entries ahead of now back.
local function settle(claim)
  local key, rule, times, known = claim.key, claim.rule, claim.times, claim.known
  if not times or known == rule.most or known > 0 and times[known] <= now - rule.kept then
    call('ZREMRANGEBYSCORE', key, micros(rule.kept - now), micros(now - rule.kept))
  end
  local latest
  if times then latest = times[1] else latest = tonumber(call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]) end
  if latest and latest > now then
    for _, member in ipairs(call('ZRANGEBYSCORE', key, '(' .. now_text, '+inf')) do
      call('ZADD', key, now_text, member)
    end
    call('PEXPIRE', key, rule.ttl)
  end
end

-- How many more entries the claim's log has room for, under every limit.
local function room(claim)
  local least = 1 / 0
  for i, limit in ipairs(claim.rule) do
    local n = count(claim, limit.window)
    claim[i] = n
    if limit.max - n < least then least = limit.max - n end
  end
  return least
end

-- Counts one request: the first entry bears the id itself, the others of a cost above 1 a number behind it.
local function charge(claim, id)
  call('ZADD', claim.key, now_text, id)
  for i = 2, claim.cost do
    call('ZADD', claim.key, now_text, id .. ':' .. i)
  end
end

-- The time until the k-th newest entry is exactly a window old, once so many have been added at now.
local function leaving(claim, k, window, added)
  if k <= added then return window end
  return made(claim, k - added) + window - now
end

-- Answers what the limit that binds says, once so many entries have been added at now: verdict, index, left, retry, reset.
local function describe(claim, added, counted)
  local verdict, index, left, retry, reset
  for i, limit in ipairs(claim.rule) do
    local n, most, window = claim[i] + added, limit.max, limit.window
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
    local binds = true
    if verdict and v ~= verdict then
      binds = v == TOO_COSTLY or verdict == FITS
    elseif verdict and v == FITS then
      binds = l < left or (l == left and g > reset)
    elseif verdict then
      binds = w > retry
    end
    if binds then verdict, index, left, retry, reset = v, i - 1, l, w, g end
  end
  return verdict, index, left, retry, reset
end

-- Decides one request, or several that are equal, and appends the answers to reply.
local again, reply
local function decide(claims, ids)
  local least, admitted = 1 / 0, false
  for _, claim in ipairs(claims) do
    if claim.cost > 0 then -- a look leaves the log as it is
      settle(claim)
      admitted = admitted or again and call('ZSCORE', claim.key, ids[1])
    end
    claim.room = room(claim)
    least = min(least, claim.room - claim.need)
  end
  for _, claim in ipairs(claims) do
    local n, added, at = 0, 0, #reply
    if admitted then -- this call was sent twice, and succeeded the first time
      n = 1
    elseif least >= 0 and claim.cost > 0 then
      n, added = min(#ids, math.floor(claim.room / claim.cost)), claim.cost
      for i = 1, n do charge(claim, ids[i]) end
      claim.charged = n * added
      call('PEXPIRE', claim.key, claim.rule.ttl)
    end
    for i = at + 1, at + 11 do reply[i] = 0 end
    reply[at + 1] = n
    if n > 0 then
      reply[at + 2], reply[at + 3], reply[at + 4], reply[at + 5], reply[at + 6] = describe(claim, added, true)
    end
    if n < #ids then
      reply[at + 7], reply[at + 8], reply[at + 9], reply[at + 10], reply[at + 11] = describe(claim, n * added, false)
    end
  end
end

again = number() == 1
reply = {0}
local rules, keys = {}, 0
for i = 1, number() do rules[i] = read_rule() end

-- Reads the logs of one request, and decides it.
local function answer(parts, ids)
  local claims = {}
  for i = 1, #parts, 3 do
    claims[#claims + 1] = open(parts[i], parts[i + 1], parts[i + 2])
  end
  decide(claims, ids)
end

for _ = 1, number() do
  local parts, ids, before = {}, {}, #reply
  for _ = 1, number() do
    keys = keys + 1
    parts[#parts + 1], parts[#parts + 2], parts[#parts + 3] = KEYS[keys], rules[number()], number()
  end
  for i = 1, number() do ids[i] = text() end
  reply[1] = tonumber(string.sub(ids[#ids], -12), 16)

  local ok, err = pcall(answer, parts, ids)
  if not ok then -- one key that holds something else harms no other request
    if not string.find(type(err) == 'table' and err.err or tostring(err), 'WRONGTYPE', 1, true) then error(err) end
    for i = 1, 11 * #parts / 3 do reply[before + i] = i % 11 == 1 and -1 or 0 end
  end
end
return reply
