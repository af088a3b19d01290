"""Numbers of other libraries are times and counts too, wherever one is taken, as asyncio takes them."""

import asyncio
from collections.abc import Callable
from fractions import Fraction
from importlib.util import find_spec
from typing import Any

import pytest

from purgatory_async import DelayedOperation, Purgatory, Timer
from purgatory_async.clock import check_timeout
from purgatory_async.patterns import Barrier, HandOff, Heartbeat, Periodic, Quorum, Retrier, Watermark
from purgatory_async.testing import ManualClock, settle
from purgatory_async.timing import HashedWheel, TimerEntry, TimingWheel


class Two:
    """An integer as numpy's: no ``int``, but its index is one."""

    def __index__(self) -> int:
        return 2


TWO_SECONDS: list[Any] = [Fraction(2)]
TWO: list[Any] = [Two()]
if find_spec("numpy") is not None:
    import numpy as np

    TWO_SECONDS += [np.int64(2), np.uint8(2), np.float32(2), np.float64(2), np.float16(2)]
    TWO += [np.int64(2), np.uint8(2)]

STARTS: list[Callable[[Timer, Any], object]] = [
    lambda timer, two: timer.call_later(two, print),
    lambda timer, two: timer.call_at(two, print),
    lambda timer, two: timer.call_later(9, print).reschedule(two),
    lambda timer, two: Purgatory(timer=timer).try_complete_else_watch(DelayedOperation(two), ["key"]),
    lambda timer, two: Purgatory(timer=timer).try_complete_else_watch(Quorum(1, timeout=two), ["key"]),
    lambda timer, two: Periodic(timer, two, print),
    lambda timer, two: Retrier(timer, delay=two, max_delay=two, backoff=two).submit("key", settle),
    lambda timer, two: Heartbeat(timer, interval=3 * two, idle_timeout=6 * two, send=print, on_dead=print),
    lambda timer, two: Timer(tick=two, clock=ManualClock(two)) and timer.call_later(2, print),
]


@pytest.mark.parametrize("two", TWO_SECONDS, ids=lambda two: type(two).__name__)
def test_a_real_number_is_a_time_everywhere(two: Any) -> None:
    for start in STARTS:
        clock = ManualClock()
        timer = Timer(tick=0.1, clock=clock)
        start(timer, two)
        assert timer.next_deadline == 2.0, start
        timer.close()


@pytest.mark.parametrize("two", TWO_SECONDS, ids=lambda two: type(two).__name__)
@pytest.mark.asyncio
async def test_a_real_number_is_the_timeout_of_a_wait(two: Any) -> None:
    clock = ManualClock()
    async with (
        Purgatory(timer=Timer(clock=clock)) as purgatory,
        Watermark(timer=purgatory.timer) as watermark,
    ):
        waits = [
            asyncio.ensure_future(wait)
            for wait in (
                purgatory.wait("key", timeout=two),
                purgatory.wait("key", until=bool, timeout=two),
                HandOff(purgatory).take("item", timeout=two),
                Barrier(purgatory, "barrier", expect=[], timeout=two, initial_delay=two).arrive("member"),
                watermark.reach(1, two),
                purgatory.timer.sleep(two),
                purgatory.drain(two),
            )
        ]
        for seconds, done in ((1.999, 0), (0.001, len(waits))):
            await settle()
            clock.advance(seconds)
            await settle()
            assert sum(wait.done() for wait in waits) == done
        await asyncio.gather(*waits, return_exceptions=True)


@pytest.mark.parametrize("two", TWO, ids=lambda two: type(two).__name__)
@pytest.mark.asyncio
async def test_an_integer_of_any_type_is_a_count_everywhere(two: Any) -> None:
    async with Purgatory(max_pending=two) as purgatory, Watermark(two) as watermark:
        assert type(purgatory.max_pending) is type(watermark.value) is int
        assert (watermark.advance(two), await watermark.reach(two)) == (0, 2)
        assert Quorum(two).need == Barrier(purgatory, "barrier", expect=two, timeout=None).expect == 2
        assert (Timer(max_pending=two).pending, len(HandOff(purgatory, max_items=two))) == (0, 0)
        assert Retrier(purgatory.timer, attempts=two, max_pending=two).pending == 0
        assert (purgatory.check_and_complete("key", limit=two), [*purgatory.operations(limit=two)]) == (0, [])
    for wheel in (TimingWheel(two, two), HashedWheel(two, two)):
        assert wheel.schedule(TimerEntry(3))
        assert len(wheel.advance(3, two)) == 1


def test_a_float_of_any_type_is_no_count() -> None:
    for number in TWO_SECONDS:
        if not hasattr(number, "__index__"):
            with pytest.raises(TypeError, match="must be an integer, got"):
                Watermark(number)


def test_a_timeout_of_another_type_becomes_a_float() -> None:
    assert (type(check_timeout(Fraction(2))), type(DelayedOperation(Fraction(2)).timeout)) == (float, float)
