-- Reads balances and changes nothing. There are no ids.
-- Reply, per limit: used, available.

start()
local reply = {}
for i = 1, count do
  local w = limits[i]
  reply[2 * i - 1], reply[2 * i] = w.amount - w.free, min(w.free, w.spare)
end
return reply
