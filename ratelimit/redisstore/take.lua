#!lua
-- Decides requests one after the other, at one moment of this server's own time: of each, all claims fit into their logs
-- and are counted, or none is.
--
-- A log is a ZSET: for each allowed request a member, named after the request's id, whose score is the time in µs at
-- which it was allowed. The entries of a cost above 1 have a number behind the id.
--
-- A limit in buckets has counters instead, in a HASH. Sub-window i is [i*width, (i+1)*width) on this server's clock; the
-- field "ring.i" (i in base 36) has the number of requests in it, and "ring" three numbers: the requests in all of them, and
-- the oldest and newest i among them. What came in the last `buckets` sub-windows and the present one counts.
--
-- KEYS   of each claim of each request, in order: its log, if its rule has limits without buckets, and its counters, if it
--        has limits in buckets
-- ARGV   1 if the call may have been sent before, else 0
--        the number of rules; for each how long its entries are kept in µs (the longest of its windows or more), the
--        TTL of its keys in ms, the number of its limits, and for each of these the most requests, the window in µs, and
--        how many buckets: if not 0, the width of one stands in place of the window, and the ring follows
--        then runs of requests that are alike: their number, the number of claims of each, for each claim its rule
--        (from 1), its cost, and 1 if it asks for counts plus 2 if it replaces an entry of the same id; then the number of
--        ids of each, and the ids: several are as many requests of one claim of cost 1
-- Reply  the last 12 hex digits of the last id as a number; the time in µs; then for each claim how many ids were counted,
--        the first of them (-2: one, when the call was first sent; -1: a key holds something else, and no more of this
--        claim follows), and up to two answers: to the first of these ids, and to all others.
--        An answer is five integers: the verdict, the index of the binding limit (from 0), the requests left, and
--        after how many µs a retry succeeds and the quota grows. For a claim that asks for counts they follow, one a limit

local DENIED, FITS, TOO_COSTLY = 0, 1, 2

local call, try, floor, max, min = redis.call, redis.pcall, math.floor, math.max, math.min
local time = redis.call('TIME') -- once: it moves on inside a script
local now = time[1] * 1000000 + time[2]

-- A Lua number of more than 14 digits loses its last ones on its way into a command, unless it is formatted. And that
-- takes as long as some commands do: so there are strings wherever there can be.
local function micros(n) return string.format('%.0f', n) end
local now_text = time[1] .. string.sub('00000' .. time[2], -6)
local ahead = '(' .. now_text

local function base36(n)
  local text = ''
  repeat
    local digit = n % 36
    text, n = string.sub('0123456789abcdefghijklmnopqrstuvwxyz', digit + 1, digit + 1) .. text, (n - digit) / 36
  until n == 0
  return '.' .. text
end

local args, read = ARGV, 0
local function number()
  read = read + 1
  return args[read] + 0
end

-- What all claims of a rule have in common.
local function read_rule()
  local kept = number()
  local rule = {past = now - kept, ttl = args[read + 1]}
  read = read + 1
  for i = 1, number() do
    local most, window, buckets = number(), number(), number()
    if buckets == 0 then
      rule[i], rule.lists = {max = most, window = window, past = now - window}, true
    else
      read = read + 1
      local this = floor(now / window)
      rule[i] = {max = most, width = window, buckets = buckets, ring = args[read], this = this, field = args[read] .. base36(this)}
      rule.counts = true
    end
  end
  return rule
end

-- The time of the entry at a rank, nil if there is none.
local function at(key, rank)
  local entry = call('ZRANGE', key, rank, rank, 'WITHSCORES')
  return entry[2] and entry[2] + 0
end

-- Drops what need not be kept. Returns the time of the oldest entry, and whether there is a mark before it.
local function trim(key, rule)
  call('ZREMRANGEBYSCORE', key, '-' .. micros(rule.past), micros(rule.past))
  local oldest = at(key, '0')
  if not oldest or oldest > 0 then return oldest, 0 end
  if -oldest > now then call('ZADD', key, '-' .. now_text, 'reset') end -- the mark of a reset (reset.lua)
  return at(key, '1'), 1
end

-- Prepares the log of a claim that may write, and whose oldest entry is not ahead of what is kept: drops what need not be
-- kept, and dates entries ahead of now (the clock stepped back) back to now. They were made before now whatever the clock
-- said, and so no key stays shut longer than one window after the first request that follows. Returns the time of the
-- oldest entry that is left, and how many are.
local function settle(key, rule, oldest)
  local marks = 0
  if oldest <= rule.past then
    oldest, marks = trim(key, rule)
    if not oldest then return nil, 0 end
  end
  local size = call('ZCARD', key) - marks
  if size == 1 and oldest <= now or size > 1 and call('ZCOUNT', key, ahead, '+inf') == 0 then return oldest, size end
  for _, member in ipairs(call('ZRANGEBYSCORE', key, ahead, '+inf')) do
    call('ZADD', key, now_text, member)
  end
  call('PEXPIRE', key, rule.ttl)
  return min(oldest, now), size
