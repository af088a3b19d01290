"""The end of a hand-off's items: reported done, waited for, and shut down."""

import asyncio

import pytest

from purgatory_async import OperationExpired, Purgatory, PurgatoryClosed, PurgatoryError
from purgatory_async.patterns import HandOff
from purgatory_async.testing import assert_clean, cancel_sweep, settle
from tests.patterns.test_hand_off import Meddler
from tests.patterns.waiters import Waiter, ends, waiting

pytestmark = pytest.mark.asyncio


async def joined(jobs, *keys, timeout=None):
    await jobs.join(*keys, timeout=timeout)
    return "joined"


def joins(jobs, *several):
    return waiting(*[joined(jobs, *keys) for keys in several])


# Done.


async def test_join_waits_until_each_item_is_done(jobs, purgatory):
    jobs.put("a", 1)
    jobs.put("a", 2)
    jobs.put("b", 3)
    several = await joins(jobs, "a", "b", "ab", "", "c")
    assert [join.got for join in several] == [None] * 4 + ["joined"]
    for done in ("a", "a", "b"):
        await jobs.take(done)
        await settle()
        assert several[2].got is None
        jobs.task_done(done)
    assert await ends(several) == ["joined"] * 5
    await jobs.join()
    assert_clean(purgatory)


async def test_keys_are_joined_at_one_moment(jobs):
    for key in "ab":
        jobs.put(key, 1)
        jobs.take_nowait(key)
    (both,) = await joins(jobs, "ab")
    jobs.task_done("a")
    jobs.put("a", 2)
    jobs.task_done("b")
    await settle()
    assert both.got is None
    jobs.take_nowait("a")
    jobs.task_done("a")
    assert await both.end() == "joined"


async def test_items_that_come_back_are_not_counted_again(jobs):
    jobs.put("a", 1)
    (taker,) = await waiting(jobs.take("a", "b"))
    jobs.put("a", 2)
    (other,) = await waiting(jobs.take("b"))
    jobs.put("b", 3)
    other.cancel()
    jobs.put_back(*taker.got)
    several = await joins(jobs, "a", "b", "")
    assert jobs.returned == 1
    for key in "aab":
        assert [join.got for join in several] == [None, None, None]
        jobs.take_nowait(key)
    jobs.task_done("b")
    jobs.task_done("a")
    jobs.task_done("a")
    assert await ends(several) == ["joined"] * 3
    with pytest.raises(ValueError, match=r"task_done must be called once for each item taken.*'a'"):
        jobs.task_done("a")


async def test_cleared_items_are_done(jobs):
    jobs.put("a", 1)
    jobs.put("b", 2)
    jobs.take_nowait("a")
    several = await joins(jobs, "b", "a", "")
    jobs.put("a", 3)
    jobs.clear()
    await settle()
    assert [join.got for join in several] == ["joined", None, None]
    jobs.task_done("a")
    assert await ends(several) == ["joined"] * 3


async def test_a_join_that_ends_otherwise_names_its_keys(purgatory, manual_clock):
    jobs = HandOff(purgatory)
    jobs.put("a", 1)
    (late,) = await waiting(jobs.join("a", "b", timeout=2))
    (closed,) = await waiting(jobs.join())
    manual_clock.advance(2)
    expired = await late.end()
    assert (type(expired), expired.keys, expired.timeout) == (OperationExpired, ("a", "b"), 2)
    assert str(expired) == "the end of the items of 'a', 'b' did not come within 2 s"
    purgatory.close()
    assert type(await closed.end()) is PurgatoryClosed
    jobs.clear()
    with pytest.raises(PurgatoryClosed, match="wait for the items of 'a'") as refused:
        await jobs.join("a")
    assert refused.value.keys == ("a",)


async def test_a_drain_refuses_a_join_that_would_wait(jobs, purgatory):
    jobs.put("a", 1)
    await purgatory.drain()
    await jobs.join("b")
    with pytest.raises(PurgatoryClosed) as refused:
        await jobs.join("a")
    assert refused.value.keys == ("a",)


async def test_bad_arguments_of_a_join_are_refused(jobs):
    with pytest.raises(TypeError, match=r"timeout=5"):
        await jobs.join("a", 5)
    with pytest.raises(TypeError, match="unhashable"):
        await jobs.join(["a"])


async def test_a_report_inside_a_check_changes_nothing(jobs, purgatory):
    jobs.put("a", 1)
    jobs.take_nowait("a")
    (join,) = await joins(jobs, "a")
    checked = Meddler(lambda: jobs.task_done("a"))
    purgatory.try_complete_else_watch(checked, ["checked"])
    assert "try_complete" in str(checked.raised)
    purgatory.cancel_for_key("checked")
    jobs.task_done("a")
    assert await join.end() == "joined"


async def test_without_reports_memory_is_bounded(purgatory):
    jobs, reported = HandOff(purgatory), HandOff(purgatory)
    await reported.join()
    for hand_off in (jobs, reported):
        for key in range(10_000):
            hand_off.put(key, "letter")
            hand_off.take_nowait(key)
    assert len(jobs._items.queues) <= 4096
    for call in (lambda: jobs.task_done(1), lambda: asyncio.ensure_future(jobs.join())):
        with pytest.raises(PurgatoryError, match=r"4096 keys.*call join\(\) before"):
            await (call() or settle())
    (last,) = await joins(reported, "")
    for key in range(10_000):
        reported.task_done(key)
    assert await last.end() == "joined"
    assert reported._items.queues == {}


