"""What a barrier waits for can be set, and `on_release` is called with each generation in the releasing call."""

import asyncio
from math import inf, nan

import pytest

from purgatory_async import DelayedOperation, OperationCancelled, Purgatory, PurgatoryFull, Timer
from purgatory_async.patterns import Barrier, Generation
from purgatory_async.testing import assert_clean, settle
from tests.core.recording import errors_of_loop
from tests.patterns.test_barrier import arriving, ends, have_gone_on, leaving, passing

pytestmark = pytest.mark.asyncio


# The timeout.


async def test_a_shorter_timeout_closes_an_open_window_earlier(purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=9, timeout=30)
    guests = await arriving(group, "a")
    await passing(manual_clock, 2)
    group.timeout = 5
    assert group.timeout == 5
    await passing(manual_clock, 2.999)
    assert have_gone_on(guests) == [False]
    await passing(manual_clock, 0.001)
    assert await ends(guests) == [Generation(1, ("a",), complete=False)]


@pytest.mark.parametrize(("timeout", "left"), [(60, 58), (None, 3e9), (inf, 3e9)])
async def test_a_longer_timeout_keeps_an_open_window_open(timeout, left, purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=2, timeout=30)
    guests = await arriving(group, "a")
    await passing(manual_clock, 2)
    group.timeout = timeout
    await passing(manual_clock, left - 0.001)
    assert have_gone_on(guests) == [False]
    guests += await arriving(group, "b")
    assert await ends(guests) == [Generation(1, ("a", "b"), complete=True)] * 2


@pytest.mark.parametrize("attribute", ["timeout", "initial_delay"])
async def test_a_time_that_is_past_closes_the_window_next_turn(attribute, purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=9, timeout=30)
    guests = await arriving(group, "a")
    await passing(manual_clock, 5)
    setattr(group, attribute, 3)
    assert group.present == ("a",), "not inside the assignment"
    await settle()
    assert await ends(guests) == [Generation(1, ("a",), complete=False)]


async def test_a_timeout_set_between_generations_is_the_next_ones(purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=9, timeout=30)
    group.timeout = 5
    assert purgatory.timer.pending == 0
    guests = await arriving(group, "a")
    await passing(manual_clock, 5)
    assert await ends(guests) == [Generation(1, ("a",), complete=False)]


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
    guests = await arriving(group, "a")
    with pytest.raises(error, match=attribute):
        setattr(group, attribute, bad)
    assert (group.timeout, group.initial_delay) == (5, 0)
    await passing(manual_clock, 5)
    assert have_gone_on(guests) == [True]


async def test_in_a_full_timer_an_open_window_can_be_moved(manual_clock):
    purgatory = Purgatory(timer=Timer(clock=manual_clock, max_pending=1))
    group = Barrier(purgatory, "group", expect=9, timeout=30, initial_delay=4)
    guests = await arriving(group, "a")
    await passing(manual_clock, 1)
    guests += await arriving(group, "b")
    group.timeout = 3
    await passing(manual_clock, 2)
    assert await ends(guests) == [Generation(1, ("a", "b"), complete=False)] * 2
    assert_clean(purgatory)


async def test_a_window_refused_by_a_full_timer_stays_as_it_was(manual_clock):
    timer = Timer(clock=manual_clock, max_pending=1)
    purgatory = Purgatory(timer=timer)
    released = []
    group = Barrier(purgatory, "group", expect=2, timeout=None, on_release=released.append)
    guests = await arriving(group, "a")
    bell = timer.call_later(10, print)
    with pytest.raises(PurgatoryFull):
        group.timeout = 5
    assert group.timeout is None
    guests += await arriving(group, "b")
    assert await ends(guests) == [Generation(1, ("a", "b"), complete=True)] * 2
    assert len(released) == 1
    bell.cancel()


# The delay.


async def test_without_a_delay_the_window_lasts_for_its_timeout(purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=9, timeout=30, initial_delay=3)
    guests = await arriving(group, "a")
    await passing(manual_clock, 2)
    group.initial_delay = 0
    await passing(manual_clock, 27.999)
    assert have_gone_on(guests) == [False]
    await passing(manual_clock, 0.001)
    assert have_gone_on(guests) == [True]


async def test_a_delay_counts_from_the_last_newcomer(purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=9, timeout=30)
    guests = await arriving(group, "a")
    await passing(manual_clock, 2)
    guests += await arriving(group, "b")
    await passing(manual_clock, 2)
    group.initial_delay = 3
    await passing(manual_clock, 0.999)
    assert have_gone_on(guests) == [False] * 2
    await passing(manual_clock, 0.001)
    assert have_gone_on(guests) == [True] * 2


