"""The requests of groups on the wire: every version that is offered, as kio writes and reads it."""

import pytest

from purgatory_async.kafka.requests import APIS
from purgatory_async.testing import settle
from tests.kafka.socketless import SocketlessBroker

pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])  # hardly any request here waits

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN, HEARTBEAT, LEAVE, SYNC, DESCRIBE, LIST = range(8, 17)
OFFERED = {
    OFFSET_COMMIT: (2, 8),
    OFFSET_FETCH: (1, 8),
    FIND_COORDINATOR: (0, 4),
    JOIN: (0, 9),
    HEARTBEAT: (0, 4),
    LEAVE: (0, 5),
    SYNC: (0, 5),
    DESCRIBE: (0, 5),
    LIST: (0, 4),
}
RANGE = [{"name": "range", "metadata": b"topics"}]


def versions(key):
    """Every version of a request that is offered."""
    least, most = OFFERED[key]
    return pytest.mark.parametrize("version", range(least, most + 1))


@pytest.fixture
def broker(manual_clock):
    """A node with a topic of two partitions, whose groups do not wait for newcomers."""
    broker = SocketlessBroker(manual_clock, rebalance_delay=0)
    broker.node.topics.create("t", [(0,), (0,)])
    yield broker
    broker.node.close()


def joining(version, **fields):
    """The fields of a join of this version."""
    fields = {
        "group_id": "g",
        "session_timeout": 10_000,
        "protocol_type": "consumer",
        "protocols": RANGE,
        **fields,
    }
    return fields if version == 0 else {"rebalance_timeout": 60_000, **fields}


async def joined(broker, version=9, **fields):
    """The answer to a new member, which comes back for its id from version 4."""
    answer = await broker.ask(JOIN, version, **joining(version, **fields))
    if version < 4 or "group_instance_id" in fields:
        return answer
    assert (answer.error_code.name, answer.generation_id) == ("member_id_required", -1)
    return await broker.ask(JOIN, version, **joining(version, member_id=answer.member_id, **fields))


async def member_of(broker, **fields):
    """The id of the only member of a stable group."""
    answer = await joined(broker, **fields)
    given = [{"member_id": answer.member_id, "assignment": b"all"}]
    await broker.ask(SYNC, 5, group_id="g", generation_id=1, member_id=answer.member_id, assignments=given)
    return answer.member_id


async def test_the_versions_are_those_offered():
    assert {key: (APIS[key].least, APIS[key].most) for key in OFFERED} == OFFERED


@versions(JOIN)
async def test_a_join_of_each_version_is_answered(broker, version):
    answer = await joined(broker, version)
    assert (answer.error_code.name, answer.generation_id, answer.protocol_name) == ("none", 1, "range")
    assert answer.leader == answer.member_id
    assert answer.member_id.startswith("tester-")
    assert [(member.member_id, member.metadata) for member in answer.members] == [
        (answer.member_id, b"topics")
    ]
    assert getattr(answer, "protocol_type", "consumer") == "consumer"
    (member,) = broker.node.groups.members("g")
    assert (member.client_id, member.client_host) == ("tester", "127.0.0.1")
    assert (member.session.timeout_s, member.rebalance_timeout_s) == (10, 10 if version == 0 else 60)


@versions(JOIN)
async def test_a_refused_join_of_each_version_can_be_read(broker, version):
    answer = await broker.ask(JOIN, version, **joining(version, member_id="never"))
    assert (answer.error_code.name, answer.member_id) == ("unknown_member_id", "never")
    assert (answer.generation_id, answer.leader, answer.members) == (-1, "", ())


@pytest.mark.parametrize("version", [5, 8, 9])
async def test_an_instance_that_leads_skips_assigning_from_9(broker, version):
    first = await joined(broker, version, group_instance_id="one")
    given = {"group_id": "g", "member_id": first.member_id, "generation_id": 1}
    await broker.ask(SYNC, 5, **given, group_instance_id="one")
    back = await joined(broker, version, group_instance_id="one")
    assert (back.generation_id, back.leader == back.member_id) == (1, version >= 9)
    assert getattr(back, "skip_assignment", False) == (version >= 9)


@versions(SYNC)
async def test_a_sync_of_each_version_is_answered(broker, version):
    member_id = (await joined(broker)).member_id
    request = {"group_id": "g", "generation_id": 1, "member_id": member_id}
    given = [{"member_id": member_id, "assignment": b"all"}]
    answer = await broker.ask(SYNC, version, **request, assignments=given)
    assert (answer.error_code.name, answer.assignment) == ("none", b"all")
    if version == 5:
        assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    refused = await broker.ask(SYNC, version, **{**request, "generation_id": 2})
    assert (refused.error_code.name, refused.assignment) == ("illegal_generation", b"")


