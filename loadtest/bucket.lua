-- Takes from token buckets that hold a minute's worth each, or from none of them.
-- ARGV: the minute in microseconds, then for each key its limit and what to take.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local left = {}
for i, key in ipairs(KEYS) do
  local limit, take = tonumber(ARGV[2 * i]), tonumber(ARGV[2 * i + 1])
  local b = redis.call('HMGET', key, 'left', 'at')
  local had = tonumber(b[1] or limit) + (now - tonumber(b[2] or now)) * limit / ARGV[1]
  left[i] = math.min(had, limit) - take
  if left[i] < 0 then
    return 0
  end
end
for i, key in ipairs(KEYS) do
  redis.call('HSET', key, 'left', left[i], 'at', now)
  redis.call('PEXPIRE', key, 600000)
end
return 1
