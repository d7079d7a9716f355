-- shards: agrees on the number of shards and the version of the stored data.
-- KEYS[1] meta  hash
-- ARGV[1] shards wanted
-- ARGV[2] version of the stored data that this program writes
-- Answers: {shards, version}
redis.call('HSETNX', KEYS[1], 'shards', ARGV[1])
redis.call('HSETNX', KEYS[1], 'version', ARGV[2])
return redis.call('HMGET', KEYS[1], 'shards', 'version')
