-- Takes tickets out of the line. There are no ids. Arguments after them: the names of
-- the tickets. The limits are those on which somebody else may go now.

start()
absent()
if busy() then
  for i = pos + 1, #args do
    local t = ticket(args[i])
    if t then
      drop(t, false)
    end
  end
  rest()
end
tell()
return {}
