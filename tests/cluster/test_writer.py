"""A writer's batches, numbers and names, in the `VirtualTimeLoop`."""

import asyncio

import pytest

from purgatory_async.cluster import Appended, LogError, LogUnavailable
from purgatory_async.cluster.log import MAX_BATCH_ENTRIES, LogReconnected
from purgatory_async.cluster.repetitions import Verdict
from purgatory_async.cluster.writer import Writer

pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])


class Recorded:
    """A log that only notes its batches; while `away`, they do not arrive."""

    def __init__(self):
        self.batches = []
        self.away = False
        self.reconnected = 0  # how many of the next appends come after a loss of the connection

    async def append(self, batch):
        await asyncio.sleep(1)
        if self.reconnected:
            self.reconnected -= 1
            raise LogReconnected("connection was lost")
        if self.away:
            raise LogUnavailable("connection refused")
        self.batches.append(batch)
        return Appended(sum(map(len, self.batches)) - len(batch) + 1, 0)


class RecordedWriter:
    """A writer on a recorded log."""

    def __init__(self):
        self.log = Recorded()
        self.writer = Writer(
            self.log,
            encode=lambda entry, name, number: (entry, name, number),
            introduction="alive",
            appended=lambda appended, batch: None,
        )
        self.running = asyncio.create_task(self.writer.run())

    def propose(self, *entries):
        return [self.writer.propose(entry, 1) for entry in entries]

    def settle(self, entry, verdict=Verdict.NEW):
        """Report an entry of the log as the reader does."""
        _, name, number = entry
        if name == self.writer.name:
            self.writer.settle(number, verdict, number)


async def test_a_writer_introduces_itself_alone_and_counts():
    recorded = RecordedWriter()
    first, second = recorded.propose("a", "b")
    await asyncio.sleep(5)
    name = recorded.writer.name
    assert recorded.log.batches == [[("alive", name, 1)], [("a", name, 2), ("b", name, 3)]]
    assert not first.done()
    recorded.settle(recorded.log.batches[1][1])
    recorded.settle(recorded.log.batches[1][0])
    assert (await first, await second) == (2, 3)
    recorded.running.cancel()


async def test_one_batch_is_under_way_and_the_rest_waits():
    recorded = RecordedWriter()
    recorded.propose("a")
    await asyncio.sleep(1.5)
    recorded.propose("b", "c")
    await asyncio.sleep(0.1)
    recorded.propose("d")
    assert recorded.writer.waiting == 3
    await asyncio.sleep(5)
    assert [[entry for entry, _, _ in batch] for batch in recorded.log.batches] == [
        ["alive"],
        ["a"],
        ["b", "c", "d"],
    ]
    recorded.running.cancel()


async def test_an_unknown_writer_proposes_again_in_order():
    recorded = RecordedWriter()
    recorded.propose("a")
    await asyncio.sleep(2.5)
    old = recorded.log.batches[1][0]
    recorded.propose("b")
    await asyncio.sleep(0.5)  # its batch is under way
    recorded.propose("c")
    recorded.settle(old, Verdict.UNKNOWN)
    assert recorded.writer.name != old[1]
    await asyncio.sleep(10)
    name = recorded.writer.name
    assert recorded.log.batches[-2:] == [
        [("alive", name, 1)],
        [("a", name, 2), ("b", name, 3), ("c", name, 4)],
    ]
    recorded.running.cancel()


@pytest.mark.parametrize("introduced", [False, True])
async def test_a_batch_that_no_caller_waits_for_is_given_up(introduced):
    recorded = RecordedWriter()
    if introduced:
        recorded.propose("first")
        await asyncio.sleep(5)
    before = len(recorded.log.batches)
    recorded.log.away = True
    (leaving,) = recorded.propose("left")
    await asyncio.sleep(60)
    leaving.cancel()
    await asyncio.sleep(60)
    recorded.log.away = False
    await asyncio.sleep(60)
    assert len(recorded.log.batches) == before
    recorded.propose("next")
    await asyncio.sleep(10)
    sent = [entry for batch in recorded.log.batches for entry in batch]
    assert [entry for entry, _, _ in sent] == ["alive", *(["first"] if introduced else []), "next"]
    numbers = [number for _, _, number in sent]
    assert numbers == sorted(set(numbers))
    assert numbers[0] == 1
    recorded.running.cancel()


@pytest.mark.parametrize("introduced", [False, True])
async def test_a_new_connection_begins_with_an_introduction(introduced):
    recorded = RecordedWriter()
    if introduced:
        recorded.propose("first")
        await asyncio.sleep(5)
    before, name = len(recorded.log.batches), recorded.writer.name
    recorded.log.reconnected = 1
    recorded.propose("next")
    await asyncio.sleep(5)
    introduction, batch = recorded.log.batches[before:]
    assert [introduction[0][0], introduction[0][2]] == ["alive", 1]
    assert introduction[0][1] != name
    assert batch == [("next", recorded.writer.name, 3 if introduced else 2)]
    assert (recorded.writer.name == name) == introduced
    recorded.propose("last")
    await asyncio.sleep(5)
    assert len(recorded.log.batches) == before + 3
    recorded.running.cancel()


async def test_a_log_that_fails_for_good_fails_every_proposal():
    recorded = RecordedWriter()

    async def closed(batch):
        raise LogError("log is closed: cannot append")

    recorded.log.append = closed
    proposals = recorded.propose("a", "b")
    for proposal in proposals:
        with pytest.raises(LogError, match="log is closed"):
            await proposal
    with pytest.raises(LogError, match="log is closed"):
        await recorded.running
    with pytest.raises(LogError, match="log is closed"):
        recorded.propose("c")


async def test_what_goes_before_an_entry_is_right_before_it():
    recorded = RecordedWriter()
    alone, behind = recorded.writer.propose("a", 1), recorded.writer.propose("b", 1, ["tick"] * 2)
    await asyncio.sleep(5)
    _, batch = recorded.log.batches
    assert [(entry, number) for entry, _, number in batch] == [("a", 2), ("tick", 3), ("tick", 4), ("b", 5)]
    for entry in batch:
        recorded.settle(entry)
    assert (await alone, await behind) == (2, 5)
    recorded.running.cancel()


async def test_what_goes_before_an_entry_is_in_its_batch():
    recorded = RecordedWriter()
    room = ["tick"] * (MAX_BATCH_ENTRIES - 1)
    recorded.propose("a")
    recorded.writer.propose("b", 1, room)
    recorded.writer.propose("c", 1, room)
    await asyncio.sleep(9)
    assert [[batch[-1][0], len(batch)] for batch in recorded.log.batches] == [
        ["alive", 1],
        ["a", 1],
        ["b", MAX_BATCH_ENTRIES],
        ["c", MAX_BATCH_ENTRIES],
    ]
    recorded.running.cancel()


async def test_an_unknown_writer_proposes_with_what_goes_before():
    recorded = RecordedWriter()
    proposed = recorded.writer.propose("a", 1, ["tick"])
    await asyncio.sleep(5)
    for entry in recorded.log.batches[1]:
        recorded.settle(entry, Verdict.UNKNOWN)
    await asyncio.sleep(5)
    assert [entry for batch in recorded.log.batches[2:] for entry, _, _ in batch] == ["alive", "tick", "a"]
    assert not proposed.done()
    recorded.running.cancel()
