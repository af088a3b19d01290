"""Real time on real loops: nothing is early or later than promised, and the loop is woken a bounded number of times."""

import asyncio
import random
import time
from bisect import bisect
from collections.abc import Callable

import pytest

from purgatory_async import DelayedOperation, Purgatory, Timer
from purgatory_async.clock import Cancellable, MonotonicClock
from purgatory_async.testing import assert_clean

pytestmark = [pytest.mark.slow, pytest.mark.asyncio]

TIMERS = 20_000
BATCH = 200
SHORTEST_NS, LONGEST_NS = 200_000, 6_000_000

# One wakeup per bucket, and another if the loop came early: no loop may spin.
MOST_WAKEUPS_A_BUCKET = 2


class CountingClock:
    """The system's clock, with a count of the wakeups it was asked for and of those it made."""

    def __init__(self) -> None:
        self._clock = MonotonicClock()
        self.asked = 0
        self.rung = 0
        self.buckets: set[int] = set()

    def time_ns(self) -> int:
        return self._clock.time_ns()

    def call_at_ns(self, when_ns: int, callback: Callable[[], object]) -> Cancellable:
        def ring() -> None:
            self.rung += 1
            callback()

        self.asked += 1
        self.buckets.add(when_ns)
        return self._clock.call_at_ns(when_ns, ring)


class HastyClock:
    """Asks the loop for the exact rest, without the reserve that keeps a loop from coming early."""

    def time_ns(self) -> int:
        return time.monotonic_ns()

    def call_at_ns(self, when_ns: int, callback: Callable[[], object]) -> Cancellable:
        rest_ns = max(0, when_ns - self.time_ns())
        return asyncio.get_running_loop().call_later(rest_ns / 1e9, callback)


def random_delays(seed: int) -> list[int]:
    """Nanoseconds; the same on every machine."""
    numbers = random.Random(seed)
    return [numbers.randint(SHORTEST_NS, LONGEST_NS) for _ in range(TIMERS)]


async def lateness_of_20_000_timers(timer: Timer) -> list[int]:
    """Nanoseconds between each deadline and its callback; negative ones were early."""
    lateness_ns: list[int] = []

    def fire(deadline_ns: int) -> None:
        lateness_ns.append(time.monotonic_ns() - deadline_ns)

    delays = random_delays(seed=1)
    for start in range(0, TIMERS, BATCH):
        for delay_ns in delays[start : start + BATCH]:
            deadline_ns = time.monotonic_ns() + delay_ns
            timer.call_later(delay_ns / 1e9, fire, deadline_ns)
        await timer.sleep(LONGEST_NS / 1e9)
    await timer.sleep(2 * LONGEST_NS / 1e9)
    assert timer.pending == 0
    return lateness_ns


@pytest.mark.parametrize("tick", [0.001, 0.000001], ids=["a millisecond's tick", "a microsecond's tick"])
async def test_of_20_000_short_timers_none_is_early_or_spins(tick: float) -> None:
    clock = CountingClock()
    lateness_ns = await lateness_of_20_000_timers(Timer(tick=tick, clock=clock))
    assert len(lateness_ns) == TIMERS
    assert min(lateness_ns) >= 0
    assert clock.rung <= MOST_WAKEUPS_A_BUCKET * len(clock.buckets)


@pytest.mark.parametrize("tick", [0.001, 0.000001], ids=["a millisecond's tick", "a microsecond's tick"])
async def test_no_timer_is_early_although_the_loop_comes_early(tick: float) -> None:
    lateness_ns = await lateness_of_20_000_timers(Timer(tick=tick, clock=HastyClock()))
    assert len(lateness_ns) == TIMERS
    assert min(lateness_ns) >= 0


async def test_of_20_000_short_operations_none_expires_early() -> None:
    early_ns: list[int] = []
    expired = 0

    class Short(DelayedOperation[None]):
        def __init__(self, timeout_ns: int) -> None:
            super().__init__(timeout_ns / 1e9)
            self.deadline_ns = time.monotonic_ns() + timeout_ns

        def on_expiration(self) -> None:
            nonlocal expired
            expired += 1
            lateness_ns = time.monotonic_ns() - self.deadline_ns
            if lateness_ns < 0:
                early_ns.append(lateness_ns)

    clock = CountingClock()
    async with Purgatory(timer=Timer(clock=clock)) as purgatory:
        delays = random_delays(seed=2)
        for start in range(0, TIMERS, BATCH):
            for delay_ns in delays[start : start + BATCH]:
                purgatory.try_complete_else_watch(Short(delay_ns), [start])
            await purgatory.timer.sleep(LONGEST_NS / 1e9)
        await purgatory.timer.sleep(2 * LONGEST_NS / 1e9)
        assert (expired, early_ns) == (TIMERS, [])
        assert clock.rung <= MOST_WAKEUPS_A_BUCKET * len(clock.buckets)
        assert_clean(purgatory)


# A turn may begin between a tick and the loop's check of its timers; the timer then fires in the next one.
MOST_TURNS = 3


class Turns:
    """When each turn of the loop began; it keeps the loop turning."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._began_ns: list[int] = []
        self._note()

    def _note(self) -> None:
        self._began_ns.append(time.monotonic_ns())
        self._handle = self._loop.call_soon(self._note)

    def stop(self) -> None:
        self._handle.cancel()

    def between(self, start_ns: int, end_ns: int) -> int:
        """How many passes began in that time: none while the loop was blocked or the process did not run."""
        return bisect(self._began_ns, end_ns) - bisect(self._began_ns, start_ns)


@pytest.mark.parametrize("tick", [0.001, 0.005], ids=lambda tick: f"tick {tick} s")
@pytest.mark.parametrize("blocked", [0, 0.004], ids=lambda blocked: f"blocked for {blocked} s")
async def test_nothing_is_later_than_a_tick_and_a_turn(tick: float, blocked: float) -> None:
    # In turns of the loop, not in seconds: so it holds on a machine that is busy with other things.
    loop, turns, timer = asyncio.get_running_loop(), Turns(), Timer(tick=tick)
    all_delays = random_delays(seed=3)
    times_ns: list[list[int]] = []  # when at the latest each should come, and when it came

    class Short(DelayedOperation[None]):
        def __init__(self, timeout: float, times: list[int]) -> None:
            super().__init__(timeout)
            self.times = times

        def on_expiration(self) -> None:
            self.times.append(time.monotonic_ns())

    async with Purgatory(timer=timer) as purgatory:
        for start in range(0, 4_000, BATCH):
            delays = all_delays[start : start + BATCH]
            loop.call_later(delays[0] / 1e9, time.sleep, blocked)
            for number, delay_ns in enumerate(delays):
                times: list[int] = []
                if number % 2:
                    timer.call_later(delay_ns / 1e9, lambda times=times: times.append(time.monotonic_ns()))
                else:
                    purgatory.try_complete_else_watch(Short(delay_ns / 1e9, times), ["key"])
                times.append(time.monotonic_ns() + delay_ns + round(tick * 1e9))
                times_ns.append(times)
            while timer.pending:  # noqa: ASYNC110 - an event would need a callback of its own
                await asyncio.sleep(0)
    turns.stop()
    assert max(turns.between(latest_ns, came_ns) for latest_ns, came_ns in times_ns) <= MOST_TURNS
