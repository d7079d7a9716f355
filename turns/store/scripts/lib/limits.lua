-- term reads from a turn's limits what bounds a run: its lease and its whole time, in ms.
-- What they don't say is as in the second text, which is complete.
local function term(text, defaults)
  -- span is a duration: whole seconds, or milliseconds with an m; 0 for what is none.
  local function span(word)
    local number, unit = string.match(word, '^(%d+)(m?)$')
    if not number or #number > 9 then return 0 end
    return tonumber(number) * (unit == 'm' and 1 or 1000)
  end
  local function spans(limits)
    local list = {}
    for word in string.gmatch(limits, '([^,]*),?') do list[#list + 1] = span(word) end
    return list
  end
  local says, else_ = spans(text), spans(defaults)
  local function of(i)
    if says[i] and says[i] > 0 then return says[i] end
    return else_[i]
  end
  return of(1), of(2) + of(4) + of(5)
end
