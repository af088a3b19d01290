"""Produce: acks, refusals, duplicates, and waiting for the high watermark."""

import pytest

from purgatory_async.kafka.errors import ErrorCode
from purgatory_async.kafka.partition import Partition
from purgatory_async.testing import settle
from tests.kafka.made_batches import batch
from tests.kafka.protocol import DELETE_TOPICS, INIT_PRODUCER_ID, PRODUCE
from tests.kafka.socketless import SocketlessBroker, produced

pytestmark = pytest.mark.asyncio


@pytest.fixture
def led(replicated) -> Partition:
    """Partition 0 of ``r``, which another broker follows."""
    return replicated.node.topics.partition("r", 0)


def follow(broker: SocketlessBroker, led: Partition, offset: int) -> None:
    if led.follow(1, offset, 0, now=0):
        broker.node.changed(led)


@pytest.mark.parametrize("version", range(3, 10))
async def test_batches_get_the_offsets_that_follow_each_other(broker, version):
    answers = [await broker.produce("t", batch(b"a", b"b"), version=version) for _ in range(3)]
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [
        *((ErrorCode.none, 0), (ErrorCode.none, 2), (ErrorCode.none, 4)),
    ]
    assert [(read.offset, read.value) for read in await broker.read("t")] == [
        (offset, b"ab"[offset % 2 : offset % 2 + 1]) for offset in range(6)
    ]


async def test_acks_0_has_no_response_and_appends(broker):
    assert await broker.produce("t", batch(b"a"), acks=0) is None
    assert [read.value for read in await broker.read("t")] == [b"a"]


@pytest.mark.parametrize("acks", [2, -2, 32_767])
async def test_other_acks_are_refused_and_append_nothing(broker, acks):
    answer = await broker.produce("t", batch(), acks=acks)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.invalid_required_acks, -1)
    assert str(acks) in answer.error_message
    assert await broker.read("t") == []


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (batch()[:-1], ErrorCode.corrupt_message),
        (batch()[:-1] + b"\x7f", ErrorCode.corrupt_message),
        (batch()[:16] + b"\1" + batch()[17:], ErrorCode.unsupported_for_message_format),
        (batch() + batch(), ErrorCode.invalid_record),
        (b"", ErrorCode.invalid_record),
        (None, ErrorCode.invalid_record),
        (batch(b"x" * 2_000_000), ErrorCode.message_too_large),
    ],
    ids=["torn", "checksum", "old format", "two batches", "empty", "null", "too large"],
)
async def test_a_bad_batch_is_refused_and_leaves_nothing(broker, data, code):
    assert (await broker.produce("t", data)).error_code is code
    assert (await broker.read("t"), broker.node.topics.budget.used_bytes) == ([], 0)


async def test_one_bad_partition_does_not_refuse_the_other(broker):
    values = produced("t", batch(b"a"))
    values["topic_data"][0]["partition_data"] += [
        {"index": 1, "records": b"torn"},
        {"index": 9, "records": batch()},
    ]
    values["topic_data"] += produced("unknown", batch())["topic_data"]
    answer = await broker.ask(PRODUCE, 9, **values)
    assert [part.error_code for topic in answer.responses for part in topic.partition_responses] == [
        ErrorCode.none,
        ErrorCode.corrupt_message,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_or_partition,
    ]


async def test_producers_errors_and_duplicates_reach_the_client(broker):
    async def send(epoch: int, sequence: int):
        answer = await broker.produce("t", batch(b"v", producer=(5, epoch, sequence)))
        return answer.error_code, answer.base_offset

    assert [await send(1, 0), await send(1, 1), await send(1, 0)] == [
        *((ErrorCode.none, 0), (ErrorCode.none, 1), (ErrorCode.none, 0)),
    ]
    assert await send(1, 5) == (ErrorCode.out_of_order_sequence_number, -1)
    assert await send(0, 2) == (ErrorCode.invalid_producer_epoch, -1)
    assert len(await broker.read("t")) == 2


async def test_acks_all_waits_for_the_high_watermark(replicated, led):
    held = replicated.begin(PRODUCE, 9, **produced("r", batch(b"a", b"b")))
    await settle()
    follow(replicated, led, 1)
    await settle()
    assert (held.done(), replicated.node.produce.pending) == (False, 1)
    follow(replicated, led, 2)
    assert replicated.node.produce.pending == 0
    answer = (await held).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.none, 0)


