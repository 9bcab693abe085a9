-- Makes a value another one, if it still is the old one; '' is none.
-- KEYS: the hash of values. ARGV: the name, the old value, the new one, how many there
-- may be, and the ms that they stay when nobody changes any.
local VALUES = KEYS[1]
local name, old, value, most, stay = unpack(ARGV)
local now = redis.call('HGET', VALUES, name)
if (now or '') ~= old then
  return 0
end
if not now and redis.call('HLEN', VALUES) >= tonumber(most) then
  redis.call('HDEL', VALUES, redis.call('HRANDFIELD', VALUES))
end
redis.call('HSET', VALUES, name, value)
redis.call('PEXPIRE', VALUES, stay)
return 1