# An empty expectation.


async def test_if_none_is_expected_only_time_closes_the_window(purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=(), timeout=30)
    guests = await arriving(group, "a", "b")
    await passing(manual_clock, 29.999)
    assert have_gone_on(guests) == [False] * 2
    await passing(manual_clock, 0.001)
    generation = await guests[0].end()
    assert generation == Generation(1, ("a", "b"), complete=True)
    assert generation.missing == frozenset()


async def test_an_expectation_that_becomes_empty_releases_no_member(purgatory):
    group = Barrier(purgatory, "group", expect=["a", "b"], timeout=30)
    guests = await arriving(group, "a")
    group.expect = ()
    assert group.present == ("a",)
    await leaving(*guests)


# Who is missing.


async def test_the_missing_were_expected_by_name_and_did_not_come(purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=["a", "b", "c"], timeout=30)
    guests = await arriving(group, "a", "x")
    await passing(manual_clock, 30)
    generation = await guests[0].end()
    assert (generation.complete, generation.missing) == (False, {"b", "c"})
    guests = await arriving(group, "a", "b", "c")
    generation = await guests[0].end()
    assert (generation.complete, generation.missing) == (True, frozenset())


async def test_a_number_has_no_missing_members(purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=2, timeout=30)
    guests = await arriving(group, "a")
    await passing(manual_clock, 30)
    assert (await guests[0].end()).missing is None


# The releasing call.


async def test_on_release_is_called_in_the_arrival_that_releases(purgatory):
    released = []
    group = Barrier(purgatory, "group", expect=2, timeout=30, on_release=released.append)
    guests = await arriving(group, "a")
    with pytest.raises(StopIteration) as returned:
        group.arrive("b").send(None)
    assert released == [returned.value.value]
    assert have_gone_on(guests) == [False], "before any member goes on"
    assert await ends(guests) == released


async def test_on_release_is_called_in_the_assignment_that_releases(purgatory):
    released = []
    group = Barrier(purgatory, "group", expect=2, timeout=30)
    group.on_release = released.append
    guests = await arriving(group, "a")
    group.expect = 1
    assert released == [Generation(1, ("a",), complete=True)]
    assert await ends(guests) == released


async def test_on_release_is_called_as_the_window_closes(purgatory, manual_clock):
    released = []
    group = Barrier(purgatory, "group", expect=2, timeout=30, on_release=released.append)
    guests = await arriving(group, "a")
    manual_clock.advance(30)
    assert released == [Generation(1, ("a",), complete=False)]
    assert await ends(guests) == released


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
    guests = await arriving(group, "a")
    if end == "all leave":
        guests[0].cancel()
        manual_clock.advance(30)
    else:
        {
            "sent away": lambda: purgatory.cancel_for_key("group"),
            "purgatory closed": purgatory.close,
            "timer closed": timer.close,
        }[end]()
    await ends(guests)
    manual_clock.advance(30)
    assert (released, timer.pending, purgatory.pending) == ([], 0, 0)


@pytest.mark.parametrize("releasing", ["arrival", "assignment", "time"])
async def test_an_on_release_that_raises_disturbs_no_member(releasing, purgatory, manual_clock):
    def broken(generation):
        raise LookupError("broken")

    reports = errors_of_loop()
    group = Barrier(purgatory, "group", expect=3, timeout=30, on_release=broken)
    guests = await arriving(group, "a", "b")
    if releasing == "arrival":
        guests += await arriving(group, "c")
    elif releasing == "assignment":
        group.expect = 2
    else:
        manual_clock.advance(30)
    members = ("a", "b", "c") if releasing == "arrival" else ("a", "b")
    assert await ends(guests) == [Generation(1, members, complete=releasing != "time")] * len(guests)
    assert [type(context["exception"]) for context in reports] == [LookupError]


async def test_a_window_that_expires_inside_a_hook_releases_once(purgatory, manual_clock):
    released = []
    group = Barrier(purgatory, "group", expect=2, timeout=30, on_release=released.append)
    guests = await arriving(group, "a")
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
    assert await ends(guests) == released


async def test_on_release_may_end_the_next_wait_before_it_begins(purgatory):
    group = Barrier(purgatory, "group", expect=1, timeout=30)
    group.on_release = lambda _: purgatory.cancel_for_key("group")
    assert (await group.arrive("a")).number == 1
    group.expect = 2
    (guest,) = await arriving(group, "b")
    purgatory.cancel_for_key("group")
    assert isinstance(await guest.end(), OperationCancelled)
