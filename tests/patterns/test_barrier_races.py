"""Members that are cancelled in the pass in which others arrive or the window is over."""

import asyncio

import pytest

from purgatory_async import OperationCancelled
from purgatory_async.patterns import Barrier, Generation
from purgatory_async.testing import settle
from tests.patterns.guests import Guest, each_way
from tests.patterns.test_barrier import arriving, ends, have_gone_on, passing

pytestmark = pytest.mark.asyncio


def arriving_now(barrier, member) -> Guest:
    """A task that arrives in the loop's next pass, also where tasks begin eagerly."""
    guest = Guest.__new__(Guest)
    guest.task = asyncio.Task(guest._stay(barrier.arrive(member)))
    return guest


# A cancellation and the last one to come. Both tasks run in the next pass: in the order in which they were woken.

either_task_first = pytest.mark.parametrize(
    "race",
    [
        pytest.param("cancel_before", id="the cancelled one runs first"),
        pytest.param("cancel_after", id="the last one runs first"),
    ],
)


@each_way
@either_task_first
async def test_cancelled_just_before_the_last_arrival_it_is_absent(race, guest, purgatory):
    group = Barrier(purgatory, "group", expect=3, timeout=30)
    first, other = guest(group.arrive("a")), Guest(group.arrive("b"))
    await settle()
    came: list[Guest] = []
    getattr(first, race)(lambda: came.append(arriving_now(group, "c")))
    await settle()
    assert await first.end() == "cancelled"
    assert have_gone_on([other, *came]) == [False, False]
    assert group.present == ("b", "c")
    last = await arriving(group, "d")
    assert await ends([other, *came, *last]) == [Generation(1, ("b", "c", "d"), complete=True)] * 3


@each_way
async def test_cancelled_just_after_the_last_one_came_it_was_there(guest, purgatory):
    group = Barrier(purgatory, "group", expect=3, timeout=30)
    first, other = guest(group.arrive("a")), Guest(group.arrive("b"))
    await settle()
    came: list[object] = []

    def come() -> None:
        with pytest.raises(StopIteration) as returned:
            group.arrive("c").send(None)  # the last one to come does not wait
        came.append(returned.value.value)

    first.cancel_after(come)
    generation = Generation(1, ("a", "b", "c"), complete=True)
    assert await first.end() == ("cancelled" if guest.reached_late else generation)
    assert await other.end() == generation
    assert came == [generation]


@each_way
@either_task_first
async def test_an_expected_member_that_was_just_cancelled_is_missing(race, guest, purgatory):
    group = Barrier(purgatory, "group", expect=["a", "b"], timeout=30)
    first, other = guest(group.arrive("a")), Guest(group.arrive("x"))
    await settle()
    came: list[Guest] = []
    getattr(first, race)(lambda: came.append(arriving_now(group, "b")))
    await settle()
    assert have_gone_on([other, *came]) == [False, False]
    again = await arriving(group, "a")
    assert await ends([other, *came, *again]) == [Generation(1, ("x", "b", "a"), complete=True)] * 3
    assert await first.end() == "cancelled"


# A cancellation and the next one to come.


@pytest.mark.parametrize("initial_delay", [0, 20])
async def test_an_arrival_after_all_were_cancelled_opens_a_new_window(initial_delay, purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=3, timeout=30, initial_delay=initial_delay)
    guests = await arriving(group, "a", "b")
    await passing(manual_clock, 15)
    newcomer = arriving_now(group, "c")  # starts first, while the others do not know that they are cancelled
    for guest in guests:
        guest.cancel()
    await settle()
    await passing(manual_clock, (initial_delay or 30) - 0.001)
    assert have_gone_on([newcomer]) == [False]
    await passing(manual_clock, 0.001)
    assert await newcomer.end() == Generation(1, ("c",), complete=False)
    assert await ends(guests) == ["cancelled"] * 2


async def test_an_arrival_after_cancel_for_key_opens_a_new_window(purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=3, timeout=30)
    guests = await arriving(group, "a", "b")
    await passing(manual_clock, 15)
    newcomer = arriving_now(group, "c")
    purgatory.cancel_for_key("group")
    await settle()
    assert [type(end) for end in await ends(guests)] == [OperationCancelled] * 2
    await passing(manual_clock, 29.999)
    assert have_gone_on([newcomer]) == [False]
    await passing(manual_clock, 0.001)
    assert await newcomer.end() == Generation(1, ("c",), complete=False)


async def test_a_just_cancelled_member_that_returns_comes_last(purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=3, timeout=30)
    first, other = await arriving(group, "a", "b")
    again = arriving_now(group, "a")
    first.cancel()
    await settle()
    assert group.present == ("b", "a")
    assert await first.end() == "cancelled"
    await passing(manual_clock, 30)
    assert await ends([other, again]) == [Generation(1, ("b", "a"), complete=False)] * 2


async def test_a_returning_member_still_gets_its_earlier_cancellation(purgatory):
    group = Barrier(purgatory, "group", expect=2, timeout=30)
    (first,) = await arriving(group, "a")
    again = arriving_now(group, "a")
    purgatory.cancel_for_key("group")
    await settle()
    assert "again" not in str(await first.end())
    other = await arriving(group, "b")
    assert await ends([again, *other]) == [Generation(1, ("a", "b"), complete=True)] * 2


async def test_a_member_returning_during_cancellation_keeps_its_place(purgatory):
    group = Barrier(purgatory, "group", expect=3, timeout=30)
    first, other = await arriving(group, "a", "b")
    again = arriving_now(group, "a")
    asyncio.get_running_loop().call_soon(first.cancel)  # just after it came again
    await settle()
    assert await first.end() == "cancelled"
    last = await arriving(group, "c")
    assert await ends([again, other, *last]) == [Generation(1, ("a", "b", "c"), complete=True)] * 3


# The next generation in the same pass.


async def test_an_arrival_while_others_go_on_is_in_the_next_generation(purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=2, timeout=30)
    guests = await arriving(group, "a")
    guests += [arriving_now(group, member) for member in ("b", "c", "a")]
    await settle()
    first = Generation(1, ("a", "b"), complete=True)
    second = Generation(2, ("c", "a"), complete=True)
    assert await ends(guests) == [first, first, second, second]


async def test_the_last_arrival_after_the_window_ended_is_too_late(purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=2, timeout=30)
    (first,) = await arriving(group, "a")
    last = arriving_now(group, "b")
    manual_clock.advance(30)  # before its first step
    await settle()
    assert await first.end() == Generation(1, ("a",), complete=False)
    assert have_gone_on([last]) == [False]
    await passing(manual_clock, 30)
    assert await last.end() == Generation(2, ("b",), complete=False)


async def test_the_last_arrival_before_the_window_ends_completes_it(purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=2, timeout=30)
    (first,) = await arriving(group, "a")
    last = arriving_now(group, "b")
    asyncio.get_running_loop().call_soon(manual_clock.advance, 30)
    await settle()
    assert await ends([first, last]) == [Generation(1, ("a", "b"), complete=True)] * 2
