"""The watermark: a wait ends when the number reaches its value; what it looks at and keeps is counted, not timed."""

import asyncio
from math import log2

import pytest

from purgatory_async import OperationExpired, Purgatory, PurgatoryClosed, Timer
from purgatory_async.patterns import Watermark
from purgatory_async.testing import settle
from tests.patterns.waiters import Waiter, ends, waiting

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


async def reaching(high, *values, timeout=None) -> list[Waiter]:
    """Tasks that wait for one value each."""
    return await waiting(*[high.reach(value, timeout) for value in values])


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


async def test_waiting_counts_those_who_wait(high):
    assert repr(high) == "<Watermark at 0 waiting=0>"
    counts = [high.waiting]
    waiters = await reaching(high, 5, 5, 7, 6)
    counts.append(high.waiting)
    high.advance(5)
    counts.append(high.waiting)  # they have left, though their tasks do not know
    await settle()
    waiters[2].cancel()
    await settle()
    counts.append(high.waiting)
    high.advance(7)
    counts.append(high.waiting)
    assert counts == [0, 4, 2, 1, 0]
    assert await ends(waiters) == [5, 5, "cancelled", 7]


# Advancing.


async def test_it_never_goes_back_and_the_refusal_tells_both_values(high):
    high.advance(41)
    (waiter,) = await reaching(high, 42)
    with pytest.raises(ValueError, match=r"41.*40"):
        high.advance(40)
    assert (high.value, high.waiting) == (41, 1)
    high.advance(42)
    assert await waiter.end() == 42


async def test_values_may_be_negative_and_beyond_any_machine_word(timer):
    high = Watermark(-(10**40), timer=timer)
    waiters = await reaching(high, -5, 10**40)
    assert [high.advance(-5), high.advance(10**40)] == [1, 1]
    assert await ends(waiters) == [-5, 10**40]


async def test_a_released_waiter_may_advance_it_and_wait_again(high):
    async def climb() -> int:
        for step in range(1, 6):
            assert await high.reach(step) == step
            high.advance(step + 1)
        return high.value

    waiter = Waiter(climb())
    await settle()
    assert high.advance(1) == 1
    assert await waiter.end() == 6


# The time.


async def test_an_expiry_message_has_value_timeout_and_position(high, manual_clock):
    (waiter,) = await reaching(high, 42, timeout=5)
    high.advance(41)
    manual_clock.advance(4.999)
    await settle()
    assert not waiter.done
    manual_clock.advance(0.001)
    assert high.waiting == 0
    expired = await waiter.end()
    assert type(expired) is OperationExpired
    assert isinstance(expired, TimeoutError)
    assert [word in str(expired) for word in ("42", "5 s", "41")] == [True] * 3


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
    waiters = await reaching(high, 3, 9, 3, 5, timeout=timeout)
    assert high.fail_all(exception) == 4
    assert high.waiting == 0
    ended = await ends(waiters)
    assert all(end is exception for end in ended), ended


async def test_an_expiry_after_a_fail_all_tells_of_the_watermark_again(high, manual_clock):
    assert high.fail_all(KeyError("no waits")) == 0
    (waiter,) = await reaching(high, 3, timeout=1)
    manual_clock.advance(1)
    assert "stands at 0" in str(await waiter.end())


# The end.


async def test_a_closed_one_can_still_be_read_and_advanced(high):
    await ends([*await reaching(high, 3), Waiter(asyncio.sleep(0, high.close()))])
    assert high.advance(5) == 0
    assert high.value == 5


async def test_a_with_block_closes_it_even_after_an_exception(timer):
    waiters: list[Waiter] = []

    async def block_that_fails() -> None:
        async with Watermark(timer=timer) as high:
            waiters.extend(await reaching(high, 1, timeout=60))
            raise LookupError

    with pytest.raises(LookupError):
        await block_that_fails()
    assert [type(end) for end in await ends(waiters)] == [PurgatoryClosed]
    assert timer.pending == 0


async def test_a_given_timer_may_be_shared_and_is_not_closed_with_it(timer, manual_clock):
    first, second = Watermark(timer=timer), Watermark(timer=timer)
    (closed,), (expires,) = await reaching(first, 1, timeout=1), await reaching(second, 1, timeout=1)
    first.close()
    assert timer.closed is False
    manual_clock.advance(1)
    assert [type(end) for end in await ends([closed, expires])] == [PurgatoryClosed, OperationExpired]


@pytest.mark.asyncio(loop_factories=["virtual"])
async def test_without_a_timer_it_makes_its_own():
    async with Watermark() as high:
        began = asyncio.get_running_loop().time()
        with pytest.raises(OperationExpired):
            await high.reach(1, timeout=3600)
        assert 3600 <= asyncio.get_running_loop().time() - began <= 3600.002


async def test_fail_all_with_an_expiry_exception_keeps_real_expiries(high, manual_clock):
    given = OperationExpired("of another wait")
    expires, fails = Waiter(high.reach(1, 1)), Waiter(high.reach(1, 2))
    await settle()
    manual_clock.advance(1)
    assert high.fail_all(given) == 1
    own = await expires.end()
    assert type(own) is OperationExpired
    assert own is not given
    assert await fails.end() is given


MANY = 4_000


class Looked(int):
    """An integer that counts how often any of them is compared."""

    count = 0
    __hash__ = int.__hash__


def counting(compare):
    def counted(self, other):
        Looked.count += 1
        return compare(int(self), int(other))

    return counted


for compare in (int.__lt__, int.__le__, int.__gt__, int.__ge__, int.__eq__):
    setattr(Looked, compare.__name__, counting(compare))


