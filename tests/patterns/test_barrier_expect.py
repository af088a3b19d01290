"""`Barrier.expect` can be set: a group grows and shrinks between generations, and while it gathers."""

import asyncio

import pytest

from purgatory_async import OperationCancelled
from purgatory_async.patterns import Barrier
from purgatory_async.testing import settle

pytestmark = pytest.mark.asyncio


async def gather(group, *members):
    waiting = [asyncio.create_task(group.arrive(member)) for member in members]
    await settle()
    return waiting


async def test_waiters_go_on_when_no_other_member_is_expected_any_more(purgatory):
    group = Barrier(purgatory, "group", expect=3, timeout=30)
    waiting = await gather(group, "a", "b")
    group.expect = 2
    assert {(await task).complete for task in waiting} == {True}
    assert purgatory.timer.pending == 0


async def test_they_go_on_waiting_when_more_are_expected(purgatory):
    group = Barrier(purgatory, "group", expect=2, timeout=30)
    waiting = await gather(group, "a")
    group.expect = {"a", "b", "c"}
    waiting += await gather(group, "b")
    assert group.present == ("a", "b")
    assert group.expect == {"a", "b", "c"}
    waiting += await gather(group, "c")
    assert {(await task).members for task in waiting} == {("a", "b", "c")}


async def test_an_empty_barrier_opens_no_generation(purgatory):
    group = Barrier(purgatory, "group", expect=2, timeout=30)
    group.expect = 1
    assert (await group.arrive("a")).number == 1


@pytest.mark.parametrize(
    ("bad", "error"), [(0, ValueError), ("ab", TypeError), (True, TypeError), ([[]], TypeError)]
)
async def test_a_bad_expectation_changes_nothing(purgatory, bad, error):
    group = Barrier(purgatory, "group", expect=2, timeout=30)
    with pytest.raises(error, match=r"expect|unhashable"):
        group.expect = bad
    assert group.expect == 2


async def test_a_dismissed_member_ends_and_others_wait_on(purgatory):
    group = Barrier(purgatory, "group", expect={"a", "b"}, timeout=30)
    gone, stays = await gather(group, "a", "c")
    assert (group.dismiss("a"), group.dismiss("a"), group.dismiss("b")) == (True, False, False)
    with pytest.raises(OperationCancelled):
        await gone
    assert not stays.done()
    assert group.present == ("c",)
    group.expect = {"c"}
    assert (await stays).members == ("c",)


async def test_dismissing_the_last_member_closes_the_window(purgatory):
    group = Barrier(purgatory, "group", expect=2, timeout=30)
    (gone,) = await gather(group, "a")
    assert group.dismiss("a")
    assert purgatory.timer.pending == 0
    with pytest.raises(OperationCancelled):
        await gone
