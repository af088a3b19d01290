"""Seconds become ticks in one place: the table of timeouts, row by row, and rounding that is never early."""

import asyncio
import itertools
import math
import re
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from purgatory_async import DelayedOperation, OperationExpired, Purgatory, PurgatoryError, Timer
from purgatory_async.clock import Clock, MonotonicClock, delay_until_ns
from purgatory_async.testing import ManualClock, settle

ROOT = Path(__file__).parents[1]
HUNDRED_YEARS = 3_155_760_000


def expiry_time(timeout: float, *, tick: float = 0.001, start: float = 0.0) -> Fraction:
    """When a timer's callback comes, in exact seconds after it was asked for; one step of the clock at a time."""
    fresh, in_use, repeated = (
        _expiry_ns(timeout, tick, start, before) for before in ([], [1.0], [timeout] * 3)
    )
    assert fresh == in_use == repeated
    return Fraction(fresh, 10**9)


def _expiry_ns(timeout: float, tick: float, start: float, before: list[float]) -> int:
    """The same, in nanoseconds, on a timer that has started such delays before."""
    clock, came = ManualClock(start), []
    timer = Timer(tick=tick, clock=clock)
    for delay in before:
        timer.call_later(delay, int).cancel()
    before_ns = clock.time_ns()
    timer.call_later(timeout, lambda: came.append(clock.time_ns()))
    while not came:
        assert clock.advance_to_next() is not None
    return came[0] - before_ns


# The table.


@pytest.mark.parametrize("timeout", [None, math.inf], ids=["none", "infinity"])
def test_none_and_infinity_mean_no_deadline(
    purgatory: Purgatory, manual_clock: ManualClock, timeout: float
) -> None:
    operation: DelayedOperation[None] = DelayedOperation(timeout)
    purgatory.try_complete_else_watch(operation, ["key"])
    manual_clock.advance(HUNDRED_YEARS)
    assert (operation.outcome, purgatory.timer.next_deadline) == (None, None)
    operation.force_complete()


@pytest.mark.parametrize(
    "timeout", [0, 0.0, -0.0, -1, -5e-324, -1e308, pytest.param(-(10**400), id="-10**400")]
)
def test_zero_and_less_expire_on_the_next_advance(
    purgatory: Purgatory, manual_clock: ManualClock, timeout: float
) -> None:
    operation: DelayedOperation[None] = DelayedOperation(timeout)
    purgatory.try_complete_else_watch(operation, ["key"])
    assert operation.outcome is None
    manual_clock.advance(0)
    assert operation.outcome == "expired"


@pytest.mark.parametrize("timeout", [0, -1], ids=["zero", "negative"])
@pytest.mark.asyncio
async def test_zero_and_less_expire_on_the_next_loop_turn(timeout: float) -> None:
    async with Purgatory() as purgatory:
        with pytest.raises(OperationExpired):
            await purgatory.wait("key", timeout=timeout)


@pytest.mark.parametrize("timeout", [0, -1], ids=["zero", "negative"])
def test_zero_and_less_do_not_expire_if_the_condition_holds(purgatory: Purgatory, timeout: float) -> None:
    class Holds(DelayedOperation[None]):
        def try_complete(self) -> bool:
            return self.force_complete()

    operation = Holds(timeout)
    assert purgatory.try_complete_else_watch(operation, ["key"]) is True
    assert operation.outcome == "completed"


@pytest.mark.parametrize(
    ("timeout", "expires"),
    [
        pytest.param(1, "1", id="a whole number"),
        pytest.param(0.001, "0.001", id="one tick"),
        pytest.param(0.0005, "0.001", id="half a tick"),
        pytest.param(1e-9, "0.001", id="a nanosecond"),
        pytest.param(5e-324, "0.001", id="the shortest float"),
        pytest.param(0.001000001, "0.002", id="a tick and a nanosecond"),
        pytest.param(0.07, "0.07", id="0.07, a bit more than it seems"),
        pytest.param(0.1 + 0.2, "0.3", id="0.1 + 0.2"),
        pytest.param(1.001, "1.001", id="1.001, a bit less than it seems"),
        pytest.param(HUNDRED_YEARS, "3155760000", id="a hundred years"),
    ],
)
def test_a_finite_timeout_is_rounded_up_to_a_tick(timeout: float, expires: str) -> None:
    assert expiry_time(timeout) == Fraction(expires)