async def test_acks_1_does_not_wait_for_a_follower(replicated, led):
    assert (await replicated.produce("r", batch(), acks=1)).error_code is ErrorCode.none
    assert await replicated.read("r") == []


async def test_acks_all_times_out_for_the_partition_that_is_short(replicated, led, manual_clock):
    values = produced("r", batch())
    values["topic_data"] += produced("t", batch())["topic_data"]
    held = replicated.begin(PRODUCE, 9, **values)
    await settle()
    manual_clock.advance(0.999)
    await settle()
    assert not held.done()
    manual_clock.advance(0.002)
    parts = [topic.partition_responses[0] for topic in (await held).responses]
    assert [(part.error_code, part.base_offset) for part in parts] == [
        *((ErrorCode.request_timed_out, -1), (ErrorCode.none, 0)),
    ]


async def test_falling_short_of_replicas_after_the_append_is_told(manual_clock):
    broker = SocketlessBroker(manual_clock, brokers=2, min_insync=2)
    (led,) = broker.node.topics.create("r", [(0, 1)]).partitions
    held = broker.begin(PRODUCE, 9, **produced("r", batch()))
    await settle()
    assert led.drop_laggards(now=11, lag=10)
    broker.node.changed(led)
    answer = (await held).responses[0].partition_responses[0]
    assert answer.error_code is ErrorCode.not_enough_replicas_after_append
    assert (await broker.produce("r", batch())).error_code is ErrorCode.not_enough_replicas
    broker.node.close()


async def test_another_leaders_partition_is_refused(replicated):
    answer = await replicated.produce("r", batch(), partition=1)
    assert answer.error_code is ErrorCode.not_leader_or_follower
    assert "leader 1" in answer.error_message


async def test_deleting_the_topic_ends_a_held_produce_at_once(replicated, led):
    held = replicated.begin(PRODUCE, 9, **produced("r", batch()))
    await settle()
    await replicated.ask(DELETE_TOPICS, 5, topic_names=["r"])
    assert replicated.node.produce.pending == 0
    assert (await held).responses[0].partition_responses[0].error_code is ErrorCode.unknown_topic_or_partition


async def test_a_cancelled_produce_leaves_its_purgatory_at_once(replicated, led):
    held = replicated.begin(PRODUCE, 9, **produced("r", batch()))
    await settle()
    held.cancel()
    await settle()
    assert (replicated.node.produce.pending, replicated.node.produce.keys) == (0, 0)


async def test_a_full_broker_refuses_until_records_are_deleted(manual_clock):
    broker = SocketlessBroker(manual_clock, max_bytes=10_000)
    broker.node.topics.create("t")
    codes = [(await broker.produce("t", batch(b"x" * 4_000))).error_code for _ in range(3)]
    assert codes == [ErrorCode.none, ErrorCode.none, ErrorCode.kafka_storage_error]
    await broker.ask(21, 2, topics=[{"name": "t", "partitions": [{"partition_index": 0, "offset": -1}]}])
    assert (await broker.produce("t", batch(b"x" * 4_000))).base_offset == 2
    broker.node.close()


async def test_producer_ids_are_distinct_and_transactions_refused(broker):
    answers = [await broker.ask(INIT_PRODUCER_ID, 4, transactional_id=None) for _ in range(2)]
    assert len({answer.producer_id for answer in answers}) == 2
    assert {(answer.error_code, answer.producer_epoch) for answer in answers} == {(ErrorCode.none, 0)}
    refused = await broker.ask(INIT_PRODUCER_ID, 4, transactional_id="tx")
    assert (refused.error_code, refused.producer_id) == (ErrorCode.unsupported_version, -1)
    values = {**produced("t", batch()), "transactional_id": "tx"}
    answer = (await broker.ask(PRODUCE, 9, **values)).responses[0].partition_responses[0]
    assert answer.error_code is ErrorCode.unsupported_version


async def test_an_empty_transactional_id_is_none(broker):
    answer = await broker.ask(PRODUCE, 9, **produced("t", batch(b"a")), transactional_id="")
    assert answer.responses[0].partition_responses[0].error_code is ErrorCode.none
