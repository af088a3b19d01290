-- The changes and reads of a log. KEYS: its stream and its head; ARGV: a verb and its arguments.
-- A script that has begun to write does not fail, so each checks first, then writes.

local log, head = KEYS[1], KEYS[2]
local verb = ARGV[1]
local checkpoints = string.sub(log, 1, -4) .. 'checkpoint:' -- less "log", which the stream's key ends with

local function field(name)
    return redis.call('HGET', head, name)
end

-- What is missing is 0 where there is no log; "before" is there only once a checkpoint was saved.
local function number(name)
    local text = field(name)
    local value = tonumber(text or 0)
    local missing = not text and name ~= 'before' and field('epoch')
    if missing or not value or value ~= math.floor(value) or value < 0 or value > 253402300799999999 then
        error('DAMAGED: ' .. name .. ' of the head must be a number, got ' .. tostring(text))
    end
    return value
end

local function digits(value)
    return string.format('%.0f', value)
end

local function id(position)
    return digits(position) .. '-0'
end

local function position_of(entry)
    return tonumber(string.match(entry[1], '^%d+'))
end

local function checked(entry)
    if #entry[2] ~= 4 and #entry[2] ~= 6 then
        error('DAMAGED: entry ' .. entry[1] .. ' must have a time and a text')
    end
    return entry
end

local function digest_at(position)
    local entry = redis.call('XRANGE', log, id(position), id(position))[1]
    return entry and redis.sha1hex(checked(entry)[2][2] .. entry[2][4])
end

local function oldest()
    local first = redis.call('XRANGE', log, '-', '+', 'COUNT', 1)[1]
    return first and position_of(first) or number('position') + 1
end

local function append(epoch, known, digest)
    local position = number('position')
    local present = digest_at(known)
    if field('epoch') ~= epoch or tonumber(known) > position or (present and present ~= digest) then
        return redis.error_reply('LOST entries: position ' .. digits(position))
    end
    if position > 0 and tonumber(known) == position and not present then
        error('DAMAGED: entry ' .. known .. ' must be there, the newest one')
    end
    local time = redis.call('TIME')
    local at = digits(math.max(number('at_us'), time[1] * 1000000 + time[2]))
    -- The first one names the entry before it, so that a worker that is told of it need not read.
    local before = tonumber(known) == position and present or digest_at(position) or ''
    redis.call('XADD', log, id(position + 1), 't', at, 'e', ARGV[5], 'd', before)
    for index = 6, #ARGV do
        redis.call('XADD', log, id(position + index - 4), 't', at, 'e', ARGV[index])
    end
    redis.call('HSET', head, 'position', digits(position + #ARGV - 4), 'at_us', at)
    return {position + 1, at}
end

-- At most 2 000 entries or 8 MiB, in pieces: one XRANGE could return gigabytes.
local function read(after, known)
    local found = {field('epoch') or '', number('position'), oldest(), digest_at(known) or ''}
    local count, size = 0, 0
    local from = id(after + 1)
    while true do
        local entries = redis.call('XRANGE', log, from, '+', 'COUNT', 100)
        for _, entry in ipairs(entries) do
            size = size + #checked(entry)[2][4]
            count = count + 1
            if count > 2000 or size > 8388608 then
                return found
            end
            table.insert(found, position_of(entry))
            table.insert(found, entry[2][2])
            table.insert(found, entry[2][4])
        end
        if #entries < 100 then
            return found
        end
        from = id(position_of(entries[#entries]) + 1)
    end
end

local function is_saving(position, token)
    return field('saving') == position .. ' ' .. token
end

local function begin_save(position, token)
    local interrupted = field('saving')
    if interrupted then
        redis.call('UNLINK', checkpoints .. string.match(interrupted, '^%d+'))
    end
    redis.call('UNLINK', checkpoints .. digits(number('before')))
    redis.call('HSET', head, 'saving', position .. ' ' .. token, 'before', 0)
end

local function save_part(position, token, place, data)
    if not is_saving(position, token) or redis.call('LLEN', checkpoints .. position) ~= tonumber(place) then
        return redis.error_reply('OVERTAKEN by another save of a checkpoint')
    end
    redis.call('RPUSH', checkpoints .. position, data)
end

local function is_saved(position, token, parts)
    return is_saving(position, token) and redis.call('LLEN', checkpoints .. position) == tonumber(parts)
end

-- An empty log begins with a checkpoint and the entry at its position, which tells whether later ones were lost.
local function begin(position, token, parts, at, entry)
    if not is_saved(position, token, parts) or number('position') > 0 then
        return redis.error_reply('OVERTAKEN by another process: the log must be empty')
    end
    redis.call('XADD', log, id(position), 't', at, 'e', entry)
    redis.call('HSET', head, 'position', position, 'at_us', at, 'checkpoint', position)
    redis.call('HDEL', head, 'saving')
end

local function publish(position, token, parts)
    local before = number('checkpoint')
    if not is_saved(position, token, parts) or before >= tonumber(position) then
        return redis.error_reply('OVERTAKEN by another save of a checkpoint')
    end
    redis.call('HSET', head, 'checkpoint', position, 'before', digits(before))
    redis.call('HDEL', head, 'saving')
end

local function trim(last, slice)
    last = math.min(tonumber(last), number('position') - 1) -- the newest entry tells whether later ones were lost
    local upto = math.min(last, oldest() + slice - 1)
    redis.call('XTRIM', log, 'MINID', id(math.max(upto, 0) + 1))
    return upto < last and 1 or 0
end

if verb == 'read' or verb == 'end' or verb == 'open' or verb == 'part' or verb == 'before' then
    -- It changes nothing, but fails on a replica, whose state may be old. Not before a write: after a first one Redis
    -- lets a script go on without memory.
    redis.call('PERSIST', head)
end
if verb == 'append' then
    return append(ARGV[2], ARGV[3], ARGV[4])
elseif verb == 'read' then
    return read(ARGV[2], ARGV[3])
elseif verb == 'end' then
    return {field('epoch') or '', number('position'), digits(number('at_us')), number('level')}
elseif verb == 'open' then
    if redis.call('HSETNX', head, 'epoch', ARGV[2]) == 1 then
        redis.call('HSET', head, 'position', 0, 'at_us', 0, 'checkpoint', 0, 'level', 1)
    end
    return {field('epoch'), number('position'), digits(number('at_us')), oldest(), number('checkpoint')}
elseif verb == 'epoch' then
    if (field('epoch') or '') == ARGV[2] then
        redis.call('HSET', head, 'epoch', ARGV[3])
    end
    return field('epoch')
elseif verb == 'begin_save' then
    begin_save(ARGV[2], ARGV[3])
elseif verb == 'save_part' then
    return save_part(ARGV[2], ARGV[3], ARGV[4], ARGV[5])
elseif verb == 'publish' then
    return publish(ARGV[2], ARGV[3], ARGV[4])
elseif verb == 'begin' then
    return begin(ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6])
elseif verb == 'trim' then
    return trim(ARGV[2], ARGV[3])
elseif verb == 'before' then
    return number('before')
elseif verb == 'part' then
    return redis.call('LINDEX', checkpoints .. ARGV[2], ARGV[3])
end
