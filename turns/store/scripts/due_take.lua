-- due_take: removes a stored command, if nobody has changed it since it was read.
-- KEYS[1] later  hash, the stored command
-- KEYS[2] due    zset stored command -> when it is due, ms
-- ARGV[1] id
-- ARGV[2] revision that was read, '' for whatever it is
-- Answers: {'taken'} | {'moved'} | {'unknown'}
local revision = redis.call('HGET', KEYS[1], 'revision')
if not revision then
  redis.call('ZREM', KEYS[2], ARGV[1])
  return {'unknown'}
end
if ARGV[2] ~= '' and revision ~= ARGV[2] then return {'moved'} end
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])
return {'taken'}
