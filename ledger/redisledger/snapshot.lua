-- Reads balances and changes nothing. There are no ids.
-- Reply, per limit: used, available, margin.

start()
local reply = {}
for i = 1, count do
  local w = limits[i]
  reply[3 * i - 2], reply[3 * i - 1] = w.amount - w.free, min(w.free, w.spare)
  reply[3 * i] = w.notes and w.notes.margin or FULL_MARGIN
end
return reply
