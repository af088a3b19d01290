"""No single request takes the loop from the other clients: what it may name, create, describe and delete at once."""

import asyncio

import pytest

from purgatory_async.kafka.arrays import MAX_ENTRIES
from purgatory_async.kafka.errors import ErrorCode, MalformedRequestError
from purgatory_async.kafka.handlers.allowance import MAX_NEW
from purgatory_async.testing import settle
from tests.kafka.protocol import METADATA

CREATE_TOPICS, DELETE_TOPICS = 19, 20
OFFSET_COMMIT, OFFSET_FETCH, DESCRIBE_GROUPS = 8, 9, 15

pytestmark = pytest.mark.asyncio


def named(count):
    return [{"name": f"n{number}"} for number in range(count)]


def wanted(name, partitions, **values):
    return {"name": name, "num_partitions": partitions, "replication_factor": 1, **values}


async def commit(broker, group, *topics):
    parts = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
    await broker.ask(
        OFFSET_COMMIT,
        8,
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[{"name": topic, "partitions": parts} for topic in topics],
    )


async def test_a_request_names_so_many_entries_and_no_more(broker):
    answer = await broker.ask(METADATA, 12, topics=named(MAX_ENTRIES), allow_auto_topic_creation=False)
    assert len(answer.topics) == MAX_ENTRIES
    with pytest.raises(MalformedRequestError, match=f"at most {MAX_ENTRIES} entries"):
        await broker.ask(METADATA, 12, topics=named(MAX_ENTRIES + 1), allow_auto_topic_creation=False)


async def test_metadata_creates_a_part_of_very_many_topics(broker):
    asked = {"topics": named(MAX_NEW), "allow_auto_topic_creation": True}
    for created in (MAX_NEW // 2, MAX_NEW):
        codes = [topic.error_code for topic in (await broker.ask(METADATA, 12, **asked)).topics]
        assert codes.count(ErrorCode.none) == created
        assert codes.count(ErrorCode.leader_not_available) == MAX_NEW - created


@pytest.mark.parametrize("check_only", [False, True])
async def test_a_request_creates_so_many_partitions(broker, check_only):
    assigned = [{"partition_index": index, "broker_ids": [0]} for index in range(900)]
    topics = [
        wanted("a", MAX_NEW - 1_000),
        wanted("b", -1, replication_factor=-1, assignments=assigned),
        wanted("c", 200),
        wanted("d", 90),
        wanted("e", MAX_NEW),
    ]
    answer = await broker.ask(CREATE_TOPICS, 7, topics=topics, timeout=1_000, validate_only=check_only)
    refused = ErrorCode.policy_violation
    assert [topic.error_code for topic in answer.topics] == [0, 0, refused, 0, refused]
    assert "send several requests" in answer.topics[2].error_message


async def test_what_a_request_names_twice_is_described_once(broker):
    answer = await broker.ask(METADATA, 12, topics=[{"name": "t"}] * 100 + [{"name": "u"}])
    assert [topic.name for topic in answer.topics] == ["t", "u"]
    answer = await broker.ask(DESCRIBE_GROUPS, 5, groups=["g"] * 100 + ["h"])
    assert [group.group_id for group in answer.groups] == ["g", "h"]


async def test_all_offsets_of_a_group_are_told_once(broker):
    await commit(broker, "g", "t")
    one = {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [1]}]}
    answer = await broker.ask(OFFSET_FETCH, 8, groups=[{"group_id": "g", "topics": None}] * 100 + [one, one])
    offsets = [part.committed_offset for group in answer.groups for part in group.topics[0].partitions]
    assert offsets == [1, -1, -1]


async def test_topics_are_deleted_one_a_turn(broker):
    """Each deletion looks at all committed offsets."""
    names = [f"n{number}" for number in range(20)]
    for name in names:
        broker.node.topics.create(name)
    deleting = broker.begin(DELETE_TOPICS, 5, topic_names=names, timeout=1_000)
    left = set()
    while not deleting.done():
        left.add(sum(name in broker.node.topics for name in names))
        await asyncio.sleep(0)
    assert len(left) >= len(names)
    assert {response.error_code for response in (await deleting).responses} == {ErrorCode.none}
    await settle()
