"""Records are found by their times, whatever batches they came in; one batch is opened at a time."""

import asyncio
import threading
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_async.kafka import finder
from purgatory_async.kafka.batches import read_batches
from purgatory_async.kafka.errors import ProtocolError
from purgatory_async.kafka.finder import Finder, Found
from purgatory_async.kafka.segments import Budget, Log
from purgatory_async.testing import settle
from tests.kafka.made_batches import COMPRESSED, batch, checked, compressed
from tests.kafka.plain_client import until

APPEND_TIME = 8
TIMES = st.integers(0, 9)
SEGMENT = 4_096


def appended(log: Log, data: bytes, epoch: int = 0) -> None:
    (header,) = read_batches(data)
    log.append(data, header, epoch)


def log_of(*batches: bytes) -> Log:
    log = Log(Budget(1 << 30))
    for data in batches:
        appended(log, data)
    return log


def timed(*times: int, codec: str = "gzip", attributes: int = 0, size: int = 1) -> bytes:
    """A batch of records at these times."""
    values = [b"v" * size] * len(times)
    return compressed(batch(*values, at_ms=times, attributes=attributes), *COMPRESSED[codec])


def claiming(made: bytes, greatest: int) -> bytes:
    """A batch with another greatest timestamp in its header."""
    return checked(bytearray(made[:35] + greatest.to_bytes(8, "big") + made[43:]))


@given(
    batches=st.lists(
        st.tuples(
            st.lists(TIMES, min_size=1, max_size=5),
            st.sampled_from(list(COMPRESSED)),
            st.sampled_from(["right", "of the first", "of the last", "LogAppendTime"]),
            st.sampled_from([1, SEGMENT]),
        ),
        max_size=6,
    ),
    data=st.data(),
)
def test_every_time_finds_the_record_that_a_search_finds(batches, data):
    log = log_of()
    records = []
    for epoch, (times, codec, header, size) in enumerate(batches):
        append_time = header == "LogAppendTime"
        made = timed(*times, codec=codec, attributes=APPEND_TIME * append_time, size=size)
        claims = {"of the first": times[0], "of the last": times[-1]}.get(header, max(times))
        appended(log, claiming(made, claims), epoch)
        records += [
            Found(len(records) + number, max(times) if append_time else time, epoch)
            for number, time in enumerate(times)
        ]
    log.trim(data.draw(st.integers(0, log.end)))
    records = records[log.start :]
    newest_first = data.draw(st.booleans())

    async def ask_newest(one: Finder) -> None:
        assert await one.newest(log) == max(records, key=lambda record: record.timestamp, default=None)

    async def ask() -> None:
        one = Finder()
        if newest_first:
            await ask_newest(one)
        for wanted in data.draw(st.permutations(range(11))):
            first = next((record for record in records if record.timestamp >= wanted), None)
            assert await one.first_at(log, wanted) == first
        await ask_newest(one)

    asyncio.run(ask())


@pytest.mark.asyncio
async def test_a_batch_that_is_passed_over_is_opened_once(monkeypatch):
    opened = []
    decompress = finder.decompress
    monkeypatch.setattr(finder, "decompress", lambda *given: opened.append(1) or decompress(*given))
    log, one = log_of(timed(1, 3, 2), timed(2, 2, 2), timed(1, 4, 1)), Finder()
    for _ in range(3):
        assert await one.first_at(log, 4) == Found(7, 4, 0)
    assert len(opened) == 2 + 3
    assert await one.first_at(log, 5) is None
    assert await one.newest(log) == Found(7, 4, 0)
    assert len(opened) == 2 + 3 + 2


def shorter(made: bytes) -> bytes:
    """A batch without its last byte."""
    cut = bytearray(made[:-1])
    cut[8:12] = (len(cut) - 12).to_bytes(4, "big")
    return checked(cut)


def with_byte(made: bytes, at: int, byte: int) -> bytes:
    return checked(bytearray(made[:at] + bytes([byte]) + made[at + 1 :]))


