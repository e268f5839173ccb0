#!lua
-- Tells a server what one process remembers of logs that the server may have lost: what a log still has stays as it is,
-- and what was granted before its last reset stays forgotten. See take.lua for what a log is.
--
-- KEYS[i]  the log
-- ARGV     for each log how long its entries are kept in µs, the number of its grants, and for each of these the
--          request's id, its cost, and how many µs ago it was granted, oldest first
-- Reply    for each log how many µs ago it was reset, -1 if it was not, -2 if the key holds no log

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function micros(n) return string.format('%.0f', n) end

local read = 0
local function argument()
  read = read + 1
  return ARGV[read]
end

-- How long ago the log was reset (see reset.lua), -1 if it was not, -2 if the key holds something else.
local function since_reset(key)
  local mark = redis.pcall('ZSCORE', key, 'reset')
  if type(mark) == 'table' then
    if string.find(mark.err, 'WRONGTYPE', 1, true) then return -2 end
    return mark
  end
  return mark and math.max(0, now + tonumber(mark)) or -1
end

local reply = {}
for i, key in ipairs(KEYS) do
  local kept, reset = tonumber(argument()), since_reset(key)
  if type(reset) == 'table' then return reset end -- an error
  for _ = 1, tonumber(argument()) do
    local id, cost, age = argument(), tonumber(argument()), tonumber(argument())
    if age < kept and (reset == -1 or age < reset) then
      redis.call('ZADD', key, 'NX', micros(now - age), id)
      for n = 2, cost do
        redis.call('ZADD', key, 'NX', micros(now - age), id .. ':' .. n)
      end
    end
  end
  if reset > -2 then
    redis.call('PEXPIRE', key, math.ceil(2 * kept / 1000)) -- a write in any case: a server that refuses it is not well
  end
  reply[i] = reset
end
return reply
