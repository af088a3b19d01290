"""The life of a `Durable`: what it may be made of, entering and leaving it, on which loop and in which process."""

import asyncio
import logging

import pytest
import pytest_asyncio

from purgatory_async import PurgatoryClosed, PurgatoryError
from purgatory_async.cluster import LogDamaged, LogRefused, LogUnavailable, MemoryLog
from purgatory_async.durable import Durable, backing
from tests.cluster.faulty import FaultyLog
from tests.durable.library.calls import cancelled, later, start
from tests.durable.library.on_store import Member
from tests.durable.log_workers import EpochLog, Store
from tests.forks import in_child

ANY_LOOP = pytest.mark.asyncio(loop_factories=["asyncio", "uvloop"])
pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])


def others():
    """The tasks of the loop but the test's."""
    return asyncio.all_tasks() - {asyncio.current_task()}


AWAY = LogUnavailable("connection refused: the engine is away")


class Engine:
    """What the URL of a store leads to: a log behind a connection, for each attempt to open it."""

    def __init__(self, monkeypatch):
        self.store = Store()
        self.failure = None
        self.hanging = False
        self.opened = []
        monkeypatch.setattr(backing, "log_of", lambda store, *, sync: Link(self))


class Link(FaultyLog):
    """A connection, which closes itself if its opening fails, as all logs do."""

    def __init__(self, engine):
        super().__init__(EpochLog(engine.store))
        self.engine = engine
        self.closed = False

    async def open(self):
        self.engine.opened.append(self)
        try:
            if self.engine.hanging:
                await asyncio.sleep(3600)
            self.check()
        except BaseException:
            await self.aclose()
            raise
        return await super().open()

    def check(self):
        if self.engine.failure is not None:
            raise self.engine.failure

    async def aclose(self):
        self.closed = True
        await super().aclose()


@pytest_asyncio.fixture
async def engine(monkeypatch):
    return Engine(monkeypatch)


@ANY_LOOP
@pytest.mark.parametrize("kind", ["memory:", "memory", "log", "sqlite"])
async def test_it_is_entered_once_and_leaves_nothing(kind, tmp_path):
    store = {"log": MemoryLog(), "sqlite": f"sqlite:///{tmp_path}/log.db"}.get(kind, kind)
    durable = Durable(store)
    assert (durable.connected, durable.position, durable.epoch, durable.lag) == (False, 0, "", 0.0)
    assert "not open" in repr(durable)
    with pytest.raises(PurgatoryError, match="must be entered by async with"):
        await durable.status("o")
    async with durable as entered:
        assert entered is durable
        assert durable.connected
        assert durable.epoch
        await durable.submit(operation_id="o")
        with pytest.raises(PurgatoryError, match="was entered before: make another one"):
            await durable.__aenter__()
        assert (await durable.status("o")).pending
    assert not durable.connected
    for _ in range(2):
        with pytest.raises(PurgatoryClosed, match=r"closed.* cannot be used any more"):
            await durable.status("o")
        await durable.__aexit__(None, None, None)
    with pytest.raises(PurgatoryError, match="was entered before"):
        await durable.__aenter__()
    assert others() == set()


async def test_two_that_enter_one_at_once_are_one_too_many():
    durable = Durable(MemoryLog())
    entering = [asyncio.create_task(durable.__aenter__()) for _ in range(2)]
    done = await asyncio.gather(*entering, return_exceptions=True)
    assert done[0] is durable
    assert isinstance(done[1], PurgatoryError)
    await durable.__aexit__(None, None, None)


@ANY_LOOP
async def test_a_store_that_can_never_work_raises_at_once(tmp_path):
    (tmp_path / "log.db").write_text("no database" * 100)
    durable = Durable(f"sqlite:///{tmp_path}/log.db")
    with pytest.raises(LogDamaged, match=r"log\.db"):
        await durable.__aenter__()
    assert others() == set()
    with pytest.raises(PurgatoryClosed):
        await durable.status("o")


