-- Takes notice of what the provider says, step by step as in notes.go of package ledger.
-- There are no ids. Arguments after them, per observation: the limit, its amount as
-- configured, the amount as told, what was used, 1 for a bucket, the us since the grant,
-- 1 if it was refused, for how many us it is closed, and by how many percent slower.
-- Reply, per observation: the amount as told, the margin, what the window holds, and how
-- much of that was added for others, and 1 if others seem to be there.

start()
local LEAST_MARGIN, LESS, MORE, SEEN, UNKNOWN, QUIET = 50, 20, 10, 800, 50, 10
local MORE_FOR_OTHERS, TREND_OVER, EXPLAINS, SAMPLE_OVER, SAMPLES = 12, 16, 50, 128, 32

-- later is what was charged by calls that were granted after a time.
local function later(w, at)
  local sum, first = 0, max(leaves(at, w.guard, w), w.gone) + 1
  freed(w, 0) -- reads the slots
  for i = first, w.gone + RING - 1 do
    sum = sum + (w.slots[i] or 0)
  end
  return sum
end

local function part(amount, n, whole)
  return math.floor(amount * n / whole)
end

local function gained(amount, us, w)
  return part(amount, us, w.window)
end

-- since_seen is by how much others have grown, if they go on, since they were seen.
local function since_seen(n, seen, granted, window)
  local ago = granted - n.based
  if n.based == 0 or ago > div(window, 2) then
    n.base, n.based, n.slope = seen, granted, 0
  elseif ago >= div(window, TREND_OVER) then
    n.slope = div(n.slope + part(max(seen - n.base, 0), window, ago), 2)
    n.base, n.based = seen, granted
  end
  return part(n.slope, now - granted, window)
end

-- left_since is what has left the window since a time at most, or nil if samples do not
-- go back so far. They are times and sums, the oldest first.
local function left_since(w, at)
  local gone = w.notes.gone
  for i = #gone - 1, 1, -2 do
    if gone[i] <= at then
      return w.charged - w.used - gone[i + 1]
    end
  end
  return nil
end

