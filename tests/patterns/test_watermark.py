"""The watermark: a wait ends when the number reaches its value, lower values first."""

import asyncio
from math import inf

import pytest

from purgatory_async import OperationExpired, PurgatoryClosed, PurgatoryError, Timer
from purgatory_async.patterns import Watermark
from purgatory_async.testing import settle
from tests.patterns.guests import Guest

pytestmark = pytest.mark.asyncio


@pytest.fixture
def timer(manual_clock):
    """On the manual clock, and idle at the end."""
    timer = Timer(clock=manual_clock)
    yield timer
    assert (timer.pending, timer.next_deadline) == (0, None)
    timer.check_invariants()


@pytest.fixture
def high(timer):
    """At zero; at the end no wait may be left."""
    high = Watermark(timer=timer)
    yield high
    assert high.waiting == 0
    high.close()


async def reaching(high, *values, timeout=None) -> list[Guest]:
    """Tasks that wait for one value each."""
    guests = [Guest(high.reach(value, timeout)) for value in values]
    await settle()
    return guests


async def ends(guests) -> list[object]:
    return [await guest.end() for guest in guests]


def finishing(guests) -> list[Guest]:
    """The guests in the order in which they finish, from now on."""
    finished: list[Guest] = []
    for guest in guests:
        guest.task.add_done_callback(lambda _, guest=guest: finished.append(guest))
    return finished


# Reaching.


@pytest.mark.parametrize(
    ("initial", "value"), [(0, 0), (0, -1), (41, 41), (41, 3), (-5, -5), (10**30, 10**29)]
)
async def test_what_it_has_reached_already_is_there_at_once(initial, value, timer):
    high = Watermark(initial, timer=timer)
    with pytest.raises(StopIteration) as returned:  # without a suspension
        high.reach(value, timeout=5).send(None)
    assert returned.value.value == initial
    assert high.waiting == 0


async def test_it_starts_at_zero_or_at_the_given_value(timer):
    assert Watermark(timer=timer).value == 0
    assert Watermark(-7, timer=timer).value == -7


async def test_reach_waits_until_the_watermark_stands_at_the_value(high):
    (guest,) = await reaching(high, 3)
    assert high.advance(2) == 0
    await settle()
    assert not guest.task.done()
    assert high.advance(3) == 1
    assert await guest.end() == 3


async def test_reach_waits_until_the_watermark_stands_above_the_value(high):
    (guest,) = await reaching(high, 3)
    assert high.advance(1000) == 1
    assert await guest.end() == 1000


async def test_reach_returns_the_value_at_which_its_wait_ended(high):
    guests = await reaching(high, 1, 2, 3)
    assert [high.advance(2), high.advance(9), high.value] == [2, 1, 9]
    assert await ends(guests) == [2, 2, 9]


async def test_waiting_counts_those_who_wait(high):
    counts = [high.waiting]
    guests = await reaching(high, 5, 5, 7, 6)
    counts.append(high.waiting)
    high.advance(5)
    counts.append(high.waiting)  # they have left, though their tasks do not know
    await settle()
    guests[2].cancel()
    await settle()
    counts.append(high.waiting)
    high.advance(7)
    counts.append(high.waiting)
    assert counts == [0, 4, 2, 1, 0]
    assert await ends(guests) == [5, 5, "cancelled", 7]


# Advancing.


async def test_advance_releases_and_counts_the_reached_waiters(high):
    guests = await reaching(high, 4, 2, 9, 2, 5)
    assert high.advance(4) == 3
    await settle()
    assert [guest.task.done() for guest in guests] == [True, True, False, True, False]
    assert high.advance(100) == 2
    assert await ends(guests) == [4, 4, 100, 4, 100]


async def test_lower_values_go_first_and_equal_ones_in_arrival_order(high):
    values = (5, 1, 4, 1, 3, 5, 2, 1)
    guests = await reaching(high, *values)
    finished = finishing(guests)
    high.advance(5)
    await settle()
    assert finished == [guests[index] for index in sorted(range(len(values)), key=values.__getitem__)]


