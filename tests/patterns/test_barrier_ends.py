"""How a barrier releases: what can be set meanwhile, `on_release`, members that leave in the same pass, other ends."""

import asyncio
from math import nan

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
from tests.core.recording import errors_of_loop
from tests.patterns.test_barrier import arriving, arriving_now, have_gone_on, leaving, passing
from tests.patterns.waiters import Waiter, each_way, ends, let_pass, waiting

pytestmark = pytest.mark.asyncio


# Its times can be set.


@pytest.mark.parametrize("attribute", ["timeout", "initial_delay"])
async def test_a_time_that_is_past_closes_the_window_next_turn(attribute, purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=9, timeout=30)
    waiters = await arriving(group, "a")
    await passing(manual_clock, 5)
    setattr(group, attribute, 3)
    assert group.present == ("a",), "not inside the assignment"
    await settle()
    assert await ends(waiters) == [Generation(1, ("a",), complete=False)]


@pytest.mark.parametrize(
    ("attribute", "bad", "error"),
    [
        ("timeout", nan, ValueError),
        ("timeout", "5", TypeError),
        ("initial_delay", -1, ValueError),
        ("initial_delay", None, TypeError),
    ],
)
async def test_a_bad_time_changes_nothing(attribute, bad, error, purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=9, timeout=5)
    waiters = await arriving(group, "a")
    with pytest.raises(error, match=attribute):
        setattr(group, attribute, bad)
    assert (group.timeout, group.initial_delay) == (5, 0)
    await passing(manual_clock, 5)
    assert have_gone_on(waiters) == [True]


async def test_in_a_full_timer_an_open_window_can_be_moved(manual_clock):
    purgatory = Purgatory(timer=Timer(clock=manual_clock, max_pending=1))
    group = Barrier(purgatory, "group", expect=9, timeout=30, initial_delay=4)
    waiters = await arriving(group, "a")
    await passing(manual_clock, 1)
    waiters += await arriving(group, "b")
    group.timeout = 3
    await passing(manual_clock, 2)
    assert await ends(waiters) == [Generation(1, ("a", "b"), complete=False)] * 2
    assert_clean(purgatory)


async def test_a_window_refused_by_a_full_timer_stays_as_it_was(manual_clock):
    timer = Timer(clock=manual_clock, max_pending=1)
    purgatory = Purgatory(timer=timer)
    released = []
    group = Barrier(purgatory, "group", expect=2, timeout=None, on_release=released.append)
    waiters = await arriving(group, "a")
    bell = timer.call_later(10, print)
    with pytest.raises(PurgatoryFull):
        group.timeout = 5
    assert group.timeout is None
    waiters += await arriving(group, "b")
    assert await ends(waiters) == [Generation(1, ("a", "b"), complete=True)] * 2
    assert len(released) == 1
    bell.cancel()


# The releasing call.


async def test_on_release_is_called_in_the_arrival_that_releases(purgatory):
    released = []
    group = Barrier(purgatory, "group", expect=2, timeout=30, on_release=released.append)
    waiters = await arriving(group, "a")
    with pytest.raises(StopIteration) as returned:
        group.arrive("b").send(None)
    assert released == [returned.value.value]
    assert have_gone_on(waiters) == [False], "before any member goes on"
    assert await ends(waiters) == released


async def test_on_release_sets_what_the_same_pass_newcomer_finds(purgatory):
    def expect_one_more(generation):
        group.expect = len(generation.members) + 1

    group = Barrier(purgatory, "group", expect=1, timeout=30, on_release=expect_one_more)
    tasks = [asyncio.create_task(group.arrive(member)) for member in ("a", "b", "c", "d")]
    await settle()
    assert [task.done() for task in tasks] == [True, True, True, False]
    assert [(await task).number for task in tasks[:3]] == [1, 2, 2]
    tasks[3].cancel()
    await settle()


@pytest.mark.parametrize("end", ["all leave", "sent away", "purgatory closed", "timer closed"])
async def test_without_a_generation_on_release_is_not_called(end, manual_clock):
    released = []
    timer = Timer(clock=manual_clock)
    purgatory = Purgatory(timer=timer)
    group = Barrier(purgatory, "group", expect=2, timeout=30, on_release=released.append)
    waiters = await arriving(group, "a")
    if end == "all leave":
        waiters[0].cancel()
        manual_clock.advance(30)
    else:
        {
            "sent away": lambda: purgatory.cancel_for_key("group"),
            "purgatory closed": purgatory.close,
            "timer closed": timer.close,
        }[end]()
    await ends(waiters)
    manual_clock.advance(30)
    assert (released, timer.pending, purgatory.pending) == ([], 0, 0)


