"""The compared samples do the same work, write every record and leave nothing behind."""

import asyncio
import tempfile
import time

import pytest

from bench.journal.events import events_of_each_kind
from bench.journal.observed import Observed, idle, journaled, unobserved, work
from bench.journal.sections.commit import acknowledged, bare_syncs, streamed
from bench.journal.sections.cost import spent
from bench.journal.sections.encoding import encoded
from bench.journal.sections.stall import watched
from purgatory_async.journal import Sync, read_journal
from purgatory_async.journal.lines import Damage, read_lines

WAYS: dict[str, Observed] = {
    "unobserved": unobserved,
    "idle": idle,
    **{sync.value: journaled(sync, segment_bytes=1 << 20) for sync in Sync},
}


@pytest.mark.asyncio
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_every_operation_ends_with_its_records_on_disk(way, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tasks = asyncio.all_tasks()
    async with way() as (purgatory, journal):
        await work(purgatory, 50)
        assert purgatory.pending == 0
        if journal is not None:
            await journal.flush()
            assert len(list(read_journal(journal.directory))) == 150
    assert await spent(way, 20, time.process_time_ns)() > 0
    assert (await watched(way, 20)).passes > 0
    assert (asyncio.all_tasks(), list(tmp_path.iterdir())) == (tasks, [])


@pytest.mark.asyncio
async def test_a_journal_that_drops_measures_nothing(monkeypatch):
    monkeypatch.setattr("bench.journal.observed.BOUND", 1_000)

    async def measure():
        async with journaled(Sync.GROUP)() as (purgatory, _):
            for number in range(2_000):
                purgatory.complete_for_key(number)

    with pytest.raises(AssertionError, match="measured less than there was"):
        await measure()


@pytest.mark.asyncio
async def test_each_client_waits_for_each_of_its_commits():
    taken, rate = await acknowledged(3, 4)
    assert (len(taken), len(bare_syncs(3))) == (12, 3)
    assert rate > 0 < await streamed(Sync.GROUP, 10)


def test_what_is_encoded_alone_is_what_a_journal_would_have():
    kinds = events_of_each_kind(7)
    assert {name: len(entries) for name, entries in kinds.items()} == {"submit": 7, "outcome": 7, "signal": 7}
    for name, entries in kinds.items():
        found = list(read_lines(encoded(entries)))
        assert not any(isinstance(each, Damage) for each in found)
        assert {type(each).__name__.lower() for each in found} == {name}
