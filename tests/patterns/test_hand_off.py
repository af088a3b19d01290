"""Each item goes to one taker, in order, and items without a taker are kept up to a bound."""

import asyncio

import pytest

from purgatory_async import Purgatory, PurgatoryFull, Timer
from purgatory_async.patterns import HandOff
from purgatory_async.testing import assert_clean, settle
from tests.patterns.takers import Taker, takers

pytestmark = pytest.mark.asyncio


# Order.


async def test_an_unawaited_item_is_kept_for_the_next_taker(jobs):
    assert jobs.put("k", "item") is False
    assert len(jobs) == 1
    assert await jobs.take("k") == ("k", "item")
    assert len(jobs) == 0


async def test_an_available_item_is_taken_without_a_pause(jobs):
    jobs.put("k", 1)
    others = []
    asyncio.get_running_loop().call_soon(others.append, "ran")
    assert await jobs.take("k") == ("k", 1)
    assert others == []


async def test_an_awaited_item_goes_to_the_taker_at_once(jobs):
    (taker,) = await takers(jobs, 1, "k")
    assert jobs.put("k", "item") is True
    assert len(jobs) == 0
    await settle()
    assert taker.got == ("k", "item")


async def test_the_oldest_taker_gets_the_first_item(jobs):
    several = await takers(jobs, 4, "k")
    assert [jobs.put("k", number) for number in range(6)] == [True] * 4 + [False] * 2
    await settle()
    assert [taker.got for taker in several] == [("k", number) for number in range(4)]
    assert jobs.clear() == [("k", 4), ("k", 5)]


async def test_a_herd_of_takers_gets_its_items_in_order(jobs):
    several = await takers(jobs, 1_000, "k")
    for number in range(1_000):
        assert jobs.put("k", number)
    await settle()
    assert [taker.got for taker in several] == [("k", number) for number in range(1_000)]


async def test_items_are_kept_in_order(jobs):
    for number in range(100):
        jobs.put("k", number)
    assert [await jobs.take("k") for _ in range(100)] == [("k", number) for number in range(100)]


async def test_one_item_goes_to_one_taker_and_the_others_wait_on(jobs, purgatory):
    several = await takers(jobs, 3, "k")
    jobs.put("k", "item")
    await settle()
    assert [taker.got for taker in several] == [("k", "item"), None, None]
    assert purgatory.pending == 2
    purgatory.cancel_for_key("k")
    await settle()


async def test_keys_are_queues_of_their_own(jobs):
    taker_of_a, taker_of_b = [Taker(jobs, key) for key in "ab"]
    await settle()
    assert jobs.put("c", 3) is False
    assert jobs.put("b", 2) is True
    assert jobs.put("a", 1) is True
    await settle()
    assert (taker_of_a.got, taker_of_b.got) == (("a", 1), ("b", 2))
    assert jobs.clear() == [("c", 3)]


async def test_of_several_keys_the_first_named_is_served_first(jobs):
    for key in "abc":
        jobs.put(key, f"first of {key}")
        jobs.put(key, f"second of {key}")
    assert await jobs.take("c", "a", "b") == ("c", "first of c")
    assert await jobs.take("b", "c") == ("b", "first of b")
    assert [await jobs.take("b", "c", "a") for _ in range(4)] == [
        ("b", "second of b"),
        ("c", "second of c"),
        ("a", "first of a"),
        ("a", "second of a"),
    ]


async def test_a_taker_of_several_keys_takes_one_and_leaves_all(jobs, purgatory):
    (taker,) = await takers(jobs, 1, "a", "b", "a")
    assert purgatory.watched == 2
    assert jobs.put("b", "item") is True
    assert purgatory.watched == 0
    assert jobs.put("a", "for the next") is False
    await settle()
    assert taker.got == ("b", "item")
    jobs.clear()


async def test_the_oldest_taker_is_first_on_each_of_its_keys(jobs):
    names = {"both": ("a", "b"), "only b": ("b",), "both, turned": ("b", "a")}
    several = [Taker(jobs, *keys) for keys in names.values()]
    await settle()
    jobs.put("b", 1)
    jobs.put("a", 2)
    jobs.put("b", 3)
    await settle()
    assert [taker.got for taker in several] == [("b", 1), ("b", 3), ("a", 2)]


@pytest.mark.parametrize("item", [None, 0, "", (), False, float("nan"), Ellipsis, NotImplemented], ids=repr)
async def test_an_item_may_be_anything(jobs, item):
    jobs.put("k", item)
    assert (await jobs.take("k"))[1] is item
    (taker,) = await takers(jobs, 1, "k")
    assert jobs.put("k", item) is True
    await settle()
    assert taker.got[1] is item


async def test_items_are_never_compared(jobs):
    class Incomparable:
        __hash__ = None

        def __eq__(self, other=None):
            raise AssertionError

        __lt__ = __bool__ = __eq__

    items = [Incomparable() for _ in range(4)]
    for item in items:
        jobs.put("k", item)
    assert [(await jobs.take("k"))[1] is item for item in items] == [True] * 4


