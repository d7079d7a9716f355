-- item: a run opens or closes an item.
-- KEYS[1] attempt  hash
-- KEYS[2] items    hash thread|id -> open item, of the root thread
-- KEYS[3] done     list, closed items of the turn
-- KEYS[4] links    hash thread|turn|id -> child thread, of the root thread
-- KEYS[5] root     hash, the root thread
-- KEYS[6] child    hash, the next child thread; the root's key when the item links none
-- KEYS[7] threads  zset thread -> updated, ms
-- ARGV[1] run id
-- ARGV[2] fence
-- ARGV[3] item's field, thread|id
-- ARGV[4] item, JSON
-- ARGV[5] '1' while it is open
-- ARGV[6] link's field, thread|turn|id; '' when the item links no child
-- ARGV[7] name of the next child thread
-- ARGV[8] its number, must be the next one
-- ARGV[9] how many items may be open below a root thread
-- ARGV[10] turn under which a new child thread hangs
-- Answers: {'open', child} | {'closed', child} | {'already', child} | {'stale'} | {'moved'} | {'full'}
-- @include now
local a = redis.call('HMGET', KEYS[1], 'state', 'run', 'fence')
if a[2] ~= ARGV[1] or a[3] ~= ARGV[2] or not within('starting,running', a[1]) then return {'stale'} end
local item = ARGV[4]
local child = ''
if ARGV[6] ~= '' then
  child = redis.call('HGET', KEYS[4], ARGV[6]) or ''
  if child == '' then
    if tonumber(redis.call('HGET', KEYS[5], 'children') or '1') + 1 ~= tonumber(ARGV[8]) then return {'moved'} end
    child = ARGV[7]
    redis.call('HSET', KEYS[5], 'children', ARGV[8])
    -- A thread that a person opened under this name keeps it.
    if redis.call('EXISTS', KEYS[6]) == 1 then return {'moved'} end
    redis.call('HSET', KEYS[4], ARGV[6], child)
    redis.call('HSET', KEYS[6], 'parent', ARGV[10], 'turns', '0', 'created', str(now), 'updated', str(now))
    redis.call('ZADD', KEYS[7], str(now), child)
  end
  local row = cjson.decode(item)
  row.child = child
  item = cjson.encode(row)
end
local known = redis.call('HEXISTS', KEYS[2], ARGV[3]) == 1
if ARGV[5] == '1' then
  if not known and redis.call('HLEN', KEYS[2]) >= tonumber(ARGV[9]) then return {'full'} end
  redis.call('HSET', KEYS[2], ARGV[3], item)
  return {'open', child}
end
redis.call('HDEL', KEYS[2], ARGV[3])
local last = redis.call('LRANGE', KEYS[3], -20, -1)
for i = 1, #last do
  if last[i] == item then return {'already', child} end
end
redis.call('RPUSH', KEYS[3], item)
redis.call('LTRIM', KEYS[3], -4000, -1)
return {'closed', child}
