"""Configs and new partitions reach all brokers, and outlive each of them; virtual time."""

import asyncio

import pytest

from purgatory_async.kafka.errors import ErrorCode
from purgatory_async.testing import settle
from tests.kafka.config_requests import DESCRIBE_CONFIGS, alter, change, create, described, resource
from tests.kafka.made_batches import batch
from tests.kafka.replication.desks import BROKERS, Carrier

pytestmark = pytest.mark.asyncio

CREATE_PARTITIONS = 37
SET = 0
CONFIGS = {"retention.ms": "5", "max.message.bytes": "100"}


async def carried(desks, asking):
    """The answer to a request that waits until all brokers know."""
    request = asyncio.ensure_future(asking)
    await settle()
    assert not request.done()
    await desks.settle()
    return await request


def enlarge(desks, count: int, *replicas, number: int = 0, **fields):
    assignments = [{"broker_ids": each} for each in replicas] or None
    topics = [{"name": "t", "count": count, "assignments": assignments}]
    return desks[number].ask(CREATE_PARTITIONS, 3, topics=topics, timeout=1_000, **fields)


def placements(desks, topic: str = "t"):
    return [
        [partition.replicas for partition in desks[number].node.topics.find(topic).partitions]
        for number in BROKERS
    ]


def configs(desks, topic: str = "t"):
    return [dict(desks[number].node.topics.find(topic).configs) for number in BROKERS]


async def topic_of_two(desks):
    """Topic ``t``: broker 0 leads partition 0, broker 1 the other."""
    desks[0].node.controller.create("t", [(0, 1), (1, 2)])
    await desks.settle()


async def test_all_brokers_know_a_new_topics_configs(desks):
    await desks.settle()
    made = await carried(desks, create(desks[0], CONFIGS, topic="t"))
    assert made.error_code is ErrorCode.none
    assert configs(desks) == [CONFIGS] * 3
    assert (await described(desks[2], "retention.ms"))["retention.ms"].value == "5"


async def test_a_config_holds_on_another_leader(desks):
    await topic_of_two(desks)
    answer = await carried(desks, change(desks[0], ("max.message.bytes", SET, "100")))
    assert answer.error_code is ErrorCode.none
    refused = await desks[1].produce("t", batch(b"v" * 100), partition=1, acks=1)
    assert refused.error_code is ErrorCode.message_too_large
    await carried(desks, alter(desks[0], {}))
    taken = await desks[1].produce("t", batch(b"v" * 100), partition=1, acks=1)
    assert taken.error_code is ErrorCode.none


async def test_any_broker_has_the_controller_alter(desks):
    """Kafka's own client sends this to any broker, and does not look for the controller."""
    await topic_of_two(desks)
    desks[2].node.ask_controller = Carrier(desks[0], waits=True).ask
    answer = await carried(desks, change(desks[2], ("retention.ms", SET, "5")))
    assert (answer.error_code, answer.resource_name) == (ErrorCode.none, "t")
    assert configs(desks) == [{"retention.ms": "5"}] * 3
    refused = await alter(desks[2], {"retention.ms": "soon"})
    assert refused.error_code is ErrorCode.invalid_config
    assert "an integer from -1" in refused.error_message


async def test_without_the_controller_nothing_is_altered(desks):
    await topic_of_two(desks)
    for answer in (await alter(desks[2], CONFIGS), await change(desks[2], ("retention.ms", SET, "5"))):
        assert answer.error_code is ErrorCode.request_timed_out
        assert "broker 0, the controller, must be within reach" in answer.error_message


async def test_altering_times_out_when_a_broker_does_not_hear(desks, manual_clock):
    await topic_of_two(desks)
    asking = asyncio.ensure_future(alter(desks[0], CONFIGS))
    await settle()
    manual_clock.advance(4.1)
    answer = await asking
    assert answer.error_code is ErrorCode.request_timed_out
    assert "not all brokers know" in answer.error_message


