#!lua
-- Forgets a log, and leaves a mark in its place, so that no process reminds the server of what was there (remind.lua).
--
-- KEYS[1]  the log
-- Reply    {}
--
-- The mark is the member 'reset', whose score is the time in µs below 0: no window ever reaches there. It lives as long
-- as the log would have, or until the entries from before are no longer kept (take.lua).

local time = redis.call('TIME')
local ttl = redis.call('PTTL', KEYS[1])
redis.call('DEL', KEYS[1])
if ttl > 0 then
  redis.call('ZADD', KEYS[1], string.format('-%.0f', time[1] * 1000000 + time[2]), 'reset')
  redis.call('PEXPIRE', KEYS[1], ttl)
end
return {}
