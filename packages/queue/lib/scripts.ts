/**
 * What happens atomically in Redis: the claims of hosts for attempts, their leases, and requests to cancel.
 *
 * An attempt belongs to the host in `claim:<id>:<attempt>`, which is written before its process starts. No other host
 * starts it, whatever BullMQ's lock says: a lock ends with a stalled event loop, the process does not. The lock follows
 * the claim instead: whichever worker BullMQ gives the job, it passes the lock on to the worker of the host.
 *
 *   claim:<id>:<n>   hash: uid, host, state (claimed, started, ended, lost), result, again; expires after the end
 *   claims:<host>    set of <id>:<n> that have not ended
 *   hosts            sorted set: the end of each host's lease, by Redis's clock
 *   host:<host>      hash: worker (the process that holds the host)
 *   cancel:<id>      <uid>:<grace time>; outlives a host that is down
 *   epoch            hash: run (of the Redis server), last, hold, spare, noted
 *   inbox:<host>     list of requests; only hints, so they may be lost
 *
 * `uid` tells additions of one id apart: after a job was removed, its id may be added again, and runs again. Not so after
 * Redis has lost the claim (`again`): then the job was most likely added again because it was lost, too.
 *
 * Redis may lose its last writes in a restart, and with them a claim whose process runs. So after a restart, which a new
 * run id shows, no host gets a new claim until `hold`, one lease later: by then each living host has claimed again what
 * it runs. `spare` is the same for leases, which run out while Redis is down or stopped: until then no host is lost.
 */

/** Seconds that Redis keeps what is about a host that is gone: requests to cancel, lost claims and the host itself. */
const KEPT = 30 * 86_400
/** Requests that may wait for a host. */
const MOST_REQUESTS = 10_000

const HEAD = `
local base, bull = KEYS[1], KEYS[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function claimKey(id, attempt) return base .. 'claim:' .. id .. ':' .. attempt end
local function request(host, message)
  local inbox = base .. 'inbox:' .. host
  redis.call('RPUSH', inbox, message)
  redis.call('LTRIM', inbox, -${MOST_REQUESTS}, -1)
  redis.call('EXPIRE', inbox, 86400)
end
local function epoch(lease, seen)
  local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
  local key = base .. 'epoch'
  local known, last, hold, spare, noted = unpack(redis.call('HMGET', key, 'run', 'last', 'hold', 'spare', 'noted'))
  hold, spare = tonumber(hold or 0), tonumber(spare or 0)
  if (known and known ~= run) or (seen ~= '' and seen ~= run and noted ~= run) then
    hold, spare, noted = now + lease, now + lease, run
  elseif last and now - tonumber(last) > lease / 2 then
    spare = now + lease
  end
  redis.call('HSET', key, 'run', run, 'last', now, 'hold', hold, 'spare', spare, 'noted', noted or '')
  return run, hold, spare
end
`

/**
 * ARGV: host, worker, lease, seen, force. Takes the host over from its former worker, and reports that worker and the
 * end of its lease instead while that has not run out; an empty worker has closed.
 */
const register = `${HEAD}
local host, worker, lease, seen, force = unpack(ARGV)
local run = epoch(tonumber(lease), seen)
local former = redis.call('HGET', base .. 'host:' .. host, 'worker')
local expiry = tonumber(redis.call('ZSCORE', base .. 'hosts', host) or 0)
if former and former ~= '' and former ~= worker and expiry > now and former ~= force then
  return {'held', former, tostring(expiry)}
end
redis.call('ZADD', base .. 'hosts', now + lease, host)
redis.call('HSET', base .. 'host:' .. host, 'worker', worker)
return {'ok', run}
`

/** ARGV: host, worker, lease, seen. Renews the lease, and reports whether it had run out or was lost. */
const beat = `${HEAD}
local host, worker, lease, seen = unpack(ARGV)
local run = epoch(tonumber(lease), seen)
local holder = redis.call('HGET', base .. 'host:' .. host, 'worker')
if holder and holder ~= worker then return {'superseded', run} end
local expiry = tonumber(redis.call('ZSCORE', base .. 'hosts', host) or 0)
redis.call('ZADD', base .. 'hosts', now + lease, host)
redis.call('HSET', base .. 'host:' .. host, 'worker', worker)
redis.call('EXPIRE', base .. 'host:' .. host, ${KEPT})
redis.call('EXPIRE', base .. 'claims:' .. host, ${KEPT})
redis.call('ZREMRANGEBYSCORE', base .. 'hosts', '-inf', now - ${KEPT} * 1000)
return {expiry < now and 'lapsed' or 'ok', run}
`

