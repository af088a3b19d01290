"""The state of a log: from its entries, from a checkpoint and the rest, or a damage with its position."""

import asyncio
import sqlite3
from contextlib import asynccontextmanager, closing

import pytest
from msgspec import Raw

from purgatory_async import Timer
from purgatory_async.cluster import Entry, LogDamaged, LogRefused, MemoryLog, MemoryStore
from purgatory_async.cluster.retention import MARK
from purgatory_async.durable.checkpoints import loading
from purgatory_async.durable.checkpoints.checkpointing import save
from purgatory_async.durable.checkpoints.loading import apply, folded, pieces, restored
from purgatory_async.durable.fold.checkpoint import digest
from purgatory_async.durable.fold.entries import PutItem, SetLevel, SignalKey, SubmitOperation
from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.fold.restoring import AT_ONCE
from purgatory_async.durable.on_log import OnLog
from purgatory_async.durable.urls import opened
from tests.cluster.reading import each, read, saved
from tests.durable.checkpoints.conftest import append, some_entries, state

pytestmark = pytest.mark.asyncio


async def from_nothing(log):
    """The digest of a fold of all entries."""
    with closing(Fold()) as fold:
        for entry in await read(log, await log.end()):
            apply(fold, entry)
        return digest(fold)


async def from_checkpoint(log):
    return (await restored(log)).fold


async def test_a_fold_from_a_checkpoint_is_that_of_all_entries(log):
    await append(log, *some_entries())
    await save(log)
    await append(log, SignalKey(key="k1"), SignalKey(key="k3"))
    assert (await state(folded(log)))[:2] == (await log.end(), await from_nothing(log))
    assert (await state(from_checkpoint(log)))[0] == 30


async def test_the_state_is_kept_when_its_entries_are_trimmed(log):
    await append(log, *some_entries())
    whole = await state(folded(log))
    await save(log, keep=0)
    assert await state(from_checkpoint(log)) == whole
    assert (await state(folded(log)))[2] == 10


async def test_lines_above_the_size_of_a_part_are_restored(log):
    text = Raw(b'"' + b"x" * 1_040_000 + b'"')
    await append(
        log, SubmitOperation(id="large", keys=("k",), data=text), PutItem(queue="q", item=text, delay_us=0)
    )
    await append(log, PutItem(queue="q", item=text, delay_us=0), *some_entries())
    whole = await state(folded(log))
    await save(log)
    assert await state(from_checkpoint(log)) == whole
    _, parts = await saved(log)
    assert max(map(len, parts)) <= 1_572_864


async def test_a_worker_starts_from_parts_that_were_cut():
    store, text = MemoryStore(), Raw(b'"' + b"x" * 1_040_000 + b'"')
    log, timer = MemoryLog(store), Timer()
    await log.open()
    await append(log, *(PutItem(queue="q", item=text, delay_us=0) for _ in range(3)))
    await save(log, keep=0)
    worker = OnLog(MemoryLog(store), timer=timer, timeout=5, applied=lambda *_: None, replaced=lambda _: None)
    await worker.open()
    assert worker.fold.queues.kept == 3
    await worker.aclose()
    timer.close()


async def test_an_empty_log_has_the_empty_state(log):
    assert (await state(folded(log)))[0] == 0
    assert (await save(log)).entries == 0
    assert await log.load() is None


async def test_the_mark_of_a_cluster_is_an_empty_state_after_it(log):
    await append(log, *some_entries())
    await log.save(30, each([MARK]), keep=0)
    first = await append(log, SubmitOperation(id="o0", keys=("k",)))
    position, _, pending, floor = await state(folded(log))
    assert (position, pending) == (first, 1)
    assert floor == 30  # earlier signals are not there: waits since then have a gap


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"not JSON", "entry 31 is damaged: an entry must be JSON of a known kind, got b'not JSON'"),
        (b'{"k":"later"}', "entry 31 is damaged"),
        (b'{"k":"tick","more":1}', "entry 31 is damaged"),
        (
            b'{"k":"signal","key":"k","value":' + b"[" * 9999 + b"]" * 9999 + b"}",
            "31 is damaged: .* recursion",
        ),
    ],
    ids=["text", "kind", "member", "depth"],
)
async def test_a_damaged_entry_is_named_by_its_position(log, data, message):
    await append(log, *some_entries(), data)
    with pytest.raises(LogDamaged, match=message) as caught:
        await folded(log)
    assert caught.value.position == 31


@pytest.mark.parametrize(
    "spoil",
    [
        lambda parts: parts[:-1],
        lambda parts: [parts[0][:100] + b"X" + parts[0][101:], *parts[1:]],
        lambda parts: [parts[0][:-1]],
        lambda parts: [*parts, b"more"][1:],
    ],
    ids=["less", "flipped", "cut", "other"],
)
async def test_a_damaged_checkpoint_is_named_by_its_position(log, spoil):
    await append(log, *some_entries())
    await save(log)
    _, parts = await saved(log)
    await append(log, SignalKey(key="k1"))
    await log.save(32, each(spoil(parts)), keep=100)
    with pytest.raises(LogDamaged, match="checkpoint 32 ") as caught:
        await folded(log, strict=True)
    assert caught.value.position == 32
    assert (await state(folded(log)))[:2] == (await log.end(), await from_nothing(log))