-- sample notes what has left by now.
local function sample(n, left, window)
  local g = n.gone
  if #g > 0 and now - g[#g - 1] < div(window, SAMPLE_OVER) then
    return
  end
  if #g == 2 * SAMPLES then
    table.remove(g, 1)
    table.remove(g, 1)
  end
  g[#g + 1], g[#g + 2] = now, left
end

-- beyond is what the provider's window held beyond ours when it counted the call.
local function beyond(w, o, amount)
  local ago = now - o.granted
  local ours = left_since(w, o.granted + min(ago, w.guard))
  if not ours then
    if ago > div(w.window, 8) then
      return -1 -- nobody can say
    end
    ours = gained(amount, max(ago - w.guard, 0), w)
  end
  freed(w, 0) -- reads the slots
  for i = w.gone + 1, min(leaves(o.granted, w.guard, w), w.gone + RING - 1) do
    ours = ours + (w.slots[i] or 0)
  end
  return max(o.used - ours, 0)
end

-- follow moves what others are reckoned to have, when three in a row show the same.
local function follow(n, seen, granted, window)
  if seen < 0 then
    return
  end
  seen = seen + div(seen, MORE_FOR_OTHERS) + since_seen(n, seen, granted, window)
  local up = seen > n.others and 1 or seen < n.others and -1 or 0
  if up == 0 or up ~= n.up then
    n.up, n.times, n.since, n.mild = up, 0, now, seen
  end
  if up == 0 then
    return
  end
  n.mild = up > 0 and min(n.mild, seen) or max(n.mild, seen)
  n.times = n.times + 1
  if n.times >= 3 and now - n.since >= div(window, 64) then
    n.others, n.up, n.times, n.since, n.mild = n.mild, 0, 0, 0, 0
  end
end

-- explain says whether others are why the provider refused a call.
local function explain(w, n, o)
  if o.bucket or n.amount == 0 then
    return false
  end
  local used = o.used
  o.used = n.amount
  local seen = beyond(w, o, n.amount)
  o.used = used
  if seen <= n.others + div(n.amount, EXPLAINS) then
    return false
  end
  n.others, n.up, n.times, n.since, n.mild = seen, 0, 0, 0, 0
  return true
end

-- of_bucket files what others have taken out of the provider's bucket, and returns it.
local function of_bucket(w, n, o, amount)
  local charged = w.charged - later(w, o.granted)
  if n.seen < 0 then
    n.debt = max(beyond(w, o, amount), 0)
  elseif o.granted > n.seen and o.granted - n.seen < w.window then
    n.debt = n.debt + o.used - max(n.lacked - gained(amount, o.granted - n.seen, w), 0) - (charged - n.charged)
    n.debt = max(n.debt, -max(w.burst, div(amount, 32)))
  end
  if o.granted > n.seen then
    n.lacked, n.seen, n.charged = o.used, o.granted, charged
  end
  local more = max(n.debt, 0)
  n.debt = n.debt - more
  if more > 0 then
    local slot = leaves(now, w.guard, w)
    w.add[slot] = (w.add[slot] or 0) + more
    w.used, w.charged, n.charged = w.used + more, w.charged + more, n.charged + more
    w.slots = nil
    if w.burst > 0 then
      w.level = w.level - more
    end
  end
  return more
end

local function judge(w, n, o)
  if o.slower > 0 and o.granted > n.moved then
    n.margin, n.moved = max(div(n.margin * (100 - o.slower), 100), LEAST_MARGIN), now
  elseif o.refused and o.used < 0 and n.amount == 0 and o.amount > 0 then
    if o.granted <= n.moved then
      return
    end
    local less = n.margin - UNKNOWN
    if n.margin == FULL_MARGIN then
      local seen = w.used - later(w, o.granted)
      less = min(less, max(div(seen * SEEN, o.amount), div(FULL_MARGIN, 4)))
    end
    n.margin, n.moved = max(less, LEAST_MARGIN), now
  elseif o.refused and o.granted > n.moved + div(w.window, 16) then
    n.margin, n.moved = max(n.margin - LESS, LEAST_MARGIN), now
  elseif n.margin < FULL_MARGIN and now - n.moved > QUIET * w.window then
    n.margin = min(n.margin + MORE, FULL_MARGIN)
    n.moved = now - (QUIET - 1) * w.window
  end
end

local reply = {}
for i = pos + 1, #args, 9 do
  local w = limits[args[i]]
  local o = { amount = args[i + 1], used = args[i + 3], bucket = args[i + 4] == 1, granted = now - args[i + 5],
    refused = args[i + 6] == 1, slower = args[i + 8] }
  local told, close = args[i + 2], args[i + 7]
  local n = w.notes
  if not n then
    n = { amount = 0, margin = FULL_MARGIN, moved = 0, shut = 0, span = 0, asked = {}, lacked = 0, seen = -1, charged = 0, debt = 0,
      others = 0, up = 0, times = 0, since = 0, mild = 0, base = 0, based = 0, slope = 0, gone = {} }
    w.notes = n
  end
  n.at, w.noted, w.dirty = now, true, true
  if told > 0 then
    n.amount = told
  end
  local more = 0
  if o.used >= 0 then
    local amount = n.amount > 0 and n.amount or o.amount
    if o.bucket then
      more = of_bucket(w, n, o, amount)
    else
      follow(n, beyond(w, o, amount), o.granted, w.window)
      sample(n, w.charged - w.used, w.window)
      more = n.others
    end
  end
  if not o.refused or not explain(w, n, o) then
    judge(w, n, o)
  end
  w.amount = o.amount
  scale(w)
  if close > 0 then
    if n.shut + n.span <= now then
      n.asked = {}
    end
    if now + close > n.shut then
      n.shut, n.span = now + close, div(close, 4)
    end
  end
  local k = #reply
  reply[k + 1], reply[k + 2], reply[k + 3], reply[k + 4], reply[k + 5] = n.amount, n.margin, w.used, more, n.times > 0 and 1 or 0
end
for i = 1, count do
  write(limits[i])
end
if in_line() then
  local waiting = line()
  waiting.absent()
  waiting.tell()
end
return reply
