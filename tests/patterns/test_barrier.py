"""The barrier: members gather until all are there or the window is over, and all that came learn the same."""

import asyncio
from math import inf

import pytest

from purgatory_async import DelayedOperation, OperationCancelled, Purgatory
from purgatory_async.patterns import Barrier, Generation, barrier
from purgatory_async.testing import settle
from tests.patterns.guests import Guest

pytestmark = pytest.mark.asyncio


async def arriving(barrier, *members) -> list[Guest]:
    guests = [Guest(barrier.arrive(member)) for member in members]
    await settle()
    return guests


async def ends(guests) -> list[object]:
    return [await guest.end() for guest in guests]


async def leaving(*guests) -> None:
    for guest in guests:
        guest.cancel()
    assert await ends(guests) == ["cancelled"] * len(guests)


async def passing(clock, seconds) -> None:
    clock.advance(seconds)
    await settle()


def have_gone_on(guests) -> list[bool]:
    return [guest.task.done() for guest in guests]


# Until all are there.


async def test_the_expected_number_goes_on_as_one_generation(purgatory):
    group = Barrier(purgatory, "group", expect=3, timeout=30)
    guests = await arriving(group, "a", "b")
    assert have_gone_on(guests) == [False, False]
    guests += await arriving(group, "c")
    assert await ends(guests) == [Generation(number=1, members=("a", "b", "c"), complete=True)] * 3


async def test_the_members_are_in_the_order_of_their_arrival(purgatory):
    group = Barrier(purgatory, "group", expect=4, timeout=30)
    guests = await arriving(group, "d", "b", "a", "c")
    assert (await guests[0].end()).members == ("d", "b", "a", "c")


async def test_one_alone_may_be_all_and_does_not_wait(purgatory):
    group = Barrier(purgatory, "group", expect=1, timeout=30)
    with pytest.raises(StopIteration) as returned:  # without a suspension
        group.arrive("a").send(None)
    assert returned.value.value == Generation(1, ("a",), complete=True)
    assert purgatory.timer.pending == 0


async def test_once_all_expected_names_arrive_every_member_goes_on(purgatory):
    group = Barrier(purgatory, "group", expect=["a", "b"], timeout=30)
    guests = await arriving(group, "x", "b", "y", "z")
    assert have_gone_on(guests) == [False] * 4
    guests += await arriving(group, "a")
    assert await ends(guests) == [Generation(1, ("x", "b", "y", "z", "a"), complete=True)] * 5


async def test_expected_names_count_once_from_any_iterable(purgatory):
    group = Barrier(purgatory, "group", expect=iter("aba"), timeout=30)
    guests = await arriving(group, "a", "b")
    assert await ends(guests) == [Generation(1, ("a", "b"), complete=True)] * 2


async def test_members_are_distinguished_by_equality(purgatory):
    group = Barrier(purgatory, "group", expect=3, timeout=30)
    guests = await arriving(group, 0, 0.0, None, ())
    assert isinstance(await guests.pop(0).end(), OperationCancelled)
    assert await ends(guests) == [Generation(1, (0, None, ()), complete=True)] * 3


# Until the window is over.


async def test_at_the_timeout_an_incomplete_generation_goes_on(purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=3, timeout=30)
    guests = await arriving(group, "a")
    await passing(manual_clock, 20)
    guests += await arriving(group, "b")
    await passing(manual_clock, 9.999)
    assert have_gone_on(guests) == [False, False]
    await passing(manual_clock, 0.001)
    assert await ends(guests) == [Generation(1, ("a", "b"), complete=False)] * 2


async def test_others_do_not_replace_members_expected_by_name(purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=["a", "b"], timeout=30)
    guests = await arriving(group, "a", "x", "y")
    await passing(manual_clock, 30)
    assert await ends(guests) == [Generation(1, ("a", "x", "y"), complete=False)] * 3


@pytest.mark.parametrize("timeout", [None, inf])
async def test_without_a_timeout_they_wait_for_each_other_for_ever(timeout, purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=2, timeout=timeout)
    guests = await arriving(group, "a")
    await passing(manual_clock, 3e9)
    assert have_gone_on(guests) == [False]
    guests += await arriving(group, "b")
    assert await ends(guests) == [Generation(1, ("a", "b"), complete=True)] * 2


@pytest.mark.parametrize("timeout", [0, -1])
async def test_with_no_time_simultaneous_arrivals_go_on_together(timeout, purgatory):
    group = Barrier(purgatory, "group", expect=3, timeout=timeout)
    guests = await arriving(group, "a", "b")
    assert await ends(guests) == [Generation(1, ("a", "b"), complete=False)] * 2


async def test_the_window_is_a_new_one_for_each_generation(purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=2, timeout=30)
    for number in (1, 2, 3):
        await passing(manual_clock, 100)
        guests = await arriving(group, "a")
        await passing(manual_clock, 29.999)
        assert have_gone_on(guests) == [False]
        await passing(manual_clock, 0.001)
        assert await ends(guests) == [Generation(number, ("a",), complete=False)]


