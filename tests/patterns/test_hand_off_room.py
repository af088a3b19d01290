"""Puts that wait for room: in order, without loss, and for a taker of their key though all is full."""

import asyncio
from collections import Counter
from functools import partial

import pytest

from purgatory_async import (
    OperationCancelled,
    OperationExpired,
    Purgatory,
    PurgatoryClosed,
    PurgatoryFull,
    Timer,
)
from purgatory_async.patterns import HandOff
from purgatory_async.testing import assert_clean, cancel_sweep, settle
from tests.faults.test_garbage import collector_off
from tests.patterns.test_hand_off import Meddler
from tests.patterns.waiters import Waiter, each_way, let_pass, waiting

pytestmark = pytest.mark.asyncio


@pytest.fixture
def full(purgatory):
    """A hand-off that keeps one item, for a key of its own."""
    jobs = HandOff(purgatory, max_items=1)
    jobs.put("other", "kept")
    return jobs


async def puts(jobs, *keys, timeout=None, way=Waiter):
    """Puts that wait, numbered from 0."""
    several = [jobs.put_wait(key, number, timeout=timeout) for number, key in enumerate(keys)]
    return await waiting(*several, way=way)


def got(waiters):
    return [waiter.got for waiter in waiters]


async def test_with_room_nothing_waits(jobs, purgatory):
    others = []
    asyncio.get_running_loop().call_soon(others.append, "ran")
    assert await jobs.put_wait("k", 1) is False
    assert await HandOff(purgatory, max_items=1).put_wait("k", 1, timeout=0) is False
    assert (others, jobs.clear()) == ([], [("k", 1)])


async def test_a_taker_that_waits_is_served_at_once(full):
    (taker,) = await waiting(full.take("k"))
    assert await full.put_wait("k", "item") is True
    await settle()
    assert taker.got == ("k", "item")


async def test_room_goes_to_the_oldest_of_all_keys(full):
    several = await puts(full, *"abca")
    taken = [full.take_nowait("other")]
    for number, key in enumerate("abca"):
        await settle()
        assert got(several) == [False] * (number + 1) + [None] * (3 - number)
        taken.append(await full.take(key))
    assert taken == [("other", "kept"), ("a", 0), ("b", 1), ("c", 2), ("a", 3)]


async def test_as_much_room_as_there_is_is_given_at_once(purgatory):
    jobs = HandOff(purgatory, max_items=3)
    for number in range(3):
        jobs.put("k", number)
    several = await puts(jobs, *"aaaa")
    jobs.clear()
    await settle()
    assert got(several) == [False] * 3 + [None]
    assert jobs.clear() == [("a", 0), ("a", 1), ("a", 2)]
    await settle()
    assert jobs.clear() == [("a", 3)]


async def test_a_put_behind_those_that_wait_is_refused(full):
    several = await puts(full, "a")
    assert full.take_nowait("other") == ("other", "kept")
    with pytest.raises(PurgatoryFull, match="max_items is 1"):
        full.put("b", "overtakes")  # the room is reserved
    later = Waiter(full.put_wait("b", "waits"))
    await settle()
    assert (got(several), later.got, await full.take("a")) == ([False], None, ("a", 0))
    assert await full.take("b") == ("b", "waits")


async def test_a_taker_is_served_though_all_is_full(full):
    several = await puts(full, *"aab")
    assert await full.take("b", "a") == ("b", 2)
    assert await full.take("a") == ("a", 0)
    await settle()
    assert (got(several), len(full)) == ([True, None, True], 1)
    assert [await full.take("other"), await full.take("a")] == [("other", "kept"), ("a", 1)]


async def test_many_takers_are_served_though_all_is_full(full):
    several = await puts(full, *"aabab")
    takers = await waiting(*[full.take(*keys) for keys in ("a", "ab", "b", "a", "ba")])
    assert got(several) == [True] * 5
    assert Counter(got(takers)) == Counter([("a", 0), ("a", 1), ("b", 2), ("a", 3), ("b", 4)])
    assert full.clear() == [("other", "kept")]


async def test_no_put_comes_between_a_taker_and_who_waits(full):
    several = await puts(full, "a")
    taker = Waiter(full.take("a"), lazily=True)
    await asyncio.sleep(0)
    with pytest.raises(PurgatoryFull):
        full.put("a", "overtakes")
    await settle()
    assert (got(several), taker.got) == ([True], ("a", 0))


@pytest.mark.parametrize("timeout", [None, 5])
async def test_a_put_called_for_a_taker_that_left_keeps_its_place(purgatory, manual_clock, timeout):
    jobs = HandOff(purgatory, max_items=1)
    jobs.put("other", "kept")
    several = await puts(jobs, *"baab", timeout=timeout)
    taker = Waiter(jobs.take("a"), lazily=True)
    await asyncio.sleep(0)
    taker.cancel()
    await settle()
    assert (taker.got, got(several), len(jobs)) == ("cancelled", [None] * 4, 1)
    manual_clock.advance(4)
    order = []
    for key in ("other", *"baab"):
        await settle()
        order.append(await jobs.take(key))
    assert order == [("other", "kept"), ("b", 0), ("a", 1), ("a", 2), ("b", 3)]
    assert_clean(purgatory)


