-- due_move: writes a stored command again with its next time, if nobody else has done so since it was read.
-- KEYS[1] later  hash, the stored command
-- KEYS[2] due    zset stored command -> when it is due, ms
-- ARGV[1] id
-- ARGV[2] revision that was read
-- ARGV[3] body, JSON
-- ARGV[4] when it is due, ms; '+inf' for never by itself
-- Answers: {'written'} | {'moved'}
if redis.call('HGET', KEYS[1], 'revision') ~= ARGV[2] then return {'moved'} end
redis.call('HSET', KEYS[1], 'body', ARGV[3])
redis.call('HINCRBY', KEYS[1], 'revision', 1)
redis.call('ZADD', KEYS[2], ARGV[4], ARGV[1])
return {'written'}