async def test_an_engine_that_refuses_to_be_a_log_raises_at_once(engine):
    engine.failure = LogRefused("the engine keeps nothing", cause="refused")
    with pytest.raises(LogRefused, match="keeps nothing"):
        await Durable("sqlite:///log.db").__aenter__()
    assert len(engine.opened) == 1
    assert others() == set()


async def test_a_log_that_is_away_raises_as_it_opens_only_once(engine):
    engine.failure = AWAY
    durable = Durable(Link(engine))
    with pytest.raises(LogUnavailable, match="the engine is away"):
        await durable.__aenter__()
    assert [link.closed for link in engine.opened] == [True]
    assert others() == set()


async def test_a_store_that_is_away_is_awaited_and_said_once(engine, caplog):
    engine.failure = AWAY
    durable = Durable("sqlite:///log.db")
    entering = await start(durable.__aenter__())
    await later(50)
    assert not entering.done()
    assert not durable.connected
    assert len(engine.opened) > 5
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "the store does not serve" in caplog.text
    engine.failure = None
    await entering
    assert (await durable.submit(operation_id="o")).pending
    assert "the store serves again" in caplog.text
    await durable.__aexit__(None, None, None)
    assert {link.closed for link in engine.opened} == {True}


@pytest.mark.parametrize("hanging", [False, True])
async def test_a_cancelled_opening_leaves_nothing(engine, hanging):
    engine.failure, engine.hanging = AWAY, hanging
    durable = Durable("sqlite:///log.db")
    before = asyncio.get_running_loop().time()
    entering = await start(durable.__aenter__())
    await cancelled(entering)
    assert asyncio.get_running_loop().time() - before < 1
    assert {link.closed for link in engine.opened} == {True}
    assert others() == set()
    with pytest.raises(PurgatoryClosed):
        await durable.status("o")


async def test_an_opening_that_is_cancelled_as_it_loads_leaves_nothing():
    link = FaultyLog(EpochLog(Store()))
    link.away = True  # the log is open, and its end is asked for
    entering = await start(Member(link).__aenter__())
    await cancelled(entering)
    assert not link.inner._open
    assert others() == set()


async def test_leaving_is_not_cut_short():
    link = FaultyLog(EpochLog(Store()))
    durable = await Member(link).__aenter__()
    waiting = await start(durable.wait("k"))
    close, closing = link.inner.aclose, asyncio.Event()

    async def slow_close():
        closing.set()
        await asyncio.sleep(3)
        await close()

    link.inner.aclose = slow_close
    leaving = asyncio.create_task(durable.__aexit__(None, None, None))
    await closing.wait()
    leaving.cancel()
    await asyncio.wait([leaving, waiting])
    assert leaving.cancelled()
    assert not link.inner._open
    with pytest.raises(PurgatoryClosed, match="was left"):
        await waiting
    assert others() == set()


async def test_another_loop_is_refused():
    async with Durable("memory:") as durable:

        def elsewhere():
            with pytest.raises(PurgatoryError, match="opened on another loop: open one on this loop"):
                asyncio.run(durable.status("o"))
            with pytest.raises(PurgatoryError, match="opened on another loop"):
                asyncio.run(durable.__aexit__(None, None, None))

        await asyncio.to_thread(elsewhere)
        assert (await durable.submit(operation_id="o")).pending


async def test_a_forked_child_is_refused_and_its_exit_closes_nothing():
    async with Durable(MemoryLog()) as durable:

        def child():
            call = durable.status("o")
            with pytest.raises(
                PurgatoryError, match=r"was opened in process \d+ and used in \d+: open one after"
            ):
                call.send(None)
            leaving = durable.__aexit__(None, None, None)
            with pytest.raises(StopIteration):
                leaving.send(None)
            return durable._closed

        assert in_child(child) == "False"
        assert (await durable.submit(operation_id="o")).pending
