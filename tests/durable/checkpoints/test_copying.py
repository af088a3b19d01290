"""A copy of a store: the whole state in one step, or nothing; never of a store in use, nor over another state."""

import asyncio
import re
from contextlib import closing

import msgspec
import pytest
import pytest_asyncio

from purgatory_async.cluster import Entry, LogDamaged, LogError, LogRefused
from purgatory_async.durable.checkpoints import copying
from purgatory_async.durable.checkpoints.checkpointing import checkpoint
from purgatory_async.durable.checkpoints.copying import copy
from purgatory_async.durable.fold import fold as folding
from purgatory_async.durable.fold import records, restoring
from purgatory_async.durable.fold.checkpoint import digest, parts
from purgatory_async.durable.fold.codec import encode
from purgatory_async.durable.fold.entries import Alive, SignalKey, Tick
from purgatory_async.durable.urls import exists, opened, parsed
from tests.cluster.reading import each, positions, read
from tests.cluster.servers import by_engine
from tests.durable.checkpoints.conftest import append, some_entries, url_on
from tests.durable.checkpoints.copies import WORKER, digest_of, everything, fill, is_empty, silent, state_of

pytestmark = pytest.mark.asyncio


@pytest.fixture(autouse=True)
def _workers_leave_at_once(monkeypatch):
    monkeypatch.setattr(copying, "GONE_AFTER_S", 0)


@pytest_asyncio.fixture
async def source(tmp_path):
    """A store with something of everything, the older half in a checkpoint."""
    (tmp_path / "from").mkdir()
    store = parsed(url_on("sqlite", tmp_path / "from"))
    entries = everything()
    await fill(store, *entries[:20])
    await checkpoint(store)
    await fill(store, *entries[20:])
    return store


async def test_everything_has_each_kind_of_line(source):
    async with state_of(source) as (_, fold):
        lines = [msgspec.json.decode(line) for part in parts(fold) for line in part.splitlines()]
        assert fold.queues.dead
    assert {line["k"] for line in lines} == {kind.__struct_config__.tag for kind in records.AnyLine.__args__}


async def test_a_copy_has_the_state_the_positions_and_another_epoch(source, store):
    told = await copy(source, store, silent)
    async with state_of(source) as (before, theirs), state_of(store) as (after, ours):
        assert list(parts(ours)) == list(parts(theirs))
        assert digest(ours) == told
        assert (ours.level, ours.position) == (2, before.position)
        assert after.epoch != before.epoch
        assert (after.oldest, after.checkpoint) == (after.position, after.position)


async def test_a_copy_goes_on_as_its_source_would(source, store):
    await copy(source, store, silent)
    for each_store in (source, store):
        await fill(each_store, SignalKey(key="k2"), Tick())
    async with state_of(source) as (_, theirs), state_of(store) as (_, ours):
        assert ours.position == theirs.position
        assert ours.operations.by_id["open"].state == theirs.operations.by_id["open"].state == "completed"
        assert ours.signals.latest("k2") == theirs.signals.latest("k2")


async def test_a_copy_can_be_saved_trimmed_and_copied_again(source, store, tmp_path):
    await copy(source, store, silent)
    await fill(store, *some_entries())
    saved = await checkpoint(store, keep=0)
    third = parsed(f"sqlite:///{tmp_path}/third.db")
    assert await copy(store, third, silent) == await digest_of(third)
    async with opened(third) as (log, head):
        assert head.position == saved.position + 2  # the ticks of the checkpoint and of the copy
        assert positions(await read(log, head.position, after=head.position - 1)) == [head.position]


async def test_log_time_never_goes_back_in_a_copy(store, tmp_path):
    later_us = 4_000_000_000_000_000  # the clock of the source's engine was ahead
    source = parsed(f"sqlite:///{tmp_path}/from.db")
    async with opened(source) as (log, _):
        with closing(folding.Fold()) as fold:
            fold.apply(1, later_us, Tick())
            await log.begin(Entry(1, later_us, encode(Tick())), copying.pieces(fold))
    await copy(source, store, silent)
    await fill(store, Tick())
    async with state_of(store) as (head, fold):
        assert (head.position, head.at_us, fold.at_us) == (3, later_us, later_us)


