"""What the Redis server does for shared limits, as one step."""

KEPT_SECONDS = 7 * 24 * 3600
"""How long a budget is remembered after its last use."""

SCRIPT = """
-- KEYS: the hash of the rates, the hash of the budget.
-- ARGV: requests per minute, tokens per minute (0: no limit), budget in billionths of a dollar (-1: none),
--       the worker, all that it spent, tokens to charge, seconds to pause, seconds to keep the budget,
--       then the tokens of each request that waits.
-- Returns how many of them may be sent, seconds until the next may, seconds of a pause, and 1 if the budget
-- is spent.
local clock = redis.call('TIME')
local now = tonumber(clock[1]) + tonumber(clock[2]) / 1000000
local state = redis.call('HMGET', KEYS[1], 'at', 'requests', 'tokens', 'paused')
local at = tonumber(state[1] or now)
local rates = {tonumber(ARGV[1]) / 60, tonumber(ARGV[2]) / 60}
local full, level = {}, {}
for i = 1, 2 do
  -- A bucket holds one second's worth.
  full[i] = math.max(1, rates[i])
  level[i] = math.min(full[i], tonumber(state[i + 1] or full[i]) + math.max(0, now - at) * rates[i])
end
level[2] = level[2] - tonumber(ARGV[6])
local paused = math.max(tonumber(state[4] or 0), now + tonumber(ARGV[7]))

local spent = 0
local budget = tonumber(ARGV[3])
if budget >= 0 then
  -- A worker tells all that it spent: told twice it counts once, and what a server forgot is told again.
  local more = tonumber(ARGV[5]) - tonumber(redis.call('HGET', KEYS[2], ARGV[4]) or 0)
  if more > 0 then
    redis.call('HSET', KEYS[2], ARGV[4], ARGV[5])
    redis.call('HINCRBY', KEYS[2], 'total', string.format('%.0f', more))
  end
  if tonumber(redis.call('HGET', KEYS[2], 'total') or 0) >= budget then spent = 1 end
  redis.call('EXPIRE', KEYS[2], ARGV[8])
end

local granted, wait = 0, math.max(0, paused - now)
if spent == 0 and wait == 0 then
  for i = 9, #ARGV do
    local wanted = {1, tonumber(ARGV[i])}
    for j = 1, 2 do
      if rates[j] > 0 then
        wait = math.max(wait, (math.min(wanted[j], full[j]) - level[j] - 1e-6) / rates[j])
      end
    end
    if wait > 0 then break end
    for j = 1, 2 do level[j] = level[j] - wanted[j] end
    granted = granted + 1
  end
end

local keep = 3600 + math.max(0, paused - now)
for i = 1, 2 do
  if rates[i] <= 0 then level[i] = full[i] else keep = keep + math.max(0, -level[i] / rates[i]) end
end
local function text(number) return string.format('%.17g', number) end
redis.call('HSET', KEYS[1], 'at', text(math.max(at, now)), 'requests', text(level[1]),
  'tokens', text(level[2]), 'paused', text(paused))
redis.call('EXPIRE', KEYS[1], string.format('%.0f', math.min(keep, 1e9)))
return {granted, text(wait), text(math.max(0, paused - now)), spent}
"""
