-- unlock: the process that refreshed a login is done.
-- KEYS[1] refresh  string, token of the process
-- ARGV[1] token
-- Answers: {'unlocked'} | {'lost'}
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'lost'} end
redis.call('DEL', KEYS[1])
return {'unlocked'}