@pytest.mark.parametrize("called", [False, True])
async def test_without_room_in_time_nothing_is_put(purgatory, manual_clock, called):
    jobs = HandOff(purgatory, max_items=1)
    jobs.put("other", "kept")
    (late,) = await puts(jobs, "a", timeout=2)
    if called:
        manual_clock.advance(1)
        taker = Waiter(jobs.take("a"), lazily=True)
        await asyncio.sleep(0)
        taker.cancel()
        await settle()
        manual_clock.advance(0.999)
        await settle()
        assert late.got is None
    manual_clock.advance(0.001 if called else 2)
    await settle()
    assert type(late.got) is OperationExpired
    assert (late.got.keys, late.got.timeout) == (("a",), 2)
    assert str(late.got) == "room for an item of 'a' did not come within 2 s"
    assert jobs.clear() == [("other", "kept")]


@pytest.mark.parametrize("takers", [1, 2])
async def test_a_put_whose_taker_left_as_its_time_ended_has_ended(purgatory, manual_clock, takers):
    jobs = HandOff(purgatory, max_items=1)
    jobs.put("other", "kept")
    (late,), (early,) = await puts(jobs, "a", timeout=2), await puts(jobs, "b")
    left = [Waiter(jobs.take("a", timeout=2), lazily=True) for _ in range(takers)]
    await asyncio.sleep(0)
    manual_clock.advance(2)
    other = Waiter(jobs.take("other"), lazily=True)  # after the put, which has looked for its taker
    await settle()
    assert {type(each.got) for each in (late, *left)} == {OperationExpired}
    assert (other.got, early.got, jobs.clear()) == (("other", "kept"), False, [("b", 0)])


@pytest.mark.parametrize("timeout", [0, -1])
async def test_without_time_a_put_expires_in_the_next_turn(full, timeout):
    with pytest.raises(OperationExpired):
        await full.put_wait("a", "item", timeout=timeout)
    full.clear()
    assert await full.put_wait("a", "item", timeout=timeout) is False


@each_way
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_put_cancelled_as_it_gets_room_hands_it_on(full, way, when):
    (first,) = await puts(full, "a", way=way)
    (second,) = await puts(full, "b")
    (first.cancel_before if when == "before" else first.cancel_after)(full.clear)
    await let_pass(way.lead)
    await settle()
    assert (first.got, second.got) == ("cancelled", False) or not way.reached_late
    if first.got != "cancelled":
        assert full.clear() == [("a", 0)]
        await settle()
    assert full.clear() == [("b", 0)]


@each_way
async def test_a_put_cancelled_as_a_taker_comes_calls_the_next(full, way):
    (first,) = await puts(full, "a", way=way)
    (second,) = await puts(full, "a")
    taker = None

    def come():
        nonlocal taker
        taker = Waiter(full.take("a"))

    first.cancel_after(come)
    await let_pass(way.lead)
    await settle()
    assert taker.got == ("a", 0)
    assert second.got is (True if first.got == "cancelled" else None)
    full.clear()
    await settle()
    full.clear()


async def test_items_taken_back_take_the_room_of_puts(purgatory):
    jobs = HandOff(purgatory, max_items=1)
    (taker,) = await waiting(jobs.take("k"))
    jobs.put("k", "given")
    jobs.put("k", "kept")
    taker.cancel()
    (late,) = await puts(jobs, "a")
    assert (taker.got, len(jobs)) == ("cancelled", 2)
    for item in ("given", "kept"):
        assert late.got is None
        assert jobs.take_nowait("k") == ("k", item)
        await settle()
    assert (late.got, jobs.clear()) == (False, [("a", 0)])


@pytest.mark.parametrize("end", ["closed", "shut down", "shut down now"])
@pytest.mark.parametrize("room", [False, True], ids=["waiting", "with room"])
async def test_a_put_that_waits_at_the_end_puts_nothing(full, purgatory, end, room):
    (late,) = await puts(full, "a")
    if room:
        full.clear()
    purgatory.close() if end == "closed" else full.shutdown(end.endswith("now"))
    await settle()
    assert (type(late.got), late.got.keys) == (PurgatoryClosed, ("a",))
    assert full.clear() == ([] if room or end.endswith("now") else [("other", "kept")])
    with pytest.raises(PurgatoryClosed, match="keep an item for 'a'"):
        await full.put_wait("a", "refused")


async def test_a_drain_waits_for_puts_and_refuses_further_ones(full, purgatory):
    (late,) = await puts(full, "a")
    drained = asyncio.create_task(purgatory.drain())
    await settle()
    with pytest.raises(PurgatoryClosed) as refused:
        await full.put_wait("b", "refused")
    assert (refused.value.keys, drained.done()) == (("b",), False)
    full.clear()
    await settle()
    assert (late.got, drained.result()) == (False, True)
    assert full.clear() == [("a", 0)]
    assert await full.put_wait("a", "with room") is False