@pytest.mark.parametrize("key", [None, 0, "", (), ("a", 1), frozenset()], ids=repr)
async def test_a_key_may_be_any_hashable(jobs, key):
    jobs.put(key, "kept")
    assert await jobs.take(key) == (key, "kept")
    (taker,) = await takers(jobs, 1, key)
    assert jobs.put(key, "given") is True
    await settle()
    assert taker.got == (key, "given")


# The bound.


async def test_a_full_hand_off_refuses_an_unawaited_item(purgatory):
    jobs = HandOff(purgatory, max_items=2)
    jobs.put("a", 1)
    jobs.put("b", 2)
    for key in "abc":
        with pytest.raises(PurgatoryFull, match=rf"'{key}'.*max_items.*2"):
            jobs.put(key, "refused")
    assert len(jobs) == 2
    assert jobs.clear() == [("a", 1), ("b", 2)]
    assert_clean(purgatory)


async def test_a_full_hand_off_delivers_an_awaited_item(purgatory):
    jobs = HandOff(purgatory, max_items=1)
    (taker,) = await takers(jobs, 1, "awaited")
    jobs.put("k", "kept")
    assert jobs.put("awaited", "delivered") is True
    await settle()
    assert taker.got == ("awaited", "delivered")
    assert jobs.clear() == [("k", "kept")]


async def test_what_was_taken_or_cleared_makes_room(purgatory):
    jobs = HandOff(purgatory, max_items=1)
    jobs.put("k", 1)
    assert await jobs.take("k") == ("k", 1)
    jobs.put("k", 2)
    jobs.clear()
    jobs.put("k", 3)
    assert await jobs.take("k") == ("k", 3)


async def test_an_item_that_comes_back_is_never_refused_and_counts(purgatory):
    jobs = HandOff(purgatory, max_items=1)
    (taker,) = await takers(jobs, 1, "k")
    jobs.put("k", "given")
    taker.cancel()
    jobs.put("k", "kept meanwhile")
    await settle()
    assert (taker.got, len(jobs)) == ("CancelledError", 2)
    for item in ("given", "kept meanwhile"):
        with pytest.raises(PurgatoryFull):
            jobs.put("other", "refused")
        assert await jobs.take("k") == ("k", item)
    assert jobs.put("other", "room again") is False
    assert jobs.clear() == [("other", "room again")]


async def test_without_a_bound_any_number_is_kept(jobs):
    for number in range(10_000):
        jobs.put(number % 7, number)
    assert [item for _, item in jobs.clear()] == list(range(10_000))


# Clearing.


async def test_clear_returns_all_kept_items_in_their_order(jobs):
    put = [(key, number) for number, key in enumerate("abacabcbbac")]
    for key, item in put:
        jobs.put(key, item)
    assert jobs.clear() == put
    assert (len(jobs), jobs.clear()) == (0, [])
    jobs.put("a", "after")
    assert await jobs.take("a") == ("a", "after")


async def test_what_came_back_is_cleared_in_the_place_that_it_had(jobs):
    (taker,) = await takers(jobs, 1, "b")
    jobs.put("a", 1)
    jobs.put("b", 2)
    taker.cancel()
    jobs.put("b", 3)
    jobs.put("a", 4)
    await settle()
    assert jobs.clear() == [("a", 1), ("b", 2), ("b", 3), ("a", 4)]


# What is refused, and what it says of itself.


async def test_the_bound_is_named(purgatory):
    with pytest.raises(TypeError):
        HandOff(purgatory, 5)


async def test_a_key_that_is_not_hashable_is_refused_and_nothing_kept(jobs, purgatory):
    (taker,) = await takers(jobs, 1, "k")
    with pytest.raises(TypeError, match="unhashable"):
        jobs.put(["k"], "item")
    with pytest.raises(TypeError, match="unhashable"):
        await jobs.take("k", ["k"])
    assert (len(jobs), purgatory.pending, purgatory.watched) == (0, 1, 1)
    jobs.put("k", "item")
    await settle()
    assert taker.got == ("k", "item")


async def test_a_take_without_a_key_is_refused(jobs, purgatory):
    with pytest.raises(ValueError, match="at least one key"):
        await jobs.take()
    assert purgatory.pending == 0


async def test_a_take_beyond_the_bound_needs_an_available_item(manual_clock):
    async with Purgatory(timer=Timer(clock=manual_clock), max_pending=1) as purgatory:
        jobs = HandOff(purgatory)
        (taker,) = await takers(jobs, 1, "k")
        with pytest.raises(PurgatoryFull, match="1"):
            await jobs.take("other")
        jobs.put("other", "item")
        assert await jobs.take("other") == ("other", "item")
        jobs.put("k", "item of the first")
        await settle()
        assert taker.got == ("k", "item of the first")


async def test_it_says_how_much_it_keeps(purgatory):
    jobs = HandOff(purgatory, max_items=3)
    jobs.put("k", "item")
    assert repr(jobs) == f"<HandOff in {purgatory.name!r} items=1 max_items=3>"
    jobs.clear()
