"""One task holds a key of a `KeyedLock`, so many a key of a `KeyedSemaphore`; in turn, and nothing stays behind."""

import asyncio
import weakref
from itertools import permutations

import pytest

from purgatory_async import (
    DelayedOperation,
    OperationCancelled,
    OperationExpired,
    Purgatory,
    PurgatoryClosed,
    PurgatoryError,
    Timer,
)
from purgatory_async.patterns import KeyedLock, KeyedSemaphore
from purgatory_async.testing import ManualClock, assert_clean, cancel_sweep, settle
from tests.loop.worlds import by_reference_counts_alone
from tests.patterns.waiters import Waiter, each_way, ends, let_pass, waiting

pytestmark = pytest.mark.asyncio


@pytest.fixture
def lock(purgatory):
    """A lock in the purgatory of the test."""
    return KeyedLock(purgatory)


@pytest.fixture
def semaphore(purgatory):
    """Two permits a key."""
    return KeyedSemaphore(purgatory, 2)


async def in_line(lock, number, key="k", *, timeout=None, way=Waiter):
    """So many waiters for a key, oldest first; it must be held."""
    return await waiting(*[acquired(lock, key, timeout) for _ in range(number)], way=way)


async def acquired(lock, key="k", timeout=None):
    await lock.acquire(key, timeout=timeout)
    return "held"


def got(waiters):
    return [waiter.got for waiter in waiters]


# Turns.


async def test_a_free_key_is_acquired_without_a_pause(lock):
    others = []
    asyncio.get_running_loop().call_soon(others.append, "ran")
    async with lock.hold("k", timeout=0):
        assert others == []
        assert lock.locked("k") is True
    assert (others, lock.locked("k"), len(lock)) == ([], False, 0)


async def test_waiters_get_the_key_in_the_order_of_their_coming(lock):
    order = []

    async def note(number):
        async with lock.hold("k"):
            order.append(number)

    await lock.acquire("k")
    waiters = await waiting(*map(note, range(400)))  # more than a list of watchers is searched for
    assert lock.waiting("k") == 400
    lock.release("k")
    assert (lock.waiting("k"), order) == (399, [])
    await ends(waiters)
    assert (order, len(lock)) == (list(range(400)), 0)


async def test_another_key_never_waits(lock):
    await lock.acquire("a")
    (waiter,) = await in_line(lock, 1, "a")
    async with lock.hold("b"):
        assert (len(lock), lock.waiting("a"), lock.waiting("b")) == (2, 1, 0)
    lock.release("a")
    assert await waiter.end() == "held"
    lock.release("a")


async def test_a_newcomer_does_not_get_before_the_woken_waiter(lock):
    await lock.acquire("k")
    (waiter,) = await in_line(lock, 1)
    lock.release("k")
    assert lock.locked("k") is True
    assert lock.waiting("k") == 0
    newcomer = Waiter(acquired(lock))
    await settle()
    assert (waiter.got, newcomer.got) == ("held", None)
    lock.release("k")
    assert await newcomer.end() == "held"
    lock.release("k")


async def test_a_semaphore_is_locked_once_all_permits_are_taken(semaphore):
    for taken in (False, True):
        await semaphore.acquire("k")
        assert semaphore.locked("k") is taken
    waiters = await in_line(semaphore, 3)
    semaphore.release("k")
    await settle()
    assert got(waiters) == ["held", None, None]
    semaphore.release("k")
    semaphore.release("k")
    await settle()
    assert got(waiters) == ["held"] * 3
    semaphore.release("k")
    assert (semaphore.locked("k"), len(semaphore)) == (False, 1)
    semaphore.release("k")
    assert len(semaphore) == 0


async def test_locks_in_one_purgatory_know_nothing_of_each_other(lock, semaphore, purgatory):
    await lock.acquire("k")
    await semaphore.acquire("k")
    waiters = await in_line(lock, 1)
    assert (purgatory.complete_for_key("k"), purgatory.check_and_complete("k")) == (0, 0)
    semaphore.release("k")
    await settle()
    assert got(waiters) == [None]
    lock.release("k")
    assert await ends(waiters) == ["held"]
    lock.release("k")


async def test_its_repr_has_the_counts(lock, semaphore, purgatory):
    await lock.acquire("k")
    await lock.acquire("other")
    (waiter,) = await in_line(lock, 1)
    name = repr(purgatory.name)
    assert repr(lock) == f"<KeyedLock in {name} permits=1 keys=2 waiting=1>"
    assert repr(semaphore) == f"<KeyedSemaphore in {name} permits=2 keys=0 waiting=0>"
    waiter.cancel()
    await settle()


# The end of a hold.


