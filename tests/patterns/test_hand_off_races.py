"""A taker that is cancelled beside its item: the item goes back to its place and to the next taker, never away."""

import asyncio
import gc
import time
from itertools import permutations, product

import anyio
import pytest

from purgatory_async import Purgatory, Timer
from purgatory_async.patterns import HandOff
from purgatory_async.testing import ManualClock, assert_clean, settle
from tests.patterns.takers import ByAnyioScope, Taker, after, each_way, let_pass, takers

# One taker cancelled.


@pytest.mark.asyncio
@each_way
async def test_a_way_cancels_in_the_pass_that_it_names(way):
    async def wait():
        await waiter

    def look(number):
        passes.append(number) if waiter.cancelled() else after(1, look, number + 1)

    passes = []
    waiter = asyncio.get_running_loop().create_future()
    run = way()
    task = asyncio.create_task(run.run(wait()))
    await settle()
    after(3, run.cancel)
    look(0)
    await task
    assert passes == [3 + run.lead]


@pytest.mark.asyncio
@each_way
@pytest.mark.parametrize("followed", [True, False], ids=["followed", "alone"])
async def test_cancelled_as_its_item_arrives_it_gives_the_item_back(jobs, way, followed):
    (taker,) = await takers(jobs, 1, "k", way=way)
    followers = await takers(jobs, followed, "k")
    after(5, jobs.put, "k", "item")
    after(5 - taker.lead, taker.cancel)
    await let_pass(10)
    # A scope of anyio's does not cancel who has been woken, but at its next wait: so this one has it.
    keeps_it = issubclass(way, ByAnyioScope)
    assert taker.got == (("k", "item") if keeps_it else "CancelledError")
    places = [follower.got for follower in followers] or jobs.clear()
    assert places == ([None] * len(followers) if keeps_it else [("k", "item")])
    assert jobs.returned == (not keeps_it)
    jobs.put("k", "for a follower")


@pytest.mark.asyncio
async def test_items_stay_in_order_when_the_oldest_taker_is_cancelled(jobs):
    first, second, third = await takers(jobs, 3, "k")
    first.cancel()
    assert jobs.put("k", 1) is True
    assert jobs.put("k", 2) is True
    assert jobs.put("k", 3) is False
    await settle()
    assert (first.got, second.got, third.got) == ("CancelledError", ("k", 1), ("k", 2))
    assert jobs.clear() == [("k", 3)]


@pytest.mark.asyncio
async def test_what_comes_back_stands_in_front_of_what_is_kept(jobs):
    (taker,) = await takers(jobs, 1, "k")
    for number in range(3):
        jobs.put("k", number)
    taker.cancel()
    await settle()
    assert [await jobs.take("k") for _ in range(3)] == [("k", number) for number in range(3)]


@pytest.mark.asyncio
async def test_what_comes_back_goes_to_the_next_taker_of_its_own_key(jobs):
    (taker,) = await takers(jobs, 1, "a", "b", "c")
    of_a, of_c, of_b = [Taker(jobs, key) for key in "acb"]
    await settle()
    jobs.put("b", "item")
    taker.cancel()
    await settle()
    assert (of_a.got, of_c.got, of_b.got) == (None, None, ("b", "item"))
    for key in "ac":
        jobs.put(key, "")


@pytest.mark.asyncio
async def test_what_comes_back_finds_a_taker_that_arrived_meanwhile(jobs):
    (taker,) = await takers(jobs, 1, "k")
    jobs.put("k", "item")
    late = Taker(jobs, "k")
    taker.cancel()
    await settle()
    assert (taker.got, late.got) == ("CancelledError", ("k", "item"))


@pytest.mark.asyncio
async def test_an_item_goes_on_until_a_taker_stays(jobs):
    several = await takers(jobs, 100, "k")
    jobs.put("k", "item")
    for taker in several[:-1]:
        taker.cancel()  # each has the item when its turn comes
        await asyncio.sleep(0)
        assert taker.got == "CancelledError"
    await settle()
    assert several[-1].got == ("k", "item")
    assert (len(jobs), jobs.returned) == (0, 99)


