-- due_now: a queued attempt that waits is made due now.
-- KEYS[1] outbox   zset attempt -> when to look next, ms
-- KEYS[2] attempt  hash
-- ARGV[1] attempt's id
-- Answers: {'due'} | {'moved'} (not queued any more)
-- @include now
if redis.call('HGET', KEYS[2], 'state') ~= 'queued' then return {'moved'} end
redis.call('ZADD', KEYS[1], str(now), ARGV[1])
redis.call('HSET', KEYS[2], 'due', str(now), 'looks', '0')
return {'due'}
