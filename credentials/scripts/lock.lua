-- lock: lets one process refresh a login.
-- KEYS[1] refresh  string, token of the process
-- ARGV[1] token, random
-- ARGV[2] how long, ms
-- Answers: {'locked'} | {'busy', ms left}
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return {'busy', string.format('%.0f', redis.call('PTTL', KEYS[1]))} end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {'locked'}
