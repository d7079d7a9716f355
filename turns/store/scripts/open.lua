-- open: creates a turn with its first attempt, and its thread and paired task where they are new.
-- KEYS[1]  thread        hash
-- KEYS[2]  turn          hash, the next turn
-- KEYS[3]  attempt       hash, its first attempt
-- KEYS[4]  prompt        string
-- KEYS[5]  said          string, JSON list of human messages that go into the turn
-- KEYS[6]  log           list
-- KEYS[7]  outbox        zset attempt -> when to look next, ms
-- KEYS[8]  open          zset turn -> opened, ms
-- KEYS[9]  live          hash child thread -> open turn, of the root thread
-- KEYS[10] threads       zset thread -> updated, ms
-- KEYS[11] stream        stream
-- KEYS[12] command       string, the answer to this command id
-- KEYS[13] paired        hash, or the turn's own key when there is none
-- KEYS[14] messages      list, waiting human messages
-- KEYS[15] parent        hash, the parent turn, or the turn's own key when there is none
-- KEYS[16] ended         zset paired task or lone turn -> when its retention ends, ms
-- ARGV[1]  thread's name
-- ARGV[2]  turn's id
-- ARGV[3]  attempt's id
-- ARGV[4]  turn's number, must be the next one
-- ARGV[5]  thread record for a new thread, JSON list of field and value
-- ARGV[6]  turn record, likewise
-- ARGV[7]  attempt record, likewise
-- ARGV[8]  paired record after the move, likewise; '' for a lone turn
-- ARGV[9]  expected version of the paired task; '' when it must not exist
-- ARGV[10] paired task's id; '' for a lone turn
-- ARGV[11] prompt
-- ARGV[12] said, JSON; '' for what is taken
-- ARGV[13] waiting messages to take from the front of the list
-- ARGV[14] delay, ms
-- ARGV[15] grace until the relay looks, ms
-- ARGV[16] how long the command is remembered, ms
-- ARGV[17] service
-- ARGV[18] role
-- ARGV[19] reason
-- ARGV[20] parent turn's id; '' for none
-- Answers: {'opened', turn, attempt} | {'already', turn, attempt} | {'busy', open turn} | {'moved'} (the number) | {'decide'} (paired task or messages) | {'parent_final'}
-- @include now record open_turn
local thread, turn, attempt, prompt, said = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local command, paired, messages, parent, ended = KEYS[12], KEYS[13], KEYS[14], KEYS[15], KEYS[16]

local before = redis.call('GET', command)
if before then
  local first = string.match(before, '^(.-)|')
  return {'already', first, string.match(before, '|(.*)$')}
end
local t = redis.call('HMGET', thread, 'open', 'turns')
if t[1] and t[1] ~= '' then return {'busy', t[1]} end
if tonumber(t[2] or '0') + 1 ~= tonumber(ARGV[4]) then return {'moved'} end
if ARGV[10] ~= '' then
  local version = redis.call('HGET', paired, 'version')
  if (version or '') ~= ARGV[9] then return {'decide'} end
end
if ARGV[20] ~= '' then
  local state = redis.call('HGET', parent, 'state')
  if not state or not within('queued,starting,running', state) then return {'parent_final'} end
end
local take = tonumber(ARGV[13])
if take > redis.call('LLEN', messages) then return {'decide'} end

if not t[2] then
  redis.call('HSET', thread, 'created', str(now), unpack(cjson.decode(ARGV[5])))
end
if ARGV[10] ~= '' then
  if ARGV[9] == '' then redis.call('HSET', paired, 'created', str(now)) end
  redis.call('HSET', paired, 'updated', str(now), unpack(cjson.decode(ARGV[8])))
  redis.call('HSET', thread, 'paired', ARGV[10], 'pairs', string.match(ARGV[10], '#(%d+)$'))
  redis.call('ZREM', ended, ARGV[10])
end
if ARGV[11] ~= '' then redis.call('SET', prompt, ARGV[11]) end
if take > 0 then
  local taken = redis.call('LRANGE', messages, 0, take - 1)
  redis.call('LTRIM', messages, take, -1)
  if ARGV[12] == '' then redis.call('SET', said, '[' .. table.concat(taken, ',') .. ']') end
end
if ARGV[12] ~= '' then redis.call('SET', said, ARGV[12]) end
write_turn(
  {turn = turn, attempt = attempt, thread = thread, log = KEYS[6], outbox = KEYS[7], open = KEYS[8],
   live = KEYS[9], threads = KEYS[10], stream = KEYS[11]},
  {thread = ARGV[1], turn = ARGV[2], attempt = ARGV[3], number = ARGV[4], turn_record = ARGV[6],
   attempt_record = ARGV[7], delay = tonumber(ARGV[14]), grace = tonumber(ARGV[15]), service = ARGV[17],
   role = ARGV[18], reason = ARGV[19]})
redis.call('SET', command, ARGV[2] .. '|' .. ARGV[3], 'PX', ARGV[16])
return {'opened', ARGV[2], ARGV[3]}
