-- The line of package ledger, step by step as in its line.go and turn.go. It is a
-- function, so that a call when nobody is in line costs nothing of it. KEYS ends
-- with its keys: tickets by rank, by age and by due, tickets, the tenants' tags, the rest.
-- Members of the first two are in the order of their bytes: the class, the start tag or
-- the arrival, seq, and the ticket's name. Those of the third are seq and the name.

local ORDER, AGE, DUE, TICKETS, TAGS, REST = unpack(KEYS, #KEYS - 5)
local CLASSES, UNIT, MAX_WEIGHT, MAX_COST = 10, 256, 1048576, 1099511627776
local LATE, EXPIRE, FAR, SLOW, SOONER, WALK, WATCH = 250000, 2000000, 20000000, 100000, 1000, 10, 260000
local LATE_MOST, AWAY, LOOK_LEAST, LOOK_EACH = 64, 120000000, 2000000, 500000
local KEEP = 600000000 -- is how long the keys stay when nobody calls

-- x has the numbers of the whole line.
local x
local NUMBERS = { 'count', 'kept', 'seq', 'rule', 'burst', 'step', 'grants', 'inversions', 'messages' }

local load
function load()
  if x then
    return
  end
  local n = redis.call('HGET', REST, 'n')
  n = n and unpack_msg(n) or {}
  x = { virtual = {}, less = {}, waiting = {} }
  for i, name in ipairs(NUMBERS) do
    x[name] = n[i] or 0
  end
  for c = 0, CLASSES - 1 do
    local i = #NUMBERS + 3 * c
    x.virtual[c], x.less[c], x.waiting[c] = n[i + 1] or 0, n[i + 2] or 0, n[i + 3] or 0
  end
  x.processes = n[#NUMBERS + 3 * CLASSES + 1] or 0
  if redis.call('EXISTS', ORDER, AGE, DUE, TICKETS) ~= (x.count > 0 and 4 or 0) then
    -- Redis was short of memory and evicted a key. Whoever waits asks again in time.
    redis.call('DEL', ORDER, AGE, DUE, TICKETS, TAGS, REST)
    x = nil
    load()
  end
end

-- busy says whether anybody is in line.
local function busy()
  load()
  return x.count > 0
end

-- Tickets that were read, by name; false: there is none. changed are those to write.
local tickets, changed = {}, {}
-- The front of the line as far as it was read, and the oldest of each class.
local front, oldest = {}, {}
local processes, tags, changed_tags = {}, {}, {}

local function name_of(process, lane)
  return process .. '\0' .. lane
end

local function rank(t)
  return string.format('%d%014x%010x', t.class, t.start, t.seq) .. t.name
end

local function by_age(t)
  return string.format('%d%014x%010x', t.class, t.arrived, t.seq) .. t.name
end

local function by_due(t)
  return string.format('%010x', t.seq) .. t.name
end

local function parse(name, packed)
  if not packed then
    return false
  end
  local process, class, tenant, start, seq, share, arrived, due, demand = unpack_msg(packed)
  return { name = name, process = process, class = class, tenant = tenant, start = start, seq = seq,
    share = share, arrived = arrived, due = due, demand = demand }
end

local function parse_process(packed)
  if not packed then
    return false
  end
  local v = unpack_msg(packed)
  return { tickets = v[1], seen = v[2], stalled = v[3] == 1 }
end

local function ticket(name)
  if tickets[name] == nil then
    tickets[name] = parse(name, redis.call('HGET', TICKETS, name))
  end
  return tickets[name]
end

-- read returns the tickets of members of a sorted set, whose names begin there.
local function read(members, from)
  local missing = {}
  for i, m in ipairs(members) do
    members[i] = string.sub(m, from)
    if tickets[members[i]] == nil then
      missing[#missing + 1] = members[i]
    end
  end
  if #missing > 0 then
    local fields, names = {}, {}
    for i, packed in ipairs(redis.call('HMGET', TICKETS, unpack(missing))) do
      local t = parse(missing[i], packed)
      tickets[missing[i]] = t
      if processes[t.process] == nil then
        processes[t.process] = false
        names[#names + 1], fields[#fields + 1] = t.process, 'p' .. t.process
      end
    end
    if #names > 0 then
      for i, packed in ipairs(redis.call('HMGET', REST, unpack(fields))) do
        processes[names[i]] = parse_process(packed)
      end
    end
  end
  for i, name in ipairs(members) do
    members[i] = tickets[name]
  end
  return members
end

-- at returns the i-th ticket in line.
local function at(i)
  if i > x.count then
    return nil
  end
  if i > #front then
    for _, t in ipairs(read(redis.call('ZRANGE', ORDER, #front, #front + WALK - 1), 26)) do
      front[#front + 1] = t
    end
  end
  return front[i]
end

local function process(name)
  if processes[name] == nil then
    processes[name] = parse_process(redis.call('HGET', REST, 'p' .. name))
  end
  return processes[name]
end

local function tag_of(class, tenant)
  return class .. tenant
end

-- finish is a tenant's tag, or nil.
local function finish(tag)
  if tags[tag] == nil then
    tags[tag] = tonumber(redis.call('HGET', TAGS, tag)) or false
  end
  return tags[tag] or nil
end

local function set_finish(tag, f)
  tags[tag] = f
  changed_tags[tag] = true
end

local function share_of(cost, weight)
  return max(div(min(max(cost, 1), MAX_COST) * UNIT, min(max(weight, 1), MAX_WEIGHT)), 1)
end

local function start_of(class, tenant)
  return max(x.virtual[class], finish(tag_of(class, tenant)) or 0)
end

-- unpack_place returns the place that a request was sent with.
local unpacked = {}
local function unpack_place(packed)
  local p = unpacked[packed]
  if not p then
    local v = unpack_msg(packed)
    p = { process = v[1], name = name_of(v[1], v[2]), tenant = v[3], class = v[4], weight = v[5], cost = v[6],
      waited = v[7], step = v[8], share = v[9], ticket = v[10] == 1 }
    unpacked[packed] = p
  end
  return p
end

local function saw(p)
  load()
  x.step = p.step
  if x.count > 0 then
    local q = process(p.process)
    if q then
      q.seen, q.stalled, q.dirty = now, false, true
    end
  end
end

-- put gives the request's lane a ticket, or its ticket the request's demand: the key of
-- each limit, the amount, and when that alone would allow for it.
local function put(p, demand, due)
  x.touched = true
  local t, share = ticket(p.name), share_of(p.cost, p.weight)
  local tag = tag_of(p.class, p.tenant)
  if not t then
    x.seq = x.seq + 1
    t = { name = p.name, process = p.process, class = p.class, tenant = p.tenant,
      start = start_of(p.class, p.tenant), seq = x.seq, share = 0 }
    tickets[p.name] = t
    local q = process(p.process)
    if not q then
      q = { tickets = 0, seen = now, stalled = false }
      processes[p.process] = q
      x.processes = x.processes + 1
    end
    q.tickets, q.dirty = q.tickets + 1, true
    set_finish(tag, t.start)
    redis.call('ZADD', ORDER, 0, rank(t))
    if x.count == 0 then
      x.kept = 0 -- the keys are new
    end
    x.count, front = x.count + 1, {}
    x.waiting[t.class] = x.waiting[t.class] + 1
  else
    tag = tag_of(t.class, t.tenant)
    redis.call('ZREM', AGE, by_age(t))
  end
  set_finish(tag, (finish(tag) or 0) + share - t.share)
  t.share, t.demand, t.due, t.arrived = share, demand, due, now - p.waited
  redis.call('ZADD', AGE, 0, by_age(t))
  redis.call('ZADD', DUE, due, by_due(t))
  oldest = {}
  changed[p.name] = true
end

-- drop takes a ticket out of the line.
local function drop(t, granted)
  x.touched = true
  if not granted then
    local tag = tag_of(t.class, t.tenant)
    set_finish(tag, (finish(tag) or 0) - t.share)
  end
  tickets[t.name], changed[t.name] = false, nil
  redis.call('HDEL', TICKETS, t.name)
  redis.call('ZREM', ORDER, rank(t))
  redis.call('ZREM', AGE, by_age(t))
  redis.call('ZREM', DUE, by_due(t))
  x.count, front, oldest = x.count - 1, {}, {}
  x.waiting[t.class] = x.waiting[t.class] - 1
  local q = process(t.process)
  if q then
    q.tickets, q.dirty = q.tickets - 1, true
    if q.tickets == 0 then
      redis.call('HDEL', REST, 'p' .. t.process)
      processes[t.process] = false
      x.processes = x.processes - 1
    end
  end
end

local function settled(class, tenant, extra, weight)
  if extra == 0 or not busy() then
    return
  end
  local tag = tag_of(class, tenant)
  local f = finish(tag)
  if not f then
    return
  elseif extra > 0 then
    set_finish(tag, f + share_of(extra, weight))
  else
    set_finish(tag, max(f - share_of(-extra, weight), 0))
  end
end

local function rest()
  if x.count == 0 then
    redis.call('DEL', TAGS)
    tags, changed_tags = {}, {}
    for c = 0, CLASSES - 1 do
      x.virtual[c] = 0
    end
    return
  end
  if redis.call('HLEN', TAGS) > 2 * x.count + 1024 then
    local all = redis.call('HGETALL', TAGS)
    for i = 1, #all, 2 do
      if tonumber(all[i + 1]) <= x.virtual[tonumber(string.sub(all[i], 1, 1))] then
        redis.call('HDEL', TAGS, all[i])
        tags[all[i]], changed_tags[all[i]] = nil, nil
      end
    end
  end
end

-- absent finds out which processes did not come when they were told to, and drops the
-- tickets of those that are gone.
local function absent()
  if not busy() then
    return
  end
  local members = redis.call('ZRANGEBYSCORE', DUE, '-inf', string.format('(%.0f', now - LATE), 'LIMIT', 0, LATE_MOST)
  local gone = false
  for _, t in ipairs(read(members, 11)) do
    if now > t.due + EXPIRE then
      drop(t, false)
      gone = true
    else
      local q = process(t.process)
      if q.seen <= t.due and not q.stalled then
        q.stalled, q.dirty = true, true
      end
    end
  end
  if gone then
    rest()
  end
end

-- passed says whether a ticket is passed over.
local function passed(t)
  return now > t.due + LATE or process(t.process).stalled
end

-- oldest_of is the ticket of a class whose job came first, but for the named one.
local function oldest_of(class, name)
  if x.waiting[class] == 0 then
    return nil
  end
  local row, i = oldest[class], 1
  if not row then
    row = {}
    oldest[class] = row
  end
  while i <= x.waiting[class] do
    if i > #row then
      local more = redis.call('ZRANGEBYLEX', AGE, '[' .. class, '(' .. string.char(49 + class), 'LIMIT', #row, WALK)
      for _, t in ipairs(read(more, 26)) do
        row[#row + 1] = t
      end
    end
    if row[i].name ~= name and not passed(row[i]) then
      return row[i]
    end
    i = i + 1
  end
  return nil
end

-- overdue is the ticket, or the place itself (own), that goes before all others.
local function overdue(p)
  if x.step <= 0 or x.rule <= 0 then
    return nil, false
  end
  local urgent = CLASSES
  if x.count > 0 then
    urgent = at(1).class
  end
  if p then
    urgent = min(urgent, p.class)
  end
  local worst, first, own = -1, nil, false
  for c = urgent + 1, CLASSES - 1 do
    if x.less[c] > 0 then
      local t = oldest_of(c, p and p.ticket and p.name)
      local arrived, mine = now + 1, false
      if t then
        arrived = t.arrived
      end
      if p and c == p.class and p.ticket and now - p.waited <= arrived then
        arrived, mine = now - p.waited, true
      end
      local late = now - arrived - (c - urgent) * x.step
      if late > worst then
        worst, first, own = late, t, mine
      end
    end
  end
  if own then
    first = nil
  end
  return first, own
end

-- within bounds a credit by one burst, and a debt by three.
local function within(credit)
  return max(min(credit, x.burst * 100), -3 * x.burst * 100)
end

-- granted keeps the line after a request was granted.
local function granted(p, mine, start, aged, inverted)
  if x.count == 0 then
    return
  end
  local share = share_of(p.cost, p.weight)
  if mine then
    local tag = tag_of(mine.class, mine.tenant)
    set_finish(tag, (finish(tag) or 0) + share - mine.share)
    drop(mine, true)
  else
    set_finish(tag_of(p.class, p.tenant), start + share)
  end
  local cost = min(max(p.cost, 1), MAX_COST)
  x.burst = max(cost, x.burst - div(x.burst + 255, 256))
  local earned = cost * p.share
  for c = 0, CLASSES - 1 do
    x.less[c] = within(x.less[c] + earned - (c == p.class and cost * 100 or 0))
  end
  x.rule = within(x.rule + earned - (aged and cost * 100 or 0))
  if aged then
    local first = redis.call('ZRANGEBYLEX', ORDER, '[' .. p.class, '(' .. string.char(49 + p.class), 'LIMIT', 0, 1)
    if first[1] then
      start = min(start, read(first, 26)[1].start)
    end
  end
  x.virtual[p.class] = max(x.virtual[p.class], start)
  x.grants = x.grants + 1
  if inverted then
    x.inversions = x.inversions + 1
  end
  rest()
end

local function view(w)
  return { w = w, free = w.free, spare = w.spare, sure = 0, sure_spare = 0 }
end

local function hold(v, amount, sure)
  local spare = min(amount, v.w.burst)
  v.free, v.spare = v.free - amount, v.spare - spare
  if sure then
    v.sure, v.sure_spare = v.sure + amount, v.sure_spare + spare
  end
end

-- floor returns what a request for amount finds free and spare, and whether those in
-- front need more than counts.
local function floor(v, amount)
  local w = v.w
  local free = w.free - max(w.amount - amount, v.sure)
  local spare = w.spare - max(w.burst - min(amount, w.burst), v.sure_spare)
  local cut = v.free < free or not w.lease and w.burst > 0 and v.spare < spare
  return max(v.free, free), max(v.spare, spare), cut
end

-- back is how long the limit takes at most to gain an amount again.
local function back(w, amount)
  if w.lease or w.burst == 0 or w.amount == 0 then
    return w.window
  end
  return amount * w.ticks / w.amount * w.tick
end

-- cover sets aside what a ticket in front needs of the views, by the keys of their
-- limits. It returns when the ticket can start, and whether a ticket in front has
-- claimed one of the limits that it is short of.
local function cover(t, views)
  local d, start, behind, short = t.demand, now, false, nil
  for i = 1, #d, 3 do
    local v, amount = views[d[i]], d[i + 1]
    if not v then
      start = max(start, d[i + 2])
    elseif not fits(v.w, amount, v.free, v.spare) then
      start = max(start, now + wait(v.w, amount, v.free, v.spare))
      short = short or {}
      short[i] = true
      behind = behind or v.claimed
      v.claimed = true
    end
  end
  for i = 1, #d, 3 do
    local v, amount = views[d[i]], d[i + 1]
    if v and (start == now or short and short[i] or start - now <= back(v.w, amount)) then
      hold(v, amount, start == now)
    end
  end
  return start, behind
end

-- ahead covers those in front of a place, which wants amounts of limits. It returns
-- whether one of them that fits has been told long ago, and whether there are more
-- than can be reckoned.
local function ahead(class, start, seq, wants, views, first, mine)
  local inverted = false
  local function enough(t)
    if cover(t, views) == now and t.due < now - SLOW then
      inverted = true
    end
    for _, d in ipairs(wants) do
      local free, spare, cut = floor(views[d.w.key], d.amount)
      if cut and not fits(d.w, d.amount, free, spare) then
        return true
      end
    end
    return false
  end
  if first and first ~= mine and enough(first) then
    return inverted, true
  end
  for i = 1, x.count do
    local t = at(i)
    if t.class > class or t.class == class and (t.start > start or t.start == start and t.seq >= seq) then
      break
    end
    if t ~= mine and t ~= first and not passed(t) and enough(t) then
      return inverted, true
    end
  end
  return inverted, false
end

-- fresh returns views of the limits wanted, as they are.
local function fresh(wants)
  local views = {}
  for _, d in ipairs(wants) do
    views[d.w.key] = view(d.w)
  end
  return views
end

-- hint is when a ticket of a process asks again whose limits may allow for it after so
-- long. far says that this may be too soon, and closed that it can not be sooner.
local function hint(name, longest, far, closed)
  if far then
    longest = max(longest, FAR)
  end
  local n = x.processes
  if not process(name) then
    n = n + 1
  end
  if n > 1 and not closed then
    longest = min(longest, min(max(n * LOOK_EACH, LOOK_LEAST), FAR))
  end
  return longest
end

-- queue decides a request that stands in the line. It returns whether it is granted,
-- or else the limit that binds, and for how long.
local function queue(p, charges)
  local wants = {}
  for j = 1, #charges, 4 do
    if charges[j] > 0 then -- it waits for this one
      wants[#wants + 1] = { number = charges[j], w = limits[charges[j]], amount = charges[j + 2] }
    end
  end
  local mine = p.ticket and ticket(p.name) or nil
  local own, longest = 0, 0
  for _, d in ipairs(wants) do
    local t = wait(d.w, d.amount, d.w.free, d.w.spare)
    if (d.w.own or t > AWAY) and t > longest then
      own, longest = d.number, t
    end
  end
  if own > 0 then
    if mine then
      drop(mine, false)
      rest()
    end
    return false, own, longest
  end

  local start, seq = start_of(p.class, p.tenant), huge
  if mine then
    start, seq = mine.start, mine.seq
  end
  local first, aged = overdue(p)
  local views = fresh(wants)
  local inverted, far = false, false
  if not aged then
    inverted, far = ahead(p.class, start, seq, wants, views, first, mine)
  end
  local go = true
  for _, d in ipairs(wants) do
    d.free, d.spare = floor(views[d.w.key], d.amount)
    go = go and fits(d.w, d.amount, d.free, d.spare)
  end
  if go then
    granted(p, mine, start, aged, inverted)
    return true
  end
  local binding, demand = 0, {}
  for _, d in ipairs(wants) do
    local t = wait(d.w, d.amount, d.free, d.spare)
    local n = #demand
    demand[n + 1], demand[n + 2], demand[n + 3] = d.w.key, d.amount, now + t
    if t > longest then
      binding, longest = d.number, t
    end
  end
  longest = hint(p.process, longest, far, binding > 0 and limits[binding].opens > 0)
  if p.ticket then
    put(p, demand, now + longest)
  end
  return false, binding, longest
end

-- set sets fields of a hash, not too many at once for Lua.
local function set(hash, fields)
  for i = 1, #fields, 1000 do
    redis.call('HSET', hash, unpack(fields, i, min(i + 999, #fields)))
  end
end

-- flush writes what changed of the line.
local function flush()
  local keep = now - x.kept > KEEP / 2
  if keep then
    x.kept = now
  end
  local fields = {}
  for name in pairs(changed) do
    local t = tickets[name]
    fields[#fields + 1], fields[#fields + 2] = name,
      pack(t.process, t.class, t.tenant, t.start, t.seq, t.share, t.arrived, t.due, t.demand)
  end
  set(TICKETS, fields)
  fields = {}
  for tag in pairs(changed_tags) do
    fields[#fields + 1], fields[#fields + 2] = tag, string.format('%.0f', tags[tag])
  end
  set(TAGS, fields)
  local n = {}
  for i, name in ipairs(NUMBERS) do
    n[i] = x[name]
  end
  for c = 0, CLASSES - 1 do
    local i = #NUMBERS + 3 * c
    n[i + 1], n[i + 2], n[i + 3] = x.virtual[c], x.less[c], x.waiting[c]
  end
  n[#n + 1] = x.processes
  fields = { 'n', pack(n) }
  for name, q in pairs(processes) do
    if q and q.dirty then
      fields[#fields + 1], fields[#fields + 2] = 'p' .. name, pack({ q.tickets, q.seen, q.stalled and 1 or 0 })
    end
  end
  set(REST, fields)
  if keep then
    for _, key in ipairs({ ORDER, AGE, DUE, TICKETS, TAGS, REST }) do
      redis.call('PEXPIRE', key, KEEP / 1000)
    end
  end
end

-- judge is how long a ticket would be told to wait if it asked.
local function judge(t, first, all)
  local wants, longest = {}, 0
  for i = 1, #t.demand, 3 do
    local v = all[t.demand[i]]
    if v then
      wants[#wants + 1] = { w = v.w, amount = t.demand[i + 1] }
    else
      longest = max(longest, t.demand[i + 2] - now)
    end
  end
  local views, far = fresh(wants), false
  if t ~= first then
    far = select(2, ahead(t.class, t.start, t.seq, wants, views, first, t))
  end
  for _, d in ipairs(wants) do
    longest = max(longest, wait(d.w, d.amount, floor(views[d.w.key], d.amount)))
  end
  if far then
    longest = max(longest, FAR)
  end
  return longest
end

-- say tells a ticket's process when it may go, if that is sooner than it knows.
local told = {}
local function say(t, at)
  if at + SOONER < t.due then
    t.due = at
    redis.call('ZADD', DUE, at, by_due(t))
    changed[t.name] = true
    x.messages = x.messages + 1
    told[#told + 1] = { t.process, at - now }
  end
end

-- hears has the limits as closed as they are to a ticket's process.
local function hears(t)
  for i = 1, count do
    limits[i].opens = opening(limits[i], t.process, false)
  end
end

-- needs says whether a ticket needs one of the limits in views.
local function needs(t, views)
  for i = 1, #t.demand, 3 do
    if views[t.demand[i]] then
      return true
    end
  end
  return false
end

-- watched has another process look when a ticket has not come in its turn.
local function watched(t, walked)
  local by, other = max(t.due, now) + WATCH, nil
  for _, o in ipairs(walked) do
    if o.process ~= t.process then
      if o.due <= by then
        return
      end
      other = other or o
    end
  end
  if other then
    say(other, by)
  end
end

-- tell tells the processes whose tickets are next, and may go sooner than they were
-- told: those that fit, and on each limit the first that does not. All else was written.
local function tell()
  load()
  if x.count == 0 and not x.touched then
    return
  end
  if x.count > 0 then
    local all = {}
    for i = 1, count do
      local w = limits[i]
      w.slots, w.reset, w.taken = nil, nil, 0
      if w.lease then
        w.free = w.amount - redis.call('ZCOUNT', w.key, string.format('(%.0f', now), '+inf')
      else
        w.free = w.amount - w.used
        if w.burst > 0 then
          w.spare = w.level
        end
      end
      all[w.key] = view(w)
    end
    local first = overdue(nil)
    local walked, next = {}, {}
    local function claim(t)
      walked[#walked + 1] = t
      hears(t)
      local _, behind = cover(t, all)
      if not behind then
        next[#next + 1] = t
      end
    end
    if first then
      claim(first)
    end
    for i = 1, min(x.count, 5 * WALK) do
      if #walked == WALK then
        break
      end
      local t = at(i)
      if t ~= first and not passed(t) and needs(t, all) then
        claim(t)
      end
    end
    for _, t in ipairs(next) do
      if t.due > now + SOONER then
        hears(t)
        say(t, now + judge(t, first, all))
      end
    end
    for _, t in ipairs(next) do
      watched(t, walked)
    end
  end
  flush()
  for _, m in ipairs(told) do
    local channel = string.gsub(ORDER, 'order$', 'turn:') .. m[1]
    -- Without the right to publish the waiting go by their hints.
    redis.pcall('PUBLISH', channel, string.format('%.0f', m[2]))
  end
end

return {
  state = function()
    load()
    return x
  end,
  absent = absent,
  saw = function(place)
    saw(unpack_place(place))
  end,
  settled = settled,
  queue = function(place, charges)
    return queue(unpack_place(place), charges)
  end,
  withdraw = function(names)
    for _, name in ipairs(names) do
      local t = ticket(name)
      if t then
        drop(t, false)
      end
    end
    rest()
  end,
  tell = tell,
}
