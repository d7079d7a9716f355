-- ask: a person's request to the live run of a turn.
-- KEYS[1] turn     hash
-- KEYS[2] attempt  hash, the attempt that the person saw
-- KEYS[3] asks     list
-- KEYS[4] steers   list
-- KEYS[5] command  string, the answer to this command id
-- KEYS[6] messages list, what the steers become when no run takes them
-- ARGV[1] request, JSON
-- ARGV[2] steered text as a human message, JSON; '' for another request
-- ARGV[3] how long the command is remembered, ms
-- ARGV[4] states in which it may be asked
-- ARGV[5] how many requests a turn may get
-- ARGV[6] how many steers and messages may wait
-- ARGV[7] how many bytes of them may wait
-- ARGV[8] what is remembered of the command: turn|attempt
-- Answers: {'asked', number} | {'already', turn|attempt} | {'moved', state} | {'full', 'number', 'waiting' or 'bytes'} | {'unknown'}
-- @include now bytes
local before = redis.call('GET', KEYS[5])
if before then return {'already', before} end
local a = redis.call('HMGET', KEYS[2], 'state', 'n')
local t = redis.call('HMGET', KEYS[1], 'attempt', 'asks')
if not a[1] or not t[1] then return {'unknown'} end
if t[1] ~= a[2] or not within(ARGV[4], a[1]) then return {'moved', a[1]} end
if tonumber(t[2] or '0') >= tonumber(ARGV[5]) then return {'full', 'number'} end
if ARGV[2] ~= '' then
  if redis.call('LLEN', KEYS[4]) + redis.call('LLEN', KEYS[6]) >= tonumber(ARGV[6]) then return {'full', 'waiting'} end
  if bytes(KEYS[4]) + bytes(KEYS[6]) + #ARGV[2] > tonumber(ARGV[7]) then return {'full', 'bytes'} end
end
redis.call('RPUSH', KEYS[3], ARGV[1])
if ARGV[2] ~= '' then redis.call('RPUSH', KEYS[4], ARGV[2]) end
local number = str(redis.call('HINCRBY', KEYS[1], 'asks', 1))
redis.call('SET', KEYS[5], ARGV[8], 'PX', ARGV[3])
return {'asked', number}
