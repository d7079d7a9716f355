-- start: the agent has accepted the prompt; starting becomes running.
-- KEYS[1] attempt   hash
-- KEYS[2] turn      hash
-- KEYS[3] log       list
-- KEYS[4] stream    stream
-- ARGV[1] turn's id
-- ARGV[2] run id
-- ARGV[3] fence
-- ARGV[4] agent's session, '' when unknown yet
-- ARGV[5] credential's id, '' for none
-- ARGV[6] workspace's tree at the start
-- ARGV[7] legal origins
-- Answers: {'started'} | {'already'} | {'stale'}
-- @include now record
local attempt, turn, log, stream = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local a = redis.call('HMGET', attempt, 'state', 'run', 'fence', 'n', 'service')
if a[2] ~= ARGV[2] or a[3] ~= ARGV[3] then return {'stale'} end
if a[1] == 'running' then return {'already'} end
if not within(ARGV[7], a[1]) then return {'stale'} end
local fields = {'state', 'running', 'started', str(now), 'updated', str(now)}
if ARGV[4] ~= '' then fields[#fields + 1], fields[#fields + 2] = 'session', ARGV[4] end
if ARGV[5] ~= '' then fields[#fields + 1], fields[#fields + 2] = 'credential', ARGV[5] end
redis.call('HSET', attempt, unpack(fields))
redis.call('HSET', turn, 'state', 'running', 'tree', ARGV[6], 'updated', str(now))
record(log, stream, ARGV[1], 'start', a[4], a[1], 'running', a[3], a[5], redis.call('HGET', turn, 'role'), '')
return {'started'}