# A delay for newcomers.


async def test_a_delay_ends_the_window_once_no_member_arrives(purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=9, timeout=30, initial_delay=3)
    guests = []
    for member in "abc":
        guests += await arriving(group, member)
        await passing(manual_clock, 2.999)
        assert not any(have_gone_on(guests))
    await passing(manual_clock, 0.001)
    assert await ends(guests) == [Generation(1, ("a", "b", "c"), complete=False)] * 3


async def test_newcomers_extend_the_window_only_up_to_the_timeout(purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=9, timeout=5, initial_delay=2)
    guests = []
    for member in "abcd":  # at 0, 1.5, 3 and 4.5
        guests += await arriving(group, member)
        await passing(manual_clock, 1.5 if member != "d" else 0.499)
        assert not any(have_gone_on(guests))
    await passing(manual_clock, 0.001)
    assert await ends(guests) == [Generation(1, ("a", "b", "c", "d"), complete=False)] * 4


async def test_a_delay_longer_than_the_timeout_is_the_timeout(purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=9, timeout=5, initial_delay=60)
    guests = await arriving(group, "a")
    await passing(manual_clock, 4.999)
    assert have_gone_on(guests) == [False]
    await passing(manual_clock, 0.001)
    assert have_gone_on(guests) == [True]


async def test_a_delay_without_a_timeout_lasts_while_newcomers_arrive(purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=1_000, timeout=None, initial_delay=3)
    guests = []
    for member in range(100):
        guests += await arriving(group, member)
        await passing(manual_clock, 2.5)
    assert not any(have_gone_on(guests))
    await passing(manual_clock, 0.5)
    assert await ends(guests) == [Generation(1, tuple(range(100)), complete=False)] * 100


async def test_when_all_are_there_no_delay_keeps_them(purgatory):
    group = Barrier(purgatory, "group", expect=2, timeout=30, initial_delay=10)
    guests = await arriving(group, "a", "b")
    assert await ends(guests) == [Generation(1, ("a", "b"), complete=True)] * 2


async def test_each_generation_has_its_own_delay_and_timeout(purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=9, timeout=5, initial_delay=2)
    for number in (1, 2):
        guests = await arriving(group, "a")
        await passing(manual_clock, 1.5)
        guests += await arriving(group, "b")
        await passing(manual_clock, 1.999)
        assert have_gone_on(guests) == [False, False]
        await passing(manual_clock, 0.001)
        assert await ends(guests) == [Generation(number, ("a", "b"), complete=False)] * 2


# Arriving again.


async def test_a_returning_member_replaces_its_earlier_wait(purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=9, timeout=30)
    first, other = await arriving(group, "a", "b")
    (again,) = await arriving(group, "a")
    replaced = await first.end()
    assert isinstance(replaced, OperationCancelled)
    assert "'a'" in str(replaced)
    assert group.present == ("a", "b")
    assert purgatory.pending == 2
    await passing(manual_clock, 30)
    assert await ends([again, other]) == [Generation(1, ("a", "b"), complete=False)] * 2


async def test_a_member_that_arrives_again_is_not_one_more(purgatory):
    group = Barrier(purgatory, "group", expect=2, timeout=30)
    earlier = await arriving(group, "a", "a", "a")
    last = earlier.pop()
    assert [type(end) for end in await ends(earlier)] == [OperationCancelled] * 2
    assert have_gone_on([last]) == [False]
    (other,) = await arriving(group, "b")
    assert await ends([last, other]) == [Generation(1, ("a", "b"), complete=True)] * 2


@pytest.mark.parametrize("initial_delay", [0, 3])
async def test_a_returning_member_does_not_extend_the_window(initial_delay, purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=9, timeout=4, initial_delay=initial_delay)
    await arriving(group, "a")
    await passing(manual_clock, 2)
    (again,) = await arriving(group, "a")
    await passing(manual_clock, 0.999 if initial_delay else 1.999)
    assert have_gone_on([again]) == [False]
    await passing(manual_clock, 0.001)
    assert await again.end() == Generation(1, ("a",), complete=False)


async def test_a_member_may_arrive_again_once_it_has_gone_on(purgatory):
    group = Barrier(purgatory, "group", expect=2, timeout=30)
    for number in (1, 2, 3):
        guests = await arriving(group, "a", "b")
        assert await ends(guests) == [Generation(number, ("a", "b"), complete=True)] * 2


# Leaving.


async def test_a_member_whose_task_is_cancelled_has_left(purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=3, timeout=30)
    first, second = await arriving(group, "a", "b")
    await leaving(first)
    assert group.present == ("b",)
    (third,) = await arriving(group, "c")
    assert have_gone_on([second, third]) == [False, False], "two are there, not three"
    await passing(manual_clock, 30)
    assert await ends([second, third]) == [Generation(1, ("b", "c"), complete=False)] * 2


