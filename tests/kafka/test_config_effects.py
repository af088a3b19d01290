"""What a topic's configs say is honoured when records are produced, from the next batch on."""

import asyncio

import pytest
from kio.records.readers import read_batch

from purgatory_async.kafka.batches import read_batches
from purgatory_async.kafka.errors import ErrorCode
from purgatory_async.testing import settle
from tests.kafka.config_requests import alter, change, create
from tests.kafka.made_batches import COMPRESSED, batch, checked, compressed
from tests.kafka.plain_client import until
from tests.kafka.protocol import FETCH, PRODUCE
from tests.kafka.socketless import SocketlessBroker, fetched, produced

pytestmark = pytest.mark.asyncio

NOW_MS = 1_700_000_000_000
SET, DELETE = 0, 1


@pytest.fixture
def broker(manual_clock):
    """A node at `NOW_MS` with a topic ``t``."""
    broker = SocketlessBroker(manual_clock)
    broker.node.now_ms = lambda: NOW_MS
    broker.node.topics.create("t")
    yield broker
    broker.node.close()


def stored(broker, topic: str = "t") -> bytes:
    log = broker.node.topics.partition(topic, 0).log
    return b"".join(log.read(log.start, log.end, 1 << 30, at_least_one=True))


async def test_a_batch_above_max_message_bytes_is_refused(broker):
    await create(broker, {"max.message.bytes": "100"})
    assert (await broker.produce("u", batch(b"v"))).error_code is ErrorCode.none
    answer = await broker.produce("u", batch(b"v" * 100))
    assert answer.error_code is ErrorCode.message_too_large
    assert "at most 100 bytes, got 170" in answer.error_message
    assert (await broker.produce("t", batch(b"v" * 100))).error_code is ErrorCode.none
    await change(broker, ("max.message.bytes", SET, "3000000"), topic="u")
    assert (await broker.produce("u", batch(b"v" * 2_000_000))).error_code is ErrorCode.none
    await change(broker, ("max.message.bytes", DELETE, None), topic="u")
    assert (await broker.produce("u", batch(b"v" * 2_000_000))).error_code is ErrorCode.message_too_large


async def test_too_few_replicas_for_the_topic_are_refused(broker):
    await create(broker, {"min.insync.replicas": "2"})
    answer = await broker.produce("u", batch())
    assert answer.error_code is ErrorCode.not_enough_replicas
    assert "2 replicas must be in sync, got 1" in answer.error_message
    assert (await broker.produce("u", batch(), acks=1)).error_code is ErrorCode.none
    await alter(broker, {}, topic="u")
    assert (await broker.produce("u", batch())).error_code is ErrorCode.none


async def test_replicas_lost_after_the_append_are_told(replicated):
    replicated.node.controller.configure({replicated.node.topics.find("r"): {"min.insync.replicas": "2"}})
    led = replicated.node.topics.partition("r", 0)
    held = replicated.begin(PRODUCE, 9, **produced("r", batch()))
    await settle()
    assert led.drop_laggards(now=11, lag=10)
    replicated.node.changed(led)
    answer = (await held).responses[0].partition_responses[0]
    assert answer.error_code is ErrorCode.not_enough_replicas_after_append


@pytest.mark.parametrize("version", [3, 7, 9])
async def test_log_append_time_is_the_brokers(broker, version):
    await create(broker, {"message.timestamp.type": "LogAppendTime"})
    answer = await broker.produce("u", batch(b"a", b"b", at_ms=1_000), version=version)
    assert answer.error_code is ErrorCode.none
    assert answer.log_append_time.timestamp() * 1000 == NOW_MS
    (header,) = read_batches(stored(broker, "u"))
    assert (header.attributes, header.max_timestamp) == (8, NOW_MS)
    read, _ = read_batch(stored(broker, "u"), 0)  # which checks the checksum
    assert [record.value for record in read.records] == [b"a", b"b"]


async def test_create_time_has_no_append_time(broker):
    answer = await broker.produce("t", batch(at_ms=1_000))
    assert answer.log_append_time is None
    (header,) = read_batches(stored(broker))
    assert (header.attributes, header.max_timestamp) == (0, 1_000)


async def test_a_batch_sent_again_has_its_first_append_time(broker):
    await alter(broker, {"message.timestamp.type": "LogAppendTime"})
    sent = batch(b"a", producer=(5, 0, 0))
    first = await broker.produce("t", sent)
    broker.node.now_ms = lambda: NOW_MS + 1_000
    again = await broker.produce("t", sent)
    assert (again.base_offset, again.log_append_time) == (0, first.log_append_time)
    await broker.produce("t", batch(b"b", producer=(5, 0, 1)))
    broker.node.topics.partition("t", 0).delete_before(1)
    assert (await broker.produce("t", sent)).error_code is ErrorCode.none


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("policy", ["compact", "delete,compact"])
async def test_a_compacted_topic_takes_no_record_without_key(broker, policy, codec):
    await create(broker, {"cleanup.policy": policy})
    keyed = compressed(batch(b"a", b"b", b"c", keys=[b"k", b"", b"k"]), *COMPRESSED[codec])
    assert (await broker.produce("u", keyed)).error_code is ErrorCode.none
    keyless = compressed(batch(b"a", b"b", b"c", keys=[None, b"k", None]), *COMPRESSED[codec])
    answer = await broker.produce("u", keyless)
    assert answer.error_code is ErrorCode.invalid_record
    assert [error.batch_index for error in answer.record_errors] == [0, 2]
    assert "must have a key, as cleanup.policy is compact, got 2 of 3 without" in answer.error_message
    assert (await broker.produce("t", keyless)).error_code is ErrorCode.none
    assert broker.node.topics.partition("u", 0).log.end == 3
    await alter(broker, {}, topic="u")
    assert (await broker.produce("u", keyless)).error_code is ErrorCode.none


