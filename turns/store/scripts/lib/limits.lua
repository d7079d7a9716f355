-- term reads from a turn's limits what bounds a run: its lease and its whole time, in ms.
-- What they don't say is as in the second text, which is complete.
local function term(text, defaults)
  -- spans are the durations: whole seconds, or milliseconds with an m.
  local function spans(limits)
    local list = {}
    for word in string.gmatch(limits, '([^,]*),?') do
      local number, unit = string.match(word, '^(%d+)(m?)$')
      list[#list + 1] = tonumber(number or '0') * (unit == 'm' and 1 or 1000)
    end
    return list
  end
  local says, else_ = spans(text), spans(defaults)
  local function of(i)
    if says[i] and says[i] > 0 then return says[i] end
    return else_[i]
  end
  return of(1), of(2) + of(4) + of(5)
end
