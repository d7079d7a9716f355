-- due_add: stores a command until it is due, or a schedule with its next time.
-- KEYS[1] later  hash, the stored command
-- KEYS[2] due    zset stored command -> when it is due, ms
-- ARGV[1] id
-- ARGV[2] body, JSON
-- ARGV[3] when it is due, ms; '+inf' for never by itself
-- Answers: {'added'} | {'already', body that is stored}
-- @include now
local before = redis.call('HGET', KEYS[1], 'body')
if before then return {'already', before} end
redis.call('HSET', KEYS[1], 'body', ARGV[2], 'revision', '1', 'created', str(now))
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[1])
return {'added'}
