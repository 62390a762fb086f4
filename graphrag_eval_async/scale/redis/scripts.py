"""Scripts that the Redis server runs atomically.

Lua does not roll back, so a script checks whether anything will be refused before it writes. For lack of
memory, the server refuses only the first write of a script, and only a command that may need memory, such as
XADD but not XACK. So the first write is such a command.
"""

COMMIT = """
-- Keeps the results and rejects of entries, then acknowledges these: all, or none if one is not pending.
-- KEYS: stream, results, rejects, parts, counts, answered questions.
-- ARGV: group, name of a part of the aggregates, the part, name of the last commit to it, name of this one,
--       most results to keep (0: all), then for each entry its id, its question (may be empty), why it was
--       rejected (empty: it was not), and its line.
-- Returns the ids that are not pending; 0 if the server has not the last commit, as after a crash.
if not redis.acl_check_cmd then return redis.error_reply('ERR needs Redis 7.0, Valkey 7.2, or later') end
for i, kind in ipairs({'stream', 'stream', 'stream', 'hash', 'hash', 'set'}) do
  local found = redis.call('TYPE', KEYS[i]).ok
  if found ~= 'none' and found ~= kind then
    return redis.error_reply('WRONGTYPE ' .. KEYS[i] .. ' is a ' .. found .. ', expected a ' .. kind)
  end
end
for _, one in ipairs({
  {'XADD', KEYS[2], '*', 'f', ''}, {'XADD', KEYS[3], '*', 'f', ''}, {'HSET', KEYS[4], 'f', ''},
  {'HSET', KEYS[5], 'f', ''}, {'HINCRBY', KEYS[5], 'f', '1'}, {'SADD', KEYS[6], ''},
  {'XTRIM', KEYS[2], 'MAXLEN', '1'}, {'XACK', KEYS[1], 'g', '0-1'},
}) do
  if not redis.acl_check_cmd(unpack(one)) then
    return redis.error_reply('NOPERM no permission for ' .. one[1] .. ' ' .. one[2])
  end
end
local last = 'commit:' .. ARGV[2]
local before = redis.call('HGET', KEYS[4], last) or ''
if ARGV[5] ~= '' and before == ARGV[5] then return {} end
if before ~= ARGV[4] then return 0 end
local gone, ids, results = {}, {}, 0
for i = 7, #ARGV, 4 do
  if #redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1) == 0 then gone[#gone + 1] = ARGV[i] end
end
if #gone > 0 then return gone end
for i = 7, #ARGV, 4 do
  local id, question, reason, line = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  ids[#ids + 1] = id
  if reason ~= '' then
    redis.call('XADD', KEYS[3], '*', 'entry', id, 'reject', line)
    redis.call('HINCRBY', KEYS[5], 'rejected:' .. reason, 1)
  else
    redis.call('XADD', KEYS[2], '*', 'entry', id, 'result', line)
    results = results + 1
  end
  if question ~= '' then redis.call('SADD', KEYS[6], question) end
end
redis.call('HSET', KEYS[4], ARGV[2], ARGV[3], last, ARGV[5])
redis.call('HINCRBY', KEYS[5], 'results', results)
if ARGV[6] ~= '0' then redis.call('XTRIM', KEYS[2], 'MAXLEN', '~', ARGV[6]) end
if #ids > 0 then redis.call('XACK', KEYS[1], ARGV[1], unpack(ids)) end
return {}
"""

CLAIM = """
-- Takes over entries that nobody has touched for a while; counts those of them that are gone from the stream.
-- KEYS: stream, counts. ARGV: group, consumer, milliseconds, number of entries.
-- Returns entries, each as id, fields, and how often it was delivered before; and how many are lost.
-- XAUTOCLAIM would also forget the deleted entries that are in work.
local taken, lost = {}, {}
for _, one in ipairs(redis.call('XPENDING', KEYS[1], ARGV[1], 'IDLE', ARGV[3], '-', '+', ARGV[4])) do
  if #redis.call('XRANGE', KEYS[1], one[1], one[1]) == 0 then
    lost[#lost + 1] = one[1]
  else
    local entry = redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, one[1])[1]
    taken[#taken + 1] = {entry[1], entry[2], one[4]}
  end
end
if #lost > 0 then
  redis.call('HINCRBY', KEYS[2], 'lost', #lost)
  redis.call('XACK', KEYS[1], ARGV[1], unpack(lost))
end
return {taken, #lost}
"""

KEEP = """
-- Says that entries are still in work or, with a new owner, leaves them to others.
-- KEYS: stream. ARGV: group, consumer, new owner or '', its idle milliseconds, ids.
-- Of an entry that was deleted nothing is said, since the server would forget that it is pending.
for i = 5, #ARGV do
  local id = ARGV[i]
  local one = redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1, ARGV[2])[1]
  if one and #redis.call('XRANGE', KEYS[1], id, id) == 1 then
    if ARGV[3] == '' then
      redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, id, 'JUSTID')
    else  -- As if it had not been delivered.
      redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[3], 0, id, 'IDLE', ARGV[4],
        'RETRYCOUNT', math.max(0, one[4] - 1), 'JUSTID')
    end
  end
end
"""
