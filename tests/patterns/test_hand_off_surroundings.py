"""Whatever ends a taker, waits beside it or runs in between: every item goes to a taker, or is kept."""

import asyncio
from functools import partial

import pytest

from purgatory_async import (
    DelayedOperation,
    PurgatoryClosed,
    PurgatoryError,
    PurgatoryFull,
)
from purgatory_async.patterns import HandOff
from purgatory_async.testing import settle
from tests.core.recording import Recorded, Switch, errors_of_loop
from tests.patterns.takers import Taker, takers

pytestmark = pytest.mark.asyncio


# The end of time, and of the purgatory.


@pytest.mark.parametrize("timeout", [0, -1, 1, 2.5])
async def test_a_taker_that_expires_takes_nothing_later(purgatory, manual_clock, timeout):
    jobs = HandOff(purgatory)
    (taker,) = await takers(jobs, 1, "a", "b", timeout=timeout)
    manual_clock.advance(max(0, timeout))
    assert jobs.put("a", "too late") is False
    await settle()
    assert taker.got == "OperationExpired"
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
    assert [taker.got for taker in several] == ["PurgatoryClosed"] * 2
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
        (lambda purgatory: purgatory.cancel_for_key("k"), "OperationCancelled"),
        (lambda purgatory: purgatory.complete_for_key("k"), "OperationCancelled"),
        (lambda purgatory: purgatory.complete_for_key("k", ("k", "no item")), "OperationCancelled"),
        (lambda purgatory: purgatory.fail_for_key("k", ConnectionError()), "ConnectionError"),
    ],
    ids=["cancelled", "completed", "completed with a result", "failed"],
)
async def test_takers_ended_from_outside_take_no_item(jobs, purgatory, end, raised):
    given, *waiting = await takers(jobs, 3, "k", "l")
    jobs.put("m", "of another key")
    jobs.put("k", "given before")
    end(purgatory)
    assert jobs.put("l", "after") is False
    await settle()
    assert given.got == ("k", "given before")
    assert [taker.got for taker in waiting] == [raised] * 2
    assert jobs.clear() == [("m", "of another key"), ("l", "after")]


async def test_two_hand_offs_in_one_purgatory_are_independent(purgatory):
    jobs, parcels = HandOff(purgatory), HandOff(purgatory)
    several = [Taker(side, "k") for side in (jobs, parcels, jobs, parcels)]
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


# Loops.


async def test_another_loop_cannot_put_and_leaves_nothing(jobs, purgatory):
    (taker,) = await takers(jobs, 1, "k")

    async def intrude():
        with pytest.raises(PurgatoryError, match="belongs to"):
            jobs.put("k", "from elsewhere")
        with pytest.raises(PurgatoryError, match="belongs to"):
            jobs.put("other", "from elsewhere")
        with pytest.raises(PurgatoryError, match="belongs to"):
            await jobs.take("k")

    await asyncio.to_thread(asyncio.run, intrude())
    assert len(jobs) == 0
    assert jobs.put("k", "item") is True
    await settle()
    assert taker.got == ("k", "item")
