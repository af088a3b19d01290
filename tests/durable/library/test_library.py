"""What only `Durable` has, on the engines themselves: every call before it is entered and as it is left, outages."""

import asyncio
import logging
import subprocess
import sys
from contextlib import closing

import pytest

from purgatory_async import OperationExpired, PurgatoryClosed, PurgatoryError
from purgatory_async.cluster import LogError, MemoryLog
from purgatory_async.durable import Durable
from tests.cluster.servers import Postgres, RedisServer, need_postgres, need_redis
from tests.durable.library.calls import every, first, later, refused, start, until
from tests.durable.log_workers import Store
from tests.source_tree import ROOT

on_each_loop = pytest.mark.asyncio(loop_factories=["asyncio", "uvloop"])
in_virtual_time = pytest.mark.asyncio(loop_factories=["virtual"])
SERVERS = {"postgres": (need_postgres, Postgres), "redis": (need_redis, RedisServer)}


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


def calls(durable):
    """A call of each kind."""
    return [
        durable.submit,
        lambda: durable.status("o"),
        lambda: durable.follow("o"),
        lambda: durable.wait("k"),
        lambda: durable.signal("k"),
        lambda: durable.watch("k", 0),
        lambda: anext(durable.signals("k")),
        lambda: anext(durable.events()),
        lambda: anext(durable.operations()),
        lambda: durable.put("q", 1),
        lambda: durable.take("q"),
        durable.caught_up,
    ]


@on_each_loop
async def test_it_must_be_entered_first():
    durable = Durable("memory:")
    assert (durable.connected, durable.position, durable.epoch, durable.lag) == (False, 0, "", 0.0)
    for call in calls(durable):
        with pytest.raises(PurgatoryError, match="must be entered by async with"):
            await call()


@in_virtual_time
async def test_what_was_written_elsewhere_is_caught_up_with():
    store = Store()
    async with Durable(MemoryLog(store)) as one, Durable(MemoryLog(store)) as two:
        assert one.epoch == two.epoch != ""
        await one.submit(operation_id="o")
        position = one.position
        await two.caught_up(position)
        assert two.position >= position
        await two.caught_up()
        assert (one.connected, one.lag) == (True, 0.0)
        reaching = await start(two.caught_up(position + 100))
        for number in range(100):
            await one.signal("k", number)
        await reaching
        with pytest.raises(OperationExpired):
            await two.caught_up(two.position + 1000, timeout="2s")


@pytest.mark.slow
@on_each_loop
async def test_leaving_ends_the_waits_and_the_store_keeps_all(url):
    async with Durable(url) as durable:
        await durable.submit(["k"], operation_id="o", data={"n": 1})
        await durable.put("q", 1)
        waits = [
            await start(call)
            for call in (
                durable.follow("o"),
                durable.ask("p", "Go?"),
                durable.wait("k"),
                durable.watch("k", 0),
                durable.take("none", timeout=None),
                durable.caught_up(2**40),
                first(durable.signals("k"), 1),
                first(durable.events(), 1),
            )
        ]
    ends = await asyncio.gather(*waits, return_exceptions=True)
    assert [type(each) for each in ends] == [PurgatoryClosed] * len(waits)
    async with Durable(url) as again:
        assert (await again.status("o")).data == {"n": 1}
        assert {"o", "p"} <= {each.id for each in await every(again.operations())}
        assert (await again.take("q")).item == 1
        assert (await again.queue("q")).takers == 0


@in_virtual_time
async def test_leaving_leaves_no_taker_and_nothing_cancelled_pending():
    store = Store()
    async with Durable(MemoryLog(store)) as durable:
        taking = [asyncio.create_task(durable.take("q", timeout=None)) for _ in range(300)]
        waiting = await start(durable.wait("k"))
        waiting.cancel()
        await asyncio.wait([waiting])
    await asyncio.wait(taking)
    async with Durable(MemoryLog(store)) as again:
        assert await every(again.operations()) == []
        assert await again.put("q", 1) is False
        assert (await again.take("q")).attempts == 1


@on_each_loop
async def test_an_exception_in_the_block_comes_out_and_closes_it(url):
    durable = Durable(url)

    async def fail():
        async with durable:
            await durable.submit(operation_id="o")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    with pytest.raises(PurgatoryClosed):
        await durable.submit()


@on_each_loop
async def test_memory_ends_with_its_block():
    for _ in range(2):
        async with Durable("memory:") as durable:
            assert not (await durable.attach("o")).attached


@in_virtual_time
async def test_an_observer_gets_the_events():
    class Noted:
        def __init__(self):
            self.kinds = []

        def notify(self, event):
            self.kinds.append(type(event).__name__)

    noted = Noted()
    async with Durable("memory:", observer=noted) as durable:
        await durable.submit(["k"], operation_id="o")
        await durable.complete("o")
    assert noted.kinds == ["OperationSubmitted", "OperationEnded"]


@pytest.fixture
def server(engine):
    """A server of its own, which is not started."""
    need, kind = SERVERS[engine]
    need()
    with closing(kind()) as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("engine", SERVERS)
@pytest.mark.asyncio(loop_factories=["asyncio"])
async def test_a_store_that_is_away_is_awaited_and_said_once(server, caplog):
    durable = Durable(server.url, checkpoints=False)
    with caplog.at_level(logging.WARNING, logger="purgatory_async"):
        entering = await start(durable.__aenter__())
        await later(3)
        assert not entering.done()
        server.start()
        assert await entering is durable
    assert [each.getMessage().partition(" serve")[0] for each in caplog.records] == [
        "the store does not",
        "the store",  # serves again
    ]
    await durable.__aexit__()


@pytest.mark.slow
@pytest.mark.parametrize("engine", SERVERS)
@pytest.mark.asyncio(loop_factories=["asyncio"])
async def test_waits_outlast_a_store_that_goes_and_changes_do_not(server):
    server.start()
    async with Durable(server.url, checkpoints=False) as durable:
        await durable.submit(operation_id="o")
        following = await start(durable.follow("o"))
        asking = await start(durable.ask("p", "Go?"))
        await asyncio.to_thread(server.kill)
        await refused(durable.complete("o", 1), 503, "store-unavailable")
        await refused(durable.submit(), 503, "store-unavailable")
        await until(lambda: not durable.connected)
        await asyncio.to_thread(server.start)
        await until(lambda: durable.connected)
        assert not asking.done()
        await durable.complete("o", 1)  # as before, whether that was appended or not
        await durable.answer("p", "ok")
        assert ((await following).result, (await asking).choice) == (1, "ok")


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["postgres"])
@pytest.mark.asyncio(loop_factories=["asyncio"])
async def test_a_database_that_does_not_exist_raises_at_once(server):
    server.start()
    with pytest.raises(LogError, match="nowhere"):
        await Durable(server.url.replace("/postgres", "/nowhere")).__aenter__()


WITHOUT_HTTP = """
import asyncio, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"anyio", "httpx2", "uvicorn", "starlette", "h11"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from purgatory_async.durable import Durable

async def main():
    async with Durable(sys.argv[1], checkpoints=False) as durable:
        await durable.submit(operation_id="o")
        return (await durable.complete("o", 7)).result

print(asyncio.run(main()), *sorted(name for name in sys.modules if name.startswith("purgatory_async.service")))
"""


@pytest.mark.slow
@pytest.mark.parametrize("store", ["memory:", "file"])
def test_it_needs_no_http_and_no_service(url, store):
    command = [sys.executable, "-c", WITHOUT_HTTP, url if store == "file" else store]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("7\n", "")
