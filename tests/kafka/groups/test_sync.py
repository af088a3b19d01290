"""Syncing: assignments from the leader, a leader that never syncs, members that go meanwhile."""

import pytest

from tests.kafka.groups.consumers import REBALANCE_S, SESSION_S, code_of, got

pytestmark = pytest.mark.asyncio


async def test_followers_wait_for_the_leaders_assignments(consumers):
    a, b, c = await consumers.completing("a", "b", "c")
    held = [await consumers.sync(member_id) for member_id in (b, c)]
    assert [await code_of(task) for task in held] == ["held", "held"]
    leads = await consumers.sync(a)
    assert [(await got(task)).assignment.decode() for task in (leads, *held)] == [a, b, c]
    assert (await got(await consumers.sync(c))).assignment.decode() == c, "it may ask again"


async def test_a_member_the_leader_forgets_gets_nothing(consumers):
    a, b = await consumers.completing("a", "b")
    await consumers.group.sync(a, consumers.group.generation, {a: b"all"})
    assert (await got(await consumers.sync(b))).assignment == b""


async def test_a_follower_cannot_assign(consumers):
    _, b = await consumers.completing("a", "b")
    task = await consumers.sync(b)
    assert consumers.group.state == "CompletingRebalance"
    consumers.group.leave(b)
    assert await code_of(task) == "unknown_member_id"


async def test_a_leader_that_never_syncs_is_removed(consumers):
    long = SESSION_S * 100
    a, b, c = await consumers.completing("a", "b", "c", session_timeout_s=long)
    held = await consumers.sync(b)
    await consumers.let_pass(REBALANCE_S - 0.001)
    assert await code_of(held) == "held"
    await consumers.let_pass(0.001)
    assert await code_of(held) == "rebalance_in_progress"
    assert [member.id for member in consumers.group.members] == [b], f"neither {a} nor {c} has synced"
    again = await consumers.join("b", member_id=b, session_timeout_s=long)
    assert (await got(again)).leader_id == b


async def test_a_newcomer_ends_the_held_syncs(consumers):
    _, b = await consumers.completing("a", "b")
    held = await consumers.sync(b)
    await consumers.join("c")
    assert await code_of(held) == "rebalance_in_progress"


async def test_a_client_that_goes_takes_its_held_sync_along(consumers, purgatory):
    _, b = await consumers.completing("a", "b", session_timeout_s=REBALANCE_S)
    held = await consumers.sync(b)
    await consumers.let_pass(SESSION_S)
    held.cancel()
    assert await code_of_cancelled(held)
    assert purgatory.pending == 1, "the generation's own wait for the leader"
    await consumers.let_pass(REBALANCE_S - 0.001)
    assert consumers.group.members.get(b) is not None, "its session runs since it went"


async def code_of_cancelled(task):
    try:
        await code_of(task)
    except BaseException:  # noqa: BLE001 - a cancellation is no Exception
        return task.cancelled()
    return False


async def test_no_session_expires_while_a_request_is_held(consumers):
    a, b = await consumers.completing("a", "b", rebalance_timeout_s=SESSION_S * 5)
    held = await consumers.sync(b)
    await consumers.let_pass(SESSION_S * 0.9)
    consumers.group.heartbeat(a, 1)
    await consumers.let_pass(SESSION_S * 0.9)
    assert await code_of(held) == "held"
    await consumers.sync(a)
    assert await code_of(held) == "none"


@pytest.mark.parametrize("wrong", [{"protocol_type": "connect"}, {"protocol_name": "sticky"}])
async def test_a_sync_under_another_protocol_is_refused(consumers, wrong):
    (a,) = await consumers.completing("a")
    assert await code_of(await consumers.sync(a, **wrong)) == "inconsistent_group_protocol"
    right = await consumers.sync(a, protocol_type="consumer", protocol_name="range")
    assert (await got(right)).protocol_name == "range"


async def test_a_sync_of_an_old_generation_is_refused(consumers):
    (a,) = await consumers.completing("a")
    assert await code_of(await consumers.sync(a, generation=0)) == "illegal_generation"
    assert await code_of(await consumers.sync(a, generation=2)) == "illegal_generation"


# Sessions.


async def test_heartbeats_keep_a_session_on_one_timer_entry(consumers, purgatory):
    (a,) = await consumers.stable("a")
    entries = purgatory.timer.pending
    for _ in range(50):
        await consumers.let_pass(SESSION_S - 0.001)
        consumers.group.heartbeat(a, 1)
    assert purgatory.timer.pending == entries
    assert purgatory.pending == 0, "a heartbeat is no operation"
    await consumers.let_pass(SESSION_S)
    assert consumers.group.state == "Empty"


async def test_a_silent_member_makes_the_others_rebalance(consumers):
    a, b = await consumers.stable("a", "b")
    await consumers.let_pass(SESSION_S - 0.001)
    consumers.group.heartbeat(a, 1)
    await consumers.let_pass(0.001)
    assert [member.id for member in consumers.group.members] == [a]
    assert consumers.group.state == "PreparingRebalance"
    assert (await got(await consumers.join("a", member_id=a))).generation == 2
    assert consumers.group.members.get(b) is None
