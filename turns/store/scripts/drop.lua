-- drop: removes an entry of the net that its attempt has no use for; it looks again, because the attempt may have moved since it was read.
-- KEYS[1] outbox or leases  zset attempt -> ms
-- KEYS[2] attempt           hash
-- ARGV[1] attempt's id
-- ARGV[2] states in which the entry is the attempt's net
-- Answers: {'dropped'} | {'kept'}
-- @include now
local state = redis.call('HGET', KEYS[2], 'state')
if state and within(ARGV[2], state) then return {'kept'} end
redis.call('ZREM', KEYS[1], ARGV[1])
return {'dropped'}
