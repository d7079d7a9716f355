-- free_hold clears the thread's hold if it carries this fence.
local function free_hold(thread, fence)
  if redis.call('HGET', thread, 'hold') == fence then
    redis.call('HSET', thread, 'hold', '0', 'hold_until', '0')
  end
end