@pytest.mark.parametrize("milliseconds", range(1, 3_000, 7))
def test_a_timeout_of_whole_ticks_waits_for_no_tick_more(milliseconds: int) -> None:
    assert expiry_time(milliseconds / 1000) == Fraction(milliseconds, 1000)


NOT_A_TIMEOUT = [
    pytest.param(math.nan, ValueError, "nan", id="nan"),
    pytest.param(-math.inf, ValueError, "-inf", id="minus infinity"),
    pytest.param(HUNDRED_YEARS + 1, ValueError, "3155760001", id="a second above a hundred years"),
    pytest.param(
        math.nextafter(HUNDRED_YEARS, math.inf), ValueError, "3155760000.0000005", id="a float above it"
    ),
    pytest.param(1e308, ValueError, "1e+308", id="the longest float"),
    pytest.param(2**63, ValueError, "9223372036854775808", id="2**63"),
    pytest.param(10**400, ValueError, "an integer of 1329 bits", id="10**400"),
    pytest.param(10**5000, ValueError, "an integer of 16610 bits", id="too long to print"),
    pytest.param(True, TypeError, "bool", id="true"),
    pytest.param(False, TypeError, "bool", id="false"),
    pytest.param("5", TypeError, "str", id="a string"),
    pytest.param(Decimal(5), TypeError, "Decimal", id="a decimal"),
    pytest.param(Fraction(10**400), ValueError, "an integer of 1329 bits", id="a long fraction"),
    pytest.param(timedelta(5), TypeError, "timedelta", id="a timedelta"),
    pytest.param(5j, TypeError, "complex", id="a complex number"),
    pytest.param([5], TypeError, "list", id="a list"),
    pytest.param(object, TypeError, "type", id="a class"),
]


@pytest.mark.parametrize(("timeout", "error", "named"), NOT_A_TIMEOUT)
def test_an_invalid_timeout_is_refused_by_the_constructor(
    timeout: object, error: type[Exception], named: str
) -> None:
    with pytest.raises(error, match=re.escape(named)) as raised:
        DelayedOperation(timeout)
    assert "timeout" in str(raised.value)
    assert ("100 years" in str(raised.value)) is (error is ValueError)


@pytest.mark.parametrize(("timeout", "error", "named"), NOT_A_TIMEOUT)
@pytest.mark.asyncio
async def test_an_invalid_timeout_is_refused_by_every_wait(
    timeout: object, error: type[Exception], named: str
) -> None:
    async with Purgatory() as purgatory:
        for use in (purgatory.wait("key", timeout=timeout), purgatory.drain(timeout)):
            with pytest.raises(error, match=re.escape(named)):
                await use
            assert (purgatory.pending, purgatory.keys, purgatory.timer.pending) == (0, 0, 0)
        waiting = purgatory.try_complete_else_watch(DelayedOperation(), ["key"])
        assert waiting is False  # a refused drain has not begun


@pytest.mark.parametrize(("seconds", "error", "named"), NOT_A_TIMEOUT)
def test_a_manual_clock_moves_by_no_such_thing_either(
    seconds: object, error: type[Exception], named: str
) -> None:
    clock = ManualClock(5)
    with pytest.raises(error, match=re.escape(named)):
        clock.advance(seconds)
    assert clock.time() == 5.0


# Never early, for any numbers.

