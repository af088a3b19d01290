"""`Barrier.reset` and `Barrier.abort`: how those that wait learn of it, and what becomes of the next generation."""

import asyncio
import traceback
import weakref

import pytest

from purgatory_async import OperationCancelled, Purgatory, PurgatoryClosed
from purgatory_async.patterns import Barrier
from purgatory_async.testing import cancel_sweep, settle
from tests.loop.worlds import by_reference_counts_alone
from tests.patterns.waiters import Waiter, after, each_way, ends, waiting
from tests.patterns.work import PlannedError

pytestmark = pytest.mark.asyncio


@pytest.fixture
def group(purgatory):
    return Barrier(purgatory, "group", expect=3, timeout=30)


async def arrived(group, members):
    return await waiting(*[group.arrive(member) for member in members])


async def test_a_reset_cancels_those_that_wait_and_keeps_the_number(group, purgatory):
    await ends(await arrived(group, "abc"))
    first = await arrived(group, "de")
    assert (group.n_waiting, group.present) == (2, ("d", "e"))
    group.reset()
    assert (group.n_waiting, group.broken, purgatory.timer.pending) == (0, False, 0)
    assert [(type(end), end.keys) for end in await ends(first)] == [(OperationCancelled, ("group",))] * 2
    generations = await ends(await arrived(group, "fgh"))
    assert generations[0].number == 2


async def test_the_window_of_a_reset_group_opens_with_the_next_member(group, purgatory):
    first = await arrived(group, "a")
    purgatory.timer.clock.advance(20)
    group.reset()
    await ends(first)
    second = await arrived(group, "b")
    purgatory.timer.clock.advance(29)
    await settle()
    assert second[0].got is None
    purgatory.timer.clock.advance(1)
    assert (await second[0].end()).members == ("b",)


async def test_a_reset_of_an_idle_barrier_changes_nothing(group):
    group.reset()
    assert (await ends(await arrived(group, "abc")))[0].number == 1


async def test_an_aborted_barrier_raises_the_exception_until_reset(group, purgatory):
    error = PlannedError("the disk is full")
    first = await arrived(group, "ab")
    group.abort(error)
    assert (group.broken, group.n_waiting, purgatory.pending, purgatory.timer.pending) == (True, 0, 0, 0)
    assert repr(group) == "<Barrier 'group' broken present=0 generation=0>"
    late = Waiter(group.arrive("c"))
    assert [end is error for end in await ends([*first, late])] == [True] * 3
    group.reset()
    assert not group.broken
    assert (await ends(await arrived(group, "abc")))[0].number == 1


async def test_an_abort_of_an_aborted_barrier_is_the_newer_one(group):
    group.abort(PlannedError("first"))
    group.abort(newer := PlannedError("second"))
    with pytest.raises(PlannedError) as raised:
        await group.arrive("a")
    assert raised.value is newer


async def test_the_traceback_does_not_grow_with_each_arrival(group):
    group.abort(error := PlannedError("broken"))
    lengths = []
    for _ in range(3):
        with pytest.raises(PlannedError):
            await group.arrive("a")
        lengths.append(len(traceback.extract_tb(error.__traceback__)))
    assert len(set(lengths)) == 1


@pytest.mark.parametrize("wrong", [None, "broken", PlannedError])
async def test_what_is_no_exception_does_not_break_it(wrong, group):
    waiters = await arrived(group, "ab")
    with pytest.raises(TypeError, match="exception must be an exception instance"):
        group.abort(wrong)
    assert (group.broken, group.n_waiting) == (False, 2)
    await group.arrive("c")
    await ends(waiters)


async def test_a_broken_barrier_refuses_as_closed_once_it_is():
    purgatory = Purgatory()
    group = Barrier(purgatory, "group", expect=3, timeout=30)
    group.abort(PlannedError("broken"))
    purgatory.close()
    with pytest.raises(PurgatoryClosed):
        await group.arrive("a")


@pytest.mark.parametrize("verb", ["reset", "abort"])
async def test_those_released_in_the_same_pass_keep_their_generation(verb, group):
    waiters = await arrived(group, "ab")
    last = Waiter(group.arrive("c"), lazily=True)
    await asyncio.sleep(0)  # it completes the group; no other task has run
    group.reset() if verb == "reset" else group.abort(PlannedError("late"))
    generations = await ends([*waiters, last])
    assert [generation.number for generation in generations] == [1, 1, 1]


@pytest.mark.parametrize("verb", ["reset", "abort"])
@each_way
async def test_a_member_cancelled_in_the_same_pass_is_cancelled(verb, way, group):
    first, second = await waiting(group.arrive("a"), group.arrive("b"), way=way)
    first.cancel_before(group.reset if verb == "reset" else lambda: group.abort(PlannedError("broken")))
    await settle()
    kind = OperationCancelled if verb == "reset" else PlannedError
    assert first.got == "cancelled" or (type(first.got) is kind and way.lead)
    assert type(second.got) is kind
    assert (group.n_waiting, group._purgatory.timer.pending) == (0, 0)


async def test_on_release_is_not_called_for_those_that_were_sent_away(group):
    released = []
    group.on_release = released.append
    waiters = await arrived(group, "ab")
    group.reset()
    await ends(waiters)
    waiters = await arrived(group, "ab")
    group.abort(PlannedError("broken"))
    await ends(waiters)
    assert released == []


@pytest.mark.parametrize("verb", ["reset", "abort"])
async def test_cancelled_anywhere_an_arrival_leaves_nothing(verb, purgatory):
    kind = OperationCancelled if verb == "reset" else PlannedError

    async def scenario():
        group = Barrier(purgatory, object(), expect=3, timeout=30)
        other = Waiter(group.arrive("other"))
        after(3, group.reset if verb == "reset" else lambda: group.abort(PlannedError("broken")))
        try:
            with pytest.raises(kind):
                await group.arrive("a")
        finally:
            assert type(await other.end()) is kind
            assert (group.n_waiting, purgatory.pending, purgatory.timer.pending) == (0, 0, 0)

    assert await cancel_sweep(scenario) >= 1


async def test_what_was_aborted_is_freed_at_once(group):
    async def abort():
        waiters = await arrived(group, "ab")
        error = PlannedError("broken")
        group.abort(error)
        await ends(waiters)
        group.reset()
        for waiter in waiters:
            waiter.got = None
        return weakref.ref(error)

    with by_reference_counts_alone():
        freed = await asyncio.create_task(abort())
        await settle()
        assert freed() is None
