-- succeed closes an attempt and opens the next one of the same turn: the body of
-- replace, delegate and lose. See replace.lua for keys and arguments.
local function succeed(verb, to, by_run, check)
  local attempt, turn, thread, outbox, leases, log, stream, next_attempt =
    KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
  local id, turn_id, by, run, fence = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
  local a = redis.call('HMGET', attempt, 'state', 'run', 'fence', 'n', 'service', 'ended', 'ended_by', 'next')
  local t = redis.call('HMGET', turn, 'attempt', 'role')
  if not a[1] or not t[1] then return {'unknown'} end
  if a[6] == verb and a[7] == by then return {'already', a[8] or ''} end
  -- A run that was given back holds the queued attempt no more, though it was the last to do so.
  if by_run and (a[2] ~= run or a[3] ~= fence or a[1] == 'queued') then return {'stale', a[1]} end
  if t[1] ~= a[4] or not within(ARGV[6], a[1]) then return {'stale', a[1]} end
  if tonumber(ARGV[9]) ~= tonumber(a[4]) + 1 then return {'moved'} end
  local refused = check and check(id, leases, a[3])
  if refused then return {refused} end

  local held = a[1] ~= 'queued'
  local delay = tonumber(ARGV[11])
  local look = now + delay
  if delay == 0 then look = now + tonumber(ARGV[12]) end
  redis.call('HSET', attempt, 'state', to, 'ended', verb, 'ended_by', by, 'next', ARGV[8], 'updated', str(now))
  if ARGV[13] ~= '' then redis.call('HSET', attempt, 'class', ARGV[13], 'error', ARGV[14]) end
  grow(attempt, ARGV[15])
  redis.call('HSET', next_attempt, 'state', 'queued', 'n', ARGV[9], 'prev', id,
    'created', str(now), 'updated', str(now), unpack(cjson.decode(ARGV[10])))
  if delay ~= 0 then redis.call('HSET', next_attempt, 'due', str(now + delay)) end
  redis.call('HSET', turn, 'state', 'queued', 'attempt', ARGV[9], 'updated', str(now))
  if ARGV[16] ~= '' then redis.call('HINCRBY', turn, ARGV[16], 1) end
  if ARGV[17] == 'start' then
    redis.call('HSETNX', turn, 'wait_since', str(now))
  elseif ARGV[17] == 'stop' then
    redis.call('HDEL', turn, 'wait_since')
  end
  redis.call('ZREM', leases, id)
  redis.call('ZREM', outbox, id)
  if ARGV[18] == 'keep' and held then
    -- The old run's agent may be alive: the successor waits for the end of its hold.
    local until_ms = tonumber(redis.call('HGET', thread, 'hold_until') or '0')
    if until_ms > look then look = until_ms end
  elseif held then
    free_hold(thread, a[3])
  end
  redis.call('ZADD', outbox, str(look), ARGV[8])
  if ARGV[19] ~= '' then
    close_items({items = KEYS[9], links = KEYS[10], done = KEYS[11], live = KEYS[12]}, turn_id, id, cjson.decode(ARGV[19]), false, 2000)
  end
  record(log, stream, turn_id, verb, a[4], a[1], to, a[3] or '0', a[5], t[2], ARGV[20])
  return {'done', ARGV[8], held and a[3] or '0'}
end