PLAIN = timed(1, 3, 5, codec="none")
RECORDS_AT = 61


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("made", "message"),
    [
        pytest.param(shorter(PLAIN), "3 records, got a damaged one after 2", id="cut"),
        pytest.param(with_byte(PLAIN, RECORDS_AT, 1), "damaged one after 0", id="negative length"),
        pytest.param(with_byte(PLAIN, RECORDS_AT, 2), "damaged one after 0", id="no length"),
        pytest.param(
            checked(bytearray(PLAIN[:RECORDS_AT] + b"\xff" * (len(PLAIN) - RECORDS_AT))),
            "after 0",
            id="endless number",
        ),
        pytest.param(shorter(timed(1, 3, 5)), "gzip must be whole", id="cut gzip"),
        pytest.param(with_byte(PLAIN, 22, 6), "codec must be 0 to 4, got 6", id="unknown codec"),
    ],
)
async def test_a_damaged_batch_is_refused(made, message):
    log, one = log_of(made), Finder()
    with pytest.raises(ProtocolError, match=message):
        await one.first_at(log, 4)
    with pytest.raises(ProtocolError, match=message):
        await one.newest(log)


@pytest.mark.asyncio
async def test_a_time_beyond_all_times_is_damage():
    far = bytearray(PLAIN)
    far[27:43] = (2**63 - 2).to_bytes(8, "big") + (2**63 - 1).to_bytes(8, "big")  # the first and the greatest
    with pytest.raises(ProtocolError, match="damaged one after 1"):
        await Finder().first_at(log_of(checked(far)), 2**63 - 1)


@pytest.mark.asyncio
async def test_a_batch_without_the_time_that_it_claims_is_passed_over():
    claims, others = claiming(PLAIN, 9), claiming(timed(1, 2, 1), 8)
    assert await Finder().newest(log_of(claims, others)) == Found(2, 5, 0)
    assert await Finder().first_at(log_of(claims, others, timed(9, 7)), 8) == Found(6, 9, 0)


@pytest.mark.asyncio
async def test_the_header_of_a_damaged_batch_is_believed():
    log, one = log_of(shorter(timed(1, 3, 5)), timed(7, 9, 8)), Finder()
    assert await one.first_at(log, 6) == Found(3, 7, 0)
    assert await one.newest(log) == Found(4, 9, 0)
    with pytest.raises(ProtocolError, match="gzip must be whole"):
        await one.first_at(log, 5)


@pytest.mark.asyncio
async def test_other_tasks_run_while_a_large_batch_is_read():
    log = log_of(batch(*[b""] * 20_000, at_ms=[0] * 19_999 + [1]))
    searching = asyncio.create_task(Finder().first_at(log, 1))
    turns = 0
    while not searching.done():
        await asyncio.sleep(0)
        turns += 1
    assert searching.result() == Found(19_999, 1, 0)
    assert turns >= 20


@pytest.mark.asyncio
async def test_what_is_deleted_during_a_search_is_not_found():
    log = log_of(timed(1, 5, 3), timed(4, 5))
    one = Finder()
    for search in (lambda: one.newest(log), lambda: one.first_at(log, 2)):
        searching = asyncio.create_task(search())
        await asyncio.sleep(0)
        log.trim(log.start + 2)
        assert (await searching).offset >= log.start
    log.reset(9)
    assert await one.first_at(log, 0) is await one.newest(log) is None


@pytest.mark.asyncio
async def test_one_batch_is_opened_at_a_time(monkeypatch):
    """Also after a client that asked has gone: its thread cannot be stopped."""
    may_end, running = threading.Event(), []

    def opening(codec, records):
        running.append(codec)
        may_end.wait()
        return decompress(codec, records)

    decompress = finder.decompress
    monkeypatch.setattr(finder, "decompress", opening)
    one, log = Finder(), log_of(timed(1, 5, 3))
    gone, other = (asyncio.create_task(one.first_at(log, 2)) for _ in range(2))
    await until(lambda: running)
    gone.cancel()
    await settle()
    assert (len(running), gone.done(), other.done()) == (1, False, False)
    may_end.set()
    with suppress(asyncio.CancelledError):
        await gone
    assert gone.cancelled()
    assert await other == Found(1, 5, 0)
    assert len(running) == 2