/** ARGV: host, worker, absence. The worker closes; the next one need not wait for it. */
const release = `${HEAD}
local host, worker, absence = unpack(ARGV)
if redis.call('HGET', base .. 'host:' .. host, 'worker') ~= worker then return 0 end
redis.call('HSET', base .. 'host:' .. host, 'worker', '')
redis.call('ZADD', base .. 'hosts', now + absence, host)
return 1
`

/**
 * ARGV: host, worker, lease, seen, id, attempt, uid, token, duration of the lock. Decides who runs an attempt that BullMQ
 * has given to this host.
 */
const claim = `${HEAD}
local host, worker, lease, seen, id, attempt, uid, token, duration = unpack(ARGV)
lease = tonumber(lease)
local run, hold, spare = epoch(lease, seen)
local lock = bull .. id .. ':lock'
local held = redis.call('GET', lock)
if held ~= token and held ~= 'nacre:' .. host .. ':' .. attempt then return {'stale'} end
if redis.call('HGET', base .. 'host:' .. host, 'worker') ~= worker
  or tonumber(redis.call('ZSCORE', base .. 'hosts', host) or 0) < now then return {'unregistered'} end
local key = claimKey(id, attempt)
local owner, state, known, result, again = unpack(redis.call('HMGET', key, 'host', 'state', 'uid', 'result', 'again'))
if owner and known ~= uid and not again and (state == 'ended' or state == 'lost') then owner = false end
local function own(kind)
  redis.call('SET', lock, 'nacre:' .. host .. ':' .. attempt, 'PX', duration)
  return {kind, state or 'claimed', known or uid}
end
if not owner then
  local cancel = redis.call('GET', base .. 'cancel:' .. id)
  if cancel and string.sub(cancel, 1, #uid + 1) == uid .. ':' then return {'cancelled'} end
  if now < hold then return {'hold', tostring(hold - now)} end
  state, known = 'claimed', uid
  redis.call('DEL', key)
  redis.call('HSET', key, 'uid', uid, 'host', host, 'state', state)
  redis.call('SADD', base .. 'claims:' .. host, id .. ':' .. attempt)
  return own('new')
end
if state == 'ended' then
  if result then return {'ended', result} end
elseif state == 'lost' then return {'lost', owner} end
if owner == host then return own('own') end
local expiry = tonumber(redis.call('ZSCORE', base .. 'hosts', owner) or 0)
if expiry < now and now >= spare then
  redis.call('HSET', key, 'state', 'lost')
  redis.call('EXPIRE', key, ${KEPT})
  return {'lost', owner}
end
redis.call('SET', lock, 'nacre:' .. owner .. ':' .. attempt, 'PX', duration)
request(owner, cjson.encode({op = 'take', id = id, attempt = tonumber(attempt), uid = known, state = state}))
return {'handed', owner}
`

/**
 * ARGV: host, id, attempt, uid. Its process runs. Returns the grace time of a request to cancel: one that came between the
 * claim and the start was not for any process.
 */
const started = `${HEAD}
local host, id, attempt, uid = unpack(ARGV)
local key = claimKey(id, attempt)
local owner, state, known = unpack(redis.call('HMGET', key, 'host', 'state', 'uid'))
if owner == host and known == uid and state == 'claimed' then redis.call('HSET', key, 'state', 'started') end
local cancel = redis.call('GET', base .. 'cancel:' .. id)
if cancel and string.sub(cancel, 1, #uid + 1) == uid .. ':' then return string.sub(cancel, #uid + 2) end
return nil
`

/**
 * ARGV: host, id, attempt, uid, result, retention. Records how an attempt ended. 'finish': this host holds BullMQ's lock.
 * 'later': the next worker that gets the job finds the result. 'foreign': the attempt was given up.
 */
const settle = `${HEAD}
local host, id, attempt, uid, result, retention = unpack(ARGV)
local key = claimKey(id, attempt)
local owner, state, known = unpack(redis.call('HMGET', key, 'host', 'state', 'uid'))
redis.call('SREM', base .. 'claims:' .. host, id .. ':' .. attempt)
if owner and (owner ~= host or known ~= uid or state == 'lost') then return 'foreign' end
if not owner then redis.call('HSET', key, 'again', '1') end
redis.call('HSET', key, 'uid', uid, 'host', host, 'state', 'ended', 'result', result)
redis.call('PEXPIRE', key, retention)
if redis.call('GET', bull .. id .. ':lock') ~= 'nacre:' .. host .. ':' .. attempt then return 'later' end
return 'finish'
`

