"""What brokers tell each other: topics, sets in sync, who is within reach; and what clients are told."""

import uuid

import pytest

from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.replication.change import Change, InSync, PublishedTopic, read_changes
from purgatory_async.testing import settle
from tests.kafka.made_batches import batch
from tests.kafka.protocol import CREATE_TOPICS, DELETE_TOPICS, DESCRIBE_CLUSTER, INIT_PRODUCER_ID, METADATA
from tests.kafka.socketless import SocketlessBroker

pytestmark = pytest.mark.asyncio

FIND_COORDINATOR = 10
INTERNAL = "__cluster_metadata"


def wanted(name: str, **values):
    return {"name": name, "num_partitions": 3, "replication_factor": 3, **values}


def placement(broker, topic: str):
    return [partition.replicas for partition in broker.node.topics.find(topic).partitions]


async def described(broker, topic: str):
    answer = await broker.ask(METADATA, 12, topics=[{"name": topic}], allow_auto_topic_creation=False)
    return answer.topics[0].partitions


async def test_a_change_is_read_as_it_was_told():
    created = PublishedTopic("t", str(uuid.uuid4()), ((0, 1), (1, 2)), {"retention.ms": "5"})
    changes = [
        Change(topics=(created,)),
        Change(deleted=(created.id,)),
        Change(everything=True, in_sync=(InSync(created.id, 1, (1,)),)),
    ]
    assert list(read_changes(b"".join(change.encode() for change in changes))) == changes


