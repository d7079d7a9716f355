-- salt: the salt of all fingerprints; the first one stays.
-- KEYS[1] salt  string
-- ARGV[1] a random salt, taken when there is none
-- Answers: {'salt', salt}
local salt = redis.call('GET', KEYS[1])
if not salt then
  salt = ARGV[1]
  redis.call('SET', KEYS[1], salt)
end
return {'salt', salt}
