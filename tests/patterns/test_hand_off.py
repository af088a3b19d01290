"""Each item goes to one taker, in order, and items without a taker are kept up to a bound."""

import asyncio
from functools import partial

import pytest

from purgatory_async import (
    DelayedOperation,
    OperationCancelled,
    OperationExpired,
    Purgatory,
    PurgatoryClosed,
    PurgatoryError,
    PurgatoryFull,
    Timer,
)
from purgatory_async.patterns import HandOff
from purgatory_async.testing import assert_clean, settle
from tests.core.recording import Recorded, Switch, errors_of_loop
from tests.patterns.waiters import Waiter, ends, waiting

pytestmark = pytest.mark.asyncio


async def takers(jobs, number, *keys, timeout=None, way=Waiter) -> list[Waiter]:
    """So many takers, oldest first, all of them waiting."""
    return await waiting(*[jobs.take(*keys, timeout=timeout) for _ in range(number)], way=way)


# Order.


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


async def test_a_taker_of_several_keys_takes_one_and_leaves_all(jobs, purgatory):
    (taker,) = await takers(jobs, 1, "a", "b", "a")
    assert purgatory.watched == 2
    assert jobs.put("b", "item") is True
    assert purgatory.watched == 0
    assert jobs.put("a", "for the next") is False
    await settle()
    assert taker.got == ("b", "item")
    jobs.clear()


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
    assert (taker.got, len(jobs)) == ("cancelled", 2)
    for item in ("given", "kept meanwhile"):
        with pytest.raises(PurgatoryFull):
            jobs.put("other", "refused")
        assert await jobs.take("k") == ("k", item)
    assert jobs.put("other", "room again") is False
    assert jobs.clear() == [("other", "room again")]


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


async def test_it_has_its_place_though_no_other_item_would_be_kept(purgatory):
    jobs = HandOff(purgatory, max_items=1)
    jobs.put("a", 1)
    jobs.put_back("a", 0)
    with pytest.raises(PurgatoryFull):
        jobs.put("a", 2)
    assert jobs.clear() == [("a", 0), ("a", 1)]


async def test_an_item_is_kept_when_no_taker_can_come(purgatory):
    jobs = HandOff(purgatory)
    purgatory.close()
    assert jobs.put_back("a", 1) is False
    assert jobs.clear() == [("a", 1)]


# The end of time, and of the purgatory.


@pytest.mark.parametrize("timeout", [0, -1, 1, 2.5])
async def test_a_taker_that_expires_takes_nothing_later(purgatory, manual_clock, timeout):
    jobs = HandOff(purgatory)
    (taker,) = await takers(jobs, 1, "a", "b", timeout=timeout)
    manual_clock.advance(max(0, timeout))
    assert jobs.put("a", "too late") is False
    await settle()
    assert type(taker.got) is OperationExpired
    assert jobs.clear() == [("a", "too late")]


@pytest.mark.parametrize("timeout", [0, -1, 1, None])
async def test_an_item_that_is_there_is_taken_whatever_the_timeout(jobs, timeout):
    jobs.put("k", "item")
    assert await jobs.take("k", timeout=timeout) == ("k", "item")


async def test_after_close_only_what_is_left_is_handed_out(purgatory):
    jobs = HandOff(purgatory)
    several = await takers(jobs, 2, "awaited")
    jobs.put("k", "kept")
    purgatory.close()
    with pytest.raises(PurgatoryClosed, match="'k'"):
        jobs.put("k", "refused")
    jobs.put_back("k", "first")
    assert [await jobs.take("awaited", "k"), await jobs.take("k", timeout=0)] == [
        ("k", "first"),
        ("k", "kept"),
    ]
    with pytest.raises(PurgatoryClosed):
        await jobs.take("k")
    await settle()
    assert [type(end) for end in await ends(several)] == [PurgatoryClosed] * 2
    assert (len(jobs), jobs.clear()) == (0, [])


