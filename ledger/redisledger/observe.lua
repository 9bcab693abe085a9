-- Takes notice of what the provider says, step by step as in notes.go of package ledger.
-- There are no ids. Arguments after them, per observation: the limit, its amount as
-- configured, the amount as told, what was used, 1 for a bucket, the us since the grant,
-- 1 if it was refused, for how many us it is closed, and by how many percent slower.
-- Reply, per observation: the amount as told, the margin, what the window holds, and how
-- much of that was added for others.

start()
local LEAST_MARGIN, LESS, MORE, QUIET = 50, 20, 10, 10

-- later is what was charged by calls that were granted after a time.
local function later(w, at)
  local sum, first = 0, max(leaves(at, w.guard, w), w.gone) + 1
  freed(w, 0) -- reads the slots
  for i = first, w.gone + RING - 1 do
    sum = sum + (w.slots[i] or 0)
  end
  return sum
end

local function gained(amount, us, w)
  return math.floor(amount * us / w.window)
end

local function others(w, n, o)
  local amount = n.amount > 0 and n.amount or o.amount
  local more, ago = 0, now - o.granted
  if ago <= div(w.window, 8) then
    more = o.used - (w.used - later(w, o.granted + w.guard)) - gained(amount, ago, w)
  end
  if not o.bucket then
    return max(more, 0)
  end
  local charged = w.charged - later(w, o.granted)
  if n.seen >= 0 and o.granted > n.seen and o.granted - n.seen < w.window then
    n.debt = n.debt + o.used - max(n.lacked - gained(amount, o.granted - n.seen, w), 0) - (charged - n.charged)
    n.debt = max(n.debt, -max(w.burst, div(amount, 32)))
  end
  if o.granted > n.seen then
    n.lacked, n.seen, n.charged = o.used, o.granted, charged
  end
  more = max(more, n.debt, 0)
  n.debt = min(n.debt, 0)
  return more
end

local function judge(w, n, o)
  if o.slower > 0 and o.granted > n.moved then
    n.margin, n.moved = max(div(n.margin * (100 - o.slower), 100), LEAST_MARGIN), now
  elseif o.refused and o.granted > n.moved then
    local less = n.margin - LESS
    if o.used < 0 and n.amount == 0 and o.amount > 0 then
      local seen = w.used - later(w, o.granted)
      less = min(less, max(div(seen * FULL_MARGIN, o.amount) - LESS / 2, div(n.margin, 2)))
    end
    n.margin, n.moved = max(less, LEAST_MARGIN), now
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
    n = { amount = 0, margin = FULL_MARGIN, moved = 0, shut = 0, span = 0, asked = {}, lacked = 0, seen = -1, charged = 0, debt = 0 }
    w.notes = n
  end
  n.at, w.noted = now, true
  if told > 0 then
    n.amount = told
  end
  local more = 0
  if o.used >= 0 then
    more = others(w, n, o)
    if more > 0 then
      local slot = leaves(now, w.guard, w)
      w.add[slot] = (w.add[slot] or 0) + more
      w.used, w.charged, n.charged = w.used + more, w.charged + more, n.charged + more
      w.slots = nil
      if w.burst > 0 then
        w.level = w.level - more
      end
    end
  end
  judge(w, n, o)
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
  reply[k + 1], reply[k + 2], reply[k + 3], reply[k + 4] = n.amount, n.margin, w.used, more
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
