-- Two requests after one another on the one connection of a thread, each pair with a name of its own.
-- Arguments: the exchange, and a stamp that no other run has.

local threads = 0
local json = { ["Content-Type"] = "application/json" }

local exchanges = {
    ["submit, complete"] = function(name)
        return wrk.format("POST", "/v1/operations", json, '{"keys": ["' .. name .. '"], "id": "' .. name .. '"}'),
            wrk.format("POST", "/v1/operations/" .. name .. "/complete", json, '{"result": "done"}')
    end,
    ["signal, read"] = function(name)
        return wrk.format("POST", "/v1/keys/" .. name .. "/signal", json, '{"value": "done"}'),
            wrk.format("GET", "/v1/keys/" .. name .. "?index=0&wait=30s")
    end,
    ["publish, subscribe"] = function(name)
        return wrk.format("POST", "/pub/" .. name, json, "done"), wrk.format("GET", "/sub/" .. name)
    end,
}

function setup(thread)
    threads = threads + 1
    thread:set("number", threads)
end

function init(arguments)
    exchange, stamp, turn = exchanges[arguments[1]], arguments[2], 0
    verified = number > 1 -- of the first thread wrk asks for a request that it only looks at
end

function request()
    if not verified then
        verified = true
        return wrk.format("GET", "/")
    end
    local now = second
    if now then
        second = nil
        return now
    end
    turn = turn + 1
    now, second = exchange(stamp .. "-" .. number .. "-" .. turn)
    return now
end

function done(summary, latency)
    local errors = summary.errors
    local failed = errors.connect + errors.read + errors.write + errors.timeout
    io.write(string.format(
        '\n{"requests": %d, "duration_us": %d, "p50_us": %d, "p99_us": %d, "refused": %d, "failed": %d}\n',
        summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), errors.status, failed
    ))
end
