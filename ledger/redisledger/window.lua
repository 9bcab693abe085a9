-- The windows and buckets of package ledger, step by step as in its window.go and
-- bucket.go: both must come to the same unit. Numbers are doubles, exact for whole
-- numbers below 2^53; quotients go through fmod, because a rounded division may
-- cross a whole number.

local fmod, min, max, huge = math.fmod, math.min, math.max, math.huge
local pack, unpack_msg = cmsgpack.pack, cmsgpack.unpack
local RING = 272

local function div(a, b)
  return (a - fmod(a, b)) / b
end

-- ARGV[1] has everything in one MessagePack array, which is the shortest way
-- through Redis; pos is the last element that was read.
local args, pos = unpack_msg(ARGV[1]), 1

local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]

-- The fields of a window's hash that have the window's own numbers, and what was heard
-- of the provider; the others are slots.
local STATE, NOTES = 's', 'n'
local FULL_MARGIN, NOTES_FOR, ASKED_MOST = 1000, 3600000000, 64

-- parse_notes reads the notes that still count.
local function parse_notes(packed)
  if not packed then
    return nil
  end
  local n = {}
  n.at, n.amount, n.margin, n.moved, n.shut, n.span, n.asked, n.lacked, n.seen, n.charged, n.debt,
    n.others, n.up, n.times, n.since, n.mild, n.base, n.based, n.slope, n.gone = unpack_msg(packed)
  if not n.gone then -- written by a version before
    n.base, n.based, n.slope, n.gone = 0, 0, 0, {}
  end
  return n
end

-- scale leaves as much of a limit in use as its margin says, and others.
local function scale(w)
  local n = w.notes
  if not n then
    return
  end
  w.amount = max(div(w.amount, FULL_MARGIN) * n.margin + div(fmod(w.amount, FULL_MARGIN) * n.margin, FULL_MARGIN) - n.others, 0)
  w.quot, w.rest = div(w.amount, w.ticks), fmod(w.amount, w.ticks)
end

local function turn_of(i)
  if i == 0 then
    return 0
  elseif i == 1 or i >= ASKED_MOST then
    return ASKED_MOST
  end
  local turn, n, bit = 0, i - 1, ASKED_MOST / 2
  while bit >= 1 do
    turn = turn + fmod(n, 2) * bit
    n, bit = div(n, 2), bit / 2
  end
  return turn
end

-- opening is when a limit opens to a process, or 0 if it is open. A process that asks
-- for the first time while it is closed gets its turn, if it really asks.
local function opening(w, process, asks)
  local n = w.notes
  if not n or n.shut + n.span <= now then
    return 0
  end
  local i
  for j, p in ipairs(n.asked) do
    if p == process then
      i = j - 1
    end
  end
  if not i then
    i = #n.asked
    if asks and i < ASKED_MOST then
      n.asked[i + 1] = process
      w.noted = true
    end
  end
  local at = n.shut + div(n.span * turn_of(i), ASKED_MOST)
  return at > now and at or 0
end

-- read_limit reads a limit's arguments and its state.
local function read_limit(key)
  local p = pos
  pos = p + 12
  local w = { key = key, lease = fmod(args[p + 1], 2) == 1, own = args[p + 1] >= 2, mark = args[p + 2], amount = args[p + 3], window = args[p + 4],
    slot = args[p + 5], guard = args[p + 6], tick = args[p + 7], ticks = args[p + 8], quot = args[p + 9],
    rest = args[p + 10], burst = args[p + 11], total = args[p + 12], taken = 0 }
  w.add = {} -- what this call files: amounts by slot, or leases as ZADD takes them
  if w.lease then
    w.count = redis.call('ZCOUNT', key, string.format('(%.0f', now), '+inf')
    return w
  end
  local state = redis.call('HMGET', key, STATE, NOTES)
  if state[1] then
    w.at, w.level, w.rem, w.used, w.gone, w.charged = unpack_msg(state[1])
    now = max(now, w.at)
  end
  w.notes = parse_notes(state[2])
  return w
end

