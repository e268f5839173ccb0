-- Exact, at the server's time, every command with every request, numbers as they are.
local time = redis.call('TIME')
local now, window = time[1] * 1000000 + time[2], 60000000
for i, key in ipairs(KEYS) do
  redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', now - window))
  local newest = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]
  if newest and tonumber(newest) > now then return {-1} end
  if redis.call('ZCARD', key) < 1000 then
    redis.call('ZADD', key, string.format('%.0f', now), ARGV[1 + i])
    redis.call('PEXPIRE', key, 120000)
  end
  local oldest = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
  if tonumber(oldest) < 0 then return {-1} end
end
return {1}
