-- Takes tickets out of the line. There are no ids. Arguments after them: the names of
-- the tickets. The limits are those on which somebody else may go now.

start()
if in_line() then
  local waiting = line()
  waiting.absent()
  waiting.withdraw({ unpack(args, pos + 1) })
  waiting.tell()
end
return {}