end

-- Reads the log of a claim, for all limits without buckets. Returns an error if the key holds something else.
local function open_log(claim)
  local key, rule = claim.key, claim.rule
  local entry = try('ZRANGE', key, '0', '0', 'WITHSCORES')
  if entry.err then return entry.err end
  local oldest, size = entry[2], 0
  if oldest then
    oldest = oldest + 0
    if claim.cost > 0 then
      oldest, size = settle(key, rule, oldest)
    else -- a look leaves the log as it is
      size = call('ZCARD', key)
    end
  end
  claim.oldest, claim.size, claim.charged = oldest, size, 0
  for i = 1, #rule do
    local limit = rule[i]
    if limit.buckets then -- it has counters
    elseif oldest and oldest <= limit.past then
      claim[i] = call('ZCOUNT', key, '(' .. micros(limit.past), '+inf')
    else
      claim[i] = size
    end
  end
end

-- The number of requests in sub-windows, for each from oldest to newest; false where there are none.
local function counters(key, limit, oldest, newest)
  local fields = {}
  for i = oldest, newest do fields[#fields + 1] = limit.ring .. base36(i) end
  return call('HMGET', key, unpack(fields)), fields
end

local function write_ring(key, limit, n, oldest, here)
  call('HSET', key, limit.ring, n .. ' ' .. oldest .. ' ' .. limit.this, limit.field, here)
end

-- Brings a ring up to now: sub-windows that no longer count are dropped, and those ahead of now (the clock stepped back)
-- count as the present one. Returns the number of all requests, the oldest sub-window and the number in the present one.
local function slide(claim, limit, oldest, newest)
  local key, this = claim.counters, limit.this
  local counts, fields = counters(key, limit, oldest, newest)
  local n, here, first, gone = 0, 0, nil, {}
  for i = 1, #fields do
    local at, count = oldest + i - 1, tonumber(counts[i] or 0)
    if at < this - limit.buckets or at > this then gone[#gone + 1] = fields[i] end
    if at >= this - limit.buckets then
      n = n + count
      if at >= this then here = here + count end
      if count > 0 and not first then first = min(at, this) end
    end
  end
  if claim.cost > 0 then
    if #gone > 0 then call('HDEL', key, unpack(gone)) end
    if n == 0 then
      call('HDEL', key, limit.ring)
    else
      write_ring(key, limit, n, first, here)
    end
    if newest > this then -- what was counted ahead of now counts elsewhere, and cannot be refunded (refund.lua)
      call('HSET', key, 'reset', micros((newest + 1) * limit.width))
      call('PEXPIRE', key, claim.rule.ttl)
    end
  end
  return n, first or this, here
end

-- Reads the counters of a claim, for all limits in buckets. Returns an error if the key holds something else.
local function open_counters(claim)
  for i = 1, #claim.rule do
    local limit = claim.rule[i]
    if limit.buckets then
      local values = try('HMGET', claim.counters, limit.ring, limit.field)
      if values.err then return values.err end
      local n, oldest, here = 0, limit.this, tonumber(values[2] or 0)
      if values[1] then
        local newest
        n, oldest, newest = string.match(values[1], '(%d+) (%d+) (%d+)')
        n, oldest, newest = n + 0, oldest + 0, newest + 0
        if oldest < limit.this - limit.buckets or newest > limit.this then
          n, oldest, here = slide(claim, limit, oldest, newest)
        end
      end
      claim[i], claim.first[i], claim.here[i] = n, oldest, here
    end
  end
end

-- Finds out how many more requests a claim has room for, under every limit. Returns an error if a key of it holds something else.
local function open(claim)
  local rule = claim.rule
  local err = rule.lists and open_log(claim) or rule.counts and open_counters(claim)
  if err then return err end
  local room = 1 / 0
  for i = 1, #rule do
    if rule[i].max - claim[i] < room then room = rule[i].max - claim[i] end
  end
  claim.room = room
end

-- The sub-window of the k-th newest request, once so many have been added in the present one.
local function bucket(claim, i, k, added)
  local limit, n = claim.rule[i], claim[i] + added
  if k <= added then return limit.this end
  if k == n then return claim.first[i] end
  local counts = counters(claim.counters, limit, claim.first[i], limit.this)
  local older = 0
  for at = 1, #counts do
    older = older + (counts[at] or 0)
    if older > n - k then return claim.first[i] + at - 1 end
  end
  return limit.this -- where what was added is not written yet
end

-- The time until the k-th newest request no longer counts under a limit, once so many have been added at now.
local function leaving(claim, i, k, added)
  local limit, made = claim.rule[i], now
  if limit.buckets then return (bucket(claim, i, k, added) + limit.buckets + 1) * limit.width - now end
  if k > added then
    k = k - added
    made = min(k == claim.size and claim.oldest or at(claim.key, -k - claim.charged), now)
  end
  return made + limit.window - now
end

local reply, last = {0, now}, 2

-- Answers what the limit that binds says, once so many entries have been added at now.
local function describe(claim, added, counted)
  local verdict, index, left, retry, reset
  local rule, need = claim.rule, claim.need
  for i = 1, #rule do
    local most, n = rule[i].max, claim[i] + added
    local v, l, w, g = FITS, max(0, most - n), 0, 0
    if n > 0 then -- the oldest, or as many as lie above a limit that was lowered
      g = leaving(claim, i, min(n, most), added)
    end
    if counted then -- whatever it counts by now
    elseif need > most then
      v = TOO_COSTLY
    elseif n + need > most then
      v, w = DENIED, need == 1 and g or leaving(claim, i, most - need + 1, added)
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
  reply[last + 1], reply[last + 2], reply[last + 3], reply[last + 4], reply[last + 5] = verdict, index, left, retry, reset
  last = last + 5
end

-- Adds entries at now in as few commands as Lua's stack allows.
local function add(key, first, last)
  if first == last then return call('ZADD', key, now_text, args[first]) end
  for from = first, last, 1000 do
    local entries = {}
    for i = from, min(from + 999, last) do
      entries[#entries + 1] = now_text
      entries[#entries + 1] = args[i]
    end
    call('ZADD', key, unpack(entries))
  end
end

-- Lists n requests, whose ids lie at args[first] and behind. The first entry of each bears its id, the others of a cost
-- above 1 a number behind it.
local function list(claim, first, n)
  local key, rule, oldest = claim.key, claim.rule, claim.oldest
  -- It never runs below one and a half of what is kept, also where another rule that keeps less has set it.
  local expires = oldest and call('PTTL', key) >= rule.ttl * 0.75
  add(key, first, first + n - 1)
  for i = 2, claim.cost do -- of one request
    call('ZADD', key, now_text, args[first] .. ':' .. i)
  end
  if not expires then call('PEXPIRE', key, rule.ttl) end
  claim.charged = n * claim.cost
end

-- Counts n requests in every ring. The first in each sub-window sets the TTL.
local function count(claim, n)
  local expires = true
  for i = 1, #claim.rule do
    local limit = claim.rule[i]
    if limit.buckets then
      expires = expires and claim.here[i] > 0
      write_ring(claim.counters, limit, claim[i] + n * claim.cost, claim[i] > 0 and claim.first[i] or limit.this, claim.here[i] + n * claim.cost)
    end
  end
  if not expires then call('PEXPIRE', claim.counters, claim.rule.ttl) end
end

-- Removes the entry of an id. Returns an error if the key holds something else.
local function remove(key, id)
  local removed = try('ZREM', key, id)
  return type(removed) == 'table' and removed.err
end

-- Decides one request, or n that are equal.
local function decide(claims, width, first, n, again)
  local all, admitted = true, false
  for i = 1, width do
    local claim = claims[i]
    local why = claim.replaces and claim.cost > 0 and remove(claim.key, args[first]) or open(claim)
    if why then -- one key that holds something else harms no other request
      if not string.find(why, 'WRONGTYPE', 1, true) then return redis.error_reply(why) end
      for _ = 1, width do
        last = last + 1
        reply[last] = -1
      end
      return
    end
    if again and claim.cost > 0 and claim.rule.lists and call('ZSCORE', claim.key, args[first]) then admitted = true end
    if claim.room < claim.need then all = false end
  end
  for i = 1, width do
    local claim = claims[i]
    local counted, added = 0, 0
    if admitted then -- this call was sent twice, and succeeded the first time
      counted = 1
    elseif all and claim.cost > 0 then
      counted, added = n == 1 and 1 or min(n, claim.room), claim.cost
      if claim.rule.lists then list(claim, first, counted) end
      if claim.rule.counts then count(claim, counted) end
    end
    last = last + 1
    reply[last] = admitted and -2 or counted
    if counted > 0 then describe(claim, added, true) end
    if counted < n then describe(claim, counted * added, false) end
    if claim.tells then
      for k = 1, #claim.rule do
        last = last + 1
        reply[last] = claim[k] + counted * added
      end
    end
  end
end

local again, rules, claims, keys = number() == 1, {}, {}, 0
for i = 1, number() do rules[i] = read_rule() end

while read < #args do
  local requests, width = number(), number()
  for i = 1, width do
    local claim = claims[i] or {first = {}, here = {}}
    claim.rule, claim.cost = rules[number()], number()
    local flags = number()
    claim.tells, claim.replaces = flags % 2 == 1, flags >= 2
    claim.need = max(claim.cost, 1)
    claims[i] = claim
  end
  local ids = number()
  for _ = 1, requests do
    for i = 1, width do
      local claim = claims[i]
      if claim.rule.lists then
        keys = keys + 1
        claim.key = KEYS[keys]
      end
      if claim.rule.counts then
        keys = keys + 1
        claim.counters = KEYS[keys]
      end
    end
    local first = read + 1
    read = read + ids
    local err = decide(claims, width, first, ids, again)
    if err then return err end
  end
end
reply[1] = tonumber(string.sub(args[read], -12), 16)
return reply