@pytest.mark.asyncio
async def test_a_taker_swallowing_its_cancellation_waits_its_turn(jobs):
    got = []

    async def stubborn():
        for _ in range(3):
            try:
                got.append(await jobs.take("k"))
            except asyncio.CancelledError:
                got.append("CancelledError")

    task = asyncio.create_task(stubborn())
    await settle()
    jobs.put("k", 1)
    task.cancel()
    await settle()
    assert got == ["CancelledError", ("k", 1)]  # no other taker waited
    (other,) = await takers(jobs, 1, "k")
    jobs.put("k", 2)
    task.cancel()
    await task
    await settle()
    assert (got[2:], other.got) == (["CancelledError"], ("k", 2))


# Several cancelled at once.


@pytest.mark.asyncio
async def test_many_returned_items_go_in_order_before_the_kept_ones(jobs):
    several = await takers(jobs, 20, "k")
    for number in range(50):
        jobs.put("k", number)
    for taker in several:
        taker.cancel()
    await settle()
    assert [await jobs.take("k") for _ in range(50)] == [("k", number) for number in range(50)]


@pytest.mark.asyncio
@pytest.mark.parametrize("order", [1, -1], ids=["oldest first", "newest first"])
@pytest.mark.parametrize("followers", [0, 2, 6])
async def test_several_cancelled_at_once_leave_their_items_in_order(jobs, order, followers):
    several = await takers(jobs, 4, "k")
    waiting = await takers(jobs, followers, "k")
    for number in range(4):
        assert jobs.put("k", number) is True
    for taker in several[::order]:
        taker.cancel()
    await settle()
    assert {taker.got for taker in several} == {"CancelledError"}
    assert [taker.got for taker in waiting if taker.got] + jobs.clear() == [
        ("k", number) for number in range(4)
    ]
    for _ in waiting[4:]:
        jobs.put("k", "")


@pytest.mark.asyncio
@pytest.mark.parametrize("put_first", [True, False], ids=["put, then cancelled", "cancelled, then put"])
async def test_of_a_herd_every_third_is_cancelled_and_no_item_is_lost(jobs, put_first):
    several = await takers(jobs, 900, "k")
    steps = [lambda: [jobs.put("k", number) for number in range(600)]]
    steps.insert(put_first, lambda: [taker.cancel() for taker in several[::3]])
    for step in steps:
        step()
    await settle()
    got = [taker.got for taker in several if isinstance(taker.got, tuple)]
    assert sorted(got) == [("k", number) for number in range(600)]
    assert len(jobs) == 0
    assert {taker.got for taker in several[::3]} == {"CancelledError"}
    if not put_first:
        assert got == sorted(got)


# Time that is up.


async def under_asyncio_timeout(coroutine, seconds):
    async with asyncio.timeout(seconds):
        await coroutine


async def under_wait_for(coroutine, seconds):
    await asyncio.wait_for(coroutine, seconds)


async def under_anyio_move_on_after(coroutine, seconds):
    with anyio.move_on_after(seconds):
        await coroutine


async def under_anyio_fail_after(coroutine, seconds):
    with anyio.fail_after(seconds):
        await coroutine


async def take_into(got, jobs, timeout=None):
    got.append(await jobs.take("k", timeout=timeout))


each_limit = pytest.mark.parametrize(
    "limit",
    [under_asyncio_timeout, under_wait_for, under_anyio_move_on_after, under_anyio_fail_after],
    ids=lambda limit: limit.__name__,
)


@pytest.mark.asyncio(loop_factories=["virtual"])
@each_limit
@pytest.mark.parametrize("asked_first", ["put", "limit"])
@pytest.mark.parametrize("blocked", [0, 5], ids=["idle", "blocked"])
async def test_a_limit_that_comes_with_the_item_loses_nothing(limit, asked_first, blocked):
    loop = asyncio.get_running_loop()
    for put_at, own_timeout in product([0.999999999, 1.0, 1.000000001], [None, 1]):
        start, got = loop.time(), []
        async with Purgatory() as purgatory:
            jobs = HandOff(purgatory)
            if asked_first == "put":
                loop.call_at(start + put_at, jobs.put, "k", "item")
            task = asyncio.create_task(limit(take_into(got, jobs, own_timeout), 1))
            await asyncio.sleep(0)
            if asked_first == "limit":
                loop.call_at(start + put_at, jobs.put, "k", "item")
            loop.call_at(start + 0.5, loop._jump, blocked)  # a callback that takes so long
            await asyncio.wait([task], timeout=10)
            assert task.exception() is None or isinstance(task.exception(), TimeoutError)
            await asyncio.sleep(10)
            assert got + jobs.clear() == [("k", "item")]
        assert_clean(purgatory)


