-- defer: the relay has looked at an entry of the outbox and says when to look again.
-- KEYS[1] outbox   zset attempt -> when to look next, ms
-- KEYS[2] attempt  hash
-- ARGV[1] attempt's id
-- ARGV[2] score that was seen
-- ARGV[3] look again, ms from now
-- Answers: {'deferred'} | {'moved'} (claimed, ended or looked at by somebody else)
-- @include now
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) ~= tonumber(ARGV[2]) then return {'moved'} end
redis.call('ZADD', KEYS[1], str(now + tonumber(ARGV[3])), ARGV[1])
redis.call('HINCRBY', KEYS[2], 'looks', 1)
return {'deferred'}
