-- pick: chooses the login that rested longest among the usable ones, else lets one run probe a resting one.
-- KEYS[1]       used   zset login -> last choice, µs
-- KEYS[2 + 4i]  rest   hash, four for each login: credential, model, organisation, host; may repeat
-- ARGV[1] 'pick', 'peek' to change nothing, or 'ahead' to choose only while nothing rests
-- ARGV[2] run id; a repeat of the run that probes gets its login again
-- ARGV[3] how long a probe keeps others away, ms
-- ARGV[4] when to look again when all logins are disabled, ms from now
-- ARGV[5 + 2i] login's id
-- ARGV[6 + 2i] its fingerprint, '' for unknown
-- Answers: {'picked', id, 'probe'|'', now ms} | {'rests'} | {'none', 'cooldown'|'needs_login', until ms, now ms}
local used, mode, run, bound, look = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local parts = redis.call('TIME')
local micros = tonumber(parts[1]) * 1000000 + tonumber(parts[2])
local now = math.floor(micros / 1000)
local function str(n) return string.format('%.0f', n) end
local rests = false

-- Why a login can't be taken now: until when, or dead; what taking it would probe, and whether that is early.
local function standing(first, fingerprint)
  local s = {till = 0, dead = false, due = {}, early = false, mine = false}
  -- Nearly always nothing rests: one look instead of four.
  if redis.call('EXISTS', KEYS[first], KEYS[first + 1], KEYS[first + 2], KEYS[first + 3]) == 0 then return s end
  rests = true
  for k = first, first + 3 do
    local r = redis.call('HMGET', KEYS[k], 'state', 'until', 'probe', 'fingerprint', 'prober', 'prober_until')
    if r[1] then
      -- A login of no organisation stands for one, with the same key.
      local own = KEYS[k] == KEYS[first] or KEYS[k] == KEYS[first + 1]
      local changed = own and fingerprint ~= '' and r[4] and r[4] ~= '' and r[4] ~= fingerprint
      local busy = r[5] and r[5] ~= '' and tonumber(r[6] or '0') > now
      if busy and r[5] == run then
        s.mine = true
        table.insert(s.due, KEYS[k])
      elseif busy then
        s.till = math.max(s.till, tonumber(r[6]))
      elseif changed then
        table.insert(s.due, KEYS[k])
      elseif r[1] == 'disabled' then
        s.dead = true
      elseif tonumber(r[3] or '0') > now then
        s.till = math.max(s.till, tonumber(r[3]))
      else
        s.early = s.early or tonumber(r[2] or '0') > now
        table.insert(s.due, KEYS[k])
      end
    end
  end
  return s
end

-- A probe of one's own comes first, then whatever is usable or past its time, an early probe last.
local best, best_rank, best_used, soonest
for i = 0, (#ARGV - 4) / 2 - 1 do
  local id, fingerprint = ARGV[5 + 2 * i], ARGV[6 + 2 * i]
  local s = standing(2 + 4 * i, fingerprint)
  if s.dead then
    -- waits for a person
  elseif s.till > now then
    if not soonest or s.till < soonest then soonest = s.till end
  else
    local rank = 2
    if s.mine then rank = 1 elseif s.early then rank = 3 end
    local last = tonumber(redis.call('ZSCORE', used, id) or '0')
    if not best or rank < best_rank or (rank == best_rank and last < best_used) then
      best, best_rank, best_used = {id = id, due = s.due}, rank, last
    end
  end
end

if mode == 'ahead' and rests then return {'rests'} end
if not best then
  if soonest then return {'none', 'cooldown', str(soonest), str(now)} end
  return {'none', 'needs_login', str(now + look), str(now)}
end
if mode ~= 'peek' then
  for _, key in ipairs(best.due) do
    redis.call('HSET', key, 'prober', run, 'prober_until', str(now + bound))
  end
  redis.call('ZADD', used, str(micros), best.id)
end
return {'picked', best.id, #best.due > 0 and 'probe' or '', str(now)}
