-- taken: a run says what came of a request; a steered text it took is no waiting message any more.
-- KEYS[1] attempt  hash
-- KEYS[2] answers  hash request id -> what came of it
-- KEYS[3] steers   list
-- ARGV[1] run id
-- ARGV[2] fence
-- ARGV[3] request's id
-- ARGV[4] what came of it
-- ARGV[5] steered text as it stands in the list; '' for another request
-- Answers: {'taken'} | {'already'} | {'stale'}
-- @include now
local a = redis.call('HMGET', KEYS[1], 'state', 'run', 'fence')
if a[2] ~= ARGV[1] or a[3] ~= ARGV[2] or not within('starting,running', a[1]) then return {'stale'} end
if redis.call('HEXISTS', KEYS[2], ARGV[3]) == 1 then return {'already'} end
redis.call('HSET', KEYS[2], ARGV[3], ARGV[4])
if ARGV[5] ~= '' then redis.call('LREM', KEYS[3], 1, ARGV[5]) end
return {'taken'}
