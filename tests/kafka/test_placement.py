"""Placement never changes, and all records are in memory: what Kafka's apis for both answer here."""

import pytest

from purgatory_async.kafka.errors import ErrorCode
from tests.kafka.made_batches import batch

pytestmark = pytest.mark.asyncio

ALTER_REPLICA_LOG_DIRS, DESCRIBE_LOG_DIRS, DESCRIBE_TOPIC_PARTITIONS = 34, 35, 75
ELECT_LEADERS, ALTER_REASSIGNMENTS, LIST_REASSIGNMENTS = 43, 45, 46
HERE = "/memory"


async def elected(broker, version: int = 2, **values):
    answer = await broker.ask(ELECT_LEADERS, version, **values)
    return [
        (result.topic, part.partition_id, part.error_code.name)
        for result in answer.replica_election_results
        for part in result.partition_result
    ]


@pytest.mark.parametrize("version", range(3))
async def test_a_partition_with_its_leader_elects_none(replicated, version):
    named = [("r", [1]), ("r", [2]), ("no", [0])]
    wanted = [{"topic": topic, "partitions": indices} for topic, indices in named]
    assert await elected(replicated, version, topic_partitions=wanted) == [
        ("r", 1, "election_not_needed"),
        ("r", 2, "unknown_topic_or_partition"),
        ("no", 0, "unknown_topic_or_partition"),
    ]
    assert await elected(replicated, version, topic_partitions=None) == []


@pytest.mark.parametrize(
    ("election", "error"), [(0, "preferred_leader_not_available"), (1, "eligible_leaders_not_available")]
)
async def test_no_other_leads_while_a_leader_is_away(replicated, election, error):
    replicated.node.cluster.reachable.remove(1)
    assert await elected(replicated, topic_partitions=None, election_type=election) == [("r", 1, error)]


@pytest.mark.parametrize("version", range(2))
async def test_replicas_are_assigned_only_where_they_are(replicated, version):
    parts = [(0, [0, 1]), (0, [1, 0]), (0, None), (2, [0])]
    topics = [
        {"name": "r", "partitions": [{"partition_index": index, "replicas": to} for index, to in parts]}
    ]
    answer = await replicated.ask(ALTER_REASSIGNMENTS, version, topics=topics)
    assert [part.error_code.name for part in answer.responses[0].partitions] == [
        *("none", "invalid_replica_assignment", "no_reassignment_in_progress", "unknown_topic_or_partition"),
    ]
    assert (await replicated.ask(LIST_REASSIGNMENTS, 0, topics=None)).topics == ()


@pytest.mark.parametrize("version", range(1, 5))
async def test_memory_is_the_one_directory_of_logs(replicated, version):
    await replicated.produce("t", batch(b"a"))
    bytes_held = replicated.node.topics.partition("t", 0).log.size_bytes
    answer = await replicated.ask(DESCRIBE_LOG_DIRS, version, topics=None)
    (memory,) = answer.results
    assert (memory.error_code, memory.log_dir) == (ErrorCode.none, HERE)
    assert {topic.name: [part.partition_size for part in topic.partitions] for topic in memory.topics} == {
        "r": [0, 0],
        "t": [bytes_held],
    }
    if version == 4:
        assert memory.total_bytes - memory.usable_bytes == bytes_held > 0
    named = [("r", [1]), ("r", [2, 1]), ("r", []), ("no", [0])]
    wanted = [{"topic": topic, "partitions": indices} for topic, indices in named]
    (some,) = (await replicated.ask(DESCRIBE_LOG_DIRS, version, topics=wanted)).results
    assert [(topic.name, [part.partition_index for part in topic.partitions]) for topic in some.topics] == [
        ("r", [1])
    ]


@pytest.mark.parametrize("version", range(1, 3))
async def test_a_replica_stays_in_memory(replicated, version):
    replicated.node.topics.create("other", [(1,)])
    wanted = [(HERE, "t"), ("/disk", "t"), (HERE, "no"), (HERE, "other")]
    dirs = [{"path": path, "topics": [{"name": name, "partitions": [0]}]} for path, name in wanted]
    answer = await replicated.ask(ALTER_REPLICA_LOG_DIRS, version, dirs=dirs)
    assert [result.partitions[0].error_code.name for result in answer.results] == [
        *("none", "log_dir_not_found", "unknown_topic_or_partition", "replica_not_available"),
    ]


async def described(broker, limit: int, cursor=None, *names: str):
    topics = [{"name": name} for name in names]
    answer = await broker.ask(
        DESCRIBE_TOPIC_PARTITIONS, 0, topics=topics, response_partition_limit=limit, cursor=cursor
    )
    found = [
        (topic.name, topic.error_code.name, [part.partition_index for part in topic.partitions])
        for topic in answer.topics
    ]
    assert {part.eligible_leader_replicas for topic in answer.topics for part in topic.partitions} <= {()}
    following = answer.next_cursor
    return found, following and {
        "topic_name": following.topic_name,
        "partition_index": following.partition_index,
    }


async def test_topics_are_described_page_by_page(broker):
    broker.node.topics.create("a", [(0,)] * 3)
    pages, cursor = [], None
    while not pages or cursor:
        page, cursor = await described(broker, 2, cursor)
        pages.append(page)
    assert pages == [
        [("a", "none", [0, 1])],
        [("a", "none", [2]), ("t", "none", [0])],
        [("t", "none", [1])],
    ]


async def test_a_page_ends_between_two_topics(broker):
    first, cursor = await described(broker, 2, None, "t", "x", "y")
    assert first == [("t", "none", [0, 1])]
    unknown = "unknown_topic_or_partition"
    assert await described(broker, 2, cursor, "t", "x", "y") == (
        [("x", unknown, []), ("y", unknown, [])],
        None,
    )


async def test_a_page_begins_at_no_negative_partition(broker):
    cursor = {"topic_name": "t", "partition_index": -1}
    assert await described(broker, 2, cursor) == ([("t", "invalid_request", [])], None)


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_page_has_at_least_one_partition(broker, limit):
    assert await described(broker, limit) == (
        [("t", "none", [0])],
        {"topic_name": "t", "partition_index": 1},
    )
