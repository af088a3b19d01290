"""What every log keeps, whatever its engine."""

import asyncio
from contextlib import aclosing
from itertools import pairwise

import pytest

from purgatory_async.cluster import Log, LogError, LogGap, LogUnavailable
from purgatory_async.cluster.connection import SharedTrip
from purgatory_async.cluster.log import MAX_BATCH_BYTES, MAX_ENTRY_BYTES, MAX_READ_BYTES, MAX_READ_ENTRIES
from purgatory_async.cluster.tail import Tail
from tests.cluster.engines import ENGINES
from tests.cluster.reading import each, positions, read, reads
from tests.cluster.servers import by_engine

pytestmark = pytest.mark.asyncio


async def test_a_new_log_is_empty(engine):
    log = engine.log()
    assert isinstance(log, Log)
    head = await log.open()
    assert head._replace(epoch="") == ("", 0, 0, 1, 0)
    assert head.epoch
    assert await log.end() == 0
    assert await log.load() is None
    await log.aclose()


async def test_batches_take_consecutive_positions(connect):
    log = await connect()
    first = await log.append([b"a", b"b", b"c"])
    second = await log.append([b"d", b""])
    assert (first.first, second.first) == (1, 4)
    entries = await read(log, 5)
    assert positions(entries) == [1, 2, 3, 4, 5]
    assert [entry.data for entry in entries] == [b"a", b"b", b"c", b"d", b""]
    assert [entry.at_us for entry in entries] == [first.at_us] * 3 + [second.at_us] * 2


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        pytest.param([], "1 to 1000 entries, got 0", id="empty"),
        pytest.param([b""] * 1001, "1 to 1000 entries, got 1001", id="too many"),
        pytest.param([b"a", bytes(MAX_ENTRY_BYTES + 1)], "at most 1572864 bytes, got 1572865", id="too long"),
        pytest.param([bytes(1_400_000)] * 3, "at most 4194304 bytes, got 4200000", id="too much"),
        pytest.param([b"a", "b"], "must be bytes, got str", id="text"),
        pytest.param(b"ab", "sequence of bytes, got bytes", id="no list"),
    ],
)
async def test_a_refused_batch_leaves_nothing_behind(connect, batch, message):
    log = await connect()
    with pytest.raises((TypeError, ValueError), match=message):
        await log.append(batch)
    assert await log.end() == 0
    assert (await log.append([b"next"])).first == 1


async def test_the_largest_batches_are_taken(connect):
    log = await connect()
    large = [bytes(MAX_ENTRY_BYTES), bytes(MAX_ENTRY_BYTES), bytes(MAX_BATCH_BYTES - 2 * MAX_ENTRY_BYTES)]
    await log.append(large)
    await log.append([b"%d" % number for number in range(1000)])
    assert [entry.data for entry in await read(log, 3)][:3] == large
    assert [entry.data for entry in await read(log, 1003, after=3)] == [b"%d" % n for n in range(1000)]


async def test_log_time_never_decreases_between_logs(connect):
    one, other = await connect(), await connect()
    for number in range(20):
        await (one, other)[number % 2].append([b"x"] * (1 + number % 3))
    times = [entry.at_us for entry in await read(one, await other.end())]
    assert all(earlier <= later for earlier, later in pairwise(times))
    assert times[0] > 1_500_000_000_000_000  # since 1970


async def test_logs_that_append_at_once_share_one_order(connect):
    logs = [await connect(), await connect()]
    batches = 25

    async def append(name):
        return [
            (await logs[name].append([b"%d %d %d" % (name, batch, index) for index in range(3)])).first
            for batch in range(batches)
        ]

    firsts = await asyncio.gather(append(0), append(1))
    end = 2 * batches * 3
    seen = [await read(log, end) for log in logs]
    assert seen[0] == seen[1]
    assert positions(seen[0]) == list(range(1, end + 1))
    for name in (0, 1):
        assert firsts[name] == sorted(firsts[name])
        for batch, first in enumerate(firsts[name]):
            data = [entry.data for entry in seen[0][first - 1 : first + 2]]
            assert data == [b"%d %d %d" % (name, batch, index) for index in range(3)]


async def test_what_is_appended_twice_is_there_twice(connect):
    log = await connect()
    assert [(await log.append([b"same"])).first for _ in range(2)] == [1, 2]
    assert [entry.data for entry in await read(log, 2)] == [b"same", b"same"]


async def test_a_follower_starts_after_its_position(connect):
    log = await connect()
    await log.append([b"a", b"b", b"c"])
    assert positions(await read(log, 3, after=1)) == [2, 3]


async def test_a_read_is_bounded_in_entries_and_bytes(connect):
    log = await connect()
    for _ in range(3):
        await log.append([b"x"] * 1000)
    assert [len(entries) for entries in await reads(log, 3000)] == [MAX_READ_ENTRIES, 1000]
    for _ in range(3):
        await log.append([bytes(1_000_000)] * 4)
    sizes = [len(entries) for entries in await reads(log, 3012, after=3000)]
    assert sizes == [MAX_READ_BYTES // 1_000_000, 4]


async def test_a_follower_hears_another_log(connect):
    one, other = await connect(), await connect()
    async with aclosing(one.follow(0)) as stream:
        for number in range(1, 6):
            hearing = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0)
            await other.append([b"%d" % number])
            (entry,) = await hearing
            assert (entry.position, entry.data) == (number, b"%d" % number)