async def test_advancing_to_the_same_value_releases_no_waiter(high):
    (guest,) = await reaching(high, 6)
    assert [high.advance(5), high.advance(5), high.value] == [0, 0, 5]
    assert high.advance(6) == 1
    assert await guest.end() == 6


async def test_it_never_goes_back_and_the_refusal_tells_both_values(high):
    high.advance(41)
    (guest,) = await reaching(high, 42)
    with pytest.raises(ValueError, match=r"41.*40"):
        high.advance(40)
    assert (high.value, high.waiting) == (41, 1)
    high.advance(42)
    assert await guest.end() == 42


async def test_a_value_can_be_awaited_again_after_its_waiters_left(high):
    for _ in range(3):
        (guest,) = await reaching(high, 8)
        guest.cancel()
        await settle()
    (last,) = await reaching(high, 8)
    assert high.advance(8) == 1
    assert await last.end() == 8


async def test_values_may_be_negative_and_beyond_any_machine_word(timer):
    high = Watermark(-(10**40), timer=timer)
    guests = await reaching(high, -5, 10**40)
    assert [high.advance(-5), high.advance(10**40)] == [1, 1]
    assert await ends(guests) == [-5, 10**40]


async def test_a_released_waiter_may_advance_it_and_wait_again(high):
    async def climb() -> int:
        for step in range(1, 6):
            assert await high.reach(step) == step
            high.advance(step + 1)
        return high.value

    guest = Guest(climb())
    await settle()
    assert high.advance(1) == 1
    assert await guest.end() == 6


# The time.


async def test_an_expiry_message_has_value_timeout_and_position(high, manual_clock):
    (guest,) = await reaching(high, 42, timeout=5)
    high.advance(41)
    manual_clock.advance(4.999)
    await settle()
    assert not guest.task.done()
    manual_clock.advance(0.001)
    assert high.waiting == 0
    expired = await guest.end()
    assert type(expired) is OperationExpired
    assert isinstance(expired, TimeoutError)
    assert [word in str(expired) for word in ("42", "5 s", "41")] == [True] * 3


async def test_each_wait_has_its_own_time(high, manual_clock):
    guests = [
        *await reaching(high, 7, timeout=1),
        *await reaching(high, 7, timeout=2),
        *await reaching(high, 7),
    ]
    manual_clock.advance(1.5)
    assert high.waiting == 2
    manual_clock.advance(1)
    assert high.waiting == 1
    high.advance(7)
    assert [type(end) for end in await ends(guests)] == [OperationExpired, OperationExpired, int]


@pytest.mark.parametrize("timeout", [0, -1, -0.5])
async def test_a_zero_timeout_waits_one_turn_unless_already_reached(timeout, high):
    assert await high.reach(0, timeout) == 0
    with pytest.raises(OperationExpired):
        await high.reach(1, timeout)


@pytest.mark.parametrize("timeout", [None, inf])
async def test_without_a_timeout_it_waits_for_ever(timeout, high, manual_clock):
    (guest,) = await reaching(high, 1, timeout=timeout)
    manual_clock.advance(3e9)
    await settle()
    assert high.waiting == 1
    high.advance(1)
    assert await guest.end() == 1


# Failing all waits.


@pytest.mark.parametrize(
    "exception",
    [
        pytest.param(KeyError("office lost"), id="an exception"),
        pytest.param(OperationExpired("of another wait"), id="a foreign expiry"),
        pytest.param(PurgatoryClosed("another one"), id="a foreign end"),
    ],
)
@pytest.mark.parametrize("timeout", [None, 60])
async def test_fail_all_raises_the_same_exception_in_every_waiter(exception, timeout, high):
    guests = await reaching(high, 3, 9, 3, 5, timeout=timeout)
    assert high.fail_all(exception) == 4
    assert high.waiting == 0
    ended = await ends(guests)
    assert all(end is exception for end in ended), ended


