#!lua
-- Takes a request off its counters (see take.lua), unless that has been done, or they were reset since.
--
-- KEYS[1]  the counters
-- KEYS[2]  is set once the request has been refunded
-- ARGV     how many it counted for; for how long it counts, in ms; for each ring that has counted it the ring, the number of
--          the sub-window, and its width in µs
-- Reply    {}

local call = redis.call
local counters, cost = KEYS[1], tonumber(ARGV[1])
if not call('SET', KEYS[2], '', 'NX', 'PX', ARGV[2]) then return {} end

local function base36(n)
  local text = ''
  repeat
    local digit = n % 36
    text, n = string.sub('0123456789abcdefghijklmnopqrstuvwxyz', digit + 1, digit + 1) .. text, (n - digit) / 36
  until n < 1 -- a ticket that no server gave may name one below 0
  return '.' .. text
end

-- The first sub-window from a number on that has counted something: a field can be 0.
local function first(ring, from, newest)
  for i = from, newest do
    if tonumber(call('HGET', counters, ring .. base36(i)) or 0) > 0 then return i end
  end
  return newest
end

local reset = tonumber(call('HGET', counters, 'reset') or 0)
for i = 3, #ARGV, 3 do
  local ring, this, width = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local field = ring .. base36(this)
  local values = call('HMGET', counters, ring, field)
  if values[1] and values[2] and this * width > reset then
    local n, oldest, newest = string.match(values[1], '(%d+) (%d+) (%d+)')
    local less = math.min(cost, values[2] + 0)
    n = n - less
    if values[2] + 0 > less then
      call('HSET', counters, field, values[2] - less)
    else
      call('HDEL', counters, field)
      if this == oldest + 0 then oldest = first(ring, this + 1, newest + 0) end
    end
    if n > 0 then
      call('HSET', counters, ring, n .. ' ' .. oldest .. ' ' .. newest)
    else
      call('HDEL', counters, ring)
    end
  end
end
return {}
