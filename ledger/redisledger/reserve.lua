-- Decides a batch of requests in order.
-- Arguments after the ids (see start): 1 if the ids differ and every charge is one
-- that waits and that its limit can hold; then per request its charges, packed: per
-- charge the limit, or minus the limit if it may be overdrawn, its mark, the amount, and the guard; or minus the limit that can never hold it;
-- then per request 0, or its place in the line, packed (see line.lua).
-- Reply: empty if all are granted; otherwise per request: 1 granted | 0 denied,
-- limit, wait in us | 4 the same, by a limit that is closed | 2 too large, limit | 3 refused.

start()
local found, over = opened(ids), ended(ids)
local plain, first = args[pos + 1] == 1, pos + 1
local places = first + #ids
pos = places + #ids
-- What to remember: ids, and per id the time of the grant and the charges.
local records, stamp = {}, pack(now)

-- all_fit says whether the whole batch fits, which is true of most: it needs no look
-- at the single charges then.
local function all_fit()
  for i = 1, count do
    local w = limits[i]
    if w.total > w.free or w.total > w.spare or w.lease and w.total < #ids or w.notes and w.notes.shut + w.notes.span > now then
      return false
    end
  end
  for r = 1, #ids do
    if found[r] or over[r] == 1 then
      return false
    end
  end
  return plain
end

local function take_all()
  for r = 1, #ids do
    records[2 * r - 1], records[2 * r] = ids[r], stamp .. args[first + r]
  end
  for i = 1, count do
    local w = limits[i]
    w.taken = w.total
    for r = 1, w.lease and #ids or 0 do
      w.add[2 * r - 1], w.add[2 * r] = now + w.window, ids[r]
    end
  end
end

-- all says whether the charges fit now.
local function all(charges)
  for j = 1, #charges, 4 do
    local w = limits[charges[j]]
    if w and not fits(w, charges[j + 2], w.free, w.spare) then
      return false
    end
  end
  return true
end

local function take(id, charges)
  for j = 1, #charges, 4 do
    local w, amount = limits[math.abs(charges[j])], charges[j + 2]
    w.free, w.spare, w.taken = w.free - amount, w.spare - amount, w.taken + amount
    if w.lease then
      w.add[#w.add + 1] = now + w.window
      w.add[#w.add + 1] = id
    end
  end
end

-- deny returns what binds and for how long, and holds the demand on each limit that
-- is short.
local function deny(charges)
  local binding, longest = 0, 0
  for j = 1, #charges, 4 do
    local w, amount = limits[charges[j]], charges[j + 2]
    local t = w and wait(w, amount, w.free, w.spare) or 0
    if t > 0 then
      w.free, w.spare = w.free - amount, w.spare - min(amount, w.burst)
    end
    if t > longest then
      binding, longest = charges[j], t
    end
  end
  return binding, longest
end

-- ask has the limits of a request as closed as they are to its process.
local function ask(charges, place)
  for j = 1, #charges, 4 do
    local w = limits[math.abs(charges[j])]
    if w.notes then
      w.opens = opening(w, place ~= 0 and unpack_msg(place)[1] or '', true)
    end
  end
end

-- enter has the line know of the call, once it matters.
local entered
local function enter()
  if not entered then
    entered = line()
    entered.absent()
    for r = 1, #ids do
      if args[places + r] ~= 0 then
        entered.saw(args[places + r])
      end
    end
  end
  return entered
end

-- one_by_one decides each request on its own, and returns the reply.
local function one_by_one()
  local reply, k, mine = {}, 0, {}
  for r = 1, #ids do
    local id, packed = ids[r], args[first + r]
    k = k + 1
    if over[r] == 1 then
      reply[k] = 3
    elseif found[r] or mine[id] then
      reply[k] = 1
    elseif type(packed) == 'number' then
      reply[k], reply[k + 1] = 2, -packed
      k = k + 1
    else
      local charges, place = unpack_msg(packed), args[places + r]
      local go, limit, longest
      ask(charges, place)
      if place ~= 0 and (entered and entered.state().count > 0 or not all(charges)) then
        go, limit, longest = enter().queue(place, charges)
      else
        go = all(charges)
        if not go then
          limit, longest = deny(charges)
        end
      end
      if go then
        take(id, charges)
        records[#records + 1] = id
        records[#records + 1] = stamp .. packed
        mine[id] = true
        reply[k] = 1
      else
        reply[k], reply[k + 1], reply[k + 2] = limit > 0 and limits[limit].opens > 0 and 4 or 0, limit, longest
        k = k + 2
      end
    end
  end
  return reply
end

local reply = {}
if in_line() then
  enter()
end
if not entered and all_fit() then
  take_all()
else
  reply = one_by_one()
end

for i = 1, count do
  local w = limits[i]
  if w.taken > 0 then
    w.dirty = true
    if not w.lease then
      w.add[leaves(now, w.guard, w)] = w.taken
      w.used, w.charged = w.used + w.taken, w.charged + w.taken
      w.level = w.level - (w.burst > 0 and w.taken or 0)
    end
  end
  write(w)
end
store(open, 'HSET', records)
if entered then
  entered.tell()
end
return reply
