-- close_items closes what a run or a turn left open, by kind.
--   keys: items (hash thread|id -> item), links (hash thread|turn|id -> child thread),
--         done (list of closed items), live (hash child thread -> open turn)
--   turn: the turn whose items are closed; attempt: '' for all of the turn's items,
--         else only those that this attempt opened
--   kinds: the state that each kind becomes; follow: whether child threads are followed
--   budget: how many items may be closed now
-- It answers the number closed and whether something was left for a sweep. What
-- can't be read is left: it must not stop the end of a turn.
local function close_items(keys, turn, attempt, kinds, follow, budget)
  local open = redis.pcall('HGETALL', keys.items)
  if open.err then return 0, follow end
  if #open == 0 then return 0, false end
  local links, live = redis.pcall('HGETALL', keys.links), redis.pcall('HGETALL', keys.live)
  if links.err or live.err then return 0, follow end
  local own = string.match(turn, '^(.*)/')

  local rows, unreadable = {}, {}
  for i = 1, #open, 2 do
    local thread = string.match(open[i], '^(.-)|') or ''
    local ok, item = pcall(cjson.decode, open[i + 1])
    if ok and type(item) == 'table' then
      local theirs = type(item.attempt) == 'string' and item.attempt or ''
      local mine = theirs == attempt
      if attempt == '' then
        mine = item.turn == turn or ((item.turn or '') == '' and string.match(theirs, '^(.*)%.') == turn)
      end
      rows[#rows + 1] = {field = open[i], item = item, thread = thread, mine = mine}
    else
      unreadable[thread] = true
    end
  end

  -- Every sub-agent link of the turn is followed, also links already final; then the
  -- links of the threads reached, each thread once. A child with an open turn of its
  -- own keeps everything, and so does all below it.
  local below, starts, strays, busy = {}, {}, {}, {}
  for i = 1, #live, 2 do busy[live[i]] = true end
  for i = 1, #links, 2 do
    local thread, owner = string.match(links[i], '^(.-)|(.-)|')
    if thread == own then
      if owner == turn then starts[#starts + 1] = links[i + 1] end
    elseif thread then
      below[thread] = below[thread] or {}
      table.insert(below[thread], links[i + 1])
      if owner == turn then strays[#strays + 1] = links[i + 1] end
    end
  end
  local native, kept, seen = {}, {}, {[own] = true, [string.match(own, '^[^~]*')] = true}
  local function walk(queue)
    local keeps = {}
    local head = 1
    while queue[head] do
      local child = queue[head]
      head = head + 1
      if not seen[child] then
        seen[child] = true
        if busy[child] then
          keeps[#keeps + 1] = child
        else
          native[child] = true
          for _, grandchild in ipairs(below[child] or {}) do queue[#queue + 1] = grandchild end
        end
      end
    end
    head = 1
    while keeps[head] do
      local child = keeps[head]
      head = head + 1
      if not native[child] and not kept[child] and (not seen[child] or busy[child]) then
        kept[child], seen[child] = true, true
        for _, grandchild in ipairs(below[child] or {}) do keeps[#keeps + 1] = grandchild end
      end
    end
  end
  walk(starts)
  walk(strays)

  local victims, left = {}, follow and unreadable[own] or false
  for _, row in ipairs(rows) do
    if row.thread == own then
      if row.mine then victims[#victims + 1] = row end
    elseif follow and native[row.thread] or row.mine and not kept[row.thread] and not busy[row.thread] then
      victims[#victims + 1] = row
    end
  end
  for child in pairs(native) do
    if follow and unreadable[child] then left = true end
  end

  local stored = redis.pcall('LLEN', keys.done)
  if type(stored) == 'table' then return 0, follow end
  local closed = math.min(#victims, budget)
  local ended = str(now)
  for first = 1, closed, 500 do
    local fields, texts = {}, {}
    for i = first, math.min(first + 499, closed) do
      local item = victims[i].item
      item.state, item.ended = kinds[item.kind] or 'failed', ended
      fields[#fields + 1] = victims[i].field
      if stored + i <= 4000 then texts[#texts + 1] = cjson.encode(item) end
    end
    redis.call('HDEL', keys.items, unpack(fields))
    if #texts > 0 then redis.call('RPUSH', keys.done, unpack(texts)) end
  end
  return closed, left or closed < #victims
end
