-- requeue: ends a run and keeps its attempt, which waits for a further delivery.
-- KEYS[1] attempt   hash
-- KEYS[2] turn      hash
-- KEYS[3] thread    hash
-- KEYS[4] outbox    zset attempt -> when to look next, ms
-- KEYS[5] leases    zset attempt -> lease's end, ms
-- KEYS[6] log       list
-- KEYS[7] stream    stream
-- KEYS[8] items     hash thread|id -> open item, of the root thread
-- KEYS[9] links     hash thread|turn|id -> child thread, of the root thread
-- KEYS[10] done     list, closed items of the turn
-- KEYS[11] live     hash child thread -> open turn, of the root thread
-- ARGV[1] attempt's id
-- ARGV[2] turn's id
-- ARGV[3] run id
-- ARGV[4] fence
-- ARGV[5] not due before, ms from now
-- ARGV[6] the relay looks this much later, ms
-- ARGV[7] class, '' when given back
-- ARGV[8] redacted error
-- ARGV[9] '1' when the delivery does not count
-- ARGV[10] progress, '' for no news
-- ARGV[11] reason
-- ARGV[12] legal origins
-- ARGV[13] what open items become, JSON kind -> state
-- Answers: {'requeued'} | {'already'} | {'stale', state}
-- @include now record close grow free_hold
local attempt, turn, thread, outbox, leases, log, stream = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local id, run, fence = ARGV[1], ARGV[3], ARGV[4]
local a = redis.call('HMGET', attempt, 'state', 'run', 'fence', 'n', 'service', 'deliveries', 'last_run', 'last_move')
if a[7] == run and a[8] == 'requeue' then return {'already'} end
if a[2] ~= run or a[3] ~= fence or not within(ARGV[12], a[1]) then return {'stale', a[1] or ''} end
local deliveries = tonumber(a[6] or '0')
if ARGV[9] == '1' then deliveries = math.max(0, deliveries - 1) end
local due = now + tonumber(ARGV[5])
redis.call('HSET', attempt, 'state', 'queued', 'deliveries', str(deliveries), 'due', str(due), 'looks', '0',
  'last_run', run, 'last_move', 'requeue', 'updated', str(now))
if ARGV[7] ~= '' then redis.call('HSET', attempt, 'class', ARGV[7], 'error', ARGV[8]) end
grow(attempt, ARGV[10])
redis.call('HSET', turn, 'state', 'queued', 'updated', str(now))
redis.call('ZREM', leases, id)
redis.call('ZADD', outbox, str(due + tonumber(ARGV[6])), id)
close_items({items = KEYS[8], links = KEYS[9], done = KEYS[10], live = KEYS[11]}, ARGV[2], id, cjson.decode(ARGV[13]), false, 2000)
free_hold(thread, fence)
record(log, stream, ARGV[2], 'requeue', a[4], a[1], 'queued', fence, a[5], redis.call('HGET', turn, 'role'), ARGV[11])
return {'requeued'}