async def test_a_hold_ends_with_its_block_also_by_an_exception(lock):
    with pytest.raises(LookupError):
        async with lock.hold("k"):
            raise LookupError
    assert len(lock) == 0


async def test_one_hold_can_be_entered_again(lock):
    hold = lock.hold("k")
    for _ in range(2):
        async with hold:
            assert lock.locked("k") is True
    assert len(lock) == 0


async def test_a_cancelled_block_releases_once(lock):
    async def block():
        async with lock.hold("k"):
            await asyncio.get_running_loop().create_future()

    (holder,) = await waiting(block())
    waiters = await in_line(lock, 2)
    holder.cancel()
    await settle()
    assert (holder.got, got(waiters)) == ("cancelled", ["held", None])
    lock.release("k")
    assert await waiters[1].end() == "held"
    lock.release("k")


async def test_what_is_not_held_cannot_be_released(lock, semaphore):
    for locks in (lock, semaphore):
        await locks.acquire("k")
        locks.release("k")
        with pytest.raises(PurgatoryError, match=r"^'k' is not held: cannot release it$"):
            locks.release("k")
        assert len(locks) == 0


async def test_any_task_of_the_loop_may_release(lock):
    await lock.acquire("k")
    waiters = await in_line(lock, 1)

    async def elsewhere():
        lock.release("k")

    await asyncio.create_task(elsewhere())
    assert await ends(waiters) == ["held"]
    lock.release("k")


async def test_a_refused_release_leaves_the_key_held(lock, purgatory):
    await lock.acquire("k")
    waiters = await in_line(lock, 1)

    async def in_another_loop():
        with pytest.raises(PurgatoryError, match="belongs to"):
            lock.release("k")

    await asyncio.to_thread(asyncio.run, in_another_loop())

    class Releases(DelayedOperation):
        def try_complete(self):
            lock.release("k")

    with pytest.raises(PurgatoryError, match="middle of a try_complete"):
        purgatory.try_complete_else_watch(Releases(), ["other"])
    assert (lock.locked("k"), lock.waiting("k"), got(waiters)) == (True, 1, [None])
    lock.release("k")
    assert await ends(waiters) == ["held"]
    lock.release("k")


# Waits that end without the key.


async def test_an_expired_wait_names_its_key_and_leaves(lock, manual_clock):
    await lock.acquire("k")
    waiters = await in_line(lock, 1, timeout=1) + await in_line(lock, 1)
    manual_clock.advance(1)
    assert lock.waiting("k") == 1
    await settle()
    expired = waiters[0].got
    assert type(expired) is OperationExpired
    assert (expired.keys, expired.timeout) == (("k",), 1)
    assert str(expired) == "nothing completed the wait on a hold of 'k' within 1 s"
    lock.release("k")
    assert await waiters[1].end() == "held"
    lock.release("k")


@pytest.mark.parametrize("end", [DelayedOperation.cancel, DelayedOperation.force_complete])
async def test_a_wait_ended_from_outside_does_not_hold(lock, purgatory, end):
    await lock.acquire("k")
    (waiter,) = await in_line(lock, 1)
    (operation,) = purgatory.operations()
    assert end(operation) is True
    assert type(await waiter.end()) is OperationCancelled
    assert waiter.got.keys == ("k",)
    lock.release("k")
    assert len(lock) == 0


async def test_closing_ends_waits_and_lets_holders_release(lock, purgatory):
    await lock.acquire("k")
    waiters = await in_line(lock, 2)
    lock.release("k")
    purgatory.close()
    await settle()
    assert waiters[0].got == "held"
    assert (type(waiters[1].got), waiters[1].got.keys) == (PurgatoryClosed, ("k",))
    for key in ("k", "free"):
        with pytest.raises(PurgatoryClosed, match=f"is closed: cannot acquire '{key}'$") as refused:
            await lock.acquire(key)
        assert refused.value.keys == (key,)
    lock.release("k")
    assert len(lock) == 0


async def test_draining_refuses_only_what_would_wait(lock, purgatory):
    await lock.acquire("k")
    waiters = await in_line(lock, 1)
    drained = asyncio.create_task(purgatory.drain())
    await settle()
    async with lock.hold("free"):
        with pytest.raises(PurgatoryClosed, match="draining") as refused:
            await lock.acquire("k")
    assert refused.value.keys == ("k",)
    lock.release("k")
    assert await ends(waiters) == ["held"]
    assert await drained is True
    lock.release("k")


# Cancellations.