async def test_an_expected_member_that_left_is_missing_until_back(purgatory):
    group = Barrier(purgatory, "group", expect=["a", "b"], timeout=30)
    (first,) = await arriving(group, "a")
    (other,) = await arriving(group, "x")
    await leaving(first)
    (second,) = await arriving(group, "b")
    assert have_gone_on([other, second]) == [False, False]
    (again,) = await arriving(group, "a")
    assert await ends([other, second, again]) == [Generation(1, ("x", "b", "a"), complete=True)] * 3


async def test_the_window_is_unchanged_while_a_member_remains(purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=3, timeout=30)
    (first,) = await arriving(group, "a")
    await passing(manual_clock, 20)
    (second,) = await arriving(group, "b")
    await leaving(first)
    await passing(manual_clock, 9.999)
    assert have_gone_on([second]) == [False]
    await passing(manual_clock, 0.001)
    assert await second.end() == Generation(1, ("b",), complete=False)


@pytest.mark.parametrize("initial_delay", [0, 3])
async def test_when_all_leave_the_window_ends_and_the_next_is_new(initial_delay, purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=3, timeout=30, initial_delay=initial_delay)
    guests = await arriving(group, "a", "b")
    assert purgatory.timer.pending == 1
    await leaving(*guests)
    assert (purgatory.timer.pending, purgatory.timer.next_deadline) == (0, None)
    await passing(manual_clock, 2)
    (later,) = await arriving(group, "c")
    await passing(manual_clock, (initial_delay or 30) - 0.001)
    assert have_gone_on([later]) == [False]
    await passing(manual_clock, 0.001)
    assert await later.end() == Generation(1, ("c",), complete=False), "no generation came before"


async def test_when_all_have_gone_on_no_timer_is_left(purgatory):
    group = Barrier(purgatory, "group", expect=2, timeout=30, initial_delay=5)
    await ends(await arriving(group, "a", "b"))
    assert (purgatory.timer.pending, purgatory.timer.next_deadline) == (0, None)


# The object.


async def test_present_tells_who_waits_in_the_order_of_arrival(purgatory):
    group = Barrier(purgatory, "group", expect=9, timeout=30)
    assert group.present == ()
    guests = await arriving(group, "c", "a", "b")
    assert group.present == ("c", "a", "b")
    guests[1].cancel()
    assert group.present == ("c", "b"), "it has left, though its task has yet to run"
    await leaving(*guests)
    assert group.present == ()


async def test_a_generation_is_a_value(purgatory):
    group = Barrier(purgatory, "group", expect=2, timeout=30)
    one, other = await ends(await arriving(group, "a", "b"))
    assert one is other
    assert {one} == {Generation(1, ("a", "b"), complete=True)}
    with pytest.raises(AttributeError):
        one.number = 2


async def test_it_shows_its_key_and_who_is_there(purgatory):
    group = Barrier(purgatory, "group", expect=2, timeout=30)
    guests = await arriving(group, "a")
    assert "'group'" in repr(group)
    await leaving(*guests)


@pytest.mark.asyncio(loop_factories=["virtual"])
async def test_ten_near_simultaneous_starts_make_one_generation():
    loop = asyncio.get_running_loop()
    async with Purgatory() as purgatory:
        group = Barrier(purgatory, "group", expect=range(100), timeout=300, initial_delay=3)

        async def start(number: int) -> Generation[int]:
            await asyncio.sleep(number * 2.5)
            return await group.arrive(number)

        generations = await asyncio.gather(*map(start, range(10)))
        assert set(generations) == {Generation(1, tuple(range(10)), complete=False)}
        assert 9 * 2.5 + 3 <= loop.time() <= 9 * 2.5 + 3.01


async def test_an_arrival_compares_few_waiting_members(purgatory, monkeypatch):
    looks: list[object] = []
    abandoned = DelayedOperation.abandoned.fget
    monkeypatch.setattr(
        barrier._Arrival,
        "abandoned",
        property(lambda operation: looks.append(operation) or abandoned(operation)),
        raising=False,
    )
    group = Barrier(purgatory, "group", expect=["last", "other"], timeout=30)
    guests = await arriving(group, "other", *range(1_000))
    assert len(looks) <= 5 * 1_000
    looks.clear()
    guests += await arriving(group, "last")
    assert len(looks) <= 5 * 1_000
    assert set(await ends(guests)) == {Generation(1, ("other", *range(1_000), "last"), complete=True)}


async def test_the_timer_may_be_shared_with_others(manual_clock, purgatory):
    group = Barrier(purgatory, "group", expect=2, timeout=30)
    rung: list[str] = []
    purgatory.timer.call_later(10, rung.append, "bell")
    guests = await arriving(group, "a")
    await passing(manual_clock, 30)
    assert (rung, await ends(guests)) == (["bell"], [Generation(1, ("a",), complete=False)])