async def test_after_fail_all_it_goes_on_as_before(high):
    first = await reaching(high, 3, 9)
    high.fail_all(KeyError("office lost"))
    second = await reaching(high, 3, 9)
    assert (high.value, high.waiting) == (0, 2)
    assert high.advance(3) == 1
    assert high.advance(9) == 1
    assert [type(end) for end in await ends(first + second)] == [KeyError, KeyError, int, int]


async def test_an_expiry_after_a_fail_all_tells_of_the_watermark_again(high, manual_clock):
    assert high.fail_all(KeyError("no waits")) == 0
    (guest,) = await reaching(high, 3, timeout=1)
    manual_clock.advance(1)
    assert "stands at 0" in str(await guest.end())


@pytest.mark.parametrize("exception", ["office lost", KeyError, None])
async def test_fail_all_refuses_a_non_exception_and_ends_no_wait(exception, high):
    (guest,) = await reaching(high, 1)
    with pytest.raises(TypeError, match=r"exception instance.*"):
        high.fail_all(exception)
    assert high.waiting == 1
    high.advance(1)
    assert await guest.end() == 1


# The end.


async def test_close_ends_all_waits_and_refuses_new_ones(high):
    guests = await reaching(high, 3, 1, 3)
    assert high.close() == 3
    assert high.waiting == 0
    assert [type(end) for end in await ends(guests)] == [PurgatoryClosed] * 3
    assert high.close() == 0
    with pytest.raises(PurgatoryClosed):
        await high.reach(1)
    assert high.waiting == 0


async def test_a_closed_one_can_still_be_read_and_advanced(high):
    await ends([*await reaching(high, 3), Guest(asyncio.sleep(0, high.close()))])
    assert high.advance(5) == 0
    assert high.value == 5


async def test_a_with_block_closes_it_even_after_an_exception(timer):
    guests: list[Guest] = []

    async def block_that_fails() -> None:
        async with Watermark(timer=timer) as high:
            guests.extend(await reaching(high, 1, timeout=60))
            raise LookupError

    with pytest.raises(LookupError):
        await block_that_fails()
    assert [type(end) for end in await ends(guests)] == [PurgatoryClosed]
    assert timer.pending == 0


async def test_a_given_timer_may_be_shared_and_is_not_closed_with_it(timer, manual_clock):
    first, second = Watermark(timer=timer), Watermark(timer=timer)
    (closed,), (expires,) = await reaching(first, 1, timeout=1), await reaching(second, 1, timeout=1)
    first.close()
    assert timer.closed is False
    manual_clock.advance(1)
    assert [type(end) for end in await ends([closed, expires])] == [PurgatoryClosed, OperationExpired]


async def test_a_timer_closed_under_it_ends_the_waits_that_have_a_time(manual_clock):
    timer = Timer(clock=manual_clock)
    high = Watermark(timer=timer)
    (limited,), (unlimited,) = await reaching(high, 1, timeout=1), await reaching(high, 1)
    timer.close()
    assert type(await limited.end()) is PurgatoryClosed
    assert high.advance(1) == 1
    assert await unlimited.end() == 1


@pytest.mark.asyncio(loop_factories=["virtual"])
async def test_without_a_timer_it_makes_its_own():
    async with Watermark() as high:
        began = asyncio.get_running_loop().time()
        with pytest.raises(OperationExpired):
            await high.reach(1, timeout=3600)
        assert 3600 <= asyncio.get_running_loop().time() - began <= 3600.002


async def test_used_from_another_loop_it_says_so(high):
    (guest,) = await reaching(high, 1)

    async def elsewhere() -> None:
        with pytest.raises(PurgatoryError, match="belongs to"):
            high.advance(1)
        with pytest.raises(PurgatoryError, match="belongs to"):
            await high.reach(2)

    await asyncio.to_thread(asyncio.run, elsewhere())
    assert high.advance(1) == 1
    assert await guest.end() == 1


async def test_it_shows_where_it_stands_and_how_many_wait(high):
    guests = await reaching(high, 44, 45)
    high.advance(41)
    assert ("41" in repr(high), "2" in repr(high)) == (True, True)
    high.advance(45)
    await ends(guests)
