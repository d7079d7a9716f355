-- park: moves a paired task while no turn of its thread is open: a person's cancel.
-- KEYS[1] thread   hash
-- KEYS[2] paired   hash
-- KEYS[3] ended    zset paired task or lone turn -> when its retention ends, ms
-- KEYS[4] threads  zset thread -> updated, ms
-- ARGV[1] paired task's id
-- ARGV[2] expected version
-- ARGV[3] paired record after the move, JSON list of field and value
-- ARGV[4] retention, ms; '' when the paired task does not end
-- ARGV[5] thread's name
-- Answers: {'parked'} | {'already'} | {'moved'}
-- @include now
local open = redis.call('HGET', KEYS[1], 'open')
local record = cjson.decode(ARGV[3])
if (open and open ~= '') or redis.call('HGET', KEYS[2], 'version') ~= ARGV[2] then
  for i = 1, #record, 2 do
    if redis.call('HGET', KEYS[2], record[i]) ~= record[i + 1] then return {'moved'} end
  end
  return {'already'}
end
redis.call('HSET', KEYS[2], 'updated', str(now), unpack(record))
redis.call('HSET', KEYS[1], 'updated', str(now))
redis.call('ZADD', KEYS[4], str(now), ARGV[5])
if ARGV[4] ~= '' then redis.call('ZADD', KEYS[3], str(now + tonumber(ARGV[4])), ARGV[1]) end
return {'parked'}