async def test_a_source_with_a_worker_is_refused(source, store, monkeypatch):
    monkeypatch.setattr(copying, "GONE_AFTER_S", 3600)
    said = []
    async with opened(source) as (worker, _):
        copied = asyncio.ensure_future(copy(source, store, said.append))
        while not said and not copied.done():  # noqa: ASYNC110 - the line comes before the wait
            await asyncio.sleep(0)
        await append(worker, Alive(writer=WORKER, number=3))
        with pytest.raises(
            LogError, match="must have no workers while it is copied, got a new entry: stop them"
        ):
            await copied
    assert re.search(r"a moment ago: waiting \d+ s to see that none is left$", said[0])
    assert not await exists(store)


async def test_a_source_that_grows_meanwhile_is_refused(source, store, monkeypatch):
    async def pieces(fold):
        async for piece in original(fold):
            yield piece
        await fill(source, Tick())

    original = copying.pieces
    monkeypatch.setattr(copying, "pieces", pieces)
    with pytest.raises(LogError, match="must have no workers while it is copied"):
        await copy(source, store, silent)
    assert await is_empty(store)


async def test_a_target_with_a_state_is_refused_and_kept(source, store):
    await fill(store, *some_entries())
    before = await digest_of(store)
    with pytest.raises(LogError, match=f"{store.shown}.* must be empty, got position 30".replace("?", r"\?")):
        await copy(source, store, silent)
    assert await digest_of(store) == before


async def test_a_log_with_entries_does_not_begin_again(store, log):
    await append(log, *some_entries())
    await log.save(20, each([b"before"]), keep=100)
    await log.save(30, each([b"newest"]), keep=100)
    with pytest.raises(LogError, match="must be empty, got position 30"):
        await log.begin(Entry(40, 10**15, b"{}"), each([b"state"]))
    assert [part async for part in (await log.load()).parts] == [b"newest"]
    assert [part async for part in (await log.load(below=30)).parts] == [b"before"]


async def test_a_target_that_others_begin_meanwhile_is_refused(source, store, monkeypatch):
    async def pieces(fold):
        async for piece in original(fold):
            yield piece
        await fill(store, *some_entries())

    original = copying.pieces
    monkeypatch.setattr(copying, "pieces", pieces)
    with pytest.raises(LogError):
        await copy(source, store, silent)
    async with state_of(store) as (head, fold):
        assert (head.position, head.checkpoint, len(fold.operations.by_id)) == (30, 0, 20)


async def test_an_empty_source_is_refused(sqlite_store, tmp_path):
    async with opened(sqlite_store):
        pass
    with pytest.raises(LogError, match="must have a state to copy, got an empty log"):
        await copy(sqlite_store, parsed(f"sqlite:///{tmp_path}/to.db"), silent)


@pytest.mark.parametrize("damaged", [b"damage", None], ids=["entry", "checkpoint"])
async def test_a_damaged_source_is_refused(source, tmp_path, damaged):
    if damaged:
        await fill(source, damaged)
    else:
        async with opened(source) as (log, head):
            await log.save(head.position, each([b'{"k":"head"}\n']), keep=100)
    target = parsed(f"sqlite:///{tmp_path}/to.db")
    with pytest.raises(LogDamaged):
        await copy(source, target, silent)
    assert not await exists(target)


async def test_a_source_of_a_higher_level_is_refused(source, tmp_path, monkeypatch):
    for module in (folding, restoring):
        monkeypatch.setattr(module, "LEVEL", 1)  # an older program
    with pytest.raises(LogRefused, match="must be at most 1, got 2; upgrade"):
        await copy(source, parsed(f"sqlite:///{tmp_path}/to.db"), silent)


@pytest.mark.parametrize("url", by_engine(["postgres"]), indirect=True)
async def test_what_transactions_proposed_is_copied(store, log, tmp_path):
    await append(log, *some_entries())
    from purgatory_async.cluster.postgres_admin import connected  # noqa: PLC0415 - needs an extra

    async with connected(store.target) as connection:
        await connection.execute(f"SELECT {store.name}_signal('k' || n) FROM generate_series(1, 2500) n")
    target = parsed(f"sqlite:///{tmp_path}/to.db")
    await copy(store, target, silent)
    async with state_of(target) as (_, fold):
        assert len(fold.signals.keys) == 2501
