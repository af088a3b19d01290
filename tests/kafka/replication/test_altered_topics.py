"""Configs and new partitions reach all brokers, and outlive each of them; virtual time."""

import asyncio

import pytest

from purgatory_async.kafka.errors import ErrorCode
from purgatory_async.testing import settle
from tests.kafka.config_requests import DESCRIBE_CONFIGS, alter, change, create, described, resource
from tests.kafka.made_batches import batch
from tests.kafka.replication.socketless_cluster import BROKERS, Carrier

pytestmark = pytest.mark.asyncio

CREATE_PARTITIONS = 37
SET = 0
CONFIGS = {"retention.ms": "5", "max.message.bytes": "100"}


async def carried(cluster, asking):
    """The answer to a request that waits until all brokers know."""
    request = asyncio.ensure_future(asking)
    await settle()
    assert not request.done()
    await cluster.settle()
    return await request


def enlarge(cluster, count: int, *replicas, number: int = 0, **fields):
    assignments = [{"broker_ids": each} for each in replicas] or None
    topics = [{"name": "t", "count": count, "assignments": assignments}]
    return cluster[number].ask(CREATE_PARTITIONS, 3, topics=topics, timeout=1_000, **fields)


def placements(cluster, topic: str = "t"):
    return [
        [partition.replicas for partition in cluster[number].node.topics.find(topic).partitions]
        for number in BROKERS
    ]


def configs(cluster, topic: str = "t"):
    return [dict(cluster[number].node.topics.find(topic).configs) for number in BROKERS]


async def topic_of_two(cluster):
    """Topic ``t``: broker 0 leads partition 0, broker 1 the other."""
    cluster[0].node.controller.create("t", [(0, 1), (1, 2)])
    await cluster.settle()


async def test_all_brokers_know_a_new_topics_configs(cluster):
    await cluster.settle()
    made = await carried(cluster, create(cluster[0], CONFIGS, topic="t"))
    assert made.error_code is ErrorCode.none
    assert configs(cluster) == [CONFIGS] * 3
    assert (await described(cluster[2], "retention.ms"))["retention.ms"].value == "5"


async def test_a_config_holds_on_another_leader(cluster):
    await topic_of_two(cluster)
    answer = await carried(cluster, change(cluster[0], ("max.message.bytes", SET, "100")))
    assert answer.error_code is ErrorCode.none
    refused = await cluster[1].produce("t", batch(b"v" * 100), partition=1, acks=1)
    assert refused.error_code is ErrorCode.message_too_large
    await carried(cluster, alter(cluster[0], {}))
    taken = await cluster[1].produce("t", batch(b"v" * 100), partition=1, acks=1)
    assert taken.error_code is ErrorCode.none


async def test_any_broker_has_the_controller_alter(cluster):
    """Kafka's own client sends this to any broker, and does not look for the controller."""
    await topic_of_two(cluster)
    cluster[2].node.ask_controller = Carrier(cluster[0], waits=True).ask
    answer = await carried(cluster, change(cluster[2], ("retention.ms", SET, "5")))
    assert (answer.error_code, answer.resource_name) == (ErrorCode.none, "t")
    assert configs(cluster) == [{"retention.ms": "5"}] * 3
    refused = await alter(cluster[2], {"retention.ms": "soon"})
    assert refused.error_code is ErrorCode.invalid_config
    assert "an integer from -1" in refused.error_message


async def test_without_the_controller_nothing_is_altered(cluster):
    await topic_of_two(cluster)
    for answer in (await alter(cluster[2], CONFIGS), await change(cluster[2], ("retention.ms", SET, "5"))):
        assert answer.error_code is ErrorCode.request_timed_out
        assert "broker 0, the controller, must be within reach" in answer.error_message


async def test_altering_times_out_when_a_broker_does_not_hear(cluster, manual_clock):
    await topic_of_two(cluster)
    asking = asyncio.ensure_future(alter(cluster[0], CONFIGS))
    await settle()
    manual_clock.advance(4.1)
    answer = await asking
    assert answer.error_code is ErrorCode.request_timed_out
    assert "not all brokers know" in answer.error_message