async def test_new_partitions_are_led_by_the_next_brokers(desks):
    await topic_of_two(desks)
    assert (await enlarge(desks, 5, validate_only=True)).results[0].error_code is ErrorCode.none
    assert len(placements(desks)[0]) == 2
    answer = await carried(desks, enlarge(desks, 5))
    assert answer.results[0].error_code is ErrorCode.none
    assert placements(desks) == [[(0, 1), (1, 2), (2, 0), (0, 1), (1, 2)]] * 3
    assert (await desks[2].produce("t", batch(b"a"), partition=2, acks=1)).error_code is ErrorCode.none
    await desks.settle()
    assert desks.partition(0, "t", 2).log.end == 1, "its follower has it"


async def test_new_partitions_go_where_they_are_assigned(desks):
    await topic_of_two(desks)
    for wrong in ([(2,)], [(2, 2)], [(2, 3)], [(2, 1), (1, 0)]):
        refused = (await enlarge(desks, 3, *wrong)).results[0]
        assert refused.error_code is ErrorCode.invalid_replica_assignment
    await carried(desks, enlarge(desks, 4, (2, 1), (1, 0)))
    assert placements(desks) == [[(0, 1), (1, 2), (2, 1), (1, 0)]] * 3


async def test_only_the_controller_enlarges(desks):
    await topic_of_two(desks)
    refused = (await enlarge(desks, 3, number=1)).results[0]
    assert refused.error_code is ErrorCode.not_controller


async def test_a_new_partition_ends_the_fetch_that_lacks_it(desks):
    await topic_of_two(desks)
    held = asyncio.ensure_future(desks.fetch(0, 2, waits=True))
    await settle()
    assert not held.done()
    desks[0].node.controller.enlarge(desks[0].node.topics.find("t"), [(2, 0)])
    await settle()
    assert held.done(), "the leader holds a fetch that does not name the new partition"
    with pytest.raises(EOFError):
        await held


@pytest.mark.parametrize("number", BROKERS)
async def test_a_restarted_broker_has_configs_and_partitions(desks, number):
    await topic_of_two(desks)
    node = desks[0].node
    node.controller.configure({node.topics.find("t"): CONFIGS})
    node.controller.enlarge(node.topics.find("t"), [(2, 0)])
    await desks.settle()
    leader = desks.partition(0, "t", 2).leader
    await desks[leader].produce("t", batch(b"a"), partition=2, acks=1)
    await desks.settle()
    await desks.restart(number, *(other for other in BROKERS if other != number))
    await desks.settle()
    assert configs(desks) == [CONFIGS] * 3
    assert placements(desks) == [[(0, 1), (1, 2), (2, 0)]] * 3
    assert desks.partition(2, "t", 2).log.end == 1


async def test_the_most_partitions_are_taken_back(desks):
    """A follower that was away when the topic was enlarged does not know of it."""
    await topic_of_two(desks)
    desks[0].node.controller.enlarge(desks[0].node.topics.find("t"), [(2, 0)])
    await desks.fetch(1, 0)
    await desks.restart(0, 1, 2)
    await desks.settle()
    assert placements(desks) == [[(0, 1), (1, 2), (2, 0)]] * 3


async def test_what_was_told_of_configs_does_not_grow_for_ever(desks):
    await topic_of_two(desks)
    node = desks[0].node
    for number in range(2_000):
        node.controller.configure({node.topics.find("t"): {"retention.ms": str(number)}})
    assert node.cluster.metadata.log.size_bytes < 1 << 18
    await desks.settle()
    assert configs(desks) == [{"retention.ms": "1999"}] * 3


async def test_a_broker_describes_only_itself(desks):
    asked = [resource(str(number), 4, configuration_keys=["node.id"]) for number in BROKERS]
    answer = await desks[1].ask(DESCRIBE_CONFIGS, 4, resources=asked)
    assert [result.error_code.name for result in answer.results] == [
        *("invalid_request", "none", "invalid_request"),
    ]
