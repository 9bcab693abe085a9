-- Replaces reservations by what was used, each once.
-- Arguments after the ids (see start), per settlement: 1 to cancel, the us after
-- which it was counted or 0, the number of charges, and per charge the limit, what
-- was admitted and what came late; then 0, or by how many tokens its tenant's turn
-- moves, the tenant's weight, the class and the tenant.

start()
local found, over = opened(ids), ended(ids)

-- move files what a charge became: less of the one slot, more of the other.
local function move(w, from, amount, to, admitted)
  local add = w.add
  add[from] = (add[from] or 0) - amount
  w.used = w.used - amount
  if to > w.gone then
    add[to] = (add[to] or 0) + admitted
    w.used = w.used + admitted
  end
  w.dirty = true
end

-- pay takes from the bucket; a negative amount gives back.
local function pay(w, amount)
  local burst = w.burst
  if burst > 0 then
    w.level = w.level - amount
    if w.level >= burst then
      w.at, w.level, w.rem = now, burst, 0
    end
  end
end

-- settle moves a charge, granted at time at with that guard, to what it came to.
local function settle(w, amount, guard, admitted, late, at, counted)
  local slot = leaves(at, guard, w)
  -- A charge whose slot has left gives nothing back and takes nothing more.
  if slot > w.gone then
    local to = slot
    if counted > 0 and counted < guard then
      to = leaves(at, counted, w)
    end
    move(w, slot, amount, to, admitted)
    w.charged = w.charged + admitted - amount
    pay(w, admitted - amount)
  end
  if late > 0 then
    local to = leaves(now, 0, w)
    move(w, to, 0, to, late)
    w.charged = w.charged + late
    pay(w, late)
  end
end

local done, k, seen, waiting = {}, 0, {}, in_line() and line()
if waiting then
  waiting.absent()
end
for r = 1, #ids do
  local id, cancel, counted, n = ids[r], args[pos + 1] == 1, args[pos + 2], args[pos + 3]
  local first, record = pos + 4, found[r]
  pos = pos + 4 + 3 * n
  local extra, weight, class, tenant = args[pos], 1, 0, ''
  if extra ~= 0 then
    weight, class, tenant = args[pos + 1], args[pos + 2], args[pos + 3]
    pos = pos + 3
  end
  if (record or cancel) and over[r] == 0 and not seen[id] then
    seen[id] = true
    k = k + 1
    done[k] = id
    if record then
      if waiting then
        waiting.settled(class, tenant, extra, weight)
      end
      -- Per charge, as reserve.lua keeps it: -, the mark of its limit, the amount, the
      -- guard.
      local at, charges = unpack_msg(record)
      for j = 0, min(n, #charges / 4) - 1 do
        local p, q = first + 3 * j, 4 * j
        local w, admitted, late = limits[args[p]], args[p + 1], args[p + 2]
        if cancel then
          admitted, late = 0, 0
        end
        if charges[q + 2] ~= w.mark then
          -- The limit became another one: the charge stands.
        elseif w.lease then
          redis.call('ZREM', w.key, id)
        else
          settle(w, charges[q + 3], charges[q + 4], admitted, late, at, counted)
        end
      end
    end
  end
end

if k > 0 then
  redis.call('HDEL', open.current, unpack(done))
  if open.older then
    redis.call('HDEL', open.before, unpack(done))
  end
  store(closed, 'SADD', done)
end
for i = 1, count do
  write(limits[i])
end
if waiting then
  waiting.tell()
end
return {}