async def test_creating_waits_until_all_in_sync_know_the_topic(cluster):
    await cluster.settle()
    held = cluster[0].begin(CREATE_TOPICS, 7, topics=[wanted("t")], timeout=1_000)
    await settle()
    for follower in (1, 2):
        assert not held.done()
        await cluster.fetch(follower, 0)
        await cluster.fetch(follower, 0)
    assert (await held).topics[0].error_code is ErrorCode.none
    assert placement(cluster[0], "t") == [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
    assert placement(cluster[0], "t") == placement(cluster[1], "t") == placement(cluster[2], "t")
    assert len({cluster[number].node.topics.find("t").id for number in range(3)}) == 1


async def test_creating_times_out_when_a_broker_does_not_hear(cluster, manual_clock):
    await cluster.settle()
    held = cluster[0].begin(CREATE_TOPICS, 7, topics=[wanted("t"), wanted("..")], timeout=1_000)
    await settle()
    manual_clock.advance(1.001)
    assert [result.error_code for result in (await held).topics] == [
        ErrorCode.request_timed_out,
        ErrorCode.invalid_topic_exception,
    ]


async def test_names_collide_on_every_broker(cluster):
    topic = cluster[0].node.controller.create("x.1")
    await cluster.settle()
    for number in range(3):
        (found,) = (await cluster[number].ask(METADATA, 12, topics=[{"name": "x_1"}])).topics
        assert found.error_code is ErrorCode.invalid_topic_exception
    cluster[0].node.controller.delete(topic)
    await cluster.settle()
    (found,) = (await cluster[1].ask(METADATA, 12, topics=[{"name": "x_1"}])).topics
    assert found.error_code is ErrorCode.leader_not_available  # the controller is asked for it


async def test_deleting_reaches_all_brokers(cluster):
    cluster[0].node.controller.create("t")
    await cluster.settle()
    held = cluster[0].begin(DELETE_TOPICS, 5, topic_names=["t"], timeout=1_000)
    await settle()
    await cluster.settle()
    assert (await held).responses[0].error_code is ErrorCode.none
    assert all("t" not in cluster[number].node.topics for number in range(3))


async def test_only_the_controller_creates_and_deletes(cluster):
    cluster[0].node.controller.create("t")
    await cluster.settle()
    created = await cluster[1].ask(CREATE_TOPICS, 7, topics=[wanted("u")], timeout=1_000)
    deleted = await cluster[1].ask(DELETE_TOPICS, 5, topic_names=["t"], timeout=1_000)
    assert created.topics[0].error_code is ErrorCode.not_controller
    assert deleted.responses[0].error_code is ErrorCode.not_controller
    assert "t" in cluster[1].node.topics


async def test_a_topic_asked_of_another_is_created_by_the_controller(cluster):
    asked = []
    cluster[1].node.ask_for_topic = asked.append
    with pytest.raises(ProtocolError, match="created by broker 0; ask again") as caught:
        cluster[1].node.topic_for("t")
    assert caught.value.code is ErrorCode.leader_not_available
    assert asked == ["t"]
    with pytest.raises(ProtocolError, match="must be 1 to 249"):
        cluster[1].node.topic_for("not a name")
    assert asked == ["t"]


async def test_a_controller_that_restarted_has_no_topics_nor_has_any(cluster):
    cluster[0].node.controller.create("t")
    await cluster.settle()
    cluster.start(0)
    cluster[0].node.controller.create("u")
    await cluster.settle()
    for number in range(3):
        assert {topic.name for topic in cluster[number].node.topics} == {INTERNAL, "u"}


async def test_a_broker_that_restarted_learns_all_topics(cluster):
    cluster[0].node.controller.create("t")
    await cluster.settle()
    cluster.start(2)
    await cluster.settle()
    assert placement(cluster[2], "t") == placement(cluster[0], "t")


async def test_what_was_told_does_not_grow_for_ever(cluster):
    told = cluster[0].node.cluster.metadata
    for number in range(2_000):
        name = f"t{number}"
        cluster[0].node.controller.create(name)
        if number < 1_990:
            cluster[0].node.controller.delete(cluster[0].node.topics.find(name))
    assert told.log.end > 3_000
    assert told.log.size_bytes < 1 << 18
    await cluster.settle()
    assert len(list(cluster[2].node.topics)) == 11


async def test_metadata_name_the_leader_replicas_and_in_sync_of_others(cluster):
    cluster[0].node.controller.create("t", [(1, 2)])
    await cluster.settle()
    for number in range(3):
        (part,) = await described(cluster[number], "t")
        assert (part.leader_id, part.replica_nodes, part.isr_nodes) == (1, (1, 2), (1, 2))
        assert part.error_code is ErrorCode.none


async def test_clients_are_told_of_a_leader_out_of_reach(cluster):
    cluster[0].node.controller.create("t", [(1, 2), (2, 0)])
    await cluster.settle()
    cluster[0].node.cluster.reachable.discard(1)
    away, present = await described(cluster[0], "t")
    assert (away.error_code, away.leader_id) == (ErrorCode.leader_not_available, -1)
    assert (away.offline_replicas, away.replica_nodes) == ((1,), (1, 2))
    assert (present.error_code, present.leader_id) == (ErrorCode.none, 2)
    told = await cluster[0].ask(DESCRIBE_CLUSTER, 1)
    assert {broker.broker_id for broker in told.brokers} == {0, 2}
    cluster[2].node.cluster.reachable.discard(0)
    assert (await cluster[2].ask(DESCRIBE_CLUSTER, 1)).controller_id == -1


async def test_a_coordinator_out_of_reach_is_not_available(cluster):
    group = next(name for name in map(str, range(99)) if coordinates(cluster[0], 1, name))
    found = await cluster[0].ask(FIND_COORDINATOR, 3, key=group, key_type=0)
    assert (found.error_code, found.node_id) == (ErrorCode.none, 1)
    cluster[0].node.cluster.reachable.discard(1)
    found = await cluster[0].ask(FIND_COORDINATOR, 3, key=group, key_type=0)
    assert (found.error_code, found.node_id) == (ErrorCode.coordinator_not_available, -1)


def coordinates(broker, number: int, group: str) -> bool:
    for other in range(3):
        broker.node.addresses.setdefault(other, ("127.0.0.1", 9092 + other))
    return broker.node.coordinator_id(group) == number


async def test_the_brokers_own_topic_is_closed_to_clients(cluster):
    answer = await cluster[0].produce(INTERNAL, batch(), acks=1)
    assert answer.error_code is ErrorCode.invalid_topic_exception
    deleted = await cluster[0].ask(DELETE_TOPICS, 5, topic_names=[INTERNAL], timeout=1_000)
    assert deleted.responses[0].error_code is ErrorCode.invalid_topic_exception
    listed = await cluster[0].ask(METADATA, 12, topics=None)
    assert listed.topics == ()


async def test_brokers_never_give_two_producers_one_number(cluster):
    given = []
    for _ in range(2):
        for number in range(3):
            answer = await cluster[number].ask(INIT_PRODUCER_ID, 4, transactional_id=None)
            given.append(answer.producer_id)
    cluster.start(1)
    given.append((await cluster[1].ask(INIT_PRODUCER_ID, 4, transactional_id=None)).producer_id)
    assert len(set(given)) == len(given)


async def test_one_broker_alone_tells_nothing(manual_clock):
    alone = SocketlessBroker(manual_clock)
    alone.node.controller.create("t")
    assert alone.node.cluster.metadata is None
    assert alone.node.controller.unpublished() is None
    alone.node.close()