/** ARGV: id, token, result. BullMQ stores the result of completed jobs only; this stores that of a failed attempt. */
const remember = `${HEAD}
local id, token, result = unpack(ARGV)
if redis.call('GET', bull .. id .. ':lock') ~= token then return 0 end
redis.call('HSET', bull .. id, 'returnvalue', result)
return 1
`

/**
 * ARGV: host, retention, then for each attempt: id, attempt, uid, 'running' or 'ended'. Claims again what this host has,
 * where Redis has lost it. For each: 'own', 'ended' (recorded), 'foreign', or 'cancel:<grace time>'.
 */
const reclaim = `${HEAD}
local host, retention = ARGV[1], ARGV[2]
local answers = {}
for i = 3, #ARGV, 4 do
  local id, attempt, uid, is = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local key = claimKey(id, attempt)
  local owner, state, known = unpack(redis.call('HMGET', key, 'host', 'state', 'uid'))
  local answer = 'own'
  if not owner then
    redis.call('HSET', key, 'uid', uid, 'host', host, 'state', 'started', 'again', '1')
    if is == 'ended' then redis.call('PEXPIRE', key, retention) end
  elseif owner ~= host or known ~= uid or state == 'lost' then answer = 'foreign'
  elseif state == 'ended' then answer = 'ended' end
  if answer == 'own' and is == 'running' then
    redis.call('SADD', base .. 'claims:' .. host, id .. ':' .. attempt)
    local cancel = redis.call('GET', base .. 'cancel:' .. id)
    if cancel and string.sub(cancel, 1, #uid + 1) == uid .. ':' then
      answer = 'cancel:' .. string.sub(cancel, #uid + 2)
    end
  end
  answers[#answers + 1] = answer
end
return answers
`

/** ARGV: host. The claims of this host that have not ended: id, attempt, state and uid of each. */
const claims = `${HEAD}
local host = ARGV[1]
local found = {}
for _, member in ipairs(redis.call('SMEMBERS', base .. 'claims:' .. host)) do
  local id, attempt = string.match(member, '^(.*):(%d+)$')
  local owner, state, uid = unpack(redis.call('HMGET', claimKey(id, attempt), 'host', 'state', 'uid'))
  if owner == host and (state == 'claimed' or state == 'started') then
    for _, value in ipairs({id, attempt, state, uid}) do found[#found + 1] = value end
  else
    redis.call('SREM', base .. 'claims:' .. host, member)
  end
end
return found
`

/**
 * ARGV: id, grace time. Records a request to cancel: 'missing', 'removed' by an earlier request, 'finished', or 'requested'
 * and the host of the job, which is asked.
 */
const cancel = `${HEAD}
local id, grace = unpack(ARGV)
local data, finished, made = unpack(redis.call('HMGET', bull .. id, 'data', 'finishedOn', 'atm'))
if not data then return {redis.call('EXISTS', base .. 'cancel:' .. id) == 1 and 'removed' or 'missing'} end
if finished then return {'finished'} end
local isJson, decoded = pcall(cjson.decode, data)
local uid = isJson and type(decoded) == 'table' and decoded.uid
if type(uid) ~= 'string' then return {'missing'} end
redis.call('SET', base .. 'cancel:' .. id, uid .. ':' .. grace, 'EX', ${KEPT})
local attempt = tonumber(made or 0) + 1
local owner, state = unpack(redis.call('HMGET', claimKey(id, attempt), 'host', 'state'))
if not owner or state == 'ended' or state == 'lost' then return {'requested', ''} end
request(owner, cjson.encode({op = 'cancel', id = id, attempt = attempt, grace = grace}))
return {'requested', owner}
`

/** ARGV: id, attempt. Where an attempt is: host, state, result, whether its lease has run out, whether it is lost. */
const find = `${HEAD}
local id, attempt = unpack(ARGV)
local owner, state, result = unpack(redis.call('HMGET', claimKey(id, attempt), 'host', 'state', 'result'))
if not owner then return {} end
local expiry = tonumber(redis.call('ZSCORE', base .. 'hosts', owner) or 0)
local spare = tonumber(redis.call('HGET', base .. 'epoch', 'spare') or 0)
return {owner, state, result or '', (expiry < now and now >= spare) and '1' or '0'}
`

/** ARGV: host, message. Leaves a request for a host. */
const ask = `${HEAD}
request(ARGV[1], ARGV[2])
return 0
`

export const SCRIPTS = {
  register,
  beat,
  release,
  claim,
  started,
  settle,
  remember,
  reclaim,
  claims,
  cancel,
  find,
  ask,
}
export type ScriptName = keyof typeof SCRIPTS
