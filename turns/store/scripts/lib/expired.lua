-- expired answers nil when the attempt's lease has run out and may be called so:
-- 'alive' while it lasts, 'amnesty' while no run of the shard may be called lost. A
-- lease entry that somebody removed says nothing; the run's hold lasts as long.
local function expired(id, fence, leases, thread, clock)
  local till = redis.call('ZSCORE', leases, id)
  if not till then
    local h = redis.call('HMGET', thread, 'hold', 'hold_until')
    if h[1] == fence then till = h[2] end
  end
  if till and tonumber(till) > now then return 'alive' end
  if tonumber(redis.call('HGET', clock, 'amnesty') or '0') > now then return 'amnesty' end
  return nil
end