-- leave takes the charges whose slot has passed out of a window.
local function leave(w)
  local cur = div(now, w.slot)
  if cur - w.gone >= RING then
    w.used, w.reset = 0, true
  elseif cur > w.gone then
    local left = {}
    for i = w.gone + 1, cur do
      left[i - w.gone] = i
    end
    for _, v in ipairs(redis.call('HMGET', w.key, unpack(left))) do
      if v then
        w.used = w.used - v
      end
    end
    w.left = left
  end
  w.gone = max(w.gone, cur)
end

local function refill(w)
  if w.burst == 0 then
    w.at, w.level, w.rem = now, 0, 0
    return
  end
  local ticks = div(now - w.at, w.tick)
  w.at = w.at + ticks * w.tick
  if ticks >= w.ticks and w.amount > 0 then
    local whole = min(div(ticks, w.ticks), div(max(w.burst - w.level, 0) + w.amount - 1, w.amount))
    w.level = w.level + whole * w.amount
    ticks = fmod(ticks, w.ticks)
  end
  local x = ticks * w.rest + w.rem
  w.rem = fmod(x, w.ticks)
  w.level = w.level + ticks * w.quot + (x - w.rem) / w.ticks
  if w.level >= w.burst then
    w.at, w.level, w.rem = now, w.burst, 0
  end
end

-- advance brings a limit to now, and works out what a batch may take: free of the
-- window, spare of the bucket.
local function advance(w)
  w.spare, w.opens = huge, 0
  if w.lease then
    w.free = w.amount - w.count
    return
  end
  local n = w.notes
  if n and now > max(n.at + NOTES_FOR, n.shut + n.span) then
    w.notes, w.forgot = nil, true
  elseif n and n.others > 0 and now > n.at + w.window then
    n.others = 0
  end
  scale(w)
  if w.at then
    leave(w)
    refill(w)
  else
    w.at, w.level, w.rem, w.used, w.gone, w.charged = now, w.burst, 0, 0, div(now, w.slot), 0
  end
  w.free = w.amount - w.used
  if w.burst > 0 then
    w.spare = w.level
  end
end

local function leaves(at, delay, w)
  return div(at + delay + w.window + w.slot - 1, w.slot)
end

-- freed returns the slot by whose end so much of the window has left.
local function freed(w, short)
  if not w.slots then
    w.slots = {}
    local h = w.reset and {} or redis.call('HGETALL', w.key)
    for i = 1, #h, 2 do
      if h[i] ~= STATE and h[i] ~= NOTES then
        w.slots[tonumber(h[i])] = h[i + 1]
      end
    end
  end
  local next = leaves(now, w.guard, w)
  for i = w.gone + 1, w.gone + RING - 1 do
    short = short - (w.slots[i] or 0) - (i == next and w.taken or 0)
    if short <= 0 then
      return i
    end
  end
  return w.gone + RING
end