@versions(HEARTBEAT)
async def test_a_heartbeat_of_each_version_is_answered(broker, version):
    request = {"group_id": "g", "generation_id": 1, "member_id": await member_of(broker)}
    assert (await broker.ask(HEARTBEAT, version, **request)).error_code.name == "none"
    newcomer = broker.begin(JOIN, 0, **joining(0))
    await settle()
    assert (await broker.ask(HEARTBEAT, version, **request)).error_code.name == "rebalance_in_progress"
    newcomer.cancel()
    request["group_id"] = "never"
    assert (await broker.ask(HEARTBEAT, version, **request)).error_code.name == "unknown_member_id"


@versions(LEAVE)
async def test_a_leave_of_each_version_is_answered(broker, version):
    member_id = await member_of(broker)
    one = {"member_id": member_id}
    request = {"group_id": "g", **(one if version < 3 else {"members": [one, {"member_id": "never"}]})}
    answer = await broker.ask(LEAVE, version, **request)
    assert answer.error_code.name == "none"
    if version >= 3:
        codes = [(member.member_id, member.error_code.name) for member in answer.members]
        assert codes == [(member_id, "none"), ("never", "unknown_member_id")]
    else:
        assert (await broker.ask(LEAVE, version, **request)).error_code.name == "unknown_member_id"
    assert broker.node.groups.members("g") == ()


@versions(OFFSET_COMMIT)
async def test_a_commit_of_each_version_is_kept(broker, version):
    places = [
        {"partition_index": index, "committed_offset": 7, "committed_metadata": "m"} for index in (1, 5)
    ]
    answer = await broker.ask(
        OFFSET_COMMIT,
        version,
        group_id="g",
        generation_id_or_member_epoch=1,
        member_id=await member_of(broker),
        topics=[{"name": "t", "partitions": places}],
    )
    codes = [(part.partition_index, part.error_code.name) for part in answer.topics[0].partitions]
    assert codes == [(1, "none"), (5, "unknown_topic_or_partition")]
    (offset,) = broker.node.groups.committed("g").items()
    assert (offset[0], offset[1].offset, offset[1].metadata) == (("t", 1), 7, "m")


@versions(JOIN)
async def test_a_refused_join_names_no_protocol(broker, version):
    answer = await broker.ask(JOIN, version, **joining(version, group_id=""))
    assert answer.error_code.name == "invalid_group_id"
    assert answer.protocol_name == ("" if version < 7 else None)


@versions(OFFSET_COMMIT)
@pytest.mark.parametrize("offset", [7, -1])
async def test_a_note_of_null_is_fetched_as_empty(broker, version, offset):
    place = {"partition_index": 0, "committed_offset": offset, "committed_metadata": None}
    await broker.ask(
        OFFSET_COMMIT,
        version,
        group_id="g",
        generation_id_or_member_epoch=-1,
        topics=[{"name": "t", "partitions": [place]}],
    )
    (part,) = (await broker.ask(OFFSET_FETCH, 7, group_id="g", topics=None)).topics[0].partitions
    assert (part.committed_offset, part.metadata) == (offset, "")


@versions(OFFSET_FETCH)
async def test_a_fetch_of_each_version_returns_offsets(broker, version):
    await commit(broker, "g", 7)
    wanted = {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0, 1]}]}
    answer = await broker.ask(OFFSET_FETCH, version, **({"groups": [wanted]} if version >= 8 else wanted))
    group = answer.groups[0] if version >= 8 else answer
    parts = [
        (part.partition_index, part.committed_offset, part.metadata, part.error_code.name)
        for part in group.topics[0].partitions
    ]
    assert parts == [(0, 7, "m", "none"), (1, -1, "", "none")]
    assert version < 2 or group.error_code.name == "none"


@pytest.mark.parametrize("version", range(2, 9))
async def test_all_offsets_are_fetched_where_none_are_named(broker, version):
    await commit(broker, "g", 7)
    wanted = {"group_id": "g", "topics": None}
    answer = await broker.ask(OFFSET_FETCH, version, **({"groups": [wanted]} if version >= 8 else wanted))
    topics = (answer.groups[0] if version >= 8 else answer).topics
    found = [(topic.name, part.partition_index) for topic in topics for part in topic.partitions]
    assert found == [("t", 0)]


