-- read: rests as they are, with Redis' time.
-- KEYS[i] rest  hash
-- Answers: {now ms, then for each rest: state ('' for none), until, probe, class, failures, since, prober, prober_until, credential, changed}
local parts = redis.call('TIME')
local answer = {string.format('%.0f', math.floor((tonumber(parts[1]) * 1000000 + tonumber(parts[2])) / 1000))}
for k = 1, #KEYS do
  local r = redis.call('HMGET', KEYS[k], 'state', 'until', 'probe', 'class', 'failures', 'since', 'prober', 'prober_until', 'credential', 'changed')
  for f = 1, 10 do table.insert(answer, r[f] or '') end
end
return answer
