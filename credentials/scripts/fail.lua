-- fail: what a failed run says about its login: a rest begins, goes on, or a probe ends without news.
-- KEYS[1] rests  set of names
-- KEYS[2] rest   hash, the one that the failure is about
-- KEYS[3..6] rest  hash, all four of the choice; probes of this run on others end without news
-- ARGV[1] name of the rest
-- ARGV[2] run id
-- ARGV[3] 'cool', 'disable' or 'neutral'
-- ARGV[4] class of the failure
-- ARGV[5] end that the provider named, ms; '0' for none
-- ARGV[6] delay that the provider named, ms; '0' for none
-- ARGV[7] first cooldown without either, ms; it doubles with each failed probe
-- ARGV[8] longest time until the next probe, ms
-- ARGV[9] longest rest, ms
-- ARGV[10] delay until another probe after one without news, ms
-- ARGV[11] fingerprint of the login, '' for unknown
-- ARGV[12] login's id
-- Answers: {'resting', state, until ms, probe ms} | {'already', state, until ms, probe ms} | {'neutral'}
local rests, rest, name, run, kind, class = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local named, delay, first, ceiling, longest = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local parts = redis.call('TIME')
local now = math.floor((tonumber(parts[1]) * 1000000 + tonumber(parts[2])) / 1000)
local function str(n) return string.format('%.0f', n) end

local r = redis.call('HMGET', rest, 'state', 'until', 'probe', 'prober', 'failures', 'last')
if kind ~= 'neutral' and r[1] and r[6] == run then return {'already', r[1], r[2], r[3]} end
local probed = r[4] == run

for k = 3, 6 do
  if KEYS[k] ~= rest or kind == 'neutral' then
    if redis.call('HGET', KEYS[k], 'prober') == run then
      local probe = now + tonumber(ARGV[10])
      redis.call('HSET', KEYS[k], 'prober', '', 'prober_until', '0', 'probe', str(probe))
    end
  end
end
if kind == 'neutral' then return {'neutral'} end

-- Runs that fail together are one incident: only its first and a probe count.
local failures = tonumber(r[5] or '0')
if not r[1] or probed then failures = failures + 1 end
local till = now + math.min(first * 2 ^ math.min(math.max(failures, 1) - 1, 20), ceiling)
if delay > 0 then till = now + delay end
if named > now then till = named end
till = math.min(till, now + longest)
local state = kind == 'disable' and 'disabled' or 'cooling'
if r[1] == 'disabled' and not probed then state = 'disabled' end
if r[1] and not probed then till = math.max(till, tonumber(r[2] or '0')) end
local probe = math.min(till, now + ceiling)

redis.call('HSET', rest, 'state', state, 'until', str(till), 'probe', str(probe), 'class', class, 'failures', str(failures),
  'since', str(now), 'last', run, 'fingerprint', ARGV[11], 'credential', ARGV[12], 'changed', '')
if probed then redis.call('HSET', rest, 'prober', '', 'prober_until', '0') end
redis.call('SADD', rests, name)
if state == 'disabled' then redis.call('PERSIST', rest) else redis.call('PEXPIREAT', rest, str(till + 7 * 86400000)) end
return {'resting', state, str(till), str(probe)}
