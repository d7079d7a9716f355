-- now: Redis' own time, in whole milliseconds (now) and microseconds (micros).
local clock_parts = redis.call('TIME')
local micros = tonumber(clock_parts[1]) * 1000000 + tonumber(clock_parts[2])
local now = math.floor(micros / 1000)

-- str writes a large whole number without an exponent.
local function str(n)
  return string.format('%.0f', n)
end

-- within reports whether a state is one of the origins, a list with commas.
local function within(origins, state)
  return string.find(',' .. origins .. ',', ',' .. state .. ',', 1, true) ~= nil
end
