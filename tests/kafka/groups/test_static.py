"""Static members: an instance that comes back takes its place, and its former self is fenced."""

import pytest

from purgatory_async.kafka.errors import ProtocolError
from purgatory_async.testing import settle
from tests.kafka.groups.consumers import SESSION_S, a_join, code_of, got, sending

pytestmark = pytest.mark.asyncio


async def a_pair(consumers):
    """The ids of the instances one, which leads, and two, of a stable group."""
    one = (await got(await consumers.join("a", instance_id="one"))).member_id
    two = await consumers.join("b", instance_id="two")
    again = await consumers.join("a", member_id=one, instance_id="one")
    ids = [(await got(task)).member_id for task in (again, two)]
    for id_, instance in zip(ids, ("one", "two"), strict=True):
        await consumers.sync(id_, instance_id=instance)
    assert consumers.group.state == "Stable"
    return ids


async def test_a_static_member_needs_no_second_join(consumers):
    joined = await consumers.join("a", instance_id="one", returns_with_id=True)
    assert (await got(joined)).member_id.startswith("one-")


async def test_an_instance_that_comes_back_causes_no_rebalance(consumers):
    one, two = await a_pair(consumers)
    back = await got(await consumers.join("b", instance_id="two"))
    assert back.member_id != two
    assert (back.generation, back.leader_id) == (2, one)
    assert consumers.group.state == "Stable"
    synced = await got(await consumers.sync(back.member_id, instance_id="two"))
    assert synced.assignment.decode() == two, "it keeps what it was assigned"


FENCED = {
    "heartbeat": lambda group, two: group.heartbeat(two, 2, instance_id="two"),
    "sync": lambda group, two: group.sync(two, 2, {}, instance_id="two"),
    "commit": lambda group, two: group.commit(two, 2, {}, instance_id="two"),
    "leave": lambda group, two: group.leave(two, instance_id="two"),
    "join": lambda group, two: group.join(a_join("b", member_id=two, instance_id="two")),
}


@pytest.mark.parametrize("name", FENCED)
async def test_the_former_self_of_an_instance_is_fenced(consumers, name):
    _, two = await a_pair(consumers)
    await got(await consumers.join("b", instance_id="two"))
    with pytest.raises(ProtocolError, match="only one consumer") as refused:
        await sending(FENCED[name], consumers.group, two)
    assert refused.value.code.name == "fenced_instance_id"
    assert len(consumers.group.members) == 2


async def test_a_held_join_of_the_former_self_is_fenced(consumers):
    one, _ = await a_pair(consumers)
    held = await consumers.join("a", member_id=one, instance_id="one")
    later = await consumers.join("a", instance_id="one")
    assert await code_of(held) == "fenced_instance_id"
    assert await code_of(later) == "held"


async def test_a_held_sync_of_the_former_self_is_fenced(consumers):
    one, two = await a_pair(consumers)
    tasks = [
        await consumers.join(instance, member_id=id_, instance_id=instance)
        for id_, instance in ((one, "one"), (two, "two"))
    ]
    assert [await code_of(task) for task in tasks] == ["none", "none"]
    held = await consumers.sync(two, instance_id="two")
    assert await code_of(held) == "held"
    await consumers.join("b", instance_id="two")
    assert await code_of(held) == "fenced_instance_id"


async def test_a_leader_that_comes_back_may_skip_assigning(consumers):
    await a_pair(consumers)
    back = await got(await consumers.join("a", instance_id="one", skips_assignment=True))
    assert (back.leader_id, back.skip_assignment, len(back.members)) == (back.member_id, True, 2)


async def test_an_older_leader_that_comes_back_is_no_leader(consumers):
    pair = await a_pair(consumers)
    back = await got(await consumers.join("a", instance_id="one", skips_assignment=False))
    assert (back.leader_id, back.skip_assignment, back.members) == (pair[0], False, ())
    assert consumers.group.leader_id == back.member_id


async def test_an_instance_with_other_topics_rebalances(consumers):
    await a_pair(consumers)
    back = await consumers.join("b", instance_id="two", protocols={"range": b"other topics"})
    assert await code_of(back) == "held"
    assert consumers.group.state == "PreparingRebalance"


async def test_an_instance_that_misses_the_rebalance_stays(consumers):
    long = {"session_timeout_s": SESSION_S * 100}
    a = (await got(await consumers.join("a", instance_id="one", **long))).member_id
    await consumers.sync(a, instance_id="one")
    b = await consumers.join("b", **long)
    await consumers.let_pass(SESSION_S * 6)
    place = await got(b)
    assert (place.leader_id, len(place.members)) == (place.member_id, 2), "one that has joined leads"


async def test_an_instance_leaves_by_its_name(consumers):
    pair = await a_pair(consumers)
    consumers.group.leave("", instance_id="two")
    assert [member.id for member in consumers.group.members] == [pair[0]]


async def test_an_instance_cannot_take_an_id_given_to_another(consumers):
    await a_pair(consumers)
    given = await consumers.id_of("c")
    task = await consumers.join("c", member_id=given, instance_id="two")
    assert await code_of(task) == "fenced_instance_id"
    assert len(consumers.group.members) == 2
    await settle()
