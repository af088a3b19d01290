"""Topics: created, described, deleted; names and numbers are checked."""

import pytest

from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from tests.kafka.desk import Desk
from tests.kafka.protocol import CREATE_TOPICS, DELETE_TOPICS, DESCRIBE_CLUSTER, METADATA

pytestmark = pytest.mark.asyncio


def wanted(name: str, num_partitions: int = -1, replication_factor: int = -1, **values):
    return {
        "name": name,
        "num_partitions": num_partitions,
        "replication_factor": replication_factor,
        **values,
    }


async def created(desk, *topics, version: int = 7, **values):
    answer = await desk.ask(CREATE_TOPICS, version, topics=topics, **values)
    return [topic.error_code for topic in answer.topics]


@pytest.mark.parametrize("version", range(2, 8))
async def test_topics_are_created_with_their_partitions(desk, version):
    assert await created(desk, wanted("a", 3), wanted("b", 1, 1), version=version) == [ErrorCode.none] * 2
    assert [len(desk.node.topics.find(name).partitions) for name in "ab"] == [3, 1]


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
async def test_a_wrong_topic_is_refused_and_leaves_nothing(desk, topic, code):
    assert await created(desk, topic) == [code]
    assert [known.name for known in desk.node.topics] == ["t"]


async def test_too_many_partitions_are_refused_before_they_are_placed(desk):
    with pytest.raises(ProtocolError, match="at most 9998, the rest of 10000, got 2147483647"):
        desk.node.topics.placed(2**31 - 1)


async def test_a_topic_named_twice_is_refused_twice(desk):
    assert await created(desk, wanted("a", 1), wanted("a", 1)) == [ErrorCode.invalid_request] * 2
    assert "a" not in desk.node.topics


async def test_only_validating_creates_nothing(desk):
    assert await created(desk, wanted("a", 3), wanted("t", 1), validate_only=True) == [
        *(ErrorCode.none, ErrorCode.topic_already_exists),
    ]
    assert "a" not in desk.node.topics


async def test_assigned_partitions_are_counted(desk):
    assigned = [{"partition_index": number, "broker_ids": [0]} for number in (1, 0)]
    assert await created(desk, wanted("a", assignments=assigned)) == [ErrorCode.none]
    assert len(desk.node.topics.find("a").partitions) == 2


@pytest.mark.parametrize("version", range(13))
async def test_metadata_names_the_brokers_and_all_topics(desk, version):
    answer = await desk.ask(METADATA, version, topics=None if version else [])
    assert [(broker.node_id, broker.host, broker.port) for broker in answer.brokers] == [
        (0, "127.0.0.1", 9092)
    ]
    (topic,) = answer.topics
    assert (topic.name, topic.error_code) == ("t", ErrorCode.none)
    assert [(part.partition_index, part.leader_id, part.replica_nodes) for part in topic.partitions] == [
        *((0, 0, (0,)), (1, 0, (0,))),
    ]


async def test_metadata_of_no_topics_names_none(desk):
    assert (await desk.ask(METADATA, 9, topics=[])).topics == ()


async def test_a_topic_asked_for_is_created(desk):
    (topic,) = (await desk.ask(METADATA, 4, topics=[{"name": "new"}])).topics
    assert (topic.error_code, len(topic.partitions)) == (ErrorCode.none, 1)


async def test_a_topic_is_not_created_where_that_is_refused(desk, manual_clock):
    answer = await desk.ask(METADATA, 4, topics=[{"name": "new"}], allow_auto_topic_creation=False)
    assert answer.topics[0].error_code is ErrorCode.unknown_topic_or_partition
    strict = Desk(manual_clock, auto_create=False)
    answer = await strict.ask(METADATA, 4, topics=[{"name": "new"}])
    assert answer.topics[0].error_code is ErrorCode.unknown_topic_or_partition
    strict.node.close()


COLLIDING = [("x.1", "x_1"), ("x_1", "x.1"), ("a._b", "a_.b"), ("__m", "..m")]


@pytest.mark.parametrize(("first", "second"), COLLIDING)
@pytest.mark.parametrize("validate_only", [False, True])
async def test_names_that_collide_are_not_both_created(desk, first, second, validate_only):
    taken = [ErrorCode.none, ErrorCode.invalid_topic_exception]
    both = wanted(first), wanted(second)
    assert await created(desk, *both, validate_only=validate_only) == taken
    assert await created(desk, wanted(first)) == [
        taken[0] if validate_only else ErrorCode.topic_already_exists
    ]
    assert await created(desk, wanted(second), validate_only=validate_only) == taken[1:]
    (asked,) = (await desk.ask(METADATA, 9, topics=[{"name": second}])).topics
    assert asked.error_code is ErrorCode.invalid_topic_exception
    assert [topic.name for topic in desk.node.topics] == ["t", first]
    await desk.ask(DELETE_TOPICS, 5, topic_names=[first])
    assert await created(desk, wanted(second)) == [ErrorCode.none]


