"""A barrier in its purgatory: closed, draining, full, shared, its key ended from outside; and what it refuses."""

import pytest

from purgatory_async import (
    DelayedOperation,
    OperationCancelled,
    Outcome,
    Purgatory,
    PurgatoryClosed,
    PurgatoryFull,
    Timer,
)
from purgatory_async.patterns import Barrier, Generation
from purgatory_async.testing import assert_clean, settle
from tests.patterns.guests import Guest
from tests.patterns.test_barrier import arriving, ends, have_gone_on, leaving, passing

pytestmark = pytest.mark.asyncio


# The end of the purgatory.


async def test_closing_a_purgatory_that_owns_its_timer_ends_the_window():
    async with Purgatory() as purgatory:
        guests = await arriving(Barrier(purgatory, "group", expect=3, timeout=30), "a", "b")
    assert [type(end) for end in await ends(guests)] == [PurgatoryClosed] * 2
    assert_clean(purgatory)


async def test_draining_refuses_arrivals_and_lets_the_waiting_go_on(purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=3, timeout=30)
    guests = await arriving(group, "a", "b")
    assert await purgatory.drain(timeout=0) is False
    for member in ("a", "c"):
        with pytest.raises(PurgatoryClosed, match="draining"):
            await group.arrive(member)
    assert group.present == ("a", "b"), "a refused arrival replaces no member"
    await passing(manual_clock, 30)
    assert await ends(guests) == [Generation(1, ("a", "b"), complete=False)] * 2


# A full one.


async def test_in_a_full_purgatory_those_who_are_there_wait_on(manual_clock):
    purgatory = Purgatory(timer=Timer(clock=manual_clock), max_pending=2)
    group = Barrier(purgatory, "group", expect=3, timeout=30, initial_delay=20)
    guests = await arriving(group, "a", "b")
    await passing(manual_clock, 10)
    for member in ("c", "a"):
        with pytest.raises(PurgatoryFull):
            await group.arrive(member)
    assert group.present == ("a", "b")
    await passing(manual_clock, 9.999)
    assert have_gone_on(guests) == [False, False]
    await passing(manual_clock, 0.001)  # who comes in vain does not keep the window open
    assert await ends(guests) == [Generation(1, ("a", "b"), complete=False)] * 2
    assert_clean(purgatory)


# Others in it.


async def test_two_barriers_on_one_purgatory_do_not_know_of_each_other(purgatory, manual_clock):
    one = Barrier(purgatory, "one", expect=2, timeout=30)
    other = Barrier(purgatory, "other", expect=2, timeout=10)
    guests = await arriving(one, "a")
    others = await arriving(other, "a")
    await passing(manual_clock, 10)
    assert await ends(others) == [Generation(1, ("a",), complete=False)]
    assert have_gone_on(guests) == [False]
    guests += await arriving(one, "b")
    assert await ends(guests) == [Generation(1, ("a", "b"), complete=True)] * 2


async def test_two_barriers_on_one_key_are_independent(purgatory):
    one, other = [Barrier(purgatory, "key", expect=2, timeout=30) for _ in range(2)]
    guests, others = await arriving(one, "a"), await arriving(other, "b")
    assert (one.present, other.present) == (("a",), ("b",))
    assert have_gone_on(guests + others) == [False, False]
    guests += await arriving(one, "b")
    assert await ends(guests) == [Generation(1, ("a", "b"), complete=True)] * 2
    assert other.present == ("b",)
    await leaving(*others)


async def test_other_operations_on_its_key_are_not_its_members(purgatory, manual_clock):
    other: DelayedOperation[str] = DelayedOperation()
    purgatory.try_complete_else_watch(other, ["group"])
    guests = await arriving(Barrier(purgatory, "group", expect=2, timeout=30), "a", "b")
    assert await ends(guests) == [Generation(1, ("a", "b"), complete=True)] * 2
    assert other.outcome is None
    other.cancel()


async def test_a_check_of_its_key_does_nothing(purgatory, manual_clock):
    guests = await arriving(Barrier(purgatory, "group", expect=2, timeout=30), "a")
    assert purgatory.check_and_complete("group") == 0
    assert have_gone_on(guests) == [False]
    await leaving(*guests)


# Its timer closed under it.


