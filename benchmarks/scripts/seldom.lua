-- The same, but it trims, and sets the TTL, only where there is something to do.
local time = redis.call('TIME')
local now, window = time[1] * 1000000 + time[2], 60000000
for i, key in ipairs(KEYS) do
  local oldest = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
  local newest = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]
  if oldest and tonumber(oldest) <= now - window then
    redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', now - window))
  end
  if newest and tonumber(newest) > now then return {-1} end
  if redis.call('ZCARD', key) < 1000 then
    redis.call('ZADD', key, string.format('%.0f', now), ARGV[1 + i])
    if not newest then redis.call('PEXPIRE', key, 120000) end
  end
end
return {1}