async def test_while_draining_what_is_left_is_handed_out(purgatory):
    jobs = HandOff(purgatory)
    jobs.put("k", "kept")
    assert await purgatory.drain() is True
    assert await jobs.take("k") == ("k", "kept")
    with pytest.raises(PurgatoryClosed, match="draining"):
        await jobs.take("k")


async def test_a_taker_with_its_item_keeps_it_at_close(purgatory):
    jobs = HandOff(purgatory)
    (taker,) = await takers(jobs, 1, "k")
    jobs.put("k", "item")
    purgatory.close()
    await settle()
    assert taker.got == ("k", "item")


# Others on the same keys.


async def test_who_waits_for_the_key_alone_never_gets_an_item(jobs, purgatory):
    waiting = asyncio.create_task(purgatory.wait("k"))
    await settle()
    assert jobs.put("k", "item") is False
    await settle()
    assert not waiting.done()
    assert await jobs.take("k") == ("k", "item")
    purgatory.complete_for_key("k", "signal")
    assert await waiting == "signal"


@pytest.mark.parametrize("others_first", [True, False])
async def test_an_item_passes_other_operations_that_it_satisfies(jobs, purgatory, others_first):
    def others():
        return [asyncio.create_task(purgatory.wait("k", until=lambda: len(jobs))) for _ in range(2)]

    waiting = others() if others_first else []
    await asyncio.sleep(0)
    (taker,) = await takers(jobs, 1, "k")
    waiting += [] if others_first else others()
    await settle()
    assert jobs.put("k", "item") is True
    await settle()
    assert taker.got == ("k", "item")
    assert [task.done() for task in waiting] == [others_first] * 2
    if not others_first:
        purgatory.complete_for_key("k")
    await asyncio.gather(*waiting)


async def test_others_whose_condition_holds_do_not_count_as_takers(purgatory):
    jobs = HandOff(purgatory, max_items=1)
    holds = Switch()
    for expected in ("kept", "refused"):
        holds.on = False
        waiting = [asyncio.create_task(purgatory.wait("k", until=holds)) for _ in range(2)]
        await settle()
        holds.on = True
        if expected == "kept":
            assert jobs.put("k", expected) is False
        else:
            with pytest.raises(PurgatoryFull):
                jobs.put("k", expected)
        assert await asyncio.gather(*waiting) == [True] * 2
    assert jobs.clear() == [("k", "kept")]


async def test_operations_behind_the_served_taker_are_not_checked(jobs, purgatory):
    log = []
    for name in ("in front", "behind"):
        purgatory.try_complete_else_watch(Recorded(log, name), ["k"])
        if name == "in front":
            await takers(jobs, 1, "k")
    log.clear()
    jobs.put("k", "item")
    assert log == ["in front checked"]
    purgatory.cancel_for_key("k")


async def test_operations_returning_at_each_check_do_not_block_an_item(jobs, purgatory):
    def watch():
        seen = iter([False])  # not when it is watched, but whenever it is checked
        purgatory.try_complete_else_watch(Recorded(log, holds=lambda: next(seen, True), then=watch), ["k"])

    log = []
    watch()
    (taker,) = await takers(jobs, 1, "k")
    assert jobs.put("k", 1) is True
    assert jobs.put("k", 2) is False
    await settle()
    assert taker.got == ("k", 1)
    assert log.count("op completed") <= 4
    purgatory.cancel_for_key("k")
    assert jobs.clear() == [("k", 2)]