-- wait returns the us until the amount fits, of what is left; 0 means now.
local function wait(w, amount, free, spare)
  if w.lease then
    if amount <= free then
      return 0
    end
    local from = string.format('(%.0f', now)
    local ends = redis.call('ZRANGEBYSCORE', w.key, from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    return max(min(tonumber(ends or huge), now + w.window) - now, 1)
  end
  local t = max(w.opens - now, 0)
  if amount > free then
    t = max(t, freed(w, amount - free) * w.slot - now)
  end
  local short = min(amount, w.burst) - spare
  if short > 0 then
    local gain = math.ceil((short * w.ticks - w.rem) / w.amount) * w.tick
    t = max(t, min(gain, 2764800000000) - (now - w.at))
  end
  return t
end

-- fits says whether an amount may be taken of what is left. One above the burst needs a
-- full bucket.
local function fits(w, amount, free, spare)
  return w.opens == 0 and amount <= free and (amount <= spare or w.burst <= spare)
end

-- write_notes stores what was heard of the provider.
local function write_notes(w)
  local n = w.notes
  redis.call('HSET', w.key, NOTES,
    pack(n.at, n.amount, n.margin, n.moved, n.shut, n.span, n.asked, n.lacked, n.seen, n.charged, n.debt,
      n.others, n.up, n.times, n.since, n.mild, n.base, n.based, n.slope, n.gone))
end

-- write stores what changed, for as long as it matters: until the last charge or
-- lease is over and the bucket is full, and nothing is known of the provider.
local function write(w)
  if not w.dirty then
    if w.noted then
      write_notes(w) -- who asked while it is closed
    end
    return
  end
  if w.lease then
    if #w.add > 0 then
      redis.call('ZADD', w.key, unpack(w.add))
    end
    redis.call('ZREMRANGEBYSCORE', w.key, '-inf', now)
    -- Another process may have leases that are longer.
    redis.call('PEXPIRE', w.key, max(div(w.window, 500) + 1000, redis.call('PTTL', w.key)))
    return
  end
  if w.reset then
    redis.call('DEL', w.key)
    w.noted = w.notes
  elseif w.left then
    redis.call('HDEL', w.key, unpack(w.left))
  end
  redis.call('HSET', w.key, STATE, pack(w.at, w.level, w.rem, w.used, w.gone, w.charged))
  if w.noted then
    write_notes(w)
  elseif w.forgot then
    redis.call('HDEL', w.key, NOTES)
  end
  for slot, amount in pairs(w.add) do
    if amount ~= 0 then
      redis.call('HINCRBY', w.key, slot, amount)
    end
  end
  -- The guard is the largest one: another process may have one that is longer.
  local keep = w.window + div(w.window, 20) + w.slot
  if w.burst > w.level and w.amount > 0 then
    keep = max(keep, min((w.burst - w.level) / w.amount * w.ticks * w.tick, 3e12))
  end
  if w.notes then
    keep = max(keep, w.notes.at + NOTES_FOR - now, w.notes.shut + w.notes.span - now)
  end
  redis.call('PEXPIRE', w.key, div(keep, 1000) + 2000)
end

-- Reservations are fields of hashes, and closed ids are members of sets, so that a
-- batch is read and written by a few commands. They can not expire one by one, so
-- each comes in three generations by the clock: the current one is written, it and
-- the one before are read, and the third has expired. An open reservation is
-- remembered for at least an hour, so that the owner of a long call finds it; one
-- that was settled or cancelled for at least a minute, since a lost reply is asked
-- for again at once.
local function generations(first, length)
  local g = div(now, length)
  return {
    current = KEYS[first + fmod(g, 3)], before = KEYS[first + fmod(g + 2, 3)],
    keep = div((g + 2) * length - now, 1000) + 1,
  }
end

local open, closed

-- opened returns the record of each id, or false.
local function opened(ids)
  local found = redis.call('HMGET', open.current, unpack(ids))
  open.older = redis.call('EXISTS', open.before) == 1
  if open.older then
    for i, v in ipairs(redis.call('HMGET', open.before, unpack(ids))) do
      found[i] = found[i] or v
    end
  end
  return found
end

-- ended returns 1 for each id that is closed.
local function ended(ids)
  local found = redis.call('SMISMEMBER', closed.current, unpack(ids))
  if redis.call('EXISTS', closed.before) == 1 then
    for i, v in ipairs(redis.call('SMISMEMBER', closed.before, unpack(ids))) do
      found[i] = max(found[i], v)
    end
  end
  return found
end

-- store adds to the current generation by the command HSET or SADD.
local function store(gen, command, what)
  if #what > 0 then
    redis.call(command, gen.current, unpack(what))
    redis.call('PEXPIRE', gen.current, gen.keep)
  end
end

-- in_line says whether anybody is in the line, whose keys are the last ones.
local function in_line()
  return redis.call('EXISTS', KEYS[#KEYS - 5]) == 1
end

-- start reads what all scripts begin with: the number of limits, the limits, how
-- many ids, and the ids. KEYS has the limits, then three generations of open
-- and three of closed reservations, then those of line.lua.
local limits, count, ids = {}, 0, {}
local function start()
  count, pos = args[1], 1
  for i = 1, count do
    limits[i] = read_limit(KEYS[i])
  end
  for i = 1, count do
    advance(limits[i])
  end
  open = generations(count + 1, 3600000000)
  closed = generations(count + 4, 60000000)
  local n = args[pos + 1]
  ids = { unpack(args, pos + 2, pos + 1 + n) }
  pos = pos + 1 + n
end
