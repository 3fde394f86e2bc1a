-- Records each run of messages that expire in the same second, with the functions note() and
-- finish() of the part before this one.
local from = 1
while from <= n do
  local to = from
  while ends[to + 1] == ends[from] do
    to = to + 1
  end
  note(ends[from], table.concat(keys, '', from, to))
  from = to + 1
end
finish()
