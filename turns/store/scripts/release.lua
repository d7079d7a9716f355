-- release: a run's agent is gone; its hold on the thread ends, and who waits for it is due.
-- KEYS[1] thread   hash
-- KEYS[2] outbox   zset attempt -> when to look next, ms
-- KEYS[3] attempt  hash, the run's
-- KEYS[4] attempt  hash, the one that may wait; the run's own for none
-- ARGV[1] fence of the run
-- ARGV[2] attempt that may wait for the hold, '' for none
-- ARGV[3] grace until the relay looks, ms
-- Answers: {'released', attempt that waits and is due or ''} | {'already'} | {'held'}
-- @include now
local a = redis.call('HMGET', KEYS[3], 'state', 'fence')
if a[2] == ARGV[1] and within('starting,running', a[1]) then return {'held'} end
if redis.call('HGET', KEYS[1], 'hold') ~= ARGV[1] then return {'already'} end
redis.call('HSET', KEYS[1], 'hold', '0', 'hold_until', '0')
if ARGV[2] ~= '' and redis.call('ZSCORE', KEYS[2], ARGV[2]) then
  -- One that waits for its own time too goes on waiting for it.
  local due = tonumber(redis.call('HGET', KEYS[4], 'due') or '0')
  redis.call('ZADD', KEYS[2], str(math.max(due, now + tonumber(ARGV[3]))), ARGV[2])
  if due <= now then return {'released', ARGV[2]} end
end
return {'released', ''}
