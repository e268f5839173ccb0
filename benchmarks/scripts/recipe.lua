-- As articles publish it, at the client's time, one request a call.
local now, window = tonumber(ARGV[1]), 60000000
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - window)
if redis.call('ZCOUNT', KEYS[1], now - window, now) >= 1000 then return {0} end
redis.call('ZADD', KEYS[1], now, ARGV[2])
redis.call('EXPIRE', KEYS[1], 60)
return {1}