@pytest.fixture
def crowded(manual_clock) -> Watermark:
    """At zero; the loop's end cancels the waits left."""
    return Watermark(timer=Timer(clock=manual_clock))


@pytest.fixture
def called(monkeypatch) -> list[int]:
    """The keys that a purgatory completes from now on."""
    keys: list[int] = []
    complete_for_key = Purgatory.complete_for_key

    def noted(self, key, result=None) -> int:
        keys.append(key)
        return complete_for_key(self, key, result)

    monkeypatch.setattr(Purgatory, "complete_for_key", noted)
    return keys


@pytest.fixture
def released() -> list[int]:
    """The values whose waiters have gone on, in that order."""
    return []


async def many_waiting(crowded, values, released=None) -> list[asyncio.Task[None]]:
    async def wait(value) -> None:
        await crowded.reach(value)
        if released is not None:
            released.append(value)

    tasks = [asyncio.create_task(wait(value)) for value in values]
    await settle()
    return tasks


def shuffled(number: int) -> list[int]:
    """1 to number in an order that jumps about."""
    return [1 + index * 7_919 % number for index in range(number)]


@pytest.mark.parametrize("k", [0, 1, 10, 2_500])
async def test_of_ten_thousand_an_advance_releases_only_the_reached(k, crowded, called, released):
    await many_waiting(crowded, shuffled(MANY), released)
    assert crowded.waiting == MANY
    assert crowded.advance(k) == k
    assert called == list(range(1, k + 1)), "a value was asked for that was not reached"
    assert crowded.waiting == MANY - k
    await settle()
    assert released == list(range(1, k + 1))
    assert crowded.advance(MANY) == MANY - k
    await settle()
    assert released == list(range(1, MANY + 1))


@pytest.mark.parametrize("k", [0, 1, 10, 100])
async def test_an_advance_does_not_look_at_those_it_does_not_reach(k, crowded):
    await many_waiting(crowded, map(Looked, shuffled(MANY)))
    Looked.count = 0
    assert crowded.advance(k) == k
    # Each value taken out of the heap sifts another one down, two comparisons a level; and the next is looked at.
    assert Looked.count <= k * (2 * log2(MANY) + 8) + 4


async def test_to_wait_looks_at_few_of_those_who_wait(crowded):
    await many_waiting(crowded, map(Looked, shuffled(MANY)))
    Looked.count = 0
    await many_waiting(crowded, [Looked(MANY + 1), Looked(-1), Looked(MANY // 2), Looked(1)])
    assert Looked.count <= 4 * (log2(MANY) + 8)


async def test_ten_thousand_who_wait_for_one_value_are_one_value(crowded, called, released):
    await many_waiting(crowded, [Looked(5)] * MANY, released)
    Looked.count = 0
    assert crowded.advance(4) == 0
    assert (called, Looked.count <= 4) == ([], True)
    assert crowded.advance(5) == MANY
    assert called == [5]
    await settle()
    assert len(released) == MANY


async def test_values_cancelled_one_by_one_do_not_pile_up(crowded):
    waiters = [Waiter(crowded.reach(value)) for value in (1, 10**6)]
    kept = []
    for value in range(2, 2_000):
        waiter = Waiter(crowded.reach(value))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        waiter.cancel()
        await waiter.end()
        kept.append(len(crowded._values))
    assert max(kept) < 100
    assert crowded.waiting == 2
    assert crowded.advance(10**6) == 2
    assert [await waiter.end() for waiter in waiters] == [10**6] * 2


@pytest.mark.parametrize("staying", [0, 1, 100])
async def test_values_cancelled_all_at_once_do_not_stay(staying, crowded, released):
    tasks = await many_waiting(crowded, shuffled(MANY), released)
    for task in tasks[staying:]:
        task.cancel()
    await settle()
    assert crowded.waiting == staying
    assert len(crowded._values) <= 3 * staying + 100
    values = sorted(shuffled(MANY)[:staying])
    assert crowded.advance(MANY // 2) == sum(value <= MANY // 2 for value in values)
    assert crowded.advance(MANY) == sum(value > MANY // 2 for value in values)
    await settle()
    assert released == values


async def test_values_whose_waiters_have_expired_do_not_stay(crowded, manual_clock):
    waiters = [Waiter(crowded.reach(value, timeout=5)) for value in range(1, 1_001)]
    await settle()
    manual_clock.advance(5)
    for waiter in waiters:
        await waiter.end()
    assert crowded.waiting == 0
    assert len(crowded._values) < 100


async def test_leaving_costs_no_walk_over_all_waiters(crowded, monkeypatch):
    seen: list[int] = []
    operations = Purgatory.operations

    def counted(self, key=None):
        found = list(operations(self, key))
        seen.append(len(found))
        return iter(found)

    monkeypatch.setattr(Purgatory, "operations", counted)
    await many_waiting(crowded, [1] * MANY)  # many who wait, but for one value
    for value in range(2, 2_002):
        waiter = Waiter(crowded.reach(value))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        waiter.cancel()
        await waiter.end()
    assert sum(seen) <= 10 * 2_000


async def test_after_fail_all_and_after_a_last_advance_nothing_is_kept(crowded, released):
    tasks = await many_waiting(crowded, range(1, 1_001), released)
    crowded.advance(500)
    assert (len(crowded._values), len(crowded._in_heap)) == (500, 500)
    crowded.fail_all(KeyError("office lost"))
    assert (crowded._values, crowded._in_heap) == ([], set())
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(end) for end in ended] == [type(None)] * 500 + [KeyError] * 500
    assert released == list(range(1, 501))
