-- clear: a person says that rests are over.
-- KEYS[1] rests  set of names
-- KEYS[2..] rest  hash
-- ARGV[1..] names of the rests
-- Answers: {'cleared', number of rests ended}
local ended = 0
for k = 2, #KEYS do
  ended = ended + redis.call('DEL', KEYS[k])
  redis.call('SREM', KEYS[1], ARGV[k - 1])
end
return {'cleared', string.format('%.0f', ended)}