@pytest.mark.parametrize(
    ("end", "raised"),
    [
        (lambda purgatory: purgatory.cancel_for_key("k"), OperationCancelled),
        (lambda purgatory: purgatory.complete_for_key("k"), OperationCancelled),
        (lambda purgatory: purgatory.complete_for_key("k", ("k", "no item")), OperationCancelled),
        (lambda purgatory: purgatory.fail_for_key("k", ConnectionError()), ConnectionError),
    ],
    ids=["cancelled", "completed", "completed with a result", "failed"],
)
async def test_takers_ended_from_outside_take_no_item(jobs, purgatory, end, raised):
    given, *others = await takers(jobs, 3, "k", "l")
    jobs.put("m", "of another key")
    jobs.put("k", "given before")
    end(purgatory)
    assert jobs.put("l", "after") is False
    await settle()
    assert given.got == ("k", "given before")
    assert [type(taker.got) for taker in others] == [raised] * 2
    assert jobs.clear() == [("m", "of another key"), ("l", "after")]


async def test_two_hand_offs_in_one_purgatory_are_independent(purgatory):
    jobs, parcels = HandOff(purgatory), HandOff(purgatory)
    several = [Waiter(side.take("k")) for side in (jobs, parcels, jobs, parcels)]
    await settle()
    assert [parcels.put("k", "parcel"), jobs.put("k", "job"), parcels.put("k", "parcel 2")] == [True] * 3
    await settle()
    assert [taker.got for taker in several] == [("k", "job"), ("k", "parcel"), None, ("k", "parcel 2")]
    jobs.put("k", "job 2")
    await settle()


# From inside a hook, and from inside a check.


async def test_an_item_may_be_put_from_a_hook(jobs, purgatory):
    reports = errors_of_loop()
    answers = []
    (taker,) = await takers(jobs, 1, "k")
    for number in range(3):
        hooked = Recorded([], then=lambda number=number: answers.append(jobs.put("k", number)))
        purgatory.try_complete_else_watch(hooked, ["k", "hooked"])
    purgatory.complete_for_key("hooked")
    assert answers == [True, False, False]
    await settle()
    assert taker.got == ("k", 0)
    assert jobs.clear() == [("k", 1), ("k", 2)]
    assert reports == []


async def test_a_hook_that_an_item_set_off_may_put_another_behind_it(jobs, purgatory):
    (taker,) = await takers(jobs, 1, "k")
    hooked = Recorded([], holds=lambda: len(jobs) > 0, then=partial(jobs.put, "k", 2))
    purgatory.try_complete_else_watch(hooked, ["k"])
    del hooked
    assert jobs.put("k", 1) is True
    await settle()
    assert taker.got == ("k", 1)
    purgatory.complete_for_key("k")
    assert jobs.clear() == [("k", 2)]


class Meddler(DelayedOperation[None]):
    """Does in its check what may not be done there."""

    def __init__(self, meddle):
        super().__init__()
        self.meddle = meddle
        self.raised = None

    def try_complete(self):
        try:
            self.meddle()
        except PurgatoryError as error:
            self.raised = error
        return False


async def test_putting_inside_a_check_is_refused_and_leaves_nothing(jobs, purgatory):
    (taker,) = await takers(jobs, 1, "k")
    jobs.put("other", 1)
    for key in ("k", "other", "fresh"):
        meddler = Meddler(partial(jobs.put, key, "refused"))
        purgatory.try_complete_else_watch(meddler, ["meddled"])
        assert isinstance(meddler.raised, PurgatoryError)
    assert len(jobs) == 1
    jobs.put("k", "item")
    await settle()
    assert taker.got == ("k", "item")
    assert jobs.clear() == [("other", 1)]
    purgatory.cancel_for_key("meddled")


async def test_a_put_inside_a_check_does_not_disturb_the_item(jobs, purgatory):
    meddler = Meddler(partial(jobs.put, "k", "refused"))
    purgatory.try_complete_else_watch(meddler, ["k"])
    (taker,) = await takers(jobs, 1, "k")
    assert jobs.put("k", "item") is True
    assert isinstance(meddler.raised, PurgatoryError)
    await settle()
    assert taker.got == ("k", "item")
    assert len(jobs) == 0
    purgatory.cancel_for_key("k")
