"""Groups and committed offsets are deleted, but for what members still need."""

from struct import pack

import pytest

from purgatory_async.kafka.errors import ErrorCode
from purgatory_async.testing import settle
from tests.kafka.groups.test_wire import JOIN, OFFSET_COMMIT, OFFSET_FETCH, joined, joining
from tests.kafka.socketless import SocketlessBroker

pytestmark = pytest.mark.asyncio

LIST, DELETE_GROUPS, OFFSET_DELETE = 16, 42, 47


@pytest.fixture
def broker(manual_clock):
    """A node with topics ``t`` and ``u`` of two partitions each, whose groups do not wait for newcomers."""
    broker = SocketlessBroker(manual_clock, rebalance_delay=0)
    for topic in "tu":
        broker.node.topics.create(topic, [(0,), (0,)])
    yield broker
    broker.node.close()


async def commit(broker, group: str, **values) -> None:
    parts = [{"partition_index": index, "committed_offset": 7, "committed_metadata": ""} for index in (0, 1)]
    topics = [{"name": topic, "partitions": parts} for topic in "tu"]
    values = {"generation_id_or_member_epoch": -1, **values}
    await broker.ask(OFFSET_COMMIT, 8, group_id=group, topics=topics, **values)


async def committed(broker, group: str) -> list[tuple[str, int]]:
    answer = await broker.ask(OFFSET_FETCH, 7, group_id=group, topics=None)
    return [(topic.name, part.partition_index) for topic in answer.topics for part in topic.partitions]


async def deleted(broker, *groups: str, version: int = 2) -> dict[str, str]:
    answer = await broker.ask(DELETE_GROUPS, version, groups_names=groups)
    return {result.group_id: result.error_code.name for result in answer.results}


async def forgotten(broker, group: str, *topics: str):
    parts = [{"partition_index": index} for index in (0, 1)]
    named = [{"name": topic, "partitions": parts} for topic in topics]
    answer = await broker.ask(OFFSET_DELETE, 0, group_id=group, topics=named)
    codes = [part.error_code.name for topic in answer.topics for part in topic.partitions]
    return answer.error_code.name, codes


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_deleted_group_leaves_nothing(broker, version):
    before = broker.node.groups.budget.used_bytes, broker.node.timer.pending
    await commit(broker, "g")
    assert await deleted(broker, "g", "g", "never", "", version=version) == {
        "g": "none",
        "never": "group_id_not_found",
        "": "invalid_group_id",
    }
    assert (await broker.ask(LIST, 4)).groups == ()
    assert await committed(broker, "g") == []
    broker.node.groups.close()
    assert (broker.node.groups.budget.used_bytes, broker.node.timer.pending) == before


async def test_a_group_with_members_is_not_deleted(broker):
    await commit(broker, "g")
    joining_now = broker.begin(JOIN, 3, **joining(3))
    await settle()
    assert await deleted(broker, "g") == {"g": "non_empty_group"}
    assert (await joining_now).error_code is ErrorCode.none
    assert len(await committed(broker, "g")) == 4


async def test_a_group_of_ids_given_out_is_deleted(broker):
    answer = await broker.ask(JOIN, 4, **joining(4))
    assert answer.error_code is ErrorCode.member_id_required
    assert await deleted(broker, "g") == {"g": "none"}
    again = await broker.ask(JOIN, 4, **joining(4, member_id=answer.member_id))
    assert again.error_code is ErrorCode.unknown_member_id


async def test_another_brokers_group_is_not_deleted(replicated):
    names = [name for name in "abcdef" if replicated.node.coordinator_id(name) == 1]
    assert set((await deleted(replicated, *names)).values()) == {"not_coordinator"}
    assert await forgotten(replicated, names[0], "t") == ("not_coordinator", [])


async def test_offsets_are_deleted_by_partition(broker):
    await commit(broker, "g")
    budget = broker.node.groups.budget
    used_bytes = budget.used_bytes
    assert await forgotten(broker, "g", "t") == ("none", ["none"] * 2)
    assert await committed(broker, "g") == [("u", 0), ("u", 1)]
    assert budget.used_bytes < used_bytes
    assert await forgotten(broker, "g", "t", "v") == (
        *("none", ["none"] * 2 + ["unknown_topic_or_partition"] * 2),
    )
    assert await forgotten(broker, "never", "t") == ("group_id_not_found", [])


def subscription(*topics: str) -> bytes:
    return pack(">hi", 1, len(topics)) + b"".join(pack(">h", len(t)) + t.encode() for t in topics)


@pytest.mark.parametrize(
    ("metadata", "codes", "left"),
    [
        (subscription("t"), ["group_subscribed_to_topic"] * 2 + ["none"] * 2, ["t", "t"]),
        (subscription("t", "u") + b"more", ["group_subscribed_to_topic"] * 4, ["t", "t", "u", "u"]),
        (subscription("t")[:-1] + b"\xff", ["group_subscribed_to_topic"] * 4, ["t", "t", "u", "u"]),
        (b"", ["group_subscribed_to_topic"] * 4, ["t", "t", "u", "u"]),
    ],
    ids=["one topic", "both topics", "no text", "no subscription"],
)
async def test_offsets_that_members_need_stay(broker, metadata, codes, left):
    await commit(broker, "g")
    await joined(broker, 3, protocols=[{"name": "range", "metadata": metadata}])
    assert await forgotten(broker, "g", "t", "u") == ("none", codes)
    assert [topic for topic, _ in await committed(broker, "g")] == left


async def test_offsets_of_members_that_are_no_consumers_stay(broker):
    await commit(broker, "g")
    await joined(broker, 3, protocol_type="connect")
    assert await forgotten(broker, "g", "t") == ("non_empty_group", [])
