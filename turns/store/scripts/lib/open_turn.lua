-- write_turn writes a new turn with its first attempt and every index of both.
-- The caller has checked that the thread is free and the ids are the next ones.
--   k: turn, attempt, thread, log, outbox, open, live, threads, stream; no thread
--      when the caller writes its counter and open turn itself
--   v: thread, turn, attempt, number, turn_record, attempt_record, delay, grace, service, role, reason
local function write_turn(k, v)
  local stamp = str(now)
  local due = now + v.delay
  local look = due
  if v.delay == 0 then look = now + v.grace end
  redis.call('HSET', k.turn, 'state', 'queued', 'attempt', '1', 'created', stamp, 'updated', stamp,
    unpack(cjson.decode(v.turn_record)))
  redis.call('HSET', k.attempt, 'state', 'queued', 'n', '1', 'created', stamp, 'updated', stamp,
    unpack(cjson.decode(v.attempt_record)))
  if v.delay ~= 0 then redis.call('HSET', k.attempt, 'due', str(due)) end
  if k.thread then redis.call('HSET', k.thread, 'turns', v.number, 'open', v.turn, 'updated', stamp) end
  redis.call('ZADD', k.outbox, str(look), v.attempt)
  redis.call('ZADD', k.open, stamp, v.turn)
  if string.find(v.thread, '~', 1, true) then redis.call('HSET', k.live, v.thread, v.turn) end
  redis.call('ZADD', k.threads, stamp, v.thread)
  record(k.log, k.stream, v.turn, 'open', '1', '', 'queued', '0', v.service, v.role, v.reason)
end
