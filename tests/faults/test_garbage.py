"""The library makes no cyclic garbage: what has ended is freed at once, with the collector off."""

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest

from purgatory_async import (
    DelayedOperation,
    Purgatory,
    Timer,
)
from purgatory_async.testing import ManualClock, assert_clean, settle
from purgatory_async.timing import HashedWheel, TimingWheel

BATCH = 1_000


class Parcel(DelayedOperation[bytes]):
    """An operation with hooks, a condition and a result."""

    arrived = False

    def try_complete(self) -> bool:
        return self.arrived and self.force_complete(b"parcel")

    def on_complete(self) -> None:
        self.result = self.result or b"nothing"


class Yard:
    """A purgatory on a manual clock that remembers, weakly, what was ever watched in it."""

    def __init__(self, queue=None) -> None:
        self.clock = ManualClock()
        self.purgatory = Purgatory(timer=Timer(clock=self.clock, queue=queue))
        self.alive: weakref.WeakSet[Parcel] = weakref.WeakSet()

    def watch(self, *keys: object, timeout: float | None = 1) -> Parcel:
        parcel = Parcel(timeout)
        self.alive.add(parcel)
        self.purgatory.try_complete_else_watch(parcel, keys)
        return parcel

    def watch_many(self, how_many: int = BATCH) -> None:
        """Each on a key of its own and on one that all share, with deadlines near and far."""
        for number in range(how_many):
            self.watch(number, "all", timeout=(0.001, 1, 3600, None)[number % 4])


@contextmanager
def collector_off() -> Iterator[None]:
    """Leave nothing to the collector, and see that nothing was left to it."""
    gc.collect()
    gc.disable()
    try:
        yield
        found = gc.collect()
    finally:
        gc.enable()
    assert found == 0, f"the collector found {found} unreachable objects"


# Ways of ending a batch of operations; each leaves the purgatory empty.


async def completed_by_key(yard: Yard) -> None:
    yard.watch_many()
    for number in range(BATCH):
        yard.purgatory.complete_for_key(number, b"parcel")


async def completed_all_at_once(yard: Yard) -> None:
    yard.watch_many()
    yard.purgatory.complete_for_key("all")


async def completed_when_checked(yard: Yard) -> None:
    yard.watch_many()
    Parcel.arrived = True
    try:
        yard.purgatory.check_and_complete("all")
    finally:
        Parcel.arrived = False


async def expired(yard: Yard) -> None:
    yard.watch_many()
    yard.clock.advance(3600)
    yard.purgatory.cancel_for_key("all")


async def cancelled(yard: Yard) -> None:
    yard.watch_many()
    yard.purgatory.cancel_for_key("all")


async def awaited(yard: Yard) -> None:
    async def wait_for(number: int) -> None:
        await yard.watch(number, "all")

    async with asyncio.TaskGroup() as group:
        for number in range(BATCH):
            group.create_task(wait_for(number))
        await settle()
        yard.purgatory.complete_for_key("all")


async def waited_for(yard: Yard) -> None:
    purgatory = yard.purgatory
    tasks = [asyncio.create_task(purgatory.wait(number, timeout=1)) for number in range(BATCH)]
    await settle()
    for number in range(BATCH):
        purgatory.complete_for_key(number, number)
    assert [await task for task in tasks] == list(range(BATCH))


async def slept_on_the_timer(yard: Yard) -> None:
    tasks = [asyncio.create_task(yard.purgatory.timer.sleep(1)) for _ in range(BATCH)]
    await settle()
    yard.clock.advance(1)
    for task in tasks:
        await task


async def timer_callbacks(yard: Yard) -> None:
    timer = yard.purgatory.timer
    handles = [timer.call_later(1, str, number) for number in range(BATCH)]
    for handle in handles[::2]:
        handle.cancel()
    yard.clock.advance(1)


WAYS = (
    completed_by_key,
    completed_all_at_once,
    completed_when_checked,
    expired,
    cancelled,
    awaited,
    waited_for,
    slept_on_the_timer,
    timer_callbacks,
)
Way = Callable[[Yard], Awaitable[None]]

each_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
each_queue = pytest.mark.parametrize(
    "queue", [TimingWheel, HashedWheel], ids=["timing wheel", "hashed wheel"]
)


@pytest.mark.asyncio
@each_queue
@each_way
async def test_operations_that_end_leave_nothing_to_the_collector(way: Way, queue: type) -> None:
    yard = Yard(queue())
    await way(yard)  # what is made once: tables, levels, the loop's own
    with collector_off():
        await way(yard)
        await way(yard)
        assert len(yard.alive) == 0
    assert_clean(yard.purgatory)


@pytest.mark.asyncio
async def test_a_purgatory_that_was_drained_leaves_no_operation_alive() -> None:
    yard = Yard()
    yard.watch_many()
    with collector_off():
        draining = asyncio.create_task(yard.purgatory.drain())
        await settle()
        yard.purgatory.complete_for_key("all")
        assert await draining is True
        assert len(yard.alive) == 0


@pytest.mark.parametrize("watched", [0, 1, BATCH])
def test_a_dropped_purgatory_leaves_nothing_to_the_collector(watched: int) -> None:
    with collector_off():
        purgatory = Purgatory(timer=Timer(clock=ManualClock()))
        for number in range(watched):
            purgatory.try_complete_else_watch(Parcel(), [number, "all"])
        purgatory.complete_for_key("all")
        del purgatory


def test_purgatory_timer_and_clock_are_freed_when_dropped() -> None:
    yard = Yard()
    yard.watch_many()
    yard.purgatory.close()
    freed = weakref.ref(yard.purgatory), weakref.ref(yard.purgatory.timer), weakref.ref(yard.clock)
    gc.disable()
    try:
        del yard
        assert [reference() for reference in freed] == [None, None, None]
    finally:
        gc.enable()
