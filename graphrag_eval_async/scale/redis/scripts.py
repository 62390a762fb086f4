"""Scripts that the Redis server runs atomically.

Lua does not roll back, so a script checks whether anything will be refused before it writes. For lack of
memory, the server refuses only the first write of a script, and only a command that may need memory, such as
XADD but not XACK. So the first write is such a command.
"""

CHECKS = """
-- Returns why a key has the wrong type, or a command is not allowed. It precedes every script.
local function refused(kinds, commands)
  if not redis.acl_check_cmd then return 'ERR needs Redis 7.0, Valkey 7.2, or later' end
  for i, key in ipairs(KEYS) do
    local kind = redis.call('TYPE', key).ok
    if kind ~= 'none' and kind ~= kinds[i] then
      return 'WRONGTYPE ' .. key .. ' is a ' .. kind .. ', expected a ' .. kinds[i]
    end
  end
  for _, one in ipairs(commands) do
    if not redis.acl_check_cmd(unpack(one)) then
      return 'NOPERM no permission for ' .. one[1] .. ' ' .. one[2]
    end
  end
end

-- The same for KEYS: stream, results, rejects, changes, counts, answered questions, a consumer's last commit.
local function refused_commit()
  return refused({'stream', 'stream', 'stream', 'list', 'hash', 'set', 'string'}, {
    {'XADD', KEYS[2], '*', 'f', ''}, {'XADD', KEYS[3], '*', 'f', ''}, {'RPUSH', KEYS[4], ''},
    {'HINCRBY', KEYS[5], 'f', '1'}, {'HSET', KEYS[5], 'f', ''}, {'SADD', KEYS[6], ''},
    {'SET', KEYS[7], ''}, {'XTRIM', KEYS[2], 'MAXLEN', '1'}, {'XACK', KEYS[1], 'g', '0-1'},
  })
end
"""

BEGIN = """
-- Makes a group unless it exists; begins it under conditions, or returns those under which it began.
-- KEYS: see `refused_commit`. ARGV: group, conditions, empty aggregates, 1 to replace the conditions.
local problem = refused_commit()
if problem then return redis.error_reply(problem) end
local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0', 'MKSTREAM')
if not made.err then
  -- Since it begins with the first entry, those that are not done are lost.
  redis.call('HSET', KEYS[5], 'begun', '0')
elseif not string.find(made.err, 'BUSYGROUP') then
  return made
end
local before = redis.call('HGET', KEYS[5], 'conditions')
if not before then redis.call('RPUSH', KEYS[4], ARGV[3]) end
if not before or ARGV[4] == '1' then redis.call('HSET', KEYS[5], 'conditions', ARGV[2]) end
return redis.call('HGET', KEYS[5], 'conditions')
"""

CLAIM = """
-- Takes over entries that nobody has touched for a while; counts those that are gone from the stream.
-- KEYS: stream, counts. ARGV: group, consumer, milliseconds, number of entries.
-- Returns entries, each as id, fields, and how often it was delivered before; and how many are lost.
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
  local commands = {{'HINCRBY', KEYS[2], 'f', '1'}, {'XACK', KEYS[1], 'g', '0-1'}}
  local problem = refused({'stream', 'hash'}, commands)
  if problem then return redis.error_reply(problem) end
  redis.call('HINCRBY', KEYS[2], 'lost', #lost)
  redis.call('XACK', KEYS[1], ARGV[1], unpack(lost))
end
return {taken, #lost}
"""

REFRESH = """
-- Says that entries are in work. KEYS: stream. ARGV: group, consumer, ids.
-- Of an entry that was deleted nothing is said, since the server would forget that it is pending.
for i = 3, #ARGV do
  local id = ARGV[i]
  if #redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1, ARGV[2]) == 1
      and #redis.call('XRANGE', KEYS[1], id, id) == 1 then
    redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, id, 'JUSTID')
  end
end
"""

