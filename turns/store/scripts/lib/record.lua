-- record appends one move to the turn's log and to the shard's stream; the role by its first letter.
local function record(log, stream, turn, verb, number, from, to, fence, service, role, reason)
  local line = table.concat({str(now), verb, number, from, to, fence, service, string.sub(role, 1, 1), reason}, '|')
  redis.call('RPUSH', log, line)
  redis.call('XADD', stream, 'MAXLEN', '~', '10000', '*', 'turn', turn, 'move', line)
end
