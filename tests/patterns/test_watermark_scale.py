"""What a watermark looks at, and what it keeps: counted, not timed."""

import asyncio
from math import log2

import pytest

from purgatory_async import Purgatory, Timer
from purgatory_async.patterns import Watermark
from purgatory_async.testing import settle
from tests.patterns.guests import Guest

pytestmark = pytest.mark.asyncio

MANY = 4_000


class Looked(int):
    """An integer that counts how often any of them is compared."""

    count = 0

    def __lt__(self, other) -> bool:
        Looked.count += 1
        return int(self) < int(other)

    def __le__(self, other) -> bool:
        Looked.count += 1
        return int(self) <= int(other)

    def __gt__(self, other) -> bool:
        Looked.count += 1
        return int(self) > int(other)

    def __ge__(self, other) -> bool:
        Looked.count += 1
        return int(self) >= int(other)

    def __eq__(self, other) -> bool:
        Looked.count += 1
        return int(self) == int(other)

    __hash__ = int.__hash__


@pytest.fixture
def high(manual_clock) -> Watermark:
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


async def many_waiting(high, values, released=None) -> list[asyncio.Task[None]]:
    async def wait(value) -> None:
        await high.reach(value)
        if released is not None:
            released.append(value)

    tasks = [asyncio.create_task(wait(value)) for value in values]
    await settle()
    return tasks


def shuffled(number: int) -> list[int]:
    """1 to number in an order that jumps about."""
    return [1 + index * 7_919 % number for index in range(number)]


@pytest.mark.parametrize("k", [0, 1, 10, 2_500])
async def test_of_ten_thousand_an_advance_releases_only_the_reached(k, high, called, released):
    await many_waiting(high, shuffled(MANY), released)
    assert high.waiting == MANY
    assert high.advance(k) == k
    assert called == list(range(1, k + 1)), "a value was asked for that was not reached"
    assert high.waiting == MANY - k
    await settle()
    assert released == list(range(1, k + 1))
    assert high.advance(MANY) == MANY - k
    await settle()
    assert released == list(range(1, MANY + 1))


@pytest.mark.parametrize("k", [0, 1, 10, 100])
async def test_an_advance_does_not_look_at_those_it_does_not_reach(k, high):
    await many_waiting(high, map(Looked, shuffled(MANY)))
    Looked.count = 0
    assert high.advance(k) == k
    # Each value taken out of the heap sifts another one down, two comparisons a level; and the next is looked at.
    assert Looked.count <= k * (2 * log2(MANY) + 8) + 4


async def test_to_wait_looks_at_few_of_those_who_wait(high):
    await many_waiting(high, map(Looked, shuffled(MANY)))
    Looked.count = 0
    await many_waiting(high, [Looked(MANY + 1), Looked(-1), Looked(MANY // 2), Looked(1)])
    assert Looked.count <= 4 * (log2(MANY) + 8)


async def test_ten_thousand_who_wait_for_one_value_are_one_value(high, called, released):
    await many_waiting(high, [Looked(5)] * MANY, released)
    Looked.count = 0
    assert high.advance(4) == 0
    assert (called, Looked.count <= 4) == ([], True)
    assert high.advance(5) == MANY
    assert called == [5]
    await settle()
    assert len(released) == MANY


async def test_values_cancelled_one_by_one_do_not_pile_up(high):
    guests = [Guest(high.reach(value)) for value in (1, 10**6)]
    kept = []
    for value in range(2, 2_000):
        guest = Guest(high.reach(value))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        guest.cancel()
        await guest.end()
        kept.append(len(high._values))
    assert max(kept) < 100
    assert high.waiting == 2
    assert high.advance(10**6) == 2
    assert [await guest.end() for guest in guests] == [10**6] * 2


@pytest.mark.parametrize("staying", [0, 1, 100])
async def test_values_cancelled_all_at_once_do_not_stay(staying, high, released):
    tasks = await many_waiting(high, shuffled(MANY), released)
    for task in tasks[staying:]:
        task.cancel()
    await settle()
    assert high.waiting == staying
    assert len(high._values) <= 3 * staying + 100
    values = sorted(shuffled(MANY)[:staying])
    assert high.advance(MANY // 2) == sum(value <= MANY // 2 for value in values)
    assert high.advance(MANY) == sum(value > MANY // 2 for value in values)
    await settle()
    assert released == values


async def test_values_whose_waiters_have_expired_do_not_stay(high, manual_clock):
    guests = [Guest(high.reach(value, timeout=5)) for value in range(1, 1_001)]
    await settle()
    manual_clock.advance(5)
    for guest in guests:
        await guest.end()
    assert high.waiting == 0
    assert len(high._values) < 100


async def test_leaving_costs_no_walk_over_all_waiters(high, monkeypatch):
    seen: list[int] = []
    operations = Purgatory.operations

    def counted(self, key=None):
        found = list(operations(self, key))
        seen.append(len(found))
        return iter(found)

    monkeypatch.setattr(Purgatory, "operations", counted)
    await many_waiting(high, [1] * MANY)  # many who wait, but for one value
    for value in range(2, 2_002):
        guest = Guest(high.reach(value))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        guest.cancel()
        await guest.end()
    assert sum(seen) <= 10 * 2_000


async def test_after_fail_all_and_after_a_last_advance_nothing_is_kept(high, released):
    tasks = await many_waiting(high, range(1, 1_001), released)
    high.advance(500)
    assert (len(high._values), len(high._in_heap)) == (500, 500)
    high.fail_all(KeyError("office lost"))
    assert (high._values, high._in_heap) == ([], set())
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(end) for end in ended] == [type(None)] * 500 + [KeyError] * 500
    assert released == list(range(1, 501))
