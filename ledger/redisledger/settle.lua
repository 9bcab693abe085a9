-- Replaces reservations by what was used, each once.
-- Arguments after the ids (see start), per settlement: 1 to cancel, the us after
-- which it was counted or 0, the number of charges, and per charge the limit, what
-- was admitted and what came late.

start()
local found, over = opened(ids), ended(ids)

local function file(w, slot, amount)
  if slot <= w.gone then
    return false
  end
  w.add[slot] = (w.add[slot] or 0) + amount
  w.used = w.used + amount
  w.dirty = true
  return true
end

local function take(w, amount)
  if w.burst > 0 then
    w.level = w.level - amount
    if w.level >= w.burst then
      w.level, w.rem = w.burst, 0
    end
  end
end

-- settle moves a charge, granted at time at with that guard, to what it came to.
local function settle(w, amount, guard, admitted, late, at, counted)
  local slot = leaves(at, guard, w)
  -- A charge whose slot has left gives nothing back and takes nothing more.
  if file(w, slot, -amount) then
    if counted > 0 then
      slot = min(slot, leaves(at, counted, w))
    end
    file(w, slot, admitted)
    take(w, admitted - amount)
  end
  if late > 0 then
    file(w, leaves(now, 0, w), late)
    take(w, late)
  end
end

local gone, tombs, seen = {}, {}, {}
for r = 1, #ids do
  local id, cancel, counted, n = ids[r], args[pos + 1] == 1, args[pos + 2], args[pos + 3]
  local first = pos + 4
  pos = pos + 3 + 3 * n
  local record = over[r] == 0 and not seen[id] and found[r]
  if record then
    -- Per charge, as reserve.lua keeps it: -, the mark of its limit, the amount, the
    -- guard.
    local at, charges = unpack_msg(record)
    for j = 0, min(n, #charges / 4) - 1 do
      local w, admitted, late = limits[args[first + 3 * j]], args[first + 3 * j + 1], args[first + 3 * j + 2]
      if cancel then
        admitted, late = 0, 0
      end
      if charges[4 * j + 2] ~= w.mark then
        -- The limit became another one: the charge stands.
      elseif w.lease then
        redis.call('ZREM', w.key, id)
      else
        settle(w, charges[4 * j + 3], charges[4 * j + 4], admitted, late, at, counted)
      end
    end
    gone[#gone + 1] = id
  end
  if (record or cancel) and over[r] == 0 then
    seen[id] = true
    tombs[#tombs + 1] = id
  end
end

if #gone > 0 then
  redis.call('HDEL', open.current, unpack(gone))
  if open.older then
    redis.call('HDEL', open.before, unpack(gone))
  end
end
store(closed, 'SADD', tombs)
for i = 1, count do
  write(limits[i])
end
return {}
