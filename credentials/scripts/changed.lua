-- changed: notices, once, that a login is another one than the one that failed.
-- KEYS[i] rest  hash
-- ARGV[i] fingerprint of the login now
-- Answers: {'changed', i, ...}, the numbers of the rests whose login changed
local answer = {'changed'}
for k = 1, #KEYS do
  local r = redis.call('HMGET', KEYS[k], 'state', 'fingerprint', 'changed')
  if r[1] and r[2] and r[2] ~= '' and r[2] ~= ARGV[k] and r[3] ~= 'yes' then
    redis.call('HSET', KEYS[k], 'changed', 'yes')
    table.insert(answer, string.format('%.0f', k))
  end
end
return answer
