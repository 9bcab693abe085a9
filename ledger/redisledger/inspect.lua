-- Reads what the line has come to. There are no limits and no ids.
-- Reply: tickets, grants, inversions, messages.

start()
local x = line().state()
return { x.count, x.grants, x.inversions, x.messages }