@pytest.mark.parametrize("releasing", ["arrival", "assignment", "time"])
async def test_an_on_release_that_raises_disturbs_no_member(releasing, purgatory, manual_clock):
    def broken(generation):
        raise LookupError("broken")

    reports = errors_of_loop()
    group = Barrier(purgatory, "group", expect=3, timeout=30, on_release=broken)
    waiters = await arriving(group, "a", "b")
    if releasing == "arrival":
        waiters += await arriving(group, "c")
    elif releasing == "assignment":
        group.expect = 2
    else:
        manual_clock.advance(30)
    members = ("a", "b", "c") if releasing == "arrival" else ("a", "b")
    assert await ends(waiters) == [Generation(1, members, complete=releasing != "time")] * len(waiters)
    assert [type(context["exception"]) for context in reports] == [LookupError]


async def test_a_window_that_expires_inside_a_hook_releases_once(purgatory, manual_clock):
    released = []
    group = Barrier(purgatory, "group", expect=2, timeout=30, on_release=released.append)
    waiters = await arriving(group, "a")
    later = group.arrive("b")

    class Hook(DelayedOperation):
        def on_complete(self):
            manual_clock.advance(30)  # the window's own hook is behind this one
            group.expect = 1
            group.expect = 2
            later.send(None)

    Hook().force_complete()
    assert released == [Generation(1, ("a",), complete=True)]
    assert group.present == ("b",), "it is in the next generation"
    later.close()
    assert await ends(waiters) == released


async def test_on_release_may_end_the_next_wait_before_it_begins(purgatory):
    group = Barrier(purgatory, "group", expect=1, timeout=30)
    group.on_release = lambda _: purgatory.cancel_for_key("group")
    assert (await group.arrive("a")).number == 1
    group.expect = 2
    (waiter,) = await arriving(group, "b")
    purgatory.cancel_for_key("group")
    assert isinstance(await waiter.end(), OperationCancelled)


# A cancellation and the last one to come. Both tasks run in the next pass: in the order in which they were woken.


@each_way
@pytest.mark.parametrize("race", ["cancel_before", "cancel_after"])  # whose task runs first
@pytest.mark.parametrize("expect", [3, ["a", "b", "c"]])
async def test_cancelled_just_before_the_last_arrival_it_is_absent(expect, race, way, purgatory):
    group = Barrier(purgatory, "group", expect=expect, timeout=30)
    first, other = await waiting(group.arrive("a"), way=way), Waiter(group.arrive("b"))
    await settle()
    came: list[Waiter] = []
    getattr(first[0], race)(lambda: came.append(arriving_now(group, "c")))
    await let_pass(way.lead)
    await settle()
    assert await ends(first) == ["cancelled"]
    assert have_gone_on([other, *came]) == [False, False]
    assert group.present == ("b", "c")
    last = await arriving(group, "a")
    assert await ends([other, *came, *last]) == [Generation(1, ("b", "c", "a"), complete=True)] * 3


@each_way
async def test_cancelled_just_after_the_last_one_came_it_was_there(way, purgatory):
    group = Barrier(purgatory, "group", expect=3, timeout=30)
    (first,), other = await waiting(group.arrive("a"), way=way), Waiter(group.arrive("b"))
    await settle()
    came: list[object] = []

    def come() -> None:
        with pytest.raises(StopIteration) as returned:
            group.arrive("c").send(None)  # the last one to come does not wait
        came.append(returned.value.value)

    first.cancel_after(come)
    generation = Generation(1, ("a", "b", "c"), complete=True)
    assert await first.end() == ("cancelled" if way.reached_late else generation)
    assert await other.end() == generation
    assert came == [generation]


# A cancellation and the next one to come.


@pytest.mark.parametrize("initial_delay", [0, 20])
@pytest.mark.parametrize("end", ["cancelled", "for their key"])
async def test_an_arrival_after_all_were_ended_opens_a_new_window(
    initial_delay, end, purgatory, manual_clock
):
    group = Barrier(purgatory, "group", expect=3, timeout=30, initial_delay=initial_delay)
    waiters = await arriving(group, "a", "b")
    await passing(manual_clock, 15)
    newcomer = arriving_now(group, "c")  # starts first, while the others do not know that they have ended
    if end == "cancelled":
        for waiter in waiters:
            waiter.cancel()
    else:
        purgatory.cancel_for_key("group")
    await settle()
    await passing(manual_clock, (initial_delay or 30) - 0.001)
    assert have_gone_on([newcomer]) == [False]
    await passing(manual_clock, 0.001)
    assert await newcomer.end() == Generation(1, ("c",), complete=False)
    assert [end == "cancelled" or type(end) for end in await ends(waiters)] in (
        [True] * 2,
        [OperationCancelled] * 2,
    )


