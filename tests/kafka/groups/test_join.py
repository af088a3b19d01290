"""Joining: the first generation, rebalances, ids that are given out, and clients that go away."""

import pytest

from purgatory_async import Purgatory, Timer
from purgatory_async.kafka.errors import ProtocolError
from purgatory_async.testing import settle
from tests.kafka.groups.consumers import DELAY_S, REBALANCE_S, SESSION_S, Consumers, a_join, code_of, got

pytestmark = pytest.mark.asyncio


# The first generation.


async def test_each_newcomer_delays_the_first_generation(newcomers):
    tasks = [await newcomers.join("a")]
    for name in ("b", "c"):
        await newcomers.let_pass(DELAY_S - 1)
        tasks.append(await newcomers.join(name))
    await newcomers.let_pass(DELAY_S - 0.001)
    assert [await code_of(task) for task in tasks] == ["held"] * 3
    await newcomers.let_pass(0.001)
    places = [await got(task) for task in tasks]
    assert {(place.generation, place.leader_id) for place in places} == {(1, places[0].member_id)}
    assert [len(place.members) for place in places] == [3, 0, 0]


async def test_newcomers_delay_it_no_longer_than_the_rebalance(newcomers):
    first = await newcomers.join("a", rebalance_timeout_s=4)
    await newcomers.let_pass(2.5)
    second = await newcomers.join("b", rebalance_timeout_s=4)
    await newcomers.let_pass(1.499)
    assert await code_of(first) == "held"
    await newcomers.let_pass(0.001)
    assert (await got(first)).generation == (await got(second)).generation == 1


async def test_without_a_delay_the_first_member_does_not_wait(consumers):
    place = await got(await consumers.join("a"))
    assert (place.generation, place.leader_id) == (1, place.member_id)


async def test_the_delay_is_for_an_empty_group_only(newcomers):
    first = await newcomers.join("a")
    await newcomers.let_pass(DELAY_S)
    a = (await got(first)).member_id
    second = await newcomers.join("b")
    again = await newcomers.join("a", member_id=a)
    assert (await got(again)).generation == (await got(second)).generation == 2


# Rebalances.


async def test_a_rebalance_ends_when_all_have_joined_again(consumers):
    a, b = await consumers.stable("a", "b")
    third = await consumers.join("c")
    again = await consumers.join("a", member_id=a)
    assert await code_of(again) == "held"
    last = await consumers.join("b", member_id=b)
    places = [await got(task) for task in (again, last, third)]
    assert {place.generation for place in places} == {consumers.group.generation}
    assert {place.leader_id for place in places} == {a}, "the leader stays the leader"


async def test_one_that_misses_the_rebalance_is_removed(consumers):
    a, b = await consumers.stable("a", "b", session_timeout_s=REBALANCE_S * 2)
    again = await consumers.join("a", member_id=a, session_timeout_s=REBALANCE_S * 2)
    await consumers.let_pass(REBALANCE_S - 0.001)
    assert await code_of(again) == "held"
    await consumers.let_pass(0.001)
    assert [member.id for member in (await got(again)).members] == [a]
    with pytest.raises(ProtocolError, match="has left, expired") as refused:
        consumers.group.heartbeat(b, consumers.group.generation)
    assert refused.value.code.name == "unknown_member_id"


async def test_the_longest_rebalance_timeout_counts(consumers):
    a, _ = await consumers.stable("a", "b", session_timeout_s=REBALANCE_S * 4)
    long = {"session_timeout_s": REBALANCE_S * 4, "rebalance_timeout_s": REBALANCE_S * 2}
    again = await consumers.join("a", member_id=a, **long)
    await consumers.let_pass(REBALANCE_S * 2 - 0.001)
    assert await code_of(again) == "held"
    await consumers.let_pass(0.001)
    assert await code_of(again) == "none"


async def test_the_timeout_counts_from_the_cause_of_the_rebalance(consumers):
    long = {"session_timeout_s": REBALANCE_S * 4}
    a, b, c = await consumers.stable("a", "b", "c", **long)
    consumers.group.leave(c)
    await consumers.let_pass(REBALANCE_S - 1)
    again = await consumers.join("a", member_id=a, **long)
    await consumers.let_pass(0.999)
    assert await code_of(again) == "held"
    await consumers.let_pass(0.001)
    assert [member.id for member in (await got(again)).members] == [a], f"{b} had its time"


async def test_a_later_member_does_not_extend_the_rebalance(consumers):
    a, _ = await consumers.stable("a", "b", session_timeout_s=REBALANCE_S * 4)
    again = await consumers.join("a", member_id=a, session_timeout_s=REBALANCE_S * 4)
    await consumers.let_pass(REBALANCE_S / 2)
    later = await consumers.join("c", rebalance_timeout_s=REBALANCE_S * 9)
    await consumers.let_pass(REBALANCE_S / 2)
    assert (await got(again)).generation == (await got(later)).generation


async def test_a_leader_that_joins_again_starts_a_rebalance(consumers):
    a, b = await consumers.stable("a", "b")
    assert await code_of(await consumers.join("b", member_id=b)) == "none"
    again = await consumers.join("a", member_id=a)
    assert await code_of(again) == "held"


