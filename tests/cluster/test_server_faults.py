"""What a log on a server keeps when connections are killed, the server stops, or loses what it had answered."""

import asyncio
import signal
import subprocess
import sys
from contextlib import aclosing, asynccontextmanager

import pytest

from purgatory_async.cluster import LogError, LogGap, LogRefused, LogUnavailable
from purgatory_async.cluster.log import LogReconnected
from purgatory_async.cluster.server_log import ServerLog
from purgatory_async.cluster.url_options import warn_once
from tests.cluster.reading import drained, each, read, saved
from tests.cluster.server_engines import PostgresEngine, RedisEngine
from tests.cluster.servers import Postgres, RedisServer, need_postgres, need_redis, shared
from tests.ports import free_port

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]

KINDS = {
    "postgres": (need_postgres, Postgres, PostgresEngine),
    "redis": (need_redis, RedisServer, RedisEngine),
}


@pytest.fixture(params=KINDS)
def engine_name(request):
    return request.param


@asynccontextmanager
async def opened(log):
    await log.open()
    try:
        yield log
    finally:
        await log.aclose()


async def append_until_known(log, batch):
    """Repeat a batch until it is in the log; wait a little after each failure, as a worker does."""
    while True:
        try:
            return await log.append(batch)
        except LogUnavailable:
            await asyncio.sleep(0.01)


async def hear_until(log, last):
    seen = []
    async with aclosing(log.follow(0)) as stream:
        async for entries in stream:
            seen += entries
            if seen[-1].data == last:
                break
    return seen


async def test_what_others_append_is_told(connect, monkeypatch):
    told, seen, take = [], [], ServerLog._told
    monkeypatch.setattr(ServerLog, "_told", lambda log, *news: told.append(news) or take(log, *news))
    log, other = await connect(), await connect()

    async def follow():
        async with aclosing(log.follow(0)) as stream:
            async for entries in stream:
                seen.extend(entry.data for entry in entries)

    following, count = asyncio.create_task(follow()), 0
    async with asyncio.timeout(60):
        while len(told) < 3 or len(seen) < count:
            if len(seen) == count:
                await other.append([b"%d" % count])
                count += 1
            await asyncio.sleep(0)
    following.cancel()
    assert seen == [b"%d" % number for number in range(count)]


async def test_the_first_append_over_a_new_connection_is_told(engine, connect):
    log = await connect()
    await log.append([b"a"])
    await engine.cut()
    errors = []
    while True:
        try:
            appended = await log.append([b"b"])
        except LogUnavailable as error:
            errors.append(type(error))
            await asyncio.sleep(0.01)
        else:
            break
    assert errors[-1] is LogReconnected
    assert appended.first in {2, 3}  # the answer to the first attempt may have been lost
    assert (await log.append([b"c"])).first == appended.first + 1


async def test_an_end_asked_for_before_an_append_is_no_loss(engine, connect):
    log = await connect()
    await log.append([b"a"])
    await read(log, 1)
    ask = log._engine.end

    async def late():
        end = await ask()
        await log.append([b"b"])
        return end

    log._engine.end = late
    assert await log.end() == 1


async def test_lost_entries_are_no_end(engine, connect):
    log = await connect()
    await log.append([b"a", b"b"])
    await read(log, 2)
    await engine.lose(1)
    with pytest.raises(LogUnavailable, match="it has lost entries"):
        await log.end()