@pytest.mark.parametrize("initial_delay", [0, 5])
async def test_a_shared_timer_that_closes_ends_every_wait(initial_delay, manual_clock):
    timer = Timer(clock=manual_clock)
    purgatory = Purgatory(timer=timer)
    group = Barrier(purgatory, "group", expect=3, timeout=30, initial_delay=initial_delay)
    guests = await arriving(group, "a", "b")
    beside = Guest(purgatory.wait("beside", timeout=30))
    await settle()
    timer.close()
    assert group.present == ()
    assert [type(end) for end in await ends([*guests, beside])] == [PurgatoryClosed] * 3
    assert_clean(purgatory)
    group.timeout = 60  # no window is open that it would move
    with pytest.raises(PurgatoryClosed):
        await group.arrive("c")
    assert purgatory.pending == 0


async def test_without_a_deadline_they_outlive_their_timer(manual_clock):
    timer = Timer(clock=manual_clock)
    purgatory = Purgatory(timer=timer)
    group = Barrier(purgatory, "group", expect=3, timeout=None)
    guests = await arriving(group, "a")
    beside = Guest(purgatory.wait("beside"))
    await settle()
    timer.close()
    with pytest.raises(PurgatoryClosed):
        group.timeout = 5
    assert group.timeout is None
    guests += await arriving(group, "b", "c")
    assert await ends(guests) == [Generation(1, ("a", "b", "c"), complete=True)] * 3
    purgatory.complete_for_key("beside", "done")
    assert await beside.end() == "done"


# Its key ended from outside.


@pytest.mark.parametrize("result", [None, "?", Generation(1, ("z",), complete=True)])
async def test_complete_for_key_ends_the_waits_without_a_generation(result, purgatory):
    group = Barrier(purgatory, "group", expect=3, timeout=30)
    guests = await arriving(group, "a", "b")
    assert purgatory.complete_for_key("group", result) == 2
    assert group.present == ()
    for guest in guests:
        with pytest.raises(OperationCancelled, match="'group' was ended without a generation"):
            await guest.task
    guests = await arriving(group, "a", "b", "c")
    assert await ends(guests) == [Generation(1, ("a", "b", "c"), complete=True)] * 3


async def test_who_is_completed_alone_is_no_member(purgatory):
    group = Barrier(purgatory, "group", expect=2, timeout=30)
    (first,) = await arriving(group, "a")
    next(purgatory.operations("group")).force_complete()
    second = await arriving(group, "b")
    assert have_gone_on(second) == [False]
    assert isinstance(await first.end(), OperationCancelled)
    third = await arriving(group, "c")
    assert await ends([*second, *third]) == [Generation(1, ("b", "c"), complete=True)] * 2


async def test_one_member_may_be_sent_away(purgatory):
    group = Barrier(purgatory, "group", expect=3, timeout=30)
    first, second = await arriving(group, "a", "b")
    next(purgatory.operations("group")).cancel()
    sent_away = await first.end()
    assert isinstance(sent_away, OperationCancelled)
    assert "again" not in str(sent_away)
    assert group.present == ("b",)
    third = await arriving(group, "c", "d")
    assert await ends([second, *third]) == [Generation(1, ("b", "c", "d"), complete=True)] * 3


async def test_its_waits_are_operations_that_complete_together(purgatory):
    group = Barrier(purgatory, "group", expect=2, timeout=30)
    (first,) = await arriving(group, "a")
    (operation,) = purgatory.operations("group")
    generation = await group.arrive("b")
    assert (operation.outcome, operation.result) == (Outcome.COMPLETED, generation)
    await first.end()


# Bad arguments.


async def test_an_unhashable_member_is_refused_and_registers_nothing(purgatory):
    group = Barrier(purgatory, "group", expect=2, timeout=30)
    with pytest.raises(TypeError, match="unhashable"):
        await group.arrive(["a"])
    assert group.present == ()
    assert_clean(purgatory)
    assert (purgatory.pending, purgatory.timer.pending) == (0, 0)
    guests = await arriving(group, "a")
    with pytest.raises(TypeError, match="unhashable"):
        await group.arrive(["b"])
    assert group.present == ("a",)
    await leaving(*guests)


async def test_the_observer_does_not_see_a_refused_member(manual_clock):
    events: list[object] = []

    class Diary:
        def notify(self, event) -> None:
            events.append(event)

    purgatory = Purgatory(timer=Timer(clock=manual_clock), observer=Diary())
    with pytest.raises(TypeError, match="unhashable"):
        await Barrier(purgatory, "group", expect=2, timeout=30).arrive(["a"])
    assert events == []
