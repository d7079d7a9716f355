-- claim: gives a queued attempt to one run, with a new fence, and takes the thread's hold.
-- KEYS[1] attempt   hash
-- KEYS[2] turn      hash
-- KEYS[3] thread    hash
-- KEYS[4] outbox    zset attempt -> when to look next, ms
-- KEYS[5] leases    zset attempt -> lease's end, ms
-- KEYS[6] log       list
-- KEYS[7] stream    stream
-- KEYS[8] clock     hash
-- ARGV[1] attempt's id
-- ARGV[2] turn's id
-- ARGV[3] service that claims
-- ARGV[4] role in the message
-- ARGV[5] intent in the message
-- ARGV[6] opening stamp in the message
-- ARGV[7] run id, random
-- ARGV[8] limits of a turn that says nothing else
-- ARGV[9] worker's name
-- ARGV[10] agent kind
-- ARGV[11] legal origins
-- Answers: {'claimed'|'already', fence, deliveries, deadline ms, now ms} | {'busy', run, worker} | {'held', until ms, fence}
--          | {'superseded'} | {'final'} | {'wrong_service', service} | {'mismatch', role, intent, stamp} | {'unknown'}
-- @include now record limits
local attempt, turn, thread, outbox, leases, log, stream, clock =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local id, service, run = ARGV[1], ARGV[3], ARGV[7]

local a = redis.call('HMGET', attempt, 'state', 'service', 'stamp', 'run', 'fence', 'deliveries', 'n', 'deadline', 'worker', 'last_run', 'due')
local t = redis.call('HMGET', turn, 'state', 'role', 'intent', 'attempt', 'services', 'limits')
if not a[1] or not t[1] then return {'unknown'} end
if a[3] ~= ARGV[6] or t[2] ~= ARGV[4] or t[3] ~= ARGV[5] then
  return {'mismatch', t[2] or '', t[3] or '', a[3] or ''}
end
if a[2] ~= service then return {'wrong_service', a[2]} end
-- The stored turn contradicts itself: nobody can carry it out.
if not within(t[5] or '', service) then return {'mismatch', t[2], t[3], a[3]} end
if not within(ARGV[11], a[1]) then
  if within('starting,running', a[1]) then
    if a[4] == run then return {'already', a[5], a[6], a[8], str(now)} end
    return {'busy', a[4], a[9] or ''}
  end
  if t[4] ~= a[7] then return {'superseded'} end
  return {'final'}
end
if t[4] ~= a[7] then return {'superseded'} end
-- A claim that was delayed on its way comes from a run that has given the attempt back.
if a[10] == run then return {'busy', run, a[9] or ''} end

local h = redis.call('HMGET', thread, 'hold', 'hold_until', 'fence')
local c = redis.call('HMGET', clock, 'held', 'seen', 'redis')
local free_at = tonumber(c[1] or '0')
-- No pass has looked for longer than a pass takes: Redis may be another server than
-- before, whose last writes are lost. The next pass judges; until then nobody claims.
if c[3] and c[3] ~= '' and now - tonumber(c[2] or '0') > 1500 then
  local about = redis.pcall('INFO', 'server')
  local server = type(about) == 'string' and string.match(about, 'run_id:(%x+)')
  if server and server ~= c[3] then free_at = math.max(free_at, now + 1000) end
end
if h[1] and h[1] ~= '0' and tonumber(h[2] or '0') > free_at then free_at = tonumber(h[2]) end
-- asynq brings a retry by its workers' clocks and in whole seconds. What comes much
-- too early waits in the outbox.
local due = tonumber(a[11] or '0')
if due - now > 2000 then free_at = math.max(free_at, due) end
if free_at > now then
  redis.call('ZADD', outbox, 'XX', str(free_at), id)
  return {'held', str(free_at), h[1] or '0'}
end

local fence = str(math.max(tonumber(h[3] or '0') + 1, micros))
local deliveries = str(tonumber(a[6] or '0') + 1)
local lease, whole = term(t[6] or '', ARGV[8])
local deadline = str(now + whole)
local till = str(now + lease)
redis.call('HSET', attempt, 'state', 'starting', 'run', run, 'fence', fence, 'worker', ARGV[9], 'agent', ARGV[10],
  'deliveries', deliveries, 'deadline', deadline, 'updated', str(now))
redis.call('HSET', turn, 'state', 'starting', 'updated', str(now))
redis.call('HSET', thread, 'hold', fence, 'hold_until', till, 'fence', fence)
redis.call('ZREM', outbox, id)
redis.call('ZADD', leases, till, id)
record(log, stream, ARGV[2], 'claim', a[7], 'queued', 'starting', fence, service, t[2], ARGV[9])
return {'claimed', fence, deliveries, deadline, str(now)}
