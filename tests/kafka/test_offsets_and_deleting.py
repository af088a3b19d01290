"""ListOffsets, and DeleteRecords with its wait for followers."""

import asyncio

import pytest

from purgatory_async.kafka.errors import ErrorCode
from purgatory_async.kafka.partition import Partition
from purgatory_async.testing import settle
from tests.kafka.made_batches import COMPRESSED, batch, checked, compressed
from tests.kafka.protocol import DELETE_RECORDS, DELETE_TOPICS, LIST_OFFSETS

pytestmark = pytest.mark.asyncio

LATEST, EARLIEST, NEWEST = -1, -2, -3


async def offset(broker, timestamp: int, *, topic: str = "t", version: int = 7):
    part = {"partition_index": 0, "timestamp": timestamp}
    answer = await broker.ask(LIST_OFFSETS, version, topics=[{"name": topic, "partitions": [part]}])
    found = answer.topics[0].partitions[0]
    return (found.offset, found.timestamp) if found.error_code is ErrorCode.none else found.error_code


def deleting(topic: str, offset: int, timeout: int = 1_000):
    part = {"partition_index": 0, "offset": offset}
    return {"topics": [{"name": topic, "partitions": [part]}], "timeout": timeout}


async def deleted(broker, offset: int, *, topic: str = "t", version: int = 2):
    answer = await broker.ask(DELETE_RECORDS, version, **deleting(topic, offset))
    found = answer.topics[0].partitions[0]
    return found.error_code, found.low_watermark


@pytest.fixture
def led(replicated) -> Partition:
    """Partition 0 of ``r``, which another broker follows and has three records of."""
    partition = replicated.node.topics.partition("r", 0)
    partition.append(batch(b"a", b"b", b"c"), acks_all=False)
    partition.follow(1, 3, 0, now=0)
    return partition


@pytest.mark.parametrize("version", range(1, 11))
async def test_the_first_and_the_last_offset_are_listed(broker, version):
    for _ in range(3):
        await broker.produce("t", batch(b"a", b"b"))
    await deleted(broker, 2)
    assert await offset(broker, EARLIEST, version=version) == (2, -1)
    assert await offset(broker, LATEST, version=version) == (6, -1)


async def test_all_offsets_are_here_and_none_in_remote_storage(broker):
    await broker.produce("t", batch(b"a", b"b"))
    await deleted(broker, 1)
    earliest_here, latest_elsewhere = -4, -5
    assert await offset(broker, earliest_here, version=8) == (1, -1)
    assert await offset(broker, latest_elsewhere, version=9) == (-1, -1)


@pytest.mark.parametrize("version", range(1, 11))
@pytest.mark.parametrize("codec", COMPRESSED)
async def test_a_time_finds_the_record_that_has_it(broker, version, codec):
    made = compressed(batch(b"a", b"b", b"c", b"d", at_ms=[1_000, 2_000, 5_000, 3_000]), *COMPRESSED[codec])
    await broker.produce("t", made)
    found = [await offset(broker, at_ms, version=version) for at_ms in (0, 1_001, 2_000, 3_000, 5_001)]
    assert found == [(0, 1_000), (1, 2_000), (1, 2_000), (2, 5_000), (-1, -1)]
    assert await offset(broker, NEWEST, version=version) == (2, 5_000)


async def test_deleted_records_have_no_time(broker):
    for at_ms in (5_000, 1_000):
        await broker.produce("t", batch(b"a", at_ms=at_ms))
    await deleted(broker, 1)
    assert [await offset(broker, wanted) for wanted in (2_000, NEWEST, 0)] == [(-1, -1), *[(1, 1_000)] * 2]


async def test_records_that_are_not_replicated_have_no_time(replicated, led):
    led.append(batch(b"d", b"e", at_ms=[9_000, 8_000]), acks_all=False)
    found = [await offset(replicated, wanted, topic="r") for wanted in (1_000, 8_500, NEWEST)]
    assert found == [(0, 1_000), (-1, -1), (-1, -1)]


