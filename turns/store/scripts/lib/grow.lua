-- higher reports whether progress is more than what was before; within an attempt it
-- never falls. grow raises an attempt's progress, '' for no news.
local levels = {none = 0, text = 1, tools = 2}
local function higher(before, progress)
  return levels[progress] and (not before or levels[progress] > (levels[before] or 0))
end
local function grow(attempt, progress)
  if levels[progress] and higher(redis.call('HGET', attempt, 'progress'), progress) then
    redis.call('HSET', attempt, 'progress', progress)
  end
end