async def test_a_follower_goes_on_across_cuts(engine, connect):
    one, other = await connect(), await connect()
    seen = []

    async def hear():
        async with aclosing(one.follow(0)) as stream:
            async for entries in stream:
                seen.extend(entries)
                if seen[-1].data == b"last":
                    return

    hearing = asyncio.create_task(hear())
    for number in range(10):
        await engine.cut()
        await append_until_known(other, [b"%d" % number])
        await asyncio.sleep(0)
    await append_until_known(other, [b"last"])
    await hearing
    assert positions(seen) == list(range(1, await other.end() + 1))
    assert list(dict.fromkeys(entry.data for entry in seen)) == [*(b"%d" % n for n in range(10)), b"last"]


async def append_until_known(log, batch):
    """Repeat a batch until its outcome is known; returns the number of attempts whose outcome is not."""
    unknown = 0
    while True:
        try:
            await log.append(batch)
        except LogUnavailable:
            unknown += 1
        else:
            return unknown


async def test_an_unknown_outcome_is_all_or_nothing(engine, connect):
    log, reader = await connect(), await connect()
    unknown = 0
    for number in range(30):
        appending = asyncio.create_task(append_until_known(log, [b"%d" % number, b"%d'" % number]))
        for _ in range(number % 5):
            await asyncio.sleep(0)
        await engine.cut()
        unknown += await appending
    entries = await read(reader, await reader.end())
    halves = [(one.data, other.data) for one, other in zip(entries[::2], entries[1::2], strict=True)]
    assert all(other == one + b"'" for one, other in halves)
    assert list(dict.fromkeys(one for one, _ in halves)) == [b"%d" % number for number in range(30)]
    assert 30 <= len(halves) <= 30 + unknown


async def test_following_from_beyond_the_end_is_a_gap(engine, connect):
    log = await connect()
    await log.append([b"a"])
    with pytest.raises(LogGap, match="3") as caught:
        await read(log, 4, after=3)
    fresh = engine.log()
    assert (caught.value.oldest, caught.value.epoch) == (1, (await fresh.open()).epoch)
    await fresh.aclose()


async def test_the_end_is_never_older_than_the_call(connect):
    one, other = await connect(), await connect()
    for _ in range(20):
        appended, _ = await asyncio.gather(one.append([b"x"]), other.end())
        assert await other.end() >= appended.first


async def test_ends_at_once_share_a_round_trip(connect, monkeypatch):
    log = await connect()
    await log.append([b"a"])
    trips = []
    going = SharedTrip._go

    async def counted(trip, before):
        trips.append(trip)
        return await going(trip, before)

    monkeypatch.setattr(SharedTrip, "_go", counted)
    assert await asyncio.gather(*(log.end() for _ in range(50))) == [1] * 50
    assert len(trips) <= 1


async def test_each_store_has_an_epoch_of_its_own(engine_name, engine, tmp_path):
    (tmp_path / "other").mkdir()
    async with ENGINES[engine_name](tmp_path / "other") as elsewhere:
        logs = [engine.log(), engine.log(), elsewhere.log()]
        one, same, other = [(await log.open()).epoch for log in logs]
        for log in logs:
            await log.aclose()
    assert one == same
    assert one != other


async def test_logs_that_open_an_empty_store_at_once_agree(engine):
    logs = [engine.log() for _ in range(4)]
    heads = await asyncio.gather(*(log.open() for log in logs))
    assert len(set(heads)) == 1
    firsts = await asyncio.gather(*(log.append([b"x"]) for log in logs))
    assert sorted(appended.first for appended in firsts) == [1, 2, 3, 4]
    for log in logs:
        await log.aclose()


async def test_closing_ends_the_followers(connect):
    log = await connect()
    heard = asyncio.Event()

    async def hear():
        async for _ in log.follow(0):
            heard.set()

    hearing = asyncio.create_task(hear())
    await log.append([b"a"])
    await heard.wait()
    await log.aclose()
    await hearing
    await log.aclose()


VERBS = {
    "append": lambda log: log.append([b"a"]),
    "follow": lambda log: read(log, 1),
    "end": lambda log: log.end(),
    "save": lambda log: log.save(1, each([b"a"]), keep=0),
    "load": lambda log: log.load(),
}


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
async def test_only_an_open_log_can_be_used(engine, verb):
    log = engine.log()
    with pytest.raises(LogError, match="log is not open: cannot "):
        await verb(log)
    await log.open()
    with pytest.raises(LogError, match="log is open: cannot open it again"):
        await log.open()
    await log.aclose()
    with pytest.raises(LogError, match="log is closed: cannot "):
        await verb(log)
    with pytest.raises(LogError, match="log is closed: cannot open it again"):
        await log.open()


async def test_a_follower_starts_at_no_negative_position(connect):
    log = await connect()
    with pytest.raises(ValueError, match="after must be 0 or a position, got -1"):
        await read(log, 1, after=-1)


@pytest.mark.parametrize("engine_name", by_engine(["sqlite", "postgres", "redis"]), indirect=True)
async def test_a_log_does_not_read_back_what_it_appends(connect, monkeypatch):
    log, asked = await connect(), []
    follow = Tail.follow

    def counting(tail, after, epoch, read):
        def counted(after):
            asked.append(after)
            return read(after)

        return follow(tail, after, epoch, counted)

    monkeypatch.setattr(Tail, "follow", counting)
    async with aclosing(log.follow(0)) as stream:
        for position in range(
            1, 101
        ):  # in turns, so that no read is due, however slow the engine's hints are
            await log.append([b"x"])
            assert [entry.position for entry in await anext(stream)] == [position]
    assert asked == [0]  # a follower begins with a read