@pytest.mark.parametrize("version", [3, 7, 8])
async def test_a_record_without_key_is_refused_in_each_version(broker, version):
    await create(broker, {"cleanup.policy": "compact"})
    answer = await broker.produce("u", batch(), version=version)
    assert answer.error_code is ErrorCode.invalid_record


async def test_partitions_beside_a_compacted_one_are_appended(broker):
    await create(broker, {"cleanup.policy": "compact"})
    values = produced("t", batch(b"a"))
    values["topic_data"] += produced("u", batch(b"b"))["topic_data"]
    values["topic_data"] += produced("u", batch(b"c"), partition=1)["topic_data"]
    answer = await broker.ask(PRODUCE, 9, **values)
    assert [topic.partition_responses[0].error_code.name for topic in answer.responses] == [
        *("none", "invalid_record", "unknown_topic_or_partition"),
    ]


async def test_damaged_batches_of_a_compacted_topic_are_refused(broker):
    await create(broker, {"cleanup.policy": "compact"})
    keyed = batch(b"a", keys=[b"k"])
    claims_gzip = checked(bytearray(keyed[:21] + b"\0\1" + keyed[23:]))
    cut = checked(bytearray(keyed[:61] + b"\x02" + keyed[62:]))
    for data in (keyed[:-1] + b"\x7f", claims_gzip, cut, keyed + keyed, b""):
        assert (await broker.produce("u", data)).error_code in {
            ErrorCode.corrupt_message,
            ErrorCode.invalid_record,
        }
    assert broker.node.topics.partition("u", 0).log.end == 0


async def test_acks_of_a_compacted_topic_are_as_wanted(broker):
    await create(broker, {"cleanup.policy": "compact"})
    sent = batch(b"a", keys=[b"k"], producer=(5, 0, 0))
    assert await broker.produce("u", sent, acks=0) is None
    assert [(await broker.produce("u", sent, acks=acks)).base_offset for acks in (1, -1)] == [0, 0]


async def test_a_topic_deleted_while_records_are_looked_at(broker):
    await create(broker, {"cleanup.policy": "compact"})
    many = batch(*[b"v"] * 3_000, keys=[b"k"] * 3_000)
    asking = broker.begin(PRODUCE, 9, **produced("u", many))
    await asyncio.sleep(0)
    broker.node.controller.delete(broker.node.topics.find("u"))
    answer = (await asking).responses[0].partition_responses[0]
    assert answer.error_code is ErrorCode.unknown_topic_or_partition


async def test_a_client_that_goes_leaves_others_records_told(broker):
    """What is appended before the records of another partition are looked at is known to those that wait for it."""
    for topic in ("u", "v"):
        await create(broker, {"cleanup.policy": "compact"}, topic=topic)
    waiting = [broker.begin(FETCH, 12, **fetched(topic, 0)) for topic in ("t", "u")]
    values = produced("t", batch(b"a"))
    values["topic_data"] += produced("u", batch(b"a", keys=[b"k"]))["topic_data"]
    values["topic_data"] += produced("v", batch(*[b"v"] * 9_000, keys=[b"k"] * 9_000))["topic_data"]
    asking = broker.begin(PRODUCE, 9, **values)
    await until(lambda: broker.node.topics.partition("u", 0).log.end)
    asking.cancel()
    await settle()
    assert broker.node.topics.partition("v", 0).log.end == 0
    assert [each.done() for each in waiting] == [True, True]


@pytest.mark.parametrize(
    ("at_ms", "before", "after", "code"),
    [
        (NOW_MS, "0", "0", ErrorCode.none),
        (NOW_MS - 10, "10", "0", ErrorCode.none),
        (NOW_MS - 11, "10", "0", ErrorCode.invalid_timestamp),
        (NOW_MS + 10, "0", "10", ErrorCode.none),
        (NOW_MS + 11, "0", "10", ErrorCode.invalid_timestamp),
        ([NOW_MS, NOW_MS - 11, NOW_MS], "10", "0", ErrorCode.invalid_timestamp),
        ([NOW_MS, NOW_MS - 10, NOW_MS], "10", "0", ErrorCode.none),
        (-1, "10", "10", ErrorCode.none),
    ],
)
async def test_timestamps_far_from_the_brokers_are_refused(broker, at_ms, before, after, code):
    limits = {"message.timestamp.before.max.ms": before, "message.timestamp.after.max.ms": after}
    await create(broker, limits)
    values = [b"v"] * (1 if isinstance(at_ms, int) else len(at_ms))
    answer = await broker.produce("u", batch(*values, at_ms=at_ms))
    assert answer.error_code is code
    if code is not ErrorCode.none:
        assert f"{before} ms before and {after} ms after {NOW_MS}, got 1 of" in answer.error_message
    await change(broker, ("message.timestamp.type", SET, "LogAppendTime"), topic="u")
    assert (await broker.produce("u", batch(*values, at_ms=at_ms))).error_code is ErrorCode.none
