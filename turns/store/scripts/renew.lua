-- renew: extends the leases of a worker's runs in one shard and brings their open requests.
-- KEYS[1] leases         zset attempt -> lease's end, ms
-- KEYS[3i-1] attempt     hash, of the i-th run
-- KEYS[3i]   turn        hash
-- KEYS[3i+1] thread      hash
-- ARGV[1] number of runs
-- ARGV[6i-4] attempt's id
-- ARGV[6i-3] run id
-- ARGV[6i-2] fence
-- ARGV[6i-1] lease, ms
-- ARGV[6i]   progress, '' for no news
-- ARGV[6i+1] agent's session, '' for no news
-- Answers: a list with one word a run: 'ok:' and the number of requests made so far | 'stale' | 'over' (past the deadline)
-- @include now grow
local leases = KEYS[1]
local answers = {}
for i = 1, tonumber(ARGV[1]) do
  local attempt, turn, thread = KEYS[3 * i - 1], KEYS[3 * i], KEYS[3 * i + 1]
  local id, run, fence = ARGV[6 * i - 4], ARGV[6 * i - 3], ARGV[6 * i - 2]
  local a = redis.call('HMGET', attempt, 'state', 'run', 'fence', 'deadline', 'session')
  if not a[1] or not within('starting,running', a[1]) or a[2] ~= run or a[3] ~= fence then
    answers[i] = 'stale'
  elseif now > tonumber(a[4]) then
    answers[i] = 'over'
  else
    local till = str(now + tonumber(ARGV[6 * i - 1]))
    redis.call('ZADD', leases, till, id)
    if redis.call('HGET', thread, 'hold') == fence then redis.call('HSET', thread, 'hold_until', till) end
    local progress, session = ARGV[6 * i], ARGV[6 * i + 1]
    grow(attempt, progress)
    if session ~= '' and session ~= a[5] then redis.call('HSET', attempt, 'session', session) end
    answers[i] = 'ok:' .. (redis.call('HGET', turn, 'asks') or '0')
  end
end
return answers
