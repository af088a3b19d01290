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


class Desk:
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
    desk = Desk()
    first, second = desk.propose("a", "b")
    await asyncio.sleep(5)
    name = desk.writer.name
    assert desk.log.batches == [[("alive", name, 1)], [("a", name, 2), ("b", name, 3)]]
    assert not first.done()
    desk.settle(desk.log.batches[1][1])
    desk.settle(desk.log.batches[1][0])
    assert (await first, await second) == (2, 3)
    desk.running.cancel()


async def test_one_batch_is_under_way_and_the_rest_waits():
    desk = Desk()
    desk.propose("a")
    await asyncio.sleep(1.5)
    desk.propose("b", "c")
    await asyncio.sleep(0.1)
    desk.propose("d")
    assert desk.writer.waiting == 3
    await asyncio.sleep(5)
    assert [[entry for entry, _, _ in batch] for batch in desk.log.batches] == [
        ["alive"],
        ["a"],
        ["b", "c", "d"],
    ]
    desk.running.cancel()


async def test_an_unknown_writer_proposes_again_in_order():
    desk = Desk()
    desk.propose("a")
    await asyncio.sleep(2.5)
    old = desk.log.batches[1][0]
    desk.propose("b")
    await asyncio.sleep(0.5)  # its batch is under way
    desk.propose("c")
    desk.settle(old, Verdict.UNKNOWN)
    assert desk.writer.name != old[1]
    await asyncio.sleep(10)
    name = desk.writer.name
    assert desk.log.batches[-2:] == [[("alive", name, 1)], [("a", name, 2), ("b", name, 3), ("c", name, 4)]]
    desk.running.cancel()


@pytest.mark.parametrize("introduced", [False, True])
async def test_a_batch_that_no_caller_waits_for_is_given_up(introduced):
    desk = Desk()
    if introduced:
        desk.propose("first")
        await asyncio.sleep(5)
    before = len(desk.log.batches)
    desk.log.away = True
    (leaving,) = desk.propose("left")
    await asyncio.sleep(60)
    leaving.cancel()
    await asyncio.sleep(60)
    desk.log.away = False
    await asyncio.sleep(60)
    assert len(desk.log.batches) == before
    desk.propose("next")
    await asyncio.sleep(10)
    sent = [entry for batch in desk.log.batches for entry in batch]
    assert [entry for entry, _, _ in sent] == ["alive", *(["first"] if introduced else []), "next"]
    numbers = [number for _, _, number in sent]
    assert numbers == sorted(set(numbers))
    assert numbers[0] == 1
    desk.running.cancel()


@pytest.mark.parametrize("introduced", [False, True])
async def test_a_new_connection_begins_with_an_introduction(introduced):
    desk = Desk()
    if introduced:
        desk.propose("first")
        await asyncio.sleep(5)
    before, name = len(desk.log.batches), desk.writer.name
    desk.log.reconnected = 1
    desk.propose("next")
    await asyncio.sleep(5)
    introduction, batch = desk.log.batches[before:]
    assert [introduction[0][0], introduction[0][2]] == ["alive", 1]
    assert introduction[0][1] != name
    assert batch == [("next", desk.writer.name, 3 if introduced else 2)]
    assert (desk.writer.name == name) == introduced
    desk.propose("last")
    await asyncio.sleep(5)
    assert len(desk.log.batches) == before + 3
    desk.running.cancel()


async def test_a_log_that_fails_for_good_fails_every_proposal():
    desk = Desk()

    async def closed(batch):
        raise LogError("log is closed: cannot append")

    desk.log.append = closed
    proposals = desk.propose("a", "b")
    for proposal in proposals:
        with pytest.raises(LogError, match="log is closed"):
            await proposal
    with pytest.raises(LogError, match="log is closed"):
        await desk.running
    with pytest.raises(LogError, match="log is closed"):
        desk.propose("c")


async def test_what_goes_before_an_entry_is_right_before_it():
    desk = Desk()
    alone, behind = desk.writer.propose("a", 1), desk.writer.propose("b", 1, ["tick"] * 2)
    await asyncio.sleep(5)
    _, batch = desk.log.batches
    assert [(entry, number) for entry, _, number in batch] == [("a", 2), ("tick", 3), ("tick", 4), ("b", 5)]
    for entry in batch:
        desk.settle(entry)
    assert (await alone, await behind) == (2, 5)
    desk.running.cancel()


async def test_what_goes_before_an_entry_is_in_its_batch():
    desk = Desk()
    room = ["tick"] * (MAX_BATCH_ENTRIES - 1)
    desk.propose("a")
    desk.writer.propose("b", 1, room)
    desk.writer.propose("c", 1, room)
    await asyncio.sleep(9)
    assert [[batch[-1][0], len(batch)] for batch in desk.log.batches] == [
        ["alive", 1],
        ["a", 1],
        ["b", MAX_BATCH_ENTRIES],
        ["c", MAX_BATCH_ENTRIES],
    ]
    desk.running.cancel()


async def test_an_unknown_writer_proposes_with_what_goes_before():
    desk = Desk()
    proposed = desk.writer.propose("a", 1, ["tick"])
    await asyncio.sleep(5)
    for entry in desk.log.batches[1]:
        desk.settle(entry, Verdict.UNKNOWN)
    await asyncio.sleep(5)
    assert [entry for batch in desk.log.batches[2:] for entry, _, _ in batch] == ["alive", "tick", "a"]
    assert not proposed.done()
    desk.running.cancel()
