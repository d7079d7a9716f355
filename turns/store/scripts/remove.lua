-- remove: deletes ended turns with all that belongs to them: retention and rm.
-- KEYS[1] ended    zset paired task or lone turn -> when its retention ends, ms
-- KEYS[2] thread   hash
-- KEYS[3] links    hash thread|turn|id -> child thread, of the root thread
-- KEYS[4] sweeps   zset turn -> when to sweep again, ms
-- KEYS[5..] the keys to delete
-- ARGV[1] member of the ended set, '' for none
-- ARGV[2] '1' when it must be due
-- ARGV[3] turn that must not be the thread's open one, '*' when the thread must have none, '' for none
-- ARGV[4] turn whose links and sweep are deleted too, '' for none
-- ARGV[5] '1' when the member stays, because more is to be deleted
-- Answers: {'removed'} | {'already'} (not to be retired any more) | {'moved'}
-- @include now
if ARGV[2] == '1' then
  local due = redis.call('ZSCORE', KEYS[1], ARGV[1])
  if not due then return {'already'} end
  if tonumber(due) > now then return {'moved'} end
end
if ARGV[3] ~= '' then
  local open = redis.call('HGET', KEYS[2], 'open')
  if open and open ~= '' and (ARGV[3] == '*' or open == ARGV[3]) then return {'moved'} end
end
if ARGV[4] ~= '' then
  for _, field in ipairs(redis.call('HKEYS', KEYS[3])) do
    if string.match(field, '^.-|(.-)|') == ARGV[4] then redis.call('HDEL', KEYS[3], field) end
  end
  redis.call('ZREM', KEYS[4], ARGV[4])
end
for i = 5, #KEYS do redis.call('UNLINK', KEYS[i]) end
if ARGV[1] ~= '' and ARGV[5] ~= '1' then redis.call('ZREM', KEYS[1], ARGV[1]) end
return {'removed'}