async def test_the_protocol_most_members_prefer_is_chosen(consumers):
    sticky_first = {"sticky": b"s", "range": b"r"}
    range_first = {"range": b"R", "sticky": b"S", "cooperative": b"C"}
    ids = [await consumers.id_of(name) for name in "abc"]
    wishes = (range_first, sticky_first, sticky_first)
    tasks = [
        await consumers.join(member_id=id_, protocols=wish) for id_, wish in zip(ids, wishes, strict=True)
    ]
    places = [await got(task) for task in tasks]
    assert {place.protocol_name for place in places} == {"sticky"}
    assert [member.metadata for member in places[0].members] == [b"S", b"s", b"s"]


async def test_a_member_without_a_common_protocol_is_refused(consumers):
    (a,) = await consumers.stable("a")
    other = await consumers.join("b", protocols={"sticky": b""})
    assert await code_of(other) == "inconsistent_group_protocol"
    assert await code_of(await consumers.join("b", protocols={})) == "inconsistent_group_protocol"
    assert [member.id for member in consumers.group.members] == [a]
    alone = await consumers.join("a", member_id=a, protocols={"sticky": b""})
    assert (await got(alone)).protocol_name == "sticky", "its own former protocols do not count"


# Ids that are given out.


async def test_a_rebalance_waits_for_an_id_that_was_given_out(consumers):
    (a,) = await consumers.stable("a")
    b = await consumers.id_of("b")
    again = await consumers.join("a", member_id=a)
    assert await code_of(again) == "held"
    comes = await consumers.join("b", member_id=b)
    assert (await got(comes)).generation == (await got(again)).generation


async def test_an_id_that_was_given_out_is_kept_for_a_session(consumers):
    (a,) = await consumers.stable("a", session_timeout_s=SESSION_S * 2)
    b = await consumers.id_of("b")
    again = await consumers.join("a", member_id=a)
    await consumers.let_pass(SESSION_S - 0.001)
    assert await code_of(again) == "held"
    await consumers.let_pass(0.001)
    assert [member.id for member in (await got(again)).members] == [a]
    assert await code_of(await consumers.join("b", member_id=b)) == "unknown_member_id"


async def test_an_id_that_was_given_out_may_leave(consumers):
    a = await consumers.id_of("a")
    consumers.group.leave(a)
    assert not consumers.group.members.pending
    assert await code_of(await consumers.join("a", member_id=a)) == "unknown_member_id"


# Clients that go away.


async def test_a_client_that_goes_takes_its_held_join_along(newcomers, purgatory):
    gone = await newcomers.join("a")
    assert purgatory.pending == 1
    gone.cancel()
    await settle()
    assert purgatory.pending == 0
    assert newcomers.coordinator.find("g") is None, "it never learnt its id"


async def test_a_member_whose_client_goes_keeps_its_session(consumers):
    a, _ = await consumers.stable("a", "b")
    gone = await consumers.join("a", member_id=a)
    await consumers.let_pass(SESSION_S - 1)
    gone.cancel()
    await settle()
    await consumers.let_pass(SESSION_S - 0.001)
    assert [member.id for member in consumers.group.members] == [a]
    await consumers.let_pass(0.001)
    assert consumers.group.state == "Empty"


async def test_a_join_that_is_repeated_ends_the_earlier_one(consumers):
    a, _ = await consumers.stable("a", "b")
    earlier = await consumers.join("a", member_id=a)
    later = await consumers.join("a", member_id=a)
    assert await code_of(earlier) == "rebalance_in_progress"
    assert await code_of(later) == "held"


async def test_a_member_removed_while_it_joins_is_unknown(consumers):
    a, b = await consumers.stable("a", "b")
    held = await consumers.join("a", member_id=a)
    consumers.group.leave(a)
    assert await code_of(held) == "unknown_member_id"
    assert [member.id for member in consumers.group.members] == [b]


# Bounds.


async def test_a_full_group_takes_no_member_and_no_id(purgatory, manual_clock):
    consumers = Consumers(purgatory, manual_clock, max_members=2)
    (a,) = await consumers.stable("a")
    await consumers.id_of("b")
    for returns in (False, True):
        task = await consumers.join("c", returns_with_id=returns)
        assert await code_of(task) == "group_max_size_reached"
    assert [member.id for member in consumers.group.members] == [a]
    consumers.coordinator.close()


async def test_a_full_purgatory_leaves_no_member_behind(manual_clock):
    with_room_for_none = Purgatory(timer=Timer(clock=manual_clock), max_pending=1)
    consumers = Consumers(with_room_for_none, manual_clock, initial_delay_s=DELAY_S)
    first = await consumers.join("a")
    assert await code_of(await consumers.join("b")) == "coordinator_not_available"
    assert len(consumers.group.members) == 1
    first.cancel()
    await settle()
    with_room_for_none.close()


@pytest.mark.parametrize("seconds", [0.099, 1800.001, -1])
async def test_a_session_out_of_bounds_is_refused(consumers, seconds):
    with pytest.raises(ProtocolError, match=r"100 to 1800000, got ") as refused:
        await consumers.coordinator.join("g", a_join(session_timeout_s=seconds))
    assert refused.value.code.name == "invalid_session_timeout"
    assert consumers.coordinator.find("g") is None


async def test_a_group_needs_a_name(consumers):
    with pytest.raises(ProtocolError, match=r"group\.id") as refused:
        await consumers.coordinator.join("", a_join())
    assert refused.value.code.name == "invalid_group_id"