@each_way
async def test_cancelled_with_its_grant_a_waiter_hands_it_on(lock, way):
    await lock.acquire("k")
    (waiter,) = await in_line(lock, 1, way=way)
    (other,) = await in_line(lock, 1)
    waiter.cancel_after(lambda: lock.release("k"))
    await let_pass(way.lead)
    await settle()
    if way.reached_late:
        assert waiter.got == "cancelled"
    else:
        assert (waiter.got, other.got) == ("held", None)
        lock.release("k")
    assert await other.end() == "held"
    lock.release("k")
    assert len(lock) == 0


@each_way
async def test_cancelled_before_the_release_a_waiter_is_not_asked(lock, way):
    await lock.acquire("k")
    (waiter,) = await in_line(lock, 1, way=way)
    (other,) = await in_line(lock, 1)
    waiter.cancel_before(lambda: lock.release("k"))
    await let_pass(way.lead)
    await settle()
    assert (waiter.got, other.got) == ("cancelled", "held")
    lock.release("k")
    assert len(lock) == 0


async def test_those_cancelled_in_this_pass_are_not_counted(lock):
    await lock.acquire("k")
    waiters = await in_line(lock, 3)
    waiters[1].cancel()
    assert lock.waiting("k") == 2
    for waiter in waiters:
        waiter.cancel()
    assert (lock.waiting("k"), lock.locked("k")) == (0, True)
    lock.release("k")
    assert len(lock) == 0
    assert await ends(waiters) == ["cancelled"] * 3


async def test_a_grant_goes_on_until_a_waiter_stays(lock):
    await lock.acquire("k")
    waiters = await in_line(lock, 100)
    lock.release("k")
    for waiter in waiters[:-1]:
        waiter.cancel()  # each is given the key when its turn comes
        await asyncio.sleep(0)
        assert waiter.got == "cancelled"
    assert await waiters[-1].end() == "held"
    lock.release("k")
    assert len(lock) == 0


@pytest.mark.parametrize("steps", list(permutations(["release", "expire", "cancel"])), ids="-".join)
@pytest.mark.parametrize("followed", [True, False], ids=["followed", "alone"])
async def test_a_deadline_beside_a_release_loses_no_permit(lock, manual_clock, steps, followed):
    await lock.acquire("k")
    (waiter,) = await in_line(lock, 1, timeout=1)
    followers = await in_line(lock, followed, timeout=2)
    for step in steps:
        if step == "release":
            lock.release("k")
        elif step == "expire":
            manual_clock.advance(1)
        else:
            waiter.cancel()
    await settle()
    assert waiter.got == "cancelled"
    assert got(followers) == ["held"] * followed
    assert lock.locked("k") is followed
    if followed:
        lock.release("k")
    assert len(lock) == 0


@pytest.mark.parametrize("permits", [1, 2])
async def test_cancelled_at_any_point_no_permit_is_lost_or_doubled(permits):
    runs = []

    async def work(locks, inside, held, passes):
        async with locks.hold("k", timeout=60):
            inside.append("in")
            held.append(len(inside))
            try:
                for _ in range(passes):
                    await asyncio.sleep(0)
            finally:
                inside.pop()

    async def scenario():
        clock = ManualClock()
        purgatory, inside, held = Purgatory(timer=Timer(clock=clock)), [], []
        locks = KeyedSemaphore(purgatory, permits)
        others = [asyncio.create_task(work(locks, inside, held, passes)) for passes in (3, 1, 0, 2)]
        runs.append((purgatory, locks, held, others))
        await asyncio.sleep(0)
        await work(locks, inside, held, 2)
        await work(locks, inside, held, 1)

    points = await cancel_sweep(scenario)
    assert points >= 4
    for purgatory, locks, held, others in runs:
        await settle()
        assert [other for other in others if not other.done()] == []
        assert (len(locks), len(held) >= 4, max(held) <= permits) == (0, True, True)
        assert_clean(purgatory)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_nothing_is_left_for_the_collector(purgatory, manual_clock):
    class Key:
        """Can be referred to weakly."""

    async def with_all_ends():
        lock, key = KeyedLock(purgatory), Key()
        await lock.acquire(key)
        waiters = [asyncio.create_task(acquired(lock, key, timeout)) for timeout in (1, 9, 9, 9, 9)]
        await settle()
        manual_clock.advance(1)
        waiters[1].cancel()
        lock.release(key)
        waiters[2].cancel()  # which was given the key
        await settle()
        purgatory.close()
        await settle()
        kinds = [type(end) for end in await asyncio.gather(*waiters, return_exceptions=True)]
        assert kinds == [
            OperationExpired,
            asyncio.CancelledError,
            asyncio.CancelledError,
            str,
            PurgatoryClosed,
        ]
        lock.release(key)
        return weakref.ref(lock), weakref.ref(key)

    with by_reference_counts_alone():
        left = await with_all_ends()
        await settle()  # asyncio lets go of what it called last
        assert [gone() for gone in left] == [None, None]
