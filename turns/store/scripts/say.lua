-- say: a person's message waits on a thread whose turn is open.
-- KEYS[1] thread    hash
-- KEYS[2] messages  list
-- KEYS[3] command   string, the answer to this command id
-- ARGV[1] message, JSON
-- ARGV[2] how many may wait
-- ARGV[3] how long the command is remembered, ms
-- ARGV[4] thread's name
-- ARGV[5] how many bytes may wait
-- Answers: {'said', open turn} | {'already', open turn then} | {'no_turn'} | {'full', 'number' or 'bytes'} | {'unknown'}
-- @include now bytes
local before = redis.call('GET', KEYS[3])
if before then return {'already', before} end
local t = redis.call('HMGET', KEYS[1], 'open', 'turns')
if not t[2] then return {'unknown'} end
if not t[1] or t[1] == '' then return {'no_turn'} end
if redis.call('LLEN', KEYS[2]) >= tonumber(ARGV[2]) then return {'full', 'number'} end
if bytes(KEYS[2]) + #ARGV[1] > tonumber(ARGV[5]) then return {'full', 'bytes'} end
redis.call('RPUSH', KEYS[2], ARGV[1])
redis.call('SET', KEYS[3], t[1] .. '|', 'PX', ARGV[3])
return {'said', t[1]}
