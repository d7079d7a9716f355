-- finish ends an attempt together with its turn, moves the paired task and opens
-- the next turn: the body of settle, compensate, end, cancel and lose_last. See
-- settle.lua for keys and arguments.
local function finish(verb, by_run, check)
  local attempt, turn, thread, outbox, leases, log, stream, open, live =
    KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
  local paired, messages = KEYS[10], KEYS[11]
  local id, turn_id, by = ARGV[1], ARGV[2], ARGV[4]
  local a = redis.call('HMGET', attempt, 'state', 'run', 'fence', 'n', 'service', 'ended', 'ended_by', 'progress')
  local t = redis.call('HMGET', turn, 'attempt', 'role', 'next', 'next_attempt')
  if not a[1] or not t[1] then return {'unknown'} end
  if a[6] == verb and a[7] == by then return {'already', t[3] or '', t[4] or ''} end
  if by_run and (a[2] ~= ARGV[5] or a[3] ~= ARGV[6]) then return {'stale', a[1]} end
  if t[1] ~= a[4] or not within(ARGV[7], a[1]) then return {'stale', a[1]} end
  local refused = check and check(id, leases, a[3])
  if refused then return {refused} end
  if ARGV[18] ~= '' and redis.call('HGET', paired, 'version') ~= ARGV[19] then return {'moved'} end
  local steers = redis.call('LRANGE', KEYS[24], 0, -1)
  if ARGV[21] ~= '' and redis.call('LLEN', messages) + #steers ~= tonumber(ARGV[21]) then return {'moved'} end
  local next_turn = ARGV[27]
  local th = redis.call('HMGET', thread, 'turns', 'hold', 'hold_until')
  if next_turn ~= '' and tonumber(th[1]) + 1 ~= tonumber(ARGV[29]) then return {'moved'} end

  -- A steered text that no run has taken becomes the next human message.
  if #steers > 0 then
    redis.call('RPUSH', messages, unpack(steers))
    redis.call('DEL', KEYS[24])
  end
  local held = a[1] ~= 'queued'
  local stamp = str(now)
  local of_attempt = {'state', ARGV[8], 'ended', verb, 'ended_by', by, 'updated', stamp}
  local of_turn = {'state', ARGV[9], 'updated', stamp, 'ended', stamp}
  local of_thread = {'open', next_turn, 'updated', stamp}
  local function put(list, field, value)
    if value ~= '' then list[#list + 1], list[#list + 2] = field, value end
  end
  put(of_turn, 'outcome', ARGV[10])
  put(of_turn, 'class', ARGV[11])
  put(of_turn, 'error', ARGV[12])
  put(of_turn, 'reason', ARGV[13])
  put(of_turn, 'end_tree', ARGV[17])
  put(of_turn, 'next', next_turn)
  if next_turn ~= '' then
    put(of_turn, 'next_attempt', ARGV[28])
    put(of_thread, 'turns', ARGV[29])
  end
  put(of_attempt, 'class', ARGV[11])
  put(of_attempt, 'error', ARGV[12])
  put(of_attempt, 'usage', ARGV[39])
  if ARGV[15] ~= '' then
    put(of_attempt, 'session', ARGV[16])
    put(of_thread, 'session:' .. ARGV[15], ARGV[16])
  end
  if higher(a[8], ARGV[35]) then put(of_attempt, 'progress', ARGV[35]) end
  local look_after = 0
  if held and ARGV[23] == 'keep' then
    look_after = tonumber(th[3] or '0')
  elseif held and th[2] == a[3] then
    put(of_thread, 'hold', '0')
    put(of_thread, 'hold_until', '0')
  end
  redis.call('HSET', attempt, unpack(of_attempt))
  redis.call('HSET', turn, unpack(of_turn))
  redis.call('HSET', thread, unpack(of_thread))
  if ARGV[14] ~= '' then redis.call('SET', KEYS[12], ARGV[14]) end
  redis.call('ZREM', held and leases or outbox, id)
  redis.call('ZREM', open, turn_id)
  if string.find(ARGV[3], '~', 1, true) then redis.call('HDEL', live, ARGV[3]) end
  local _, left = close_items({items = KEYS[13], links = KEYS[14], done = KEYS[15], live = live},
    turn_id, '', cjson.decode(ARGV[24]), true, tonumber(ARGV[25]))
  if left then redis.call('ZADD', KEYS[17], stamp, turn_id) end
  if ARGV[38] ~= '' then redis.pcall('RPUSH', KEYS[15], ARGV[38]) end
  record(log, stream, turn_id, verb, a[4], a[1], ARGV[8], a[3] or '0', a[5], t[2], ARGV[13])

  if ARGV[18] ~= '' and ARGV[20] ~= '' then
    redis.call('HSET', paired, 'updated', stamp, unpack(cjson.decode(ARGV[20])))
  end
  if ARGV[37] ~= '' then redis.call('ZADD', KEYS[16], str(now + tonumber(ARGV[26])), ARGV[37]) end
  if next_turn ~= '' then
    local take = tonumber(ARGV[22])
    if take > 0 then
      local taken = redis.call('LRANGE', messages, 0, take - 1)
      redis.call('LTRIM', messages, take, -1)
      redis.call('SET', KEYS[22], '[' .. table.concat(taken, ',') .. ']')
    end
    write_turn(
      {turn = KEYS[20], attempt = KEYS[21], log = KEYS[23], outbox = outbox, open = open,
       live = live, threads = KEYS[19], stream = stream},
      {thread = ARGV[3], turn = next_turn, attempt = ARGV[28], number = ARGV[29], turn_record = ARGV[30],
       attempt_record = ARGV[31], delay = 0, grace = tonumber(ARGV[34]), service = ARGV[32], role = ARGV[33], reason = ''})
    if look_after > now then redis.call('ZADD', outbox, str(look_after), ARGV[28]) end
  else
    redis.call('ZADD', KEYS[19], stamp, ARGV[3])
  end
  return {'done', next_turn, ARGV[28], held and a[3] or '0', left and 'sweep' or ''}
end
