// What Redis does in one step. The keys of one environment:
//
//   <prefix>:features, <prefix>:segments   hashes, key → JSON; the vendor's
//   <prefix>:$inited                       "" once there is a whole data set; the vendor's
//   <prefix>:headgate:order                stream, id <place>-0: the order of digests; also the channel of its news, `<id> <digest>`
//   <prefix>:headgate:epoch                names this order: another one, or none, when Redis lost it
//   <prefix>:headgate:gate                 only within a transaction: it may write
//   <prefix>:headgate:state                hash: what the upstream said last, and when
//
// A transaction is MULTI, GATE, any number of PUT and SWEEP, APPEND or SHUT, EXEC: its size has no bound, no single step of
// it is long, and nothing comes between. GATE opens only when the order is as the writer knows it. Whatever fails shuts
// the gate, so that the order never names data that were not written.

/** KEYS order, epoch. ARGV place, count. The epoch, the newest place and its digest, and entries after `place`. */
export const LOOK = `
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
local from = string.format('%.0f-0', tonumber(ARGV[1]) + 1)
return {
  redis.call('GET', KEYS[2]) or '',
  newest and newest[1] or '0-0',
  newest and newest[2][2] or '',
  redis.call('XRANGE', KEYS[1], from, '+', 'COUNT', ARGV[2])
}`;

/** KEYS order, epoch, gate. ARGV epoch, id and digest of the newest entry. 1 when the gate is open. */
export const GATE = `
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
local isKnown = (newest and newest[1] or '0-0') == ARGV[2] and (newest and newest[2][2] or '') == ARGV[3]
if isKnown and (redis.call('GET', KEYS[2]) or '') == ARGV[1] then
  redis.call('SET', KEYS[3], '1')
  return 1
end
redis.call('DEL', KEYS[3])
return 0`;

/**
 * KEYS gate, hash. ARGV how, then key, version and text of each. 'newer' writes what is not below the version that is
 * there, 'higher' what is above it, 'all' everything. Nobody's upsert can come between the comparison and the write.
 */
export const PUT = `
if redis.call('GET', KEYS[1]) ~= '1' then return 0 end
local how, written = ARGV[1], 0
for i = 2, #ARGV, 3 do
  local version, text = tonumber(ARGV[i + 1]), ARGV[i + 2]
  local held = how ~= 'all' and redis.call('HGET', KEYS[2], ARGV[i])
  local write = not held
  if held and held ~= text then
    local readable, item = pcall(cjson.decode, held)
    local at = readable and type(item) == 'table' and tonumber(item.version) or -1
    write = version > at or (how == 'newer' and version == at)
  end
  if write then
    local done = redis.pcall('HSET', KEYS[2], ARGV[i], text)
    if type(done) == 'table' and done.err then
      redis.call('DEL', KEYS[1])
      return done
    end
    written = written + 1
  end
end
return written`;

/**
 * KEYS gate, hash. ARGV key, version and text of each: what still has the version is replaced by the text, or deleted when
 * that is empty. Without any, deletes the hash.
 */
export const SWEEP = `
if redis.call('GET', KEYS[1]) ~= '1' then return 0 end
if #ARGV == 0 then return redis.call('DEL', KEYS[2]) end
local swept = 0
for i = 1, #ARGV, 3 do
  local held = redis.call('HGET', KEYS[2], ARGV[i])
  local readable, item = pcall(cjson.decode, held or '')
  local at = readable and type(item) == 'table' and tonumber(item.version) or -1
  if held and at == tonumber(ARGV[i + 1]) then
    local text = ARGV[i + 2]
    local done = text == '' and redis.call('HDEL', KEYS[2], ARGV[i]) or redis.pcall('HSET', KEYS[2], ARGV[i], text)
    if type(done) == 'table' and done.err then
      redis.call('DEL', KEYS[1])
      return done
    end
    swept = swept + 1
  end
end
return swept`;

/**
 * KEYS gate, order, epoch, inited. ARGV epoch, id, digest, clock, digest before, reset, keys, length, whole. Begins the
 * order anew when its epoch is another one, and tells the others. 1 when it was appended.
 */
export const APPEND = `
if redis.call('GET', KEYS[1]) ~= '1' then return 0 end
redis.call('DEL', KEYS[1])
if redis.call('GET', KEYS[3]) ~= ARGV[1] then
  redis.call('DEL', KEYS[2])
  redis.call('SET', KEYS[3], ARGV[1])
end
redis.call('XADD', KEYS[2], 'MAXLEN', ARGV[8], ARGV[2],
  'digest', ARGV[3], 'clock', ARGV[4], 'before', ARGV[5], 'reset', ARGV[6], 'keys', ARGV[7])
if ARGV[9] == '1' then redis.call('SET', KEYS[4], '') end
redis.call('PUBLISH', KEYS[2], ARGV[2] .. ' ' .. ARGV[3])
return 1`;

/** KEYS gate. 1 when it was open. */
export const SHUT = `return redis.call('DEL', KEYS[1])`;

/** KEYS hash. ARGV cursor, count. The next cursor, then key, bytes, version (-1: unreadable) and deletion of some. */
export const SURVEY = `
local scanned = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local rows = { scanned[1] }
for i = 1, #scanned[2], 2 do
  local text = scanned[2][i + 1]
  local readable, item = pcall(cjson.decode, text)
  local isItem = readable and type(item) == 'table'
  rows[#rows + 1] = scanned[2][i]
  rows[#rows + 1] = #text
  rows[#rows + 1] = string.format('%.0f', isItem and tonumber(item.version) or -1)
  rows[#rows + 1] = isItem and item.deleted == true and 1 or 0
end
return rows`;

/** KEYS order, state. ARGV digest, state, Unix time in ms. Kept only beside the data that it was said of. */
export const SAY = `
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
if not newest or newest[2][2] ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[2])
redis.call('HSET', KEYS[2], 'digest', ARGV[1], 'savedMs', ARGV[3], 'state', ARGV[2])
return 1`;