async def test_a_record_has_the_epoch_of_its_leader(broker):
    await broker.produce("t", batch(b"a", at_ms=1_000))
    broker.node.topics.partition("t", 0).lead_again(7)
    await broker.produce("t", batch(b"b", at_ms=2_000))
    asked = [{"partition_index": 0, "timestamp": at_ms} for at_ms in (1_000, 2_000, 3_000, LATEST)]
    answer = await broker.ask(LIST_OFFSETS, 7, topics=[{"name": "t", "partitions": asked}])
    assert [part.leader_epoch for part in answer.topics[0].partitions] == [0, 7, -1, 7]


async def test_a_time_in_a_damaged_batch_is_refused(broker, caplog):
    damaged = bytearray(batch(b"a", b"b", at_ms=[1_000, 2_000]))
    damaged[61] = 127  # the first record's length
    await broker.produce("t", checked(damaged))
    await broker.produce("t", batch(b"c", at_ms=3_000), partition=1)
    assert await offset(broker, 2_000) is await offset(broker, NEWEST) is ErrorCode.invalid_record
    assert "t-0 0..2..2> finds no record at 2000: the batch at offset 0" in caplog.text
    assert [await offset(broker, wanted) for wanted in (EARLIEST, LATEST)] == [(0, -1), (2, -1)]
    parts = [{"partition_index": index, "timestamp": 1} for index in range(2)]
    answer = await broker.ask(LIST_OFFSETS, 7, topics=[{"name": "t", "partitions": parts}])
    assert [part.offset for part in answer.topics[0].partitions] == [-1, 0]


async def test_a_time_in_a_topic_deleted_meanwhile_is_refused(broker):
    await broker.produce("t", batch(b"a", b"b", at_ms=[1_000, 2_000]))
    asked = asyncio.create_task(offset(broker, 2_000))
    await asyncio.sleep(0)
    broker.node.controller.delete(broker.node.topics.find("t"))
    assert await asked is ErrorCode.unknown_topic_or_partition


async def test_an_unknown_kind_of_offset_is_refused(broker):
    assert await offset(broker, -6) is ErrorCode.unsupported_version


async def test_an_empty_partition_has_no_offset_at_a_time(broker):
    assert [await offset(broker, wanted) for wanted in (0, NEWEST)] == [(-1, -1)] * 2


async def test_offsets_of_an_unknown_topic_are_refused(broker):
    assert await offset(broker, LATEST, topic="other") is ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("version", range(3))
async def test_records_before_an_offset_are_deleted(broker, version):
    await broker.produce("t", batch(b"a", b"b", b"c"))
    assert await deleted(broker, 1, version=version) == (ErrorCode.none, 1)
    assert (await broker.fetch("t", 0)).error_code is ErrorCode.offset_out_of_range
    assert (await broker.fetch("t", 1)).log_start_offset == 1


async def test_deleting_to_minus_1_deletes_to_the_high_watermark(replicated, led):
    led.append(batch(b"d"), acks_all=False)
    held = replicated.begin(DELETE_RECORDS, 2, **deleting("r", -1))
    await settle()
    led.follow(1, 3, 3, now=0)
    replicated.node.changed(led)
    found = (await held).topics[0].partitions[0]
    assert (found.error_code, found.low_watermark) == (ErrorCode.none, 3)


@pytest.mark.parametrize("wanted", [-2, 3, 4])
async def test_deleting_out_of_range_is_refused(broker, wanted):
    await broker.produce("t", batch(b"a", b"b"))
    await deleted(broker, 1)
    assert await deleted(broker, wanted) == (ErrorCode.offset_out_of_range, -1)


@pytest.mark.parametrize("wanted", [0, 1, 2])
async def test_deleting_what_is_deleted_changes_nothing(broker, wanted):
    await broker.produce("t", batch(b"a", b"b", b"c"))
    await deleted(broker, 2)
    assert await deleted(broker, wanted) == (ErrorCode.none, 2)
    assert broker.node.topics.partition("t", 0).log.start == 2


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
