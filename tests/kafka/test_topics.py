"""Topics: created, described, deleted; names and numbers are checked."""

import pytest

from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from tests.kafka.protocol import CREATE_TOPICS, DELETE_TOPICS, DESCRIBE_CLUSTER, METADATA
from tests.kafka.socketless import SocketlessBroker

pytestmark = pytest.mark.asyncio


def wanted(name: str, num_partitions: int = -1, replication_factor: int = -1, **values):
    return {
        "name": name,
        "num_partitions": num_partitions,
        "replication_factor": replication_factor,
        **values,
    }


async def created(broker, *topics, version: int = 7, **values):
    answer = await broker.ask(CREATE_TOPICS, version, topics=topics, **values)
    return [topic.error_code for topic in answer.topics]


@pytest.mark.parametrize("version", range(2, 8))
async def test_topics_are_created_with_their_partitions(broker, version):
    assert await created(broker, wanted("a", 3), wanted("b", 1, 1), version=version) == [ErrorCode.none] * 2
    assert [len(broker.node.topics.find(name).partitions) for name in "ab"] == [3, 1]


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (wanted("t"), ErrorCode.topic_already_exists),
        (wanted("a", 0), ErrorCode.invalid_partitions),
        (wanted("a", -2), ErrorCode.invalid_partitions),
        (wanted("a", 1, 2), ErrorCode.invalid_replication_factor),
        (wanted("a", 1, 0), ErrorCode.invalid_replication_factor),
        (wanted("a/b", 1), ErrorCode.invalid_topic_exception),
        (wanted("..", 1), ErrorCode.invalid_topic_exception),
        (wanted("a" * 250, 1), ErrorCode.invalid_topic_exception),
        (wanted("a", 100_000), ErrorCode.policy_violation),
        (
            wanted("a", assignments=[{"partition_index": 1, "broker_ids": [0]}]),
            ErrorCode.invalid_replica_assignment,
        ),
        (
            wanted("a", assignments=[{"partition_index": 0, "broker_ids": [5]}]),
            ErrorCode.invalid_replica_assignment,
        ),
    ],
    ids=lambda value: value.name if isinstance(value, ErrorCode) else value["name"][:5],
)
async def test_a_wrong_topic_is_refused_and_leaves_nothing(broker, topic, code):
    assert await created(broker, topic) == [code]
    assert [known.name for known in broker.node.topics] == ["t"]


async def test_too_many_partitions_are_refused_before_they_are_placed(broker):
    with pytest.raises(ProtocolError, match="at most 9998, the rest of 10000, got 2147483647"):
        broker.node.topics.placed(2**31 - 1)


async def test_a_topic_named_twice_is_refused_twice(broker):
    assert await created(broker, wanted("a", 1), wanted("a", 1)) == [ErrorCode.invalid_request] * 2
    assert "a" not in broker.node.topics


async def test_only_validating_creates_nothing(broker):
    assert await created(broker, wanted("a", 3), wanted("t", 1), validate_only=True) == [
        *(ErrorCode.none, ErrorCode.topic_already_exists),
    ]
    assert "a" not in broker.node.topics


async def test_assigned_partitions_are_counted(broker):
    assigned = [{"partition_index": number, "broker_ids": [0]} for number in (1, 0)]
    assert await created(broker, wanted("a", assignments=assigned)) == [ErrorCode.none]
    assert len(broker.node.topics.find("a").partitions) == 2


@pytest.mark.parametrize("version", range(13))
async def test_metadata_names_the_brokers_and_all_topics(broker, version):
    answer = await broker.ask(METADATA, version, topics=None if version else [])
    assert [(broker.node_id, broker.host, broker.port) for broker in answer.brokers] == [
        (0, "127.0.0.1", 9092)
    ]
    (topic,) = answer.topics
    assert (topic.name, topic.error_code) == ("t", ErrorCode.none)
    assert [(part.partition_index, part.leader_id, part.replica_nodes) for part in topic.partitions] == [
        *((0, 0, (0,)), (1, 0, (0,))),
    ]


async def test_metadata_of_no_topics_names_none(broker):
    assert (await broker.ask(METADATA, 9, topics=[])).topics == ()


async def test_a_topic_asked_for_is_created(broker):
    (topic,) = (await broker.ask(METADATA, 4, topics=[{"name": "new"}])).topics
    assert (topic.error_code, len(topic.partitions)) == (ErrorCode.none, 1)


async def test_a_topic_is_not_created_where_that_is_refused(broker, manual_clock):
    answer = await broker.ask(METADATA, 4, topics=[{"name": "new"}], allow_auto_topic_creation=False)
    assert answer.topics[0].error_code is ErrorCode.unknown_topic_or_partition
    strict = SocketlessBroker(manual_clock, auto_create=False)
    answer = await strict.ask(METADATA, 4, topics=[{"name": "new"}])
    assert answer.topics[0].error_code is ErrorCode.unknown_topic_or_partition
    strict.node.close()


COLLIDING = [("x.1", "x_1"), ("x_1", "x.1"), ("a._b", "a_.b"), ("__m", "..m")]


