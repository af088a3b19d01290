"""The log: whole batches in order, read without copies, freed by the segment."""

import pytest

from purgatory_async.kafka.batches import read_batches
from purgatory_async.kafka.budget import Budget
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.segments import Log
from tests.kafka.made_batches import batch, records_in

EVERYTHING = 1 << 30


def filled(*sizes: int, budget: Budget | None = None) -> Log:
    """A log with a batch of each size, each of one record."""
    log = Log(budget or Budget(EVERYTHING))
    for number, size in enumerate(sizes):
        data = batch(b"x" * size, at_ms=1_000 + number)
        (header,) = read_batches(data)
        assert log.append(data, header, 0) == number
    return log


def offsets(
    log: Log, offset: int, until: int | None = None, max_bytes: int = EVERYTHING, **values
) -> list[int]:
    views = log.read(
        offset, log.end if until is None else until, max_bytes, **{"at_least_one": False, **values}
    )
    return [record.offset for record in records_in(b"".join(views))]


def test_reading_begins_with_the_batch_of_the_offset():
    log = Log(Budget(EVERYTHING))
    for data in (batch(b"a", b"b", b"c"), batch(b"d")):
        (header,) = read_batches(data)
        log.append(data, header, 0)
    assert offsets(log, 1) == [0, 1, 2, 3]
    assert offsets(log, 3) == [3]
    assert offsets(log, 4) == []


def test_reading_spans_segments_up_to_its_bytes():
    log = filled(*[3_000] * 40)
    size = len(batch(b"x" * 3_000))
    assert offsets(log, 5) == list(range(5, 40))
    assert offsets(log, 5, max_bytes=10 * size) == list(range(5, 15))
    assert offsets(log, 5, max_bytes=10 * size - 1) == list(range(5, 14))
    assert offsets(log, 5, until=9) == [5, 6, 7, 8]


def test_a_batch_above_the_bound_is_read_if_one_must_be():
    log = filled(100, 50_000, 100)
    assert offsets(log, 1, max_bytes=10) == []
    assert offsets(log, 1, max_bytes=10, at_least_one=True) == [1]
    assert offsets(log, 1, until=1, max_bytes=10, at_least_one=True) == []


def test_bytes_between_offsets_are_those_that_a_read_returns():
    log = filled(*[700] * 30)
    log.trim(11)
    for offset in range(11, 30):
        read = sum(map(len, log.read(offset, 25, EVERYTHING, at_least_one=False)))
        assert log.bytes_between(offset, 25) == read


def test_appending_changes_nothing_that_was_read():
    log = filled(10, 10)
    views = log.read(0, 2, EVERYTHING, at_least_one=False)
    before = bytes(views[0])
    data = batch(b"y" * 10)
    (header,) = read_batches(data)
    log.truncate(1)
    log.append(data, header, 9)
    assert bytes(views[0]) == before
    assert [
        (record.value[:1], record.epoch)
        for record in records_in(b"".join(log.read(0, 2, EVERYTHING, at_least_one=False)))
    ] == [
        (b"x", 0),
        (b"y", 9),
    ]


def test_trimming_frees_whole_segments_and_their_room():
    budget = Budget(EVERYTHING)
    log = filled(*[3_000] * 40, budget=budget)
    whole = budget.used_bytes
    log.trim(39)
    assert (log.start, log.end, offsets(log, 39)) == (39, 40, [39])
    assert budget.used_bytes == log.size_bytes < whole / 2
    log.trim(40)
    assert (budget.used_bytes, log.size_bytes, log.end) == (0, 0, 40)


def test_offsets_go_on_after_everything_was_trimmed():
    log = filled(10, 10)
    log.trim(2)
    data = batch(b"x")
    (header,) = read_batches(data)
    assert log.append(data, header, 0) == 2
    assert offsets(log, 2) == [2]


def test_a_full_room_takes_nothing_and_says_what_to_do():
    budget = Budget(2 * len(batch(b"x" * 100)))
    log = filled(100, 100, budget=budget)
    data = batch(b"x")
    (header,) = read_batches(data)
    with pytest.raises(ProtocolError, match=f"at most {budget.max_bytes} bytes.*delete records") as caught:
        log.append(data, header, 0)
    assert caught.value.code is ErrorCode.kafka_storage_error
    assert (log.end, budget.used_bytes) == (2, budget.max_bytes)


def test_cut_batches_have_no_times():
    log = filled(3_000)
    for at_ms in (2_000, 4_000):  # two in a segment of their own
        data = batch(b"x" * 3_000, at_ms=at_ms)
        (header,) = read_batches(data)
        log.append(data, header, 0)
    assert log.newest(0) == 4_000
    log.truncate(2)
    assert (log.newest(0), log.newest(1), log.batch_at(2_001, 0)) == (2_000, 2_000, None)