async def test_new_partitions_are_led_by_the_next_brokers(cluster):
    await topic_of_two(cluster)
    assert (await enlarge(cluster, 5, validate_only=True)).results[0].error_code is ErrorCode.none
    assert len(placements(cluster)[0]) == 2
    answer = await carried(cluster, enlarge(cluster, 5))
    assert answer.results[0].error_code is ErrorCode.none
    assert placements(cluster) == [[(0, 1), (1, 2), (2, 0), (0, 1), (1, 2)]] * 3
    assert (await cluster[2].produce("t", batch(b"a"), partition=2, acks=1)).error_code is ErrorCode.none
    await cluster.settle()
    assert cluster.partition(0, "t", 2).log.end == 1, "its follower has it"


async def test_new_partitions_go_where_they_are_assigned(cluster):
    await topic_of_two(cluster)
    for wrong in ([(2,)], [(2, 2)], [(2, 3)], [(2, 1), (1, 0)]):
        refused = (await enlarge(cluster, 3, *wrong)).results[0]
        assert refused.error_code is ErrorCode.invalid_replica_assignment
    await carried(cluster, enlarge(cluster, 4, (2, 1), (1, 0)))
    assert placements(cluster) == [[(0, 1), (1, 2), (2, 1), (1, 0)]] * 3


async def test_only_the_controller_enlarges(cluster):
    await topic_of_two(cluster)
    refused = (await enlarge(cluster, 3, number=1)).results[0]
    assert refused.error_code is ErrorCode.not_controller


async def test_a_new_partition_ends_the_fetch_that_lacks_it(cluster):
    await topic_of_two(cluster)
    held = asyncio.ensure_future(cluster.fetch(0, 2, waits=True))
    await settle()
    assert not held.done()
    cluster[0].node.controller.enlarge(cluster[0].node.topics.find("t"), [(2, 0)])
    await settle()
    assert held.done(), "the leader holds a fetch that does not name the new partition"
    with pytest.raises(EOFError):
        await held


@pytest.mark.parametrize("number", BROKERS)
async def test_a_restarted_broker_has_configs_and_partitions(cluster, number):
    await topic_of_two(cluster)
    node = cluster[0].node
    node.controller.configure({node.topics.find("t"): CONFIGS})
    node.controller.enlarge(node.topics.find("t"), [(2, 0)])
    await cluster.settle()
    leader = cluster.partition(0, "t", 2).leader
    await cluster[leader].produce("t", batch(b"a"), partition=2, acks=1)
    await cluster.settle()
    await cluster.restart(number, *(other for other in BROKERS if other != number))
    await cluster.settle()
    assert configs(cluster) == [CONFIGS] * 3
    assert placements(cluster) == [[(0, 1), (1, 2), (2, 0)]] * 3
    assert cluster.partition(2, "t", 2).log.end == 1


async def test_the_most_partitions_are_taken_back(cluster):
    """A follower that was away when the topic was enlarged does not know of it."""
    await topic_of_two(cluster)
    cluster[0].node.controller.enlarge(cluster[0].node.topics.find("t"), [(2, 0)])
    await cluster.fetch(1, 0)
    await cluster.restart(0, 1, 2)
    await cluster.settle()
    assert placements(cluster) == [[(0, 1), (1, 2), (2, 0)]] * 3


async def test_what_was_told_of_configs_does_not_grow_for_ever(cluster):
    await topic_of_two(cluster)
    node = cluster[0].node
    for number in range(2_000):
        node.controller.configure({node.topics.find("t"): {"retention.ms": str(number)}})
    assert node.cluster.metadata.log.size_bytes < 1 << 18
    await cluster.settle()
    assert configs(cluster) == [{"retention.ms": "1999"}] * 3


async def test_a_broker_describes_only_itself(cluster):
    asked = [resource(str(number), 4, configuration_keys=["node.id"]) for number in BROKERS]
    answer = await cluster[1].ask(DESCRIBE_CONFIGS, 4, resources=asked)
    assert [result.error_code.name for result in answer.results] == [
        *("invalid_request", "none", "invalid_request"),
    ]