async def test_many_kept_keys_are_no_items_in_hand(jobs):
    for key in range(10_000):
        jobs.put(key, "kept")
    (join,) = await joins(jobs, "")
    assert len(jobs.clear()) == 10_000
    assert await join.end() == "joined"


# Shut down.


async def test_shut_down_takers_get_what_is_left(purgatory):
    jobs = HandOff(purgatory)
    several = await waiting(jobs.take("a"), jobs.take("b", "c"))
    jobs.put("d", 1)
    jobs.put("d", 2)
    jobs.shutdown()
    jobs.shutdown()
    assert [(type(end), end.keys) for end in await ends(several)] == [
        (PurgatoryClosed, ("a",)),
        (PurgatoryClosed, ("b", "c")),
    ]
    with pytest.raises(PurgatoryClosed, match="shut down: cannot keep an item for 'd'"):
        jobs.put("d", "refused")
    item = await jobs.take("a", "d")
    assert jobs.put_back(*item) is False
    assert [await jobs.take("d"), jobs.take_nowait("d")] == [("d", 1), ("d", 2)]
    with pytest.raises(PurgatoryClosed, match="wait for an item of 'd'"):
        await jobs.take("d")
    with pytest.raises(PurgatoryClosed, match="take an item of 'd'"):
        jobs.take_nowait("d")
    assert repr(jobs) == f"<HandOff in {purgatory.name!r} items=0 max_items=None shut down>"
    assert_clean(purgatory)


@pytest.mark.parametrize("before", [False, True], ids=["at once", "after shutdown()"])
async def test_shut_down_immediately_what_is_left_is_done(jobs, before):
    for number in range(3):
        jobs.put("a", number)
    (given,) = await waiting(jobs.take("a"))
    (waits,) = await waiting(jobs.take("b"))
    (join,) = await joins(jobs, "a")
    if before:
        jobs.shutdown()
    jobs.shutdown(immediate=True)
    await settle()
    assert (given.got, type(waits.got), join.got, len(jobs)) == (("a", 0), PurgatoryClosed, None, 0)
    with pytest.raises(PurgatoryClosed):
        jobs.put_back(*given.got)
    with pytest.raises(PurgatoryClosed):
        await jobs.take("a")
    jobs.task_done("a")
    assert (await join.end(), jobs.clear()) == ("joined", [])


@pytest.mark.parametrize("immediate", [False, True])
async def test_given_and_cancelled_as_it_is_shut_down(jobs, immediate):
    (given,) = await waiting(jobs.take("a"))
    jobs.put("a", "item")
    join = Waiter(joined(jobs, "a"), lazily=True)
    given.cancel()
    jobs.shutdown(immediate)
    await settle()
    assert (given.got, jobs.returned) == ("cancelled", 1)
    assert join.got == ("joined" if immediate else None)
    assert jobs.clear() == ([] if immediate else [("a", "item")])
    assert await join.end() == "joined"


async def test_others_in_the_purgatory_survive_a_shutdown(jobs, purgatory):
    other = HandOff(purgatory)
    (taker,) = await waiting(other.take("a"))
    plain = asyncio.create_task(purgatory.wait("a"))
    await settle()
    jobs.shutdown(immediate=True)
    await settle()
    assert (taker.got, plain.done()) == (None, False)
    other.put("a", "item")
    purgatory.complete_for_key("a", "result")
    assert (await taker.end(), await plain) == (("a", "item"), "result")


# Iterating.


async def test_iterators_end_when_nothing_is_left(jobs):
    got, items = [], jobs.items("a", "b")

    async def work():
        async for key, item in items:
            got.append((key, item))
            await asyncio.sleep(0)
            jobs.task_done(key)
        return "ended"

    workers = [asyncio.create_task(work()) for _ in range(2)]
    for number in range(3):
        await jobs.put_wait("ab"[number % 2], number)
    await jobs.join()
    jobs.put("b", 3)
    jobs.shutdown()
    assert await asyncio.gather(*workers) == ["ended"] * 2
    assert sorted(got) == [("a", 0), ("a", 2), ("b", 1), ("b", 3)]


async def test_an_iterator_raises_what_take_raises(jobs, purgatory):
    with pytest.raises(ValueError, match="keys must be at least one"):
        jobs.items()
    with pytest.raises(TypeError, match="unhashable"):
        jobs.items(["a"])
    (next_one,) = await waiting(anext(jobs.items("a")))
    purgatory.close()
    assert type(await next_one.end()) is PurgatoryClosed


async def test_cancelled_anywhere_a_worker_loses_no_item():
    runs = []

    async def scenario():
        purgatory = Purgatory()
        jobs = HandOff(purgatory, max_items=2)
        out = []
        runs.append((purgatory, jobs, out))

        async def put_all():
            for number in range(5):
                await jobs.put_wait("ab"[number % 2], number)
            await jobs.join()
            jobs.shutdown()

        putting = asyncio.create_task(put_all())
        try:
            async for key, item in jobs.items("a", "b"):
                out.append(item)
                await asyncio.sleep(0)
                jobs.task_done(key)
        finally:
            putting.cancel()

    assert await cancel_sweep(scenario) >= 6
    await settle()
    for purgatory, jobs, out in runs:
        out += [item for _, item in jobs.clear()]
        assert sorted(out) == list(range(len(out)))
        assert_clean(purgatory)