DELAYS = st.one_of(
    st.floats(min_value=0, max_value=HUNDRED_YEARS, exclude_min=True),
    st.floats(min_value=0, max_value=2, exclude_min=True),
    st.integers(1, HUNDRED_YEARS),
    st.decimals(min_value="0.001", max_value=100_000, places=3).map(float),
)
TICKS = st.sampled_from([1e-6, 0.0001, 0.001, 0.02, 1 / 3, 1.0, 60.0, 86_400.0])
STARTS = st.one_of(st.just(0.0), st.floats(min_value=0, max_value=10_000_000))


@given(delay=DELAYS, tick=TICKS, start=STARTS)
@example(delay=0.07, tick=0.001, start=0.0)
@example(delay=0.1 + 0.2, tick=0.001, start=0.0)
@example(delay=1.001, tick=0.001, start=0.0)
@example(delay=0.001, tick=0.001, start=0.0005)
def test_no_deadline_is_early_or_a_tick_late(delay: float, tick: float, start: float) -> None:
    came = expiry_time(delay, tick=tick, start=start)
    # Nanoseconds are the grain of time here: a delay counts as the nearest one, and a float of years has fewer.
    grain = max(Fraction(1, 2 * 10**9), Fraction(delay) / 2**52)
    assert Fraction(delay) - grain <= came < Fraction(delay) + Fraction(tick) + grain


@given(delays=st.lists(DELAYS, max_size=30), tick=TICKS, start=STARTS)
def test_callbacks_all_run_in_tick_order(delays: list[float], tick: float, start: float) -> None:
    clock = ManualClock(start)
    timer, came = Timer(tick=tick, clock=clock), []
    whens = [timer.call_later(delay, came.append, number).when for number, delay in enumerate(delays)]
    while clock.advance_to_next() is not None:
        pass
    assert sorted(came) == list(range(len(delays)))
    assert all(whens[before] - whens[after] < tick for before, after in itertools.pairwise(came))


# The system's clock.


def test_the_monotonic_clock_is_a_clock_in_integer_nanoseconds() -> None:
    clock = MonotonicClock()
    assert isinstance(clock, Clock)
    readings = [clock.time_ns() for _ in range(1_000)]
    assert readings == sorted(readings)
    assert {type(reading) for reading in readings} == {int}


def test_the_monotonic_clock_needs_a_loop_to_wake_anybody() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        MonotonicClock().call_at_ns(0, int)


