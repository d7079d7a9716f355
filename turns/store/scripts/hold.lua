-- hold: keeps the thread's hold of a run whose turn has ended while its agent is being stopped.
-- KEYS[1] thread   hash
-- ARGV[1] fence of the run
-- ARGV[2] how long, ms from now
-- Answers: {'held'} | {'stale'}
-- @include now
if redis.call('HGET', KEYS[1], 'hold') ~= ARGV[1] then return {'stale'} end
redis.call('HSET', KEYS[1], 'hold_until', str(now + tonumber(ARGV[2])))
return {'held'}