@pytest.mark.parametrize(("first", "second"), COLLIDING)
@pytest.mark.parametrize("validate_only", [False, True])
async def test_names_that_collide_are_not_both_created(broker, first, second, validate_only):
    taken = [ErrorCode.none, ErrorCode.invalid_topic_exception]
    both = wanted(first), wanted(second)
    assert await created(broker, *both, validate_only=validate_only) == taken
    assert await created(broker, wanted(first)) == [
        taken[0] if validate_only else ErrorCode.topic_already_exists
    ]
    assert await created(broker, wanted(second), validate_only=validate_only) == taken[1:]
    (asked,) = (await broker.ask(METADATA, 9, topics=[{"name": second}])).topics
    assert asked.error_code is ErrorCode.invalid_topic_exception
    assert [topic.name for topic in broker.node.topics] == ["t", first]
    await broker.ask(DELETE_TOPICS, 5, topic_names=[first])
    assert await created(broker, wanted(second)) == [ErrorCode.none]


async def test_a_name_refused_within_a_request_takes_no_other(broker):
    refused, free = wanted("x.1", -2), wanted("x_1")
    assert await created(broker, refused, free, validate_only=True) == [
        *(ErrorCode.invalid_partitions, ErrorCode.none),
    ]


async def test_no_name_collides_with_the_brokers_own_topic(replicated):
    assert await created(replicated, wanted("..cluster.metadata")) == [ErrorCode.invalid_topic_exception]


async def test_a_topic_with_an_impossible_name_is_not_created(broker):
    answer = await broker.ask(METADATA, 9, topics=[{"name": "a b"}])
    assert answer.topics[0].error_code is ErrorCode.invalid_topic_exception
    assert "a b" not in broker.node.topics


@pytest.mark.parametrize("name", [None, ""])
async def test_a_topic_is_found_by_its_id_until_it_is_deleted(broker, name):
    topic = broker.node.topics.find("t")
    asked = {"topics": [{"name": name, "topic_id": topic.id}]}
    assert [(await broker.ask(METADATA, version, **asked)).topics[0].name for version in (10, 11, 12)] == [
        "t"
    ] * 3
    assert (await broker.ask(DELETE_TOPICS, 6, **asked)).responses[0].error_code is ErrorCode.none
    (found,) = (await broker.ask(METADATA, 12, **asked)).topics
    assert (found.error_code, found.name, found.topic_id) == (ErrorCode.unknown_topic_id, None, topic.id)
    (found,) = (await broker.ask(DELETE_TOPICS, 6, **asked)).responses
    assert (found.error_code, found.name, found.topic_id) == (ErrorCode.unknown_topic_id, None, topic.id)
    assert (await broker.ask(METADATA, 10, **asked)).topics[0].name == ""  # which has no null


async def test_metadata_goes_by_the_id_where_both_are_given(broker):
    other = broker.node.topics.create("other")
    (found,) = (await broker.ask(METADATA, 12, topics=[{"name": "t", "topic_id": other.id}])).topics
    assert (found.name, found.topic_id) == ("other", other.id)


async def test_nothing_is_deleted_by_a_name_and_an_id(broker):
    other = broker.node.topics.create("other")
    both = {"name": "t", "topic_id": other.id}
    (refused,) = (await broker.ask(DELETE_TOPICS, 6, topics=[both])).responses
    assert refused.error_code is ErrorCode.invalid_request
    assert [topic.name for topic in broker.node.topics] == ["t", "other"]


@pytest.mark.parametrize("name", [None, ""])
async def test_a_topic_without_name_and_id_is_refused(broker, name):
    asked = {"topics": [{"name": name}]}
    refusals = (ErrorCode.unknown_topic_id, ErrorCode.invalid_topic_exception)
    assert (await broker.ask(METADATA, 12, **asked)).topics[0].error_code in refusals
    assert (await broker.ask(DELETE_TOPICS, 6, **asked)).responses[0].error_code in refusals
    assert [topic.name for topic in broker.node.topics] == ["t"]


@pytest.mark.parametrize("version", range(1, 6))
async def test_topics_are_deleted_by_name(broker, version):
    answer = await broker.ask(DELETE_TOPICS, version, topic_names=["t", "other"])
    assert [topic.error_code for topic in answer.responses] == [
        *(ErrorCode.none, ErrorCode.unknown_topic_or_partition),
    ]
    assert list(broker.node.topics) == []


async def test_partitions_of_a_deleted_topic_may_be_created_again(manual_clock):
    broker = SocketlessBroker(manual_clock, max_partitions=3)
    for _ in range(3):
        assert await created(broker, wanted("a", 3)) == [ErrorCode.none]
        assert await created(broker, wanted("b", 1)) == [ErrorCode.policy_violation]
        await broker.ask(DELETE_TOPICS, 5, topic_names=["a"])
    broker.node.close()


@pytest.mark.parametrize("version", [0, 1])
async def test_the_cluster_is_described(broker, version):
    answer = await broker.ask(DESCRIBE_CLUSTER, version)
    assert (answer.cluster_id, answer.controller_id) == (broker.node.cluster_id, 0)
    assert [(broker.broker_id, broker.port) for broker in answer.brokers] == [(0, 9092)]