class MillisecondLoop:
    """Counts in milliseconds of its own clock, as uvloop; arming takes it some time."""

    def __init__(self, now_ns: int, arming_ns: int) -> None:
        self.now_ns = now_ns
        self.arming_ns = arming_ns
        self.due_ms: list[int] = []

    def call_later(self, delay: float, callback: object, *, context: object) -> "MillisecondLoop":
        self.now_ns += self.arming_ns
        self.arming_ns = 0
        self.due_ms.append(self.now_ns // 10**6 + round(delay * 1000))
        return self

    def cancel(self) -> None:
        self.due_ms.pop()


@pytest.mark.parametrize("arming_ns", [0, 90_000, 200_000, 7_200_000])
def test_a_wakeup_in_milliseconds_is_not_one_late(monkeypatch: pytest.MonkeyPatch, arming_ns: int) -> None:
    # The process may lose the processor between its reading of the clock and the loop's.
    loop = MillisecondLoop(now_ns=10_900_000, arming_ns=arming_ns)
    monkeypatch.setattr("asyncio.get_running_loop", lambda: loop)
    monkeypatch.setattr(MonotonicClock, "time_ns", lambda _: loop.now_ns)
    MonotonicClock().call_at_ns(20_000_000, int)
    assert loop.due_ms == [20]


class Interrupted(asyncio.SelectorEventLoop):
    """A loop in whose process time passes after each look at a clock."""

    now_ns = 10_000_000
    lost_ns = 0
    due_ns = 0

    def look(self) -> int:
        self.now_ns += self.lost_ns
        return self.now_ns - self.lost_ns

    def time(self) -> float:
        return self.look() / 1e9

    def call_at(self, when: float, *given: Any, **others: Any) -> asyncio.TimerHandle:
        self.due_ns = round(when * 1e9)
        return super().call_at(when, *given, **others)


@pytest.mark.parametrize("lost_ns", [0, 50, 7_200_000])
def test_a_wakeup_of_asyncio_is_not_late(monkeypatch: pytest.MonkeyPatch, lost_ns: int) -> None:
    # The process may lose the processor between its reading of the clock and the loop's.
    with closing(Interrupted()) as loop:
        loop.lost_ns = lost_ns
        monkeypatch.setattr("asyncio.get_running_loop", lambda: loop)
        monkeypatch.setattr(MonotonicClock, "time_ns", lambda _: loop.look())
        MonotonicClock().call_at_ns(20_000_000, int)
        assert 20_000_000 - lost_ns <= loop.due_ns <= 20_000_001


class Counting(MonotonicClock):
    """Counts the wakeups that it is asked for."""

    wakeups = 0

    def call_at_ns(self, when_ns: int, callback: Callable[[], object]) -> Any:
        self.wakeups += 1
        return super().call_at_ns(when_ns, callback)


@pytest.mark.asyncio
@pytest.mark.parametrize("frozen_at_s", [30, 1_714_521_600], ids=["1970", "2024"])
async def test_frozen_time_neither_holds_a_wait_nor_spins(
    monkeypatch: pytest.MonkeyPatch, frozen_at_s: int
) -> None:
    clock, real = Counting(), time.monotonic
    with monkeypatch.context() as frozen:  # as freezegun does with ``real_asyncio=True``
        frozen.setattr(asyncio.BaseEventLoop, "time", lambda _: real())
        for name in ("time", "monotonic", "perf_counter"):
            frozen.setattr(time, name, lambda: frozen_at_s)
            frozen.setattr(time, f"{name}_ns", lambda: frozen_at_s * 10**9)
        async with Purgatory(timer=Timer(clock=clock)) as purgatory:
            waiting = asyncio.ensure_future(purgatory.wait("key", timeout=0.02))
            done, _ = await asyncio.wait([waiting], timeout=5)
            waiting.cancel()
    assert waiting in done
    assert isinstance(waiting.exception(), OperationExpired)
    assert clock.wakeups < 10


def test_an_import_while_the_time_is_frozen_binds_the_real_clock() -> None:
    script = (
        "import time; real, time.monotonic_ns = time.monotonic_ns, lambda: 30\n"
        "from purgatory_async.clock import MonotonicClock\n"
        "assert real() <= MonotonicClock().time_ns() <= real()"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)


@pytest.mark.asyncio
async def test_a_timer_without_a_clock_counts_on_the_systems() -> None:
    timer, clock = Timer(), MonotonicClock()
    before = clock.time_ns() / 1e9
    assert before <= timer.time() <= clock.time_ns() / 1e9


@pytest.mark.asyncio
async def test_a_timer_takes_any_clock_that_keeps_the_protocol() -> None:
    class FrozenClock:
        def time_ns(self) -> int:
            return 1_500_000_000

        def call_at_ns(self, when_ns: int, callback: object) -> object:
            return self

        def cancel(self) -> None:
            pass

    timer = Timer(clock=FrozenClock())
    assert timer.call_later(1, int).when == 2.5
    await settle()
    assert (timer.time(), timer.pending) == (1.5, 1)


def test_an_operation_refused_its_deadline_is_not_watched(manual_clock: ManualClock) -> None:
    timer = Timer(clock=manual_clock)
    purgatory: Purgatory = Purgatory(timer=timer)
    timer.close()
    operation: DelayedOperation[None] = DelayedOperation(5)
    with pytest.raises(PurgatoryError):
        purgatory.try_complete_else_watch(operation, ["key"])
    assert (operation.outcome, purgatory.pending, purgatory.keys) == (None, 0, 0)


def test_a_time_that_has_come_by_its_float_is_not_to_come() -> None:
    now_ns = 10**17 - 3  # as a float of seconds, 1e8
    assert delay_until_ns(1e8, now_ns) == 0
    assert delay_until_ns(1e8 - 1, now_ns) == -999_999_997