async def test_several_groups_are_fetched_in_one_request(broker):
    await commit(broker, "g", 7)
    await commit(broker, "h", 8)
    wanted = [
        {"group_id": name, "topics": [{"name": "t", "partition_indexes": [0]}]}
        for name in ("g", "h", "never")
    ]
    answer = await broker.ask(OFFSET_FETCH, 8, groups=wanted)
    offsets = [(group.group_id, group.topics[0].partitions[0].committed_offset) for group in answer.groups]
    assert offsets == [("g", 7), ("h", 8), ("never", -1)]


async def commit(broker, group, offset):
    """Commit an offset of the first partition, without a member."""
    place = {"partition_index": 0, "committed_offset": offset, "committed_metadata": "m"}
    await broker.ask(
        OFFSET_COMMIT,
        8,
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[{"name": "t", "partitions": [place]}],
    )


@versions(FIND_COORDINATOR)
async def test_a_coordinator_is_found_in_each_version(broker, version):
    answer = await broker.ask(FIND_COORDINATOR, version, **found_by(version, "g", "h"))
    for found in answer.coordinators if version == 4 else [answer]:
        assert (found.error_code.name, found.node_id, found.host, found.port) == (
            "none",
            0,
            "127.0.0.1",
            9092,
        )


def found_by(version, *groups, **fields):
    """The fields of a search for coordinators."""
    return {"coordinator_keys": groups} | fields if version == 4 else {"key": groups[0]} | fields


@pytest.mark.parametrize("version", [1, 2, 3, 4])
async def test_no_broker_coordinates_a_transaction(broker, version):
    answer = await broker.ask(FIND_COORDINATOR, version, **found_by(version, "x", key_type=1))
    found = answer.coordinators[0] if version == 4 else answer
    assert (found.error_code.name, found.node_id) == ("transactional_id_authorization_failed", -1)
    assert "no transactions" in found.error_message


@versions(DESCRIBE)
async def test_a_group_is_described_in_each_version(broker, version):
    member_id = await member_of(broker)
    answer = await broker.ask(DESCRIBE, version, groups=["g", "never"])
    group, never = answer.groups
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host) == (member_id, "tester", "127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (b"topics", b"all")
    assert (never.group_id, never.group_state, never.members) == ("never", "Dead", ())


async def test_a_group_that_rebalances_shows_no_assignments(broker):
    member_id = await member_of(broker)
    newcomer = broker.begin(JOIN, 0, **joining(0))
    await settle()
    (group,) = (await broker.ask(DESCRIBE, 5, groups=["g"])).groups
    assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
    assert [member.member_assignment for member in group.members] == [b"", b""]
    assert group.members[0].member_id == member_id
    newcomer.cancel()


@versions(LIST)
async def test_groups_are_listed_in_each_version(broker, version):
    await member_of(broker)
    await commit(broker, "h", 1)
    answer = await broker.ask(LIST, version, **({"states_filter": ["stable"]} if version == 4 else {}))
    listed = [(group.group_id, group.protocol_type) for group in answer.groups]
    assert listed == [("g", "consumer"), ("h", "")][: 1 if version == 4 else 2]


async def test_a_group_is_served_by_one_of_two_brokers(manual_clock):
    broker = SocketlessBroker(manual_clock, brokers=2, rebalance_delay=0)
    node_of = {}
    for name in "abcdef":
        answer = await broker.ask(FIND_COORDINATOR, 4, coordinator_keys=[name])
        node_of[name] = answer.coordinators[0].node_id
    assert set(node_of.values()) == {0, 1}
    for name, number in node_of.items():
        expected = "unknown_member_id" if number == 0 else "not_coordinator"
        who = {"group_id": name, "member_id": "never"}
        codes = [
            (await broker.ask(JOIN, 9, **joining(9, **who))).error_code.name,
            (await broker.ask(SYNC, 5, **who)).error_code.name,
            (await broker.ask(HEARTBEAT, 4, **who)).error_code.name,
            (await broker.ask(LEAVE, 1, **who)).error_code.name,
        ]
        assert codes == [expected] * 4
        fetched = await broker.ask(OFFSET_FETCH, 8, groups=[{"group_id": name, "topics": None}])
        described = await broker.ask(DESCRIBE, 5, groups=[name])
        codes = {fetched.groups[0].error_code.name, described.groups[0].error_code.name}
        assert codes == {"none" if number == 0 else "not_coordinator"}
    broker.node.close()
