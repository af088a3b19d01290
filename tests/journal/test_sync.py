"""The promise of each sync policy, and what happens when the disk is slow or fails."""

import asyncio
import errno
from threading import Event

import pytest

from purgatory_async.journal import Journal, JournalError, Sync, read_journal
from purgatory_async.journal._writer_thread import GROUP_S
from tests.journal.journaled import (
    PATIENCE_S,
    Disk,
    JournaledPurgatory,
    fails_with,
    live_bytes,
    until,
    until_async,
)

pytestmark = pytest.mark.asyncio


@pytest.fixture
def disk(monkeypatch):
    return Disk().seize(monkeypatch)


async def test_always_a_commit_is_on_the_disk_when_it_returns(tmp_path, disk):
    with JournaledPurgatory(tmp_path, sync=Sync.ALWAYS) as journaled:
        for number in range(20):
            before = disk.syncs
            journaled.signal(number)
            await journaled.journal.commit()
            assert disk.syncs > before
            assert [record.key for record in read_journal(tmp_path)] == [*map(str, range(number + 1))]


async def test_always_many_commits_share_a_sync(tmp_path, disk):
    # Else a disk that syncs in 10 ms would let a hundred operations through in a second.
    gate, syncing = Event(), Event()

    def stand():
        syncing.set()
        assert gate.wait(PATIENCE_S)

    disk.on_sync = stand
    with JournaledPurgatory(tmp_path, sync=Sync.ALWAYS) as journaled:
        journaled.signal("first")
        commits = [asyncio.ensure_future(journaled.journal.commit())]
        assert await asyncio.to_thread(syncing.wait, PATIENCE_S)
        for number in range(100):
            journaled.signal(number)
            commits.append(asyncio.ensure_future(journaled.journal.commit()))
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(*commits)
        assert disk.syncs == 2


@pytest.mark.parametrize("sync", [Sync.GROUP, Sync.OS])
async def test_with_the_other_policies_commit_waits_for_nothing(tmp_path, disk, sync):
    disk.on_write = fails_with(errno.EIO)
    with JournaledPurgatory(tmp_path, sync=sync) as journaled:
        journaled.signal("a")
        commit = journaled.journal.commit()
        with pytest.raises(StopIteration):
            commit.send(None)


async def test_in_a_group_everything_is_synced_without_being_asked(tmp_path, disk):
    with JournaledPurgatory(tmp_path, sync=Sync.GROUP) as journaled:
        journaled.signal("a", "b")
        await until_async(lambda: disk.syncs == 1)
        assert [record.key for record in read_journal(tmp_path)] == ["a", "b"]
        assert pytest.approx(0.1) == GROUP_S  # as its docstring says


async def test_with_the_system_policy_sync_comes_on_request_or_close(tmp_path, disk):
    with JournaledPurgatory(tmp_path, sync=Sync.OS) as journaled:
        journaled.signal("a")
        await until_async(lambda: live_bytes(tmp_path))
        await until_async(lambda: journaled.journal.buffered == 0 and journaled.journal._writer_thread.idle)
        assert disk.syncs == 0
        # Everything is written and the writer is idle, but nothing is synced yet.
        await journaled.journal.flush()
        assert disk.syncs == 1
        await journaled.journal.flush()
        assert disk.syncs == 1
        journaled.signal("b")
    assert disk.syncs == 2


@pytest.mark.parametrize("sync", list(Sync))
async def test_a_flush_is_on_the_disk_whatever_the_policy(tmp_path, disk, sync):
    with JournaledPurgatory(tmp_path, sync=sync) as journaled:
        journaled.signal("a")
        await journaled.journal.flush()
        assert disk.syncs == 1
        assert [record.key for record in read_journal(tmp_path)] == ["a"]


async def test_a_slow_sync_delays_only_commits(tmp_path, disk):
    gate = Event()
    disk.on_sync = lambda: gate.wait(PATIENCE_S)
    with JournaledPurgatory(tmp_path, sync=Sync.ALWAYS) as journaled:
        journaled.signal("a")
        commit = asyncio.ensure_future(journaled.journal.commit())
        await asyncio.to_thread(until, lambda: disk.syncs == 1)
        for number in range(1_000):
            journaled.signal(number)
            await asyncio.sleep(0)
        assert not commit.done()
        assert journaled.journal.buffered >= 1_000
        gate.set()
        await commit


async def test_a_sync_that_fails_is_the_end_and_is_not_tried_again(tmp_path, disk):
    # The system may have dropped what it could not write, and would report success the next time.
    disk.on_sync = fails_with(errno.EIO)
    journaled = JournaledPurgatory(tmp_path, sync=Sync.ALWAYS)
    journaled.signal("a")
    with pytest.raises(JournalError, match=r"cannot sync .*\.000001\.jsonl: Input/output error.*may be lost"):
        await journaled.journal.commit()
    disk.on_sync = bool
    for _ in range(2):
        journaled.signal("b")
        with pytest.raises(JournalError, match="nothing more is recorded until a restart"):
            await journaled.journal.commit()
    journaled.journal.close()
    assert disk.syncs == 1
    assert journaled.journal.dropped == 2
    assert [record.key for record in read_journal(tmp_path)] == ["a"]
    assert len(journaled.messages) == 1
    assert "may be lost" in str(journaled.journal.trouble)


