"""The checkpoints that a `Durable` has saved, in a process of its own."""

import asyncio
import re
from itertools import pairwise

import pytest
import pytest_asyncio

from purgatory_async.cluster import SqliteLog
from purgatory_async.durable import Durable
from purgatory_async.durable.checkpoints import checkpointer
from purgatory_async.durable.checkpoints.checkpointing import KEEP
from purgatory_async.durable.fold.checkpoint import digest
from purgatory_async.durable.fold.codec import encode
from purgatory_async.durable.fold.entries import Tick
from purgatory_async.durable.urls import opened, parsed
from tests.durable.checkpoints.children import Children
from tests.durable.library.calls import later, until

pytestmark = pytest.mark.asyncio(loop_factories=["asyncio", "uvloop"])


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/log.db"


@pytest.fixture
def children(url, monkeypatch):
    monkeypatch.setattr(checkpointer, "ENTRIES", 30)
    return Children(parsed(url), monkeypatch)


@pytest_asyncio.fixture
async def log(url):
    """The store, opened by another one."""
    async with opened(parsed(url)) as (log, _):
        yield log


async def fill(durable, numbers=range(40)):
    """Let a store have an entry more for each number."""
    await asyncio.gather(*(durable.submit(["k"], operation_id=f"{number}") for number in numbers))


async def position_of(log):
    """The position of the newest checkpoint."""
    checkpoint = await log.load()
    return 0 if checkpoint is None else checkpoint.position


async def test_one_is_saved_after_so_many_entries_and_loaded(url, children, log):
    async with Durable(url) as durable:
        await fill(durable, range(20))
        assert children.started == []
        await fill(durable, range(20, 40))
        await until(lambda: children.started)
        while not await position_of(log):
            await later(0.01)
        shown = await durable.status("7")
    async with Durable(url, checkpoints=False) as durable:
        assert (await durable.status("7")).document | {"elapsed": 0} == shown.document | {"elapsed": 0}


async def test_none_are_saved_without_checkpoints_or_of_a_log(url, children, tmp_path):
    async with Durable(url, checkpoints=False) as durable, Durable(SqliteLog(tmp_path / "log.db")) as other:
        await fill(durable)
        await other.caught_up()
        assert other.position > 40
        await later(0.1)
        assert children.started == []


async def test_one_that_fails_is_logged_once_and_tried_again(url, children, log, caplog, monkeypatch):
    go_on = asyncio.Event()

    async def sleep(_):
        await go_on.wait()

    monkeypatch.setattr(checkpointer, "sleep", sleep)
    children.failing = True
    async with Durable(url) as durable:
        await fill(durable)
        await until(lambda: caplog.records)
        [record] = caplog.records
        assert re.fullmatch(
            f"<Durable {url}>: a checkpoint was not saved, next try in 30 s: the disk is full \\(exit code 1\\)",
            record.getMessage(),
        )
        assert durable.connected
        assert (await durable.submit()).pending
        children.failing = False
        go_on.set()
        while not await position_of(log):
            await later(0.01)
    assert len(caplog.records) == 1


async def test_one_under_way_ends_when_its_process_leaves(url, children):
    children.hanging = True
    async with Durable(url) as durable:
        await fill(durable)
        await until(lambda: children.started)
    assert children.killed == 1


@pytest.mark.slow
@pytest.mark.asyncio(loop_factories=["asyncio"])
async def test_a_real_process_saves_and_trims(url, log):
    batch, saved = [encode(Tick())] * 1000, []
    async with Durable(url) as here:
        await here.attach("o", ask={"title": "Go?"}, keep="7d")
        async with asyncio.timeout(300):
            while not saved or saved[-1] < 2 * KEEP:  # the process saves what there is when it begins
                await log.append(batch)
                await here.caught_up()
                if (newest := await position_of(log)) not in {0, *saved}:
                    saved.append(newest)
            while await oldest(url) <= saved[-1] - KEEP:
                await later(0.1)
        assert all(after - before >= checkpointer.ENTRIES for before, after in pairwise([0, *saved]))
        async with Durable(url, checkpoints=False) as there:
            assert (await there.status("o")).pending
            async with asyncio.timeout(60):
                while here.position != there.position:
                    await asyncio.gather(here.caught_up(), there.caught_up())
            assert digest(here._open.keeper.fold) == digest(there._open.keeper.fold)


async def oldest(url):
    """The oldest position that a store has."""
    async with opened(parsed(url)) as (_, head):
        return head.oldest
