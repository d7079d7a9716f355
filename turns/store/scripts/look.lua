-- look: one pass over a shard: writes the shard's time, grants the amnesty, and answers what is due.
-- KEYS[1] clock   hash
-- KEYS[2] outbox  zset attempt -> when to look next, ms
-- KEYS[3] leases  zset attempt -> lease's end, ms
-- KEYS[4] sweeps  zset turn -> when to sweep again, ms
-- KEYS[5] ended   zset paired task or lone turn -> when its retention ends, ms
-- KEYS[6] due     zset stored command -> when it is due, ms
-- ARGV[1] gap after which Redis counts as away, ms
-- ARGV[2] amnesty, ms
-- ARGV[3] run id of the Redis server, '' when unknown
-- ARGV[4] '1' when a restarted server is the same data set with every write on disk
-- ARGV[5] how many of each kind are answered
-- Answers: {now ms, amnesty until ms, {attempt, score, …} outbox, {attempt, …} expired, {turn, …} sweeps, {id, …} ended, {command, …} due, 'amnesty' when one begins or ''}
-- @include now
local clock = KEYS[1]
local c = redis.call('HMGET', clock, 'seen', 'amnesty', 'redis', 'held')
local amnesty = tonumber(c[2] or '0')
local begun = ''
local seen = tonumber(c[1] or '0')
local other = ARGV[3] ~= '' and c[3] and c[3] ~= '' and c[3] ~= ARGV[3]
if c[1] and (now - seen > tonumber(ARGV[1]) or now < seen or other) then
  amnesty = math.max(amnesty, now + tonumber(ARGV[2]))
  if now < seen then amnesty = now + tonumber(ARGV[2]) end
  begun = 'amnesty'
end
redis.call('HSET', clock, 'seen', str(now), 'amnesty', str(amnesty))
if other and ARGV[4] ~= '1' then redis.call('HSET', clock, 'held', str(now + tonumber(ARGV[2]))) end
if ARGV[3] ~= '' and c[3] ~= ARGV[3] then redis.call('HSET', clock, 'redis', ARGV[3]) end
local most = tonumber(ARGV[5])
local to = str(now)
local outbox = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', to, 'WITHSCORES', 'LIMIT', 0, most)
local expired = {}
if amnesty <= now then expired = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', to, 'LIMIT', 0, most) end
local sweeps = redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', to, 'LIMIT', 0, most)
local ended = redis.call('ZRANGEBYSCORE', KEYS[5], '-inf', to, 'LIMIT', 0, most)
local due = redis.call('ZRANGEBYSCORE', KEYS[6], '-inf', to, 'LIMIT', 0, most)
return {to, str(amnesty), outbox, expired, sweeps, ended, due, begun}
