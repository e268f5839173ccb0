-- The same, with strings in place of numbers, and without a look at the newest entry: whether one lies ahead of now is
-- counted.
local time = redis.call('TIME')
local now, window = time[1] * 1000000 + time[2], 60000000
local text = time[1] .. string.sub('00000' .. time[2], -6)
for i, key in ipairs(KEYS) do
  local oldest = redis.call('ZRANGE', key, '0', '0', 'WITHSCORES')[2]
  local size = 0
  if oldest then
    if oldest + 0 <= now - window then
      redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', now - window))
    end
    size = redis.call('ZCARD', key)
    if redis.call('ZCOUNT', key, '(' .. text, '+inf') > 0 then return {-1} end
  end
  if size < 1000 then
    redis.call('ZADD', key, text, ARGV[1 + i])
    if not oldest then redis.call('PEXPIRE', key, '120000') end
  end
end
return {1}
