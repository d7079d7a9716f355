-- sweep: closes what an ended turn left open below it, one bounded step.
-- KEYS[1] sweeps  zset turn -> when to sweep again, ms
-- KEYS[2] items   hash thread|id -> open item, of the root thread
-- KEYS[3] links   hash thread|turn|id -> child thread, of the root thread
-- KEYS[4] done    list, closed items of the turn
-- KEYS[5] live    hash child thread -> open turn, of the root thread
-- KEYS[6] turn    hash
-- ARGV[1] turn's id
-- ARGV[2] what open items become, JSON kind -> state
-- ARGV[3] how many items may be closed in this step
-- ARGV[4] longest wait until the next step, ms
-- Answers: {'swept', number closed} | {'left', number closed} | {'already'}
-- @include now close
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return {'already'} end
local state = redis.call('HGET', KEYS[6], 'state')
if state and within('queued,starting,running', state) then
  redis.call('ZREM', KEYS[1], ARGV[1])
  return {'already'}
end
local closed, left = close_items({items = KEYS[2], links = KEYS[3], done = KEYS[4], live = KEYS[5]},
  ARGV[1], '', cjson.decode(ARGV[2]), true, tonumber(ARGV[3]))
if not left then
  redis.call('ZREM', KEYS[1], ARGV[1])
  return {'swept', str(closed)}
end
local wait = 0
if closed == 0 then
  -- Nothing could be done: try again later, the longer the older it is.
  local ended = tonumber(redis.call('HGET', KEYS[6], 'ended') or str(now))
  wait = math.min(tonumber(ARGV[4]), math.max(1000, math.floor((now - ended) / 2)))
end
redis.call('ZADD', KEYS[1], str(now + wait), ARGV[1])
return {'left', str(closed)}
