-- succeed: a run proved its login: the rests that it knew of end.
-- KEYS[1] rests  set of names
-- KEYS[2..5] rest  hash, all four of the choice; may repeat
-- ARGV[1] run id
-- ARGV[2] when the login was picked, ms; a rest that began later stays
-- ARGV[3..6] names of the rests
-- Answers: {'proven', number of rests ended}
local run, picked, ended = ARGV[1], tonumber(ARGV[2]), 0
for k = 2, 5 do
  local r = redis.call('HMGET', KEYS[k], 'state', 'prober', 'since')
  if r[1] and (r[2] == run or (r[1] == 'cooling' and picked > tonumber(r[3] or '0'))) then
    redis.call('DEL', KEYS[k])
    redis.call('SREM', KEYS[1], ARGV[k + 1])
    ended = ended + 1
  end
end
return {'proven', string.format('%.0f', ended)}
