-- bytes is how much a list holds.
local function bytes(list)
  local sum = 0
  for _, row in ipairs(redis.call('LRANGE', list, 0, -1)) do sum = sum + #row end
  return sum
end