async def test_a_damaged_checkpoint_is_replaced_by_the_next(log):
    await append(log, *some_entries())
    await save(log)
    await append(log, SignalKey(key="k1"))
    await log.save(31, each([b"no checkpoint"]), keep=100)
    assert (await save(log)).position > 31
    assert (await state(folded(log, strict=True)))[:2] == (await log.end(), await from_nothing(log))


async def test_a_damaged_checkpoint_alone_is_not_gone_around(log):
    await append(log, *some_entries())
    await save(log)
    await append(log, SignalKey(key="k1"))
    await log.save(31, each([b"no checkpoint"]), keep=0)
    with pytest.raises(LogDamaged, match="checkpoint 31 "):
        await folded(log)


async def test_a_checkpoint_under_another_position_is_damage(log):
    await append(log, *some_entries())
    await save(log)
    _, parts = await saved(log)
    await log.save(31, each(parts), keep=100)
    with pytest.raises(LogDamaged, match="checkpoint 31 must be of its position, got 30"):
        await restored(log, strict=True)


async def test_a_page_flipped_on_the_disk_is_named(sqlite_store):
    async with opened(sqlite_store) as (log, _):
        await append(log, *some_entries())
    with closing(sqlite3.connect(sqlite_store.target)) as connection, connection:
        connection.execute("UPDATE purgatory_log SET entry = zeroblob(40) WHERE position = 17")
    async with opened(sqlite_store) as (log, _):
        with pytest.raises(LogDamaged, match="entry 17 must match its checksum"):
            await folded(log)


async def test_a_level_above_this_program_is_not_damage(log):
    await append(log, *some_entries(), SetLevel(level=4))
    with pytest.raises(LogRefused, match="entry 31: level must be at most 3 at position 31, got 4; upgrade"):
        await folded(log)


async def test_a_checkpoint_above_this_program_is_not_damage(log):
    fold = Fold()
    apply(fold, Entry(1, 1, b'{"k":"tick"}'))
    fold.level = 4
    store = MemoryLog(MemoryStore())
    await store.open()
    await append(store, b'{"k":"tick"}')
    await store.save(1, pieces(fold), keep=1)
    with pytest.raises(
        LogRefused, match="checkpoint 1: a checkpoint's level must be at most 3, got 4; upgrade"
    ):
        await restored(store)


async def test_a_checkpoint_saved_meanwhile_is_loaded_instead(log, store, monkeypatch):
    async with opened(store) as (other, _):  # what a log appended itself it need not read
        await append(other, *some_entries())
    original, times = loading.fold_until, []

    async def late(log, fold, position):
        times.append(fold.position)
        if len(times) == 1:
            async with opened(store) as (other, _):
                await save(other, keep=0)
        await original(log, fold, position)

    monkeypatch.setattr(loading, "fold_until", late)
    assert (await state(folded(log)))[2] == 10
    assert [position for position in times if position < 31] == [0, 0, 30]


async def test_a_log_that_does_not_reach_its_checkpoint_is_damaged(log):
    await append(log, *some_entries())
    await save(log)
    await log.save(31, each([MARK]), keep=0)
    store = MemoryStore()
    bare = MemoryLog(store)
    await bare.open()
    await append(bare, *some_entries())
    store.trimmed, store.entries = 10, store.entries[10:]
    with pytest.raises(LogDamaged, match="must reach back to its checkpoint at 0, begins at 11"):
        await folded(bare)


@asynccontextmanager
async def counted_turns():
    """A list that grows with each turn of the loop inside the block."""
    turns = []

    async def other():
        while True:
            turns.append(len(turns))
            await asyncio.sleep(0)

    running = asyncio.create_task(other())
    yield turns
    running.cancel()


async def test_other_tasks_run_while_a_state_is_loaded(log):
    text = Raw(b'"' + b"x" * 1_000_000 + b'"')
    for number in range(6):
        await append(log, SubmitOperation(id=str(number), keys=("k",), data=text))
    await save(log)
    async with counted_turns() as turns:
        assert (await state(from_checkpoint(log)))[2] == 6
    assert len(turns) > 6


async def test_other_tasks_run_while_deadlines_are_scheduled():
    log = MemoryLog(MemoryStore())
    await log.open()
    entries = some_entries(4 * AT_ONCE)[: 4 * AT_ONCE]
    for begin in range(0, len(entries), 1000):
        await append(log, *entries[begin : begin + 1000])
    saved_parts = (await save(log)).size >> 20
    async with counted_turns() as turns:
        assert (await state(from_checkpoint(log)))[2] == 4 * AT_ONCE
    assert len(turns) > saved_parts + 4