# The next generation in the same pass.


async def test_the_last_arrival_before_the_window_ends_completes_it(purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=2, timeout=30)
    (first,) = await arriving(group, "a")
    last = arriving_now(group, "b")
    asyncio.get_running_loop().call_soon(manual_clock.advance, 30)
    await settle()
    assert await ends([first, last]) == [Generation(1, ("a", "b"), complete=True)] * 2


# The end of the purgatory.


async def test_closing_a_purgatory_that_owns_its_timer_ends_the_window():
    async with Purgatory() as purgatory:
        waiters = await arriving(Barrier(purgatory, "group", expect=3, timeout=30), "a", "b")
    assert [type(end) for end in await ends(waiters)] == [PurgatoryClosed] * 2
    assert_clean(purgatory)


# A full one.


async def test_in_a_full_purgatory_those_who_are_there_wait_on(manual_clock):
    purgatory = Purgatory(timer=Timer(clock=manual_clock), max_pending=2)
    group = Barrier(purgatory, "group", expect=3, timeout=30, initial_delay=20)
    waiters = await arriving(group, "a", "b")
    await passing(manual_clock, 10)
    for member in ("c", "a"):
        with pytest.raises(PurgatoryFull):
            await group.arrive(member)
    assert group.present == ("a", "b")
    await passing(manual_clock, 9.999)
    assert have_gone_on(waiters) == [False, False]
    await passing(manual_clock, 0.001)  # who comes in vain does not keep the window open
    assert await ends(waiters) == [Generation(1, ("a", "b"), complete=False)] * 2
    assert_clean(purgatory)


# Others in it.


async def test_two_barriers_on_one_key_are_independent(purgatory):
    one, other = [Barrier(purgatory, "key", expect=2, timeout=30) for _ in range(2)]
    waiters, others = await arriving(one, "a"), await arriving(other, "b")
    assert (one.present, other.present) == (("a",), ("b",))
    assert have_gone_on(waiters + others) == [False, False]
    waiters += await arriving(one, "b")
    assert await ends(waiters) == [Generation(1, ("a", "b"), complete=True)] * 2
    assert other.present == ("b",)
    await leaving(*others)


# Its timer closed under it.


@pytest.mark.parametrize("initial_delay", [0, 5])
async def test_a_shared_timer_that_closes_ends_every_wait(initial_delay, manual_clock):
    timer = Timer(clock=manual_clock)
    purgatory = Purgatory(timer=timer)
    group = Barrier(purgatory, "group", expect=3, timeout=30, initial_delay=initial_delay)
    waiters = await arriving(group, "a", "b")
    beside = Waiter(purgatory.wait("beside", timeout=30))
    await settle()
    timer.close()
    assert group.present == ()
    assert [type(end) for end in await ends([*waiters, beside])] == [PurgatoryClosed] * 3
    assert_clean(purgatory)
    group.timeout = 60  # no window is open that it would move
    with pytest.raises(PurgatoryClosed):
        await group.arrive("c")
    assert purgatory.pending == 0


# Its key ended from outside.


@pytest.mark.parametrize("result", [None, "?", Generation(1, ("z",), complete=True)])
async def test_complete_for_key_ends_the_waits_without_a_generation(result, purgatory):
    group = Barrier(purgatory, "group", expect=3, timeout=30)
    waiters = await arriving(group, "a", "b")
    assert purgatory.complete_for_key("group", result) == 2
    assert group.present == ()
    for end in await ends(waiters):
        assert isinstance(end, OperationCancelled)
        assert "'group' was ended without a generation" in str(end)
    waiters = await arriving(group, "a", "b", "c")
    assert await ends(waiters) == [Generation(1, ("a", "b", "c"), complete=True)] * 3


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


async def test_the_observer_does_not_see_a_refused_member(manual_clock):
    events: list[object] = []

    class Notes:
        def notify(self, event) -> None:
            events.append(event)

    purgatory = Purgatory(timer=Timer(clock=manual_clock), observer=Notes())
    with pytest.raises(TypeError, match="unhashable"):
        await Barrier(purgatory, "group", expect=2, timeout=30).arrive(["a"])
    assert events == []
