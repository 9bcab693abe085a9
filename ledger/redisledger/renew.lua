-- Renews the leases of running calls.
-- Arguments after the ids (see start), per lease: its limit.

start()
local found = opened(ids)

-- charged says whether the reservation has a charge on that limit.
local function charged(record, w)
  local _, charges = unpack_msg(record)
  for j = 2, #charges, 4 do
    if charges[j] == w.mark then
      return true
    end
  end
  return false
end

for r = 1, #ids do
  local w = limits[args[pos + r]]
  if found[r] and charged(found[r], w) then
    w.add[#w.add + 1] = now + w.window
    w.add[#w.add + 1] = ids[r]
    w.dirty = true
  end
end
for i = 1, count do
  write(limits[i])
end
return {}
