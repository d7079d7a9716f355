-- Stands before a script under test: redis.call and redis.pcall refuse keys
-- that are not in KEYS.
local redis = (function(redis)
  local declared = {}
  for _, key in ipairs(KEYS) do declared[key] = true end
  -- Where a command has its keys: first and last argument after the name, step.
  -- A last below 0 counts from the end. An empty row: no keys.
  local none, one, two, all = {}, {1, 1, 1}, {1, 2, 1}, {1, -1, 1}
  local keys = {}
  local function row(where, names)
    for name in string.gmatch(names, '%S+') do keys[name] = where end
  end
  row(none, 'time ping echo publish spublish info')
  row(one, 'get set setnx setex psetex getset getdel getex append strlen getrange setrange')
  row(one, 'incr incrby incrbyfloat decr decrby getbit setbit bitcount')
  row(one, 'hget hset hmset hmget hgetall hdel hincrby hincrbyfloat hlen hexists hsetnx hkeys hvals hstrlen hscan hrandfield')
  row(one, 'zadd zrem zscore zmscore zrangebyscore zrevrangebyscore zrange zrevrange zrangebylex zcard zcount zincrby')
  row(one, 'zrank zrevrank zpopmin zpopmax zremrangebyscore zremrangebyrank zremrangebylex zscan zlexcount')
  row(one, 'lpush rpush lpushx rpushx lrange llen ltrim lpop rpop lindex lset lrem linsert lpos')
  row(one, 'xadd xlen xrange xrevrange xtrim xdel xack')
  row(one, 'sadd srem smembers sismember smismember scard spop srandmember sscan')
  row(one, 'expire pexpire expireat pexpireat ttl pttl persist type expiretime pexpiretime dump restore')
  row(two, 'rename renamenx rpoplpush lmove smove copy zrangestore')
  row(all, 'del exists unlink touch mget sinter sunion sdiff sinterstore sunionstore sdiffstore')
  keys.mset = {1, -1, 2}
  keys.msetnx = keys.mset
  local function check(name, ...)
    local where = keys[string.lower(name)]
    if not where then error('key check: command not known: ' .. name) end
    local args, count = {...}, select('#', ...)
    local last = where[2] or 0
    if last < 0 then last = count + 1 + last end
    for i = where[1] or 1, last, where[3] or 1 do
      local key = tostring(args[i])
      if not declared[key] then error('key check: ' .. name .. ' uses a key that is not declared: ' .. key) end
    end
  end
  return setmetatable({
    call = function(...) check(...) return redis.call(...) end,
    pcall = function(...) check(...) return redis.pcall(...) end
  }, {__index = redis})
end)(redis)