@pytest.mark.slow
async def test_killed_connections_lose_and_double_nothing(engine, connect):
    one, other, follower = [await connect() for _ in range(3)]
    hearing = asyncio.create_task(hear_until(follower, b"last"))
    done = asyncio.Event()

    async def write(log, name):
        for number in range(100):
            await append_until_known(log, [b"%s %d" % (name, number)])

    async def kill():
        while not done.is_set():
            await engine.cut()
            await asyncio.sleep(0.02)

    killing = asyncio.create_task(kill())
    await asyncio.gather(write(one, b"one"), write(other, b"other"))
    done.set()
    await killing
    await append_until_known(one, [b"last"])
    seen = await hearing
    assert [entry.position for entry in seen] == list(range(1, len(seen) + 1))
    kept = list(dict.fromkeys(entry.data for entry in seen))
    for name in (b"one", b"other"):
        expected = [b"%s %d" % (name, number) for number in range(100)]
        assert [data for data in kept if data.startswith(name + b" ")] == expected


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["stopped", "killed"])
async def test_a_restarted_server_has_all_it_answered(engine_name, number):
    need, server_type, engine_type = KINDS[engine_name]
    need()
    server = server_type()
    try:
        server.start()
        engine = engine_type(server)
        async with opened(engine.log()) as log, opened(engine.log()) as follower:
            hearing = asyncio.create_task(hear_until(follower, b"last"))
            await append_until_known(log, [b"first"])
            if number == signal.SIGKILL and engine_name == "postgres":
                number = signal.SIGQUIT  # no shutdown checkpoint either, but its processes go with it
            server.stop(number)
            with pytest.raises(LogUnavailable):
                await log.append([b"nowhere"])
            await asyncio.to_thread(server.start)
            await append_until_known(log, [b"last"])
            assert [entry.data for entry in await hearing] == [b"first", b"last"]
    finally:
        server.close()


async def test_a_loss_of_the_newest_entries_is_a_gap(engine, connect):
    log, other = await connect(), await connect()
    epoch = (await fresh_head(engine)).epoch
    async with aclosing(log.follow(0)) as stream:
        await log.append([b"kept", b"lost"])
        await anext(stream)
        await engine.lose(1)
        with pytest.raises(LogGap) as caught:
            await drained(stream)
    assert caught.value.oldest == 1
    assert caught.value.epoch != epoch
    assert (await fresh_head(engine)).epoch == caught.value.epoch
    with pytest.raises(LogUnavailable):  # its epoch is the old one, until it has noticed
        await other.append([b"a"])
    assert (await other.append([b"b"])).first == 2


async def test_a_loss_shows_although_others_appended_past_it(engine, connect):
    log, other = await connect(), await connect()
    async with aclosing(log.follow(0)) as stream:
        await log.append([b"kept", b"lost"])
        await anext(stream)
        await engine.lose(1)
        await other.append([b"another", b"one more"])
        with pytest.raises(LogGap):
            await drained(stream)
    assert [entry.data for entry in await read(log, 3)] == [b"kept", b"another", b"one more"]


async def test_an_append_after_a_loss_waits_for_its_follower(engine, connect):
    log = await connect()
    async with aclosing(log.follow(0)) as stream:
        await log.append([b"kept", b"lost"])
        await anext(stream)
        await engine.lose(1)
        with pytest.raises(LogUnavailable, match=r"lost|LOST"):
            await log.append([b"after"])
        with pytest.raises(LogGap):
            await drained(stream)
    assert (await log.append([b"after"])).first == 2


async def test_a_checkpoint_loaded_after_a_loss_has_its_epoch(engine, connect):
    log, other = await connect(), await connect()
    await log.append([b"kept"])
    await log.save(1, each([b"state"]), keep=5)
    async with aclosing(log.follow(0)) as stream:
        await log.append([b"lost"])
        await anext(stream)
        await engine.lose(1)
        with pytest.raises(LogGap) as caught:
            await drained(stream)
    assert (await other.load()).epoch == caught.value.epoch


async def test_a_loss_between_two_follows_is_a_gap(engine, connect):
    log, other = await connect(), await connect()
    await log.append([b"kept", b"lost"])
    await read(log, 2)
    await read(other, 2)
    await engine.lose(1)
    with pytest.raises(LogGap):
        await read(other, 3)
    for _ in range(2):
        with pytest.raises(LogUnavailable, match=r"lost|LOST"):
            await log.append([b"after"])
    with pytest.raises(LogGap):
        await read(log, 3)
    assert (await log.append([b"after"])).first == 2


async def test_an_append_answered_after_a_loss_is_unknown(engine, connect):
    log = await connect()
    append, goes_on = log._engine.append, asyncio.Event()

    async def answered_late(*arguments):
        appended = await append(*arguments)
        await goes_on.wait()
        return appended

    async with aclosing(log.follow(0)) as stream:
        await log.append([b"kept"])
        log._engine.append = answered_late
        appending = asyncio.create_task(log.append([b"lost"]))
        while (await anext(stream))[-1].data != b"lost":
            pass
        await engine.lose(1)
        with pytest.raises(LogGap) as caught:
            await drained(stream)
    goes_on.set()
    with pytest.raises(
        LogUnavailable, match=r"epoch must still be .* the batch of 1 at position 2 may be lost"
    ):
        await appending
    assert (await log.append([b"after"])).first == 2
    assert [entry.data for entry in await read(log, 2)] == [b"kept", b"after"]
    assert (await fresh_head(engine)).epoch == caught.value.epoch


