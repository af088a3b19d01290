"""A group of many members: what a rebalance costs is counted in calls, not in seconds."""

import asyncio

import pytest

from purgatory_async.testing import settle
from tests.calls import noted_calls
from tests.kafka.groups.consumers import DELAY_S, a_join

pytestmark = pytest.mark.asyncio


async def join_and_sync(newcomers, member_id=""):
    place = await newcomers.coordinator.join("g", a_join(member_id=member_id))
    assignments = {member.id: b"one" for member in place.members}
    synced = await newcomers.group.sync(place.member_id, place.generation, assignments)
    assert synced.assignment == b"one"
    return place.member_id


async def calls_of_two_generations(newcomers, number):
    """How many calls it takes to form a group, and to form it again when a member has left."""
    with noted_calls(built_in=True) as called:
        forming = [asyncio.create_task(join_and_sync(newcomers)) for _ in range(number)]
        await settle()
        await newcomers.let_pass(DELAY_S)
        ids = [task.result() for task in forming]
        newcomers.group.leave(ids.pop())
        again = [asyncio.create_task(join_and_sync(newcomers, member_id)) for member_id in ids]
        await settle()
    assert [task.result() for task in again] == ids
    assert (newcomers.group.generation, newcomers.group.state) == (2, "Stable")
    newcomers.coordinator.close()
    return len(called)


async def test_a_member_of_many_costs_as_much_as_one_of_few(newcomers):
    few, many = [await calls_of_two_generations(newcomers, number) for number in (50, 400)]
    assert many / 400 < few / 50 * 1.2