async def test_a_name_refused_within_a_request_takes_no_other(desk):
    refused, free = wanted("x.1", -2), wanted("x_1")
    assert await created(desk, refused, free, validate_only=True) == [
        *(ErrorCode.invalid_partitions, ErrorCode.none),
    ]


async def test_no_name_collides_with_the_brokers_own_topic(replicated):
    assert await created(replicated, wanted("..cluster.metadata")) == [ErrorCode.invalid_topic_exception]


async def test_a_topic_with_an_impossible_name_is_not_created(desk):
    answer = await desk.ask(METADATA, 9, topics=[{"name": "a b"}])
    assert answer.topics[0].error_code is ErrorCode.invalid_topic_exception
    assert "a b" not in desk.node.topics


@pytest.mark.parametrize("name", [None, ""])
async def test_a_topic_is_found_by_its_id_until_it_is_deleted(desk, name):
    topic = desk.node.topics.find("t")
    asked = {"topics": [{"name": name, "topic_id": topic.id}]}
    assert [(await desk.ask(METADATA, version, **asked)).topics[0].name for version in (10, 11, 12)] == [
        "t"
    ] * 3
    assert (await desk.ask(DELETE_TOPICS, 6, **asked)).responses[0].error_code is ErrorCode.none
    (found,) = (await desk.ask(METADATA, 12, **asked)).topics
    assert (found.error_code, found.name, found.topic_id) == (ErrorCode.unknown_topic_id, None, topic.id)
    (found,) = (await desk.ask(DELETE_TOPICS, 6, **asked)).responses
    assert (found.error_code, found.name, found.topic_id) == (ErrorCode.unknown_topic_id, None, topic.id)
    assert (await desk.ask(METADATA, 10, **asked)).topics[0].name == ""  # which has no null


async def test_metadata_goes_by_the_id_where_both_are_given(desk):
    other = desk.node.topics.create("other")
    (found,) = (await desk.ask(METADATA, 12, topics=[{"name": "t", "topic_id": other.id}])).topics
    assert (found.name, found.topic_id) == ("other", other.id)


async def test_nothing_is_deleted_by_a_name_and_an_id(desk):
    other = desk.node.topics.create("other")
    both = {"name": "t", "topic_id": other.id}
    (refused,) = (await desk.ask(DELETE_TOPICS, 6, topics=[both])).responses
    assert refused.error_code is ErrorCode.invalid_request
    assert [topic.name for topic in desk.node.topics] == ["t", "other"]


@pytest.mark.parametrize("name", [None, ""])
async def test_a_topic_without_name_and_id_is_refused(desk, name):
    asked = {"topics": [{"name": name}]}
    refusals = (ErrorCode.unknown_topic_id, ErrorCode.invalid_topic_exception)
    assert (await desk.ask(METADATA, 12, **asked)).topics[0].error_code in refusals
    assert (await desk.ask(DELETE_TOPICS, 6, **asked)).responses[0].error_code in refusals
    assert [topic.name for topic in desk.node.topics] == ["t"]


@pytest.mark.parametrize("version", range(1, 6))
async def test_topics_are_deleted_by_name(desk, version):
    answer = await desk.ask(DELETE_TOPICS, version, topic_names=["t", "other"])
    assert [topic.error_code for topic in answer.responses] == [
        *(ErrorCode.none, ErrorCode.unknown_topic_or_partition),
    ]
    assert list(desk.node.topics) == []


async def test_partitions_of_a_deleted_topic_may_be_created_again(manual_clock):
    desk = Desk(manual_clock, max_partitions=3)
    for _ in range(3):
        assert await created(desk, wanted("a", 3)) == [ErrorCode.none]
        assert await created(desk, wanted("b", 1)) == [ErrorCode.policy_violation]
        await desk.ask(DELETE_TOPICS, 5, topic_names=["a"])
    desk.node.close()


@pytest.mark.parametrize("version", [0, 1])
async def test_the_cluster_is_described(desk, version):
    answer = await desk.ask(DESCRIBE_CLUSTER, version)
    assert (answer.cluster_id, answer.controller_id) == (desk.node.cluster_id, 0)
    assert [(broker.broker_id, broker.port) for broker in answer.brokers] == [(0, 9092)]
