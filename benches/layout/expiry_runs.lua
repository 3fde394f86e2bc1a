-- Notes each run of messages that end in the same second, by the note() and finish() defined above.
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
