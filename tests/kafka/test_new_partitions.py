"""CreatePartitions: topics get more partitions, never fewer."""

import pytest

from purgatory_async.kafka.errors import ErrorCode
from purgatory_async.kafka.handlers.allowance import MAX_NEW
from tests.kafka.config_requests import create
from tests.kafka.made_batches import batch
from tests.kafka.protocol import DELETE_TOPICS, METADATA
from tests.kafka.socketless import SocketlessBroker

pytestmark = pytest.mark.asyncio

CREATE_PARTITIONS, OFFSET_COMMIT = 37, 8


def wanted(count: int, *replicas: tuple[int, ...], name: str = "t"):
    return {"name": name, "count": count, "assignments": [{"broker_ids": each} for each in replicas] or None}


async def enlarged(broker, *topics, version: int = 3, **fields):
    answer = await broker.ask(CREATE_PARTITIONS, version, topics=topics, timeout=1_000, **fields)
    return [result.error_code.name for result in answer.results]


def placement(broker, topic: str = "t"):
    return [partition.replicas for partition in broker.node.topics.find(topic).partitions]


@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_new_partitions_follow_those_there_are(broker, version):
    await broker.produce("t", batch(b"kept"), partition=1)
    before = broker.node.topics.find("t").partitions
    assert await enlarged(broker, wanted(5), version=version) == ["none"]
    assert broker.node.topics.find("t").partitions[:2] == before
    assert (await broker.produce("t", batch(b"new"), partition=4)).error_code is ErrorCode.none
    (topic,) = (await broker.ask(METADATA, 12, topics=[{"name": "t"}])).topics
    assert [part.partition_index for part in topic.partitions] == list(range(5))


async def test_new_partitions_take_the_topics_configs(broker):
    await create(broker, {"max.message.bytes": "100"})
    await enlarged(broker, wanted(2, name="u"))
    refused = await broker.produce("u", batch(b"v" * 100), partition=1)
    assert refused.error_code is ErrorCode.message_too_large


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (wanted(1), "invalid_partitions"),
        (wanted(2), "invalid_partitions"),
        (wanted(-1), "invalid_partitions"),
        (wanted(2**31 - 1), "policy_violation"),
        (wanted(3, name="never"), "unknown_topic_or_partition"),
        (wanted(3, name="a b"), "invalid_topic_exception"),
        (wanted(3, (1,)), "invalid_replica_assignment"),
        (wanted(3, (0, 0)), "invalid_replica_assignment"),
        (wanted(3, ()), "invalid_replica_assignment"),
        (wanted(3, (0,), (0,)), "invalid_replica_assignment"),
        (wanted(4, (0,)), "invalid_replica_assignment"),
        ({"name": "t", "count": 3, "assignments": []}, "invalid_replica_assignment"),
    ],
)
async def test_a_wrong_enlargement_changes_nothing(broker, topic, code):
    assert await enlarged(broker, topic) == [code]
    assert await enlarged(broker, topic, validate_only=True) == [code]
    assert placement(broker) == [(0,), (0,)]


async def test_a_topic_named_twice_is_enlarged_by_neither(broker):
    assert await enlarged(broker, wanted(3), wanted(4)) == ["invalid_request"] * 2
    assert len(placement(broker)) == 2


async def test_the_bounds_of_partitions_hold_for_new_ones(manual_clock):
    broker = SocketlessBroker(manual_clock, max_partitions=MAX_NEW + 100)
    for name in "tu":
        broker.node.topics.create(name)
    assert await enlarged(broker, wanted(MAX_NEW), wanted(2, name="u")) == ["none", "policy_violation"]
    assert await enlarged(broker, wanted(102, name="u")) == ["policy_violation"]
    assert await enlarged(broker, wanted(101, name="u"), validate_only=True) == ["policy_violation"]
    assert await enlarged(broker, wanted(100, name="u")) == ["none"]
    assert await enlarged(broker, wanted(101, name="u")) == ["policy_violation"]
    await broker.ask(DELETE_TOPICS, 5, topic_names=["t"])
    assert await enlarged(broker, wanted(101, name="u")) == ["none"]
    broker.node.close()


async def test_offsets_of_new_partitions_can_be_committed(broker):
    await enlarged(broker, wanted(3))
    parts = [{"partition_index": index, "committed_offset": 1, "committed_metadata": ""} for index in (2, 3)]
    answer = await broker.ask(
        OFFSET_COMMIT,
        8,
        group_id="g",
        generation_id_or_member_epoch=-1,
        topics=[{"name": "t", "partitions": parts}],
    )
    codes = [part.error_code.name for part in answer.topics[0].partitions]
    assert codes == ["none", "unknown_topic_or_partition"]