async def test_a_put_sent_away_or_without_a_place_puts_nothing(manual_clock):
    async with Purgatory(timer=Timer(clock=manual_clock), max_pending=1) as purgatory:
        jobs = HandOff(purgatory, max_items=1)
        jobs.put("other", "kept")
        (late,) = await puts(jobs, "a")
        with pytest.raises(PurgatoryFull, match="max_pending is 1"):
            await jobs.put_wait("b", "refused")
        for operation in purgatory.operations():
            operation.cancel()
        await settle()
        assert (type(late.got), late.got.keys) == (OperationCancelled, ("a",))
        assert jobs.clear() == [("other", "kept")]
        assert jobs.put("b", "room") is False


async def test_a_key_that_is_not_hashable_is_refused(jobs):
    with pytest.raises(TypeError, match="unhashable"):
        await jobs.put_wait(["k"], "item")
    assert len(jobs) == 0


# Without waiting.


async def test_take_nowait_takes_what_is_kept(jobs, purgatory):
    jobs.put("b", 1)
    jobs.put("a", 2)
    assert [jobs.take_nowait("a", "b"), jobs.take_nowait("a", "b")] == [("a", 2), ("b", 1)]
    with pytest.raises(asyncio.QueueEmpty, match="no item of 'a', 'b' is kept"):
        jobs.take_nowait("a", "b")
    with pytest.raises(ValueError, match="keys must be at least one"):
        jobs.take_nowait()
    with pytest.raises(TypeError, match="unhashable"):
        jobs.take_nowait("a", ["b"])
    jobs.put("a", 3)
    await purgatory.drain()
    assert jobs.take_nowait("a") == ("a", 3)
    with pytest.raises(asyncio.QueueEmpty):
        jobs.take_nowait("a")
    jobs.put_back("a", 3)
    purgatory.close()
    assert jobs.take_nowait("a") == ("a", 3)
    with pytest.raises(PurgatoryClosed, match="take an item of 'a'"):
        jobs.take_nowait("a")


@pytest.mark.parametrize("verb", ["take_nowait", "clear", "shutdown"])
async def test_inside_a_check_no_room_is_made(full, purgatory, verb):
    (late,) = await puts(full, "a")
    checked = Meddler(lambda: full.take_nowait("other") if verb == "take_nowait" else getattr(full, verb)())
    purgatory.try_complete_else_watch(checked, ["checked"])
    assert "try_complete" in str(checked.raised)
    await settle()
    assert (late.got, len(full), "shut" in repr(full)) == (None, 1, False)
    purgatory.cancel_for_key("checked")
    full.clear()
    await settle()
    assert (late.got, full.clear()) == (False, [("a", 0)])


# Cancelled anywhere.


async def put_all(jobs, put, keys):
    for key in keys:
        item = (key, len(put))
        put.append(item)
        try:
            await jobs.put_wait(*item)
        except BaseException:
            put.remove(item)
            raise


async def take_all(jobs, out, several):
    for keys in several:
        try:
            out.append(jobs.take_nowait(*keys))
        except asyncio.QueueEmpty:
            out.append(await jobs.take(*keys))


@pytest.mark.parametrize("max_items", [1, 2])
@pytest.mark.parametrize("several", [("abc",) * 6, ("b", "b", "ab", "cba", "abc", "abc")])
async def test_cancelled_anywhere_nothing_is_lost_or_doubled(max_items, several):
    runs = []

    async def scenario(takes):
        purgatory = Purgatory()
        jobs = HandOff(purgatory, max_items=max_items)
        put, out = [], []
        runs.append((purgatory, jobs, put, out))
        sides = [put_all(jobs, put, "abca"), put_all(jobs, put, "bab"), take_all(jobs, out, several)]
        swept = sides.pop(2 if takes else 0)
        others = [asyncio.create_task(side) for side in sides]
        try:
            await swept
        finally:
            for other in others:
                other.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    for takes in (True, False):
        assert await cancel_sweep(partial(scenario, takes)) >= 2
        await settle()
    for purgatory, jobs, put, out in runs:
        assert Counter(out + jobs.clear()) == Counter(put)
        assert_clean(purgatory)
        assert "waiting_puts" not in repr(jobs)
        assert jobs.put("a", "room again") is False


async def test_puts_and_takes_leave_nothing_to_the_collector(full):
    with collector_off():
        (late,) = await puts(full, "a")
        await full.take("a")
        with pytest.raises(OperationExpired):
            await full.put_wait("a", "expires", timeout=0)
        with pytest.raises(OperationExpired):
            await full.join(timeout=0)
        full.shutdown()
        with pytest.raises(PurgatoryClosed):
            await full.put_wait("a", "refused")
        async for _ in full.items("other"):
            pass
        del late, _
        await settle()