RELEASE = """
-- Leaves the entries of a consumer to others, as if they had not been delivered, and forgets the consumer.
-- KEYS: stream. ARGV: group, consumer, name that keeps them, milliseconds.
for _, one in ipairs(redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1000000, ARGV[2])) do
  if #redis.call('XRANGE', KEYS[1], one[1], one[1]) == 1 then
    redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[3], 0, one[1], 'IDLE', ARGV[4],
      'RETRYCOUNT', math.max(0, one[4] - 1), 'JUSTID')
  end
end
if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2]) == 0 then
  redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
end
"""

COMMIT = """
-- Keeps the results and rejects of entries, then acknowledges these: all, or none if one is not pending.
-- KEYS: see `refused_commit`.
-- ARGV: group, name of this commit, seconds to remember it, change of the aggregates, most results to keep
--       (0: all), then for each entry its id, its question (may be empty), why it was rejected (empty: it was
--       not), and its line.
-- Returns the number of changes (0 if there is no new one), or the ids that are not pending.
if redis.call('GET', KEYS[7]) == ARGV[2] then return 0 end
local problem = refused_commit()
if problem then return redis.error_reply(problem) end
local gone, ids, results, changes = {}, {}, 0, 0
for i = 6, #ARGV, 4 do
  if #redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1) == 0 then gone[#gone + 1] = ARGV[i] end
end
if #gone > 0 then return gone end
for i = 6, #ARGV, 4 do
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
if results > 0 then
  redis.call('HINCRBY', KEYS[5], 'results', results)
  changes = redis.call('RPUSH', KEYS[4], ARGV[4])
  if ARGV[5] ~= '0' then redis.call('XTRIM', KEYS[2], 'MAXLEN', '~', ARGV[5]) end
end
redis.call('SET', KEYS[7], ARGV[2], 'EX', ARGV[3])
redis.call('XACK', KEYS[1], ARGV[1], unpack(ids))
return changes
"""

MERGE = """
-- Replaces the first changes of a level by one of the next level, unless somebody else did.
-- KEYS: counts, changes, changes of the next level. ARGV: name of the level, what its number was,
--       number of changes, all of them as one.
local problem = refused({'hash', 'list', 'list'}, {
  {'HINCRBY', KEYS[1], 'f', '1'}, {'LTRIM', KEYS[2], '0', '1'}, {'RPUSH', KEYS[3], ''},
})
if problem then return redis.error_reply(problem) end
if (redis.call('HGET', KEYS[1], ARGV[1]) or '0') ~= ARGV[2] then return -1 end
redis.call('RPUSH', KEYS[3], ARGV[4])
redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
redis.call('LTRIM', KEYS[2], ARGV[3], -1)
return redis.call('LLEN', KEYS[3])
"""

STATE = """
-- Returns the counts, the last id of the results, and all changes of the aggregates, as of one moment.
-- KEYS: results, counts, changes of each level.
local last = '0-0'
if redis.call('EXISTS', KEYS[1]) == 1 then
  local about = redis.call('XINFO', 'STREAM', KEYS[1])
  for i = 1, #about, 2 do
    if about[i] == 'last-generated-id' then last = about[i + 1] end
  end
end
local changes = {}
for level = 3, #KEYS do
  for _, change in ipairs(redis.call('LRANGE', KEYS[level], 0, -1)) do changes[#changes + 1] = change end
end
return {redis.call('HGETALL', KEYS[2]), last, changes}
"""

LOOK = """
-- Returns the counts, and what the server knows of the stream, of its groups and of the workers of one.
-- KEYS: counts, stream. ARGV: group.
local counts = redis.call('HGETALL', KEYS[1])
if redis.call('EXISTS', KEYS[2]) == 0 then return {counts, {}, {}, {}} end
local groups, workers = redis.call('XINFO', 'GROUPS', KEYS[2]), {}
for _, group in ipairs(groups) do
  if group[2] == ARGV[1] then workers = redis.call('XINFO', 'CONSUMERS', KEYS[2], ARGV[1]) end
end
return {counts, redis.call('XINFO', 'STREAM', KEYS[2]), groups, workers}
"""
