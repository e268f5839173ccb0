#!lua
-- Forgets a log, and leaves a mark in its place, so that no process reminds the server of what was there (remind.lua). And
-- forgets counters, and leaves the time in their place, so that none of the requests before is refunded (refund.lua).
--
-- KEYS[1]  the log
-- KEYS[2]  the counters
-- Reply    {}
--
-- The mark is the member 'reset', whose score is the time in µs below 0: no window ever reaches there. It lives as long
-- as the log would have, or until the entries from before are no longer kept (take.lua).

local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000000 + time[2])
local ttl = redis.call('PTTL', KEYS[1])
redis.call('DEL', KEYS[1])
if ttl > 0 then
  redis.call('ZADD', KEYS[1], '-' .. now, 'reset')
  redis.call('PEXPIRE', KEYS[1], ttl)
end

ttl = redis.call('PTTL', KEYS[2])
local before = redis.pcall('HGET', KEYS[2], 'reset') -- it may hold something else
redis.call('DEL', KEYS[2])
if ttl > 0 then
  if type(before) == 'string' and before + 0 > now + 0 then now = before end -- the clock stepped back
  redis.call('HSET', KEYS[2], 'reset', now)
  redis.call('PEXPIRE', KEYS[2], ttl)
end
return {}
