"""The coordinator: offsets with and without a group, what tests may do to a group, and groups that are not needed."""

import pytest

from purgatory_async.kafka.errors import ProtocolError
from purgatory_async.kafka.groups.coordinator import SWEEP_S
from purgatory_async.kafka.groups.offsets import MAX_METADATA_CHARACTERS, NO_OFFSET, CommittedOffset
from purgatory_async.testing import settle
from tests.kafka.groups.consumers import SESSION_S, Consumers, code_of

pytestmark = pytest.mark.asyncio

FIRST, SECOND = ("topic", 0), ("topic", 1)


# Offsets.


async def test_offsets_outlive_the_members(consumers):
    (a,) = await consumers.stable("a")
    coordinator = consumers.coordinator
    coordinator.commit("g", a, 1, {FIRST: CommittedOffset(7, 3, "note")})
    await consumers.let_pass(SESSION_S)
    assert coordinator.committed("g", [FIRST, SECOND]) == {
        FIRST: CommittedOffset(7, 3, "note"),
        SECOND: NO_OFFSET,
    }
    assert coordinator.committed("g") == {FIRST: CommittedOffset(7, 3, "note")}


async def test_an_unknown_group_has_no_offsets_and_no_error(consumers):
    assert consumers.coordinator.committed("never", [FIRST]) == {FIRST: CommittedOffset(-1, -1, "")}
    assert consumers.coordinator.committed("never") == {}


async def test_a_client_without_a_group_commits(consumers):
    consumers.coordinator.commit("g", "", -1, {FIRST: CommittedOffset(7)})
    assert consumers.coordinator.committed("g") == {FIRST: CommittedOffset(7)}
    assert consumers.group.state == "Empty"


async def test_a_commit_of_a_generation_needs_a_group(consumers):
    with pytest.raises(ProtocolError, match=r"has no generation, got 3; join it") as refused:
        consumers.coordinator.commit("g", "m", 3, {FIRST: CommittedOffset(7)})
    assert refused.value.code.name == "illegal_generation"
    assert consumers.coordinator.find("g") is None


async def test_a_commit_keeps_the_session(consumers):
    (a,) = await consumers.stable("a")
    await consumers.let_pass(SESSION_S - 0.001)
    consumers.coordinator.commit("g", a, 1, {})
    await consumers.let_pass(SESSION_S - 0.001)
    assert consumers.group.state == "Stable"


async def test_metadata_has_a_bound():
    CommittedOffset(1, metadata="x" * MAX_METADATA_CHARACTERS)
    with pytest.raises(ProtocolError, match=r"at most 4096 characters long, got 4097") as refused:
        CommittedOffset(1, metadata="x" * (MAX_METADATA_CHARACTERS + 1))
    assert refused.value.code.name == "offset_metadata_too_large"


async def test_a_deleted_topic_takes_its_offsets_along(consumers):
    coordinator = consumers.coordinator
    for group_id in ("g", "h"):
        coordinator.commit(group_id, "", -1, {FIRST: CommittedOffset(1), ("other", 0): CommittedOffset(2)})
    coordinator.forget_topic("topic")
    assert [coordinator.committed(group_id) for group_id in ("g", "h")] == [
        {("other", 0): CommittedOffset(2)}
    ] * 2


# What a test may do.


async def test_a_session_can_be_expired_at_once(consumers):
    a, b, c = await consumers.stable("a", "b", "c")
    coordinator = consumers.coordinator
    assert [member.id for member in coordinator.members("g")] == [a, b, c]
    assert coordinator.expire_sessions("g", b) == (b,)
    assert [member.id for member in coordinator.members("g")] == [a, c]
    assert consumers.group.state == "PreparingRebalance"
    assert coordinator.expire_sessions("g") == (a, c)
    assert (coordinator.members("g"), consumers.group.state) == ((), "Empty")


async def test_expiring_an_unknown_member_expires_none(consumers):
    a, b = await consumers.stable("a", "b")
    with pytest.raises(ProtocolError, match="'never'"):
        consumers.coordinator.expire_sessions("g", a, "never")
    assert [member.id for member in consumers.coordinator.members("g")] == [a, b]
    with pytest.raises(ProtocolError, match="never joined"):
        consumers.coordinator.expire_sessions("never")
    assert consumers.coordinator.members("never") == ()


# Groups come and go.


async def test_a_group_that_stands_empty_is_swept_away(consumers, purgatory):
    (a,) = await consumers.stable("a")
    coordinator = consumers.coordinator
    coordinator.commit("kept", "", -1, {FIRST: CommittedOffset(1)})
    consumers.group.leave(a)
    assert consumers.group.state == "Empty", "it can still be described"
    await consumers.let_pass(SWEEP_S)
    assert [group.id for group in coordinator] == ["kept"]
    coordinator.forget_topic("topic")
    await consumers.let_pass(SWEEP_S)
    assert list(coordinator) == []
    assert purgatory.timer.pending == 0


async def test_too_many_groups_are_refused(purgatory, manual_clock):
    consumers = Consumers(purgatory, manual_clock, max_groups=1)
    consumers.coordinator.commit("kept", "", -1, {FIRST: CommittedOffset(1)})
    assert await code_of(await consumers.join("a")) == "coordinator_not_available"
    assert [group.id for group in consumers.coordinator] == ["kept"]
    consumers.coordinator.close()


async def test_closing_answers_what_is_held(newcomers, purgatory):
    joins = await newcomers.join("a")
    await newcomers.id_of("b")
    newcomers.coordinator.close()
    assert await code_of(joins) == "unknown_member_id"
    await settle()
    assert (purgatory.pending, purgatory.timer.pending) == (0, 0)


async def test_a_refused_join_leaves_an_empty_group_alone(consumers):
    (a,) = await consumers.stable("a")
    group = consumers.group
    group.leave(a)
    assert await code_of(await consumers.join("a", member_id=a)) == "unknown_member_id"
    assert await code_of(await consumers.join("a", protocols={})) == "inconsistent_group_protocol"
    assert consumers.group is group, "its generations go on counting"
