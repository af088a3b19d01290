"""Real time on real loops: nothing is early by the system's clock, and the loop is woken a bounded number of times."""

import random
import time
from collections.abc import Callable

import pytest

from purgatory_async import DelayedOperation, Purgatory, Timer
from purgatory_async.clock import Cancellable, MonotonicClock
from purgatory_async.testing import assert_clean

pytestmark = [pytest.mark.slow, pytest.mark.asyncio]

TIMERS = 20_000
BATCH = 200
SHORTEST_NS, LONGEST_NS = 200_000, 6_000_000

# A tick's bucket, woken for, and once again if the loop came early: whatever the loop, it may not spin.
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


def random_delays(seed: int) -> list[int]:
    """Nanoseconds; the same on every machine."""
    numbers = random.Random(seed)
    return [numbers.randint(SHORTEST_NS, LONGEST_NS) for _ in range(TIMERS)]


@pytest.mark.parametrize("tick", [0.001, 0.000001], ids=["a millisecond's tick", "a microsecond's tick"])
async def test_of_20_000_short_timers_none_is_early_and_the_loop_does_not_spin(tick: float) -> None:
    clock = CountingClock()
    timer = Timer(tick=tick, clock=clock)
    early_ns: list[int] = []
    fired = 0

    def fire(deadline_ns: int) -> None:
        nonlocal fired
        fired += 1
        lateness_ns = time.monotonic_ns() - deadline_ns
        if lateness_ns < 0:
            early_ns.append(lateness_ns)

    delays = random_delays(seed=1)
    for start in range(0, TIMERS, BATCH):
        for delay_ns in delays[start : start + BATCH]:
            deadline_ns = time.monotonic_ns() + delay_ns
            timer.call_later(delay_ns / 1e9, fire, deadline_ns)
        await timer.sleep(LONGEST_NS / 1e9)
    await timer.sleep(2 * LONGEST_NS / 1e9)
    assert (fired, early_ns, timer.pending) == (TIMERS, [], 0)
    assert clock.rung <= MOST_WAKEUPS_A_BUCKET * len(clock.buckets)


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