@pytest.mark.asyncio
@pytest.mark.slow
@each_limit
@pytest.mark.parametrize("put_first", [True, False], ids=["put, then blocked", "blocked, then put"])
async def test_a_loop_blocked_past_the_limit_loses_nothing(limit, put_first):
    loop = asyncio.get_running_loop()
    for _ in range(50):
        got = []
        async with Purgatory() as purgatory:
            jobs = HandOff(purgatory)
            task = asyncio.create_task(limit(take_into(got, jobs), 0.002))
            await asyncio.sleep(0)
            until = loop.time() + 0.003
            if put_first:
                jobs.put("k", "item")
            while time.monotonic() < until:
                pass
            if not put_first:
                jobs.put("k", "item")
            await asyncio.wait([task])
            assert task.exception() is None or isinstance(task.exception(), TimeoutError)
            assert got + jobs.clear() == [("k", "item")]
        assert_clean(purgatory)


@pytest.mark.asyncio
@pytest.mark.parametrize("steps", list(permutations(["put", "expire", "cancel"])), ids="-".join)
@pytest.mark.parametrize("followed", [True, False], ids=["followed", "alone"])
async def test_an_expiry_in_the_very_moment_of_the_item_loses_nothing(
    purgatory, manual_clock, steps, followed
):
    jobs = HandOff(purgatory)
    (taker,) = await takers(jobs, 1, "k", timeout=1)
    followers = await takers(jobs, followed, "k", timeout=2)
    for step in steps:
        if step == "put":
            jobs.put("k", "item")
        elif step == "expire":
            manual_clock.advance(1)
        else:
            taker.cancel()
    await settle()
    assert taker.got == "CancelledError"
    assert ([follower.got for follower in followers] or jobs.clear()) == [("k", "item")]


@pytest.mark.asyncio
@pytest.mark.parametrize("asked_first", ["put", "expiry"])
async def test_an_item_put_at_the_deadline_is_taken_or_kept(purgatory, manual_clock, asked_first):
    jobs = HandOff(purgatory)
    if asked_first == "put":
        purgatory.timer.call_later(1, jobs.put, "k", "item")
    (taker,) = await takers(jobs, 1, "k", timeout=1)
    if asked_first == "expiry":
        purgatory.timer.call_later(1, jobs.put, "k", "item")
    manual_clock.advance(1)
    await settle()
    kept = jobs.clear()
    assert (taker.got, kept) in [(("k", "item"), []), ("OperationExpired", [("k", "item")])]


# The end of everything.


@pytest.mark.asyncio
async def test_given_cancelled_and_closed_the_item_goes_to_the_next(purgatory):
    jobs = HandOff(purgatory)
    given, waiting = await takers(jobs, 2, "k")
    jobs.put("k", "item")
    given.cancel()
    purgatory.close()
    await settle()
    assert (given.got, waiting.got) == ("CancelledError", ("k", "item"))
    assert jobs.clear() == []


@pytest.mark.asyncio
async def test_an_item_returned_while_draining_goes_to_a_waiting_taker(purgatory):
    jobs = HandOff(purgatory)
    given, waiting = await takers(jobs, 2, "k")
    drained = asyncio.create_task(purgatory.drain())
    await settle()
    jobs.put("k", "item")
    given.cancel()
    assert await drained is True
    assert waiting.got == ("k", "item")


@pytest.fixture(params=["asyncio", "uvloop"])
def new_loop(request):
    """A loop that the test ends itself."""
    loop = pytest.importorskip(request.param).new_event_loop()
    yield loop
    loop.close()


@pytest.mark.parametrize("end", ["cancelled", "dropped"])
def test_when_the_program_ends_under_a_taker_its_item_is_kept(new_loop, end):
    purgatory = Purgatory(timer=Timer(clock=ManualClock()))
    jobs = HandOff(purgatory)
    several = new_loop.run_until_complete(takers(jobs, 3, "k"))
    jobs.put("k", "item")  # its taker is to be woken when the loop runs again
    if end == "cancelled":
        any(taker.cancel() for taker in several)
        new_loop.run_until_complete(let_pass(5))
    else:
        new_loop.set_exception_handler(lambda *_: None)  # asyncio complains of tasks dropped
    new_loop.close()
    while several:  # dropped, each gives what it has to the next
        several.pop(0)
        gc.collect()
    purgatory.close()
    assert_clean(purgatory)
    assert jobs.clear() == [("k", "item")]