@pytest.mark.parametrize("when_full", ["drop", "refuse"])
async def test_after_a_failed_sync_operations_continue_or_are_refused(tmp_path, disk, when_full):
    disk.on_sync = fails_with(errno.EIO)
    journaled = JournaledPurgatory(tmp_path, when_full=when_full, sync=Sync.ALWAYS)
    journaled.signal("a")
    await until_async(lambda: journaled.journal.trouble)
    assert journaled.journal.accepting is (when_full == "drop")


async def test_an_error_that_many_meet_does_not_grow(tmp_path, disk):
    # One exception object, raised again and again, would collect the frames of every caller.
    disk.on_sync = fails_with(errno.EIO)
    journaled = JournaledPurgatory(tmp_path, sync=Sync.ALWAYS)
    journaled.signal("a")
    await until_async(lambda: journaled.journal.trouble)
    met = set()
    for _ in range(3):
        with pytest.raises(JournalError) as caught:
            await journaled.journal.commit()
        met.add(len(caught.traceback))
    assert len(met) == 1
    assert journaled.journal.trouble.__traceback__ is None


async def test_a_commit_with_nothing_to_wait_for_returns_at_once(tmp_path, disk):
    with JournaledPurgatory(tmp_path, sync=Sync.ALWAYS) as journaled:
        journaled.signal("a")
        await journaled.journal.commit()
        await until_async(lambda: journaled.journal._writer_thread.settled)
        commit = journaled.journal.commit()
        with pytest.raises(StopIteration):
            commit.send(None)
        assert disk.syncs == 1


async def test_only_a_commit_that_still_waits_gets_its_result(tmp_path, disk):
    gate, reported = Event(), []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    disk.on_sync = lambda: gate.wait(PATIENCE_S)
    with JournaledPurgatory(tmp_path, sync=Sync.ALWAYS) as journaled:
        journaled.signal("a")
        leaves, stays = (asyncio.ensure_future(journaled.journal.commit()) for _ in range(2))
        await asyncio.to_thread(until, lambda: disk.syncs == 1)
        leaves.cancel()
        await asyncio.wait([leaves])
        gate.set()
        await stays
        assert leaves.cancelled()
    assert reported == []


@pytest.mark.asyncio(loop_factories=["asyncio"])
async def test_a_commit_on_a_closed_loop_is_dropped_harmlessly(tmp_path, disk):
    gate = Event()
    disk.on_sync = lambda: gate.wait(PATIENCE_S)
    with JournaledPurgatory(tmp_path, sync=Sync.ALWAYS) as journaled:

        def visit():
            loop = asyncio.SelectorEventLoop()
            commit = loop.create_task(journaled.journal.commit())
            loop.call_soon(lambda: loop.call_soon(loop.stop))
            loop.run_forever()
            commit.cancel()
            loop.run_until_complete(asyncio.gather(commit, return_exceptions=True))
            loop.close()

        journaled.signal("a")
        await asyncio.to_thread(visit)
        gate.set()
        journaled.signal("b")
        await journaled.journal.commit()


async def test_a_closed_journal_promises_nothing(tmp_path, disk):
    journaled = JournaledPurgatory(tmp_path, sync=Sync.ALWAYS)
    journaled.journal.close()
    with pytest.raises(JournalError, match=f"the journal in {tmp_path} is closed"):
        await journaled.journal.commit()


async def test_a_commit_while_the_journal_closes_gets_its_result(tmp_path, disk):
    journaled = JournaledPurgatory(tmp_path, sync=Sync.ALWAYS)
    journaled.signal("a")
    commit = asyncio.ensure_future(journaled.journal.commit())
    await asyncio.sleep(0)
    journaled.journal.close()
    await commit
    assert [record.key for record in read_journal(tmp_path)] == ["a"]


async def test_on_a_real_clock_it_is_the_doors_own_story(tmp_path):
    # Nothing here is manual: the default timer, the default policy, the running loop.
    from purgatory_async import Purgatory, Timer  # noqa: PLC0415 - only here

    timer = Timer()
    with Journal(tmp_path, timer=timer) as journal:
        async with Purgatory(timer=timer, observer=journal) as purgatory:
            waits = [asyncio.ensure_future(purgatory.wait(n, timeout=60)) for n in range(100)]
            await asyncio.sleep(0)
            assert sum(purgatory.complete_for_key(n) for n in range(100)) == 100
            await asyncio.gather(*waits)
        await journal.flush()
        kinds = [type(record).__name__ for record in read_journal(tmp_path)]
        assert [kinds.count(kind) for kind in ("Submit", "Outcome", "Signal")] == [100, 100, 100]
