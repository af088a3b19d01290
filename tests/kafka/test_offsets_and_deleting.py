"""ListOffsets, and DeleteRecords with its wait for followers."""

import pytest

from purgatory_async.kafka.errors import ErrorCode
from purgatory_async.kafka.partition import Partition
from purgatory_async.testing import settle
from tests.kafka.made_batches import batch
from tests.kafka.protocol import DELETE_RECORDS, DELETE_TOPICS, LIST_OFFSETS

pytestmark = pytest.mark.asyncio

LATEST, EARLIEST, NEWEST = -1, -2, -3


async def offset(desk, timestamp: int, *, topic: str = "t", version: int = 7):
    part = {"partition_index": 0, "timestamp": timestamp}
    answer = await desk.ask(LIST_OFFSETS, version, topics=[{"name": topic, "partitions": [part]}])
    found = answer.topics[0].partitions[0]
    return (found.offset, found.timestamp) if found.error_code is ErrorCode.none else found.error_code


def deleting(topic: str, offset: int, timeout: int = 1_000):
    part = {"partition_index": 0, "offset": offset}
    return {"topics": [{"name": topic, "partitions": [part]}], "timeout": timeout}


async def deleted(desk, offset: int, *, topic: str = "t", version: int = 2):
    answer = await desk.ask(DELETE_RECORDS, version, **deleting(topic, offset))
    found = answer.topics[0].partitions[0]
    return found.error_code, found.low_watermark


@pytest.fixture
def led(replicated) -> Partition:
    """Partition 0 of ``r``, which another broker follows and has three records of."""
    partition = replicated.node.topics.partition("r", 0)
    partition.append(batch(b"a", b"b", b"c"), acks_all=False, max_batch_bytes=1 << 20)
    partition.follow(1, 3, 0, now=0)
    return partition


@pytest.mark.parametrize("version", range(1, 8))
async def test_the_first_and_the_last_offset_are_listed(desk, version):
    for _ in range(3):
        await desk.produce("t", batch(b"a", b"b"))
    await deleted(desk, 2)
    assert await offset(desk, EARLIEST, version=version) == (2, -1)
    assert await offset(desk, LATEST, version=version) == (6, -1)


async def test_a_time_finds_the_batch_that_has_it(desk):
    for at_ms in (100, 300, 200):
        await desk.produce("t", batch(b"a", b"b", at_ms=at_ms))
    assert [await offset(desk, at_ms) for at_ms in (0, 100, 101, 300, 301)] == [
        *((0, 100), (0, 100), (2, 300), (2, 300), (-1, -1)),
    ]
    assert await offset(desk, NEWEST) == (2, 300)


async def test_an_empty_partition_has_no_offset_at_a_time(desk):
    assert [await offset(desk, wanted) for wanted in (0, NEWEST)] == [(-1, -1)] * 2


async def test_offsets_of_an_unknown_topic_are_refused(desk):
    assert await offset(desk, LATEST, topic="other") is ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("version", range(3))
async def test_records_before_an_offset_are_deleted(desk, version):
    await desk.produce("t", batch(b"a", b"b", b"c"))
    assert await deleted(desk, 1, version=version) == (ErrorCode.none, 1)
    assert (await desk.fetch("t", 0)).error_code is ErrorCode.offset_out_of_range
    assert (await desk.fetch("t", 1)).log_start_offset == 1


async def test_deleting_to_minus_1_deletes_to_the_high_watermark(replicated, led):
    led.append(batch(b"d"), acks_all=False, max_batch_bytes=1 << 20)
    held = replicated.begin(DELETE_RECORDS, 2, **deleting("r", -1))
    await settle()
    led.follow(1, 3, 3, now=0)
    replicated.node.changed(led)
    found = (await held).topics[0].partitions[0]
    assert (found.error_code, found.low_watermark) == (ErrorCode.none, 3)


@pytest.mark.parametrize("wanted", [-2, 3, 4])
async def test_deleting_out_of_range_is_refused(desk, wanted):
    await desk.produce("t", batch(b"a", b"b"))
    await deleted(desk, 1)
    assert await deleted(desk, wanted) == (ErrorCode.offset_out_of_range, -1)


@pytest.mark.parametrize("wanted", [0, 1, 2])
async def test_deleting_what_is_deleted_changes_nothing(desk, wanted):
    await desk.produce("t", batch(b"a", b"b", b"c"))
    await deleted(desk, 2)
    assert await deleted(desk, wanted) == (ErrorCode.none, 2)
    assert desk.node.topics.partition("t", 0).log.start == 2


async def test_deleting_again_waits_only_for_its_own_offset(replicated, led):
    held = replicated.begin(DELETE_RECORDS, 2, **deleting("r", 3))
    again = replicated.begin(DELETE_RECORDS, 2, **deleting("r", 1))
    await settle()
    assert (held.done(), again.done()) == (False, False)  # the follower has not deleted any
    led.follow(1, 3, 1, now=0)
    replicated.node.changed(led)
    found = (await again).topics[0].partitions[0]
    assert (found.error_code, found.low_watermark, held.done()) == (ErrorCode.none, 1, False)
    held.cancel()


async def test_deleting_waits_until_followers_have_deleted(replicated, led):
    held = replicated.begin(DELETE_RECORDS, 2, **deleting("r", 2))
    await settle()
    assert (held.done(), replicated.node.delete_records.pending) == (False, 1)
    led.follow(1, 3, 2, now=0)
    replicated.node.changed(led)
    found = (await held).topics[0].partitions[0]
    assert (found.error_code, found.low_watermark) == (ErrorCode.none, 2)


async def test_deleting_times_out_with_a_follower_that_does_not(replicated, led, manual_clock):
    held = replicated.begin(DELETE_RECORDS, 2, **deleting("r", 2))
    await settle()
    manual_clock.advance(1.001)
    found = (await held).topics[0].partitions[0]
    assert (found.error_code, found.low_watermark) == (ErrorCode.request_timed_out, -1)
    assert led.log.start == 2


async def test_deleting_the_topic_ends_a_held_delete(replicated, led):
    held = replicated.begin(DELETE_RECORDS, 2, **deleting("r", 2))
    await settle()
    await replicated.ask(DELETE_TOPICS, 5, topic_names=["r"])
    assert (await held).topics[0].partitions[0].error_code is ErrorCode.unknown_topic_or_partition