async def fresh_head(engine):
    log = engine.log()
    head = await log.open()
    await log.aclose()
    return head


PROXY = """
import asyncio, sys

async def copy(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()

async def serve(reader, writer):
    onward = await asyncio.open_connection("127.0.0.1", int(sys.argv[2]))
    await asyncio.gather(copy(reader, onward[1]), copy(onward[0], writer))

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]))
    print("ready", flush=True)
    await server.serve_forever()

asyncio.run(main())
"""


@pytest.mark.slow
async def test_a_half_open_connection_is_noticed_within_20_s(engine, connect):
    direct = await connect()
    port = free_port()
    arguments = [sys.executable, "-c", PROXY, str(port), str(engine.server.port)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as proxy:  # noqa: ASYNC220 - it starts at once
        try:
            proxy.stdout.readline()
            proxied = type(engine)(
                type(
                    "Proxied", (), {"url": engine.server.url.replace(f":{engine.server.port}/", f":{port}/")}
                )
            )
            proxied.name = engine.name
            async with opened(proxied.log()) as log:
                hearing = asyncio.create_task(hear_until(log, b"last"))
                await direct.append([b"first"])
                await log.append([b"second"])
                proxy.send_signal(signal.SIGSTOP)
                async with asyncio.timeout(60):
                    with pytest.raises(LogUnavailable):
                        await log.append([b"third"])
                await append_until_known(direct, [b"fourth"])
                proxy.send_signal(signal.SIGCONT)
                await append_until_known(log, [b"last"])
                heard = [entry.data for entry in await hearing]
                assert [data for data in heard if data != b"third"] == [
                    b"first",
                    b"second",
                    b"fourth",
                    b"last",
                ]
        finally:
            proxy.kill()


async def test_two_saves_at_once_leave_one_checkpoint(engine, connect):
    log, other = await connect(), await connect()
    await log.append([b"x"] * 5)
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow():
        yield b"overtaken"
        begun.set()
        await go_on.wait()
        yield b"part"

    saving = asyncio.create_task(log.save(3, slow(), keep=5))
    await begun.wait()
    await other.save(4, each([b"winner"]), keep=5)
    go_on.set()
    with pytest.raises(LogError):
        await saving
    assert await saved(log) == (4, [b"winner"])


async def test_redis_must_not_evict():
    need_redis()
    engine = RedisEngine(shared(RedisServer))
    await engine.do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(LogRefused, match="maxmemory-policy must be noeviction, got allkeys-lru"):
            await engine.log().open()
    finally:
        await engine.do("CONFIG", "SET", "maxmemory-policy", "noeviction")


async def test_redis_without_memory_is_unavailable():
    need_redis()
    engine = RedisEngine(shared(RedisServer))
    async with opened(engine.log()) as log:
        await log.append([b"a"])
        await engine.do("CONFIG", "SET", "maxmemory", "1")
        try:
            with pytest.raises(LogUnavailable, match="memory"):
                await log.append([b"b"])
        finally:
            await engine.do("CONFIG", "SET", "maxmemory", "0")
        assert (await log.append([b"c"])).first == 2


async def test_redis_says_what_a_crash_can_take(caplog):
    need_redis()
    warn_once.cache_clear()  # the process may have said it
    engine = RedisEngine(shared(RedisServer))
    await engine.do("CONFIG", "SET", "appendfsync", "everysec")
    try:
        async with opened(engine.log()), opened(engine.log()):
            assert [
                record.getMessage() for record in caplog.records if "appendfsync" in record.getMessage()
            ] == [
                "appendfsync of Redis is everysec, not always: a crash of the machine loses the last moments"
            ]
    finally:
        await engine.do("CONFIG", "SET", "appendfsync", "always")


async def test_redis_waits_for_replicas_that_it_must_have():
    need_redis()
    engine = RedisEngine(shared(RedisServer), query="?wait=1")
    async with opened(engine.log()) as log:
        with pytest.raises(LogUnavailable, match="1 replicas must have the entries, got 0"):
            await log.append([b"a"])
