"""Time: the clock protocol, the monotonic clock, and the one place where seconds become integers.

The public API takes ``float`` seconds. Inside, time is integer nanoseconds (a float loses nanoseconds after
some days of uptime), and timers count integer ticks. Only this file converts:

- seconds to nanoseconds: to the nearest. ``0.07 * 1e9`` is not a whole number in binary floats: rounded up,
  70 ms would become 71 ms on a one-millisecond tick; rounded down, 1.001 s would expire early.
- a deadline in nanoseconds to ticks: always **up** (`TickScale.deadline_tick`), so that nothing expires early.
- the present to ticks: always down (`TickScale.elapsed_ticks`), for the same reason.

>>> scale = TickScale(tick_ns=1_000_000, now_ns=500_000)
>>> scale.deadline_tick(2_000_001), scale.elapsed_ticks(2_999_999)
(3, 2)
"""

import asyncio
import contextvars
import time
from collections.abc import Callable
from functools import partial
from math import inf, trunc
from numbers import Real
from types import BuiltinFunctionType
from typing import Final, Protocol, runtime_checkable

__all__ = ["MAX_TIMEOUT", "Clock", "MonotonicClock", "as_number", "check_timeout", "describe", "monotonic"]

MAX_TIMEOUT: Final = 3_155_760_000.0
"""Longest finite timeout in seconds: 100 years of 365.25 days."""

NUMBERS: Final = (float, int)
"""The types of an ordinary number of seconds; a ``bool`` is not a number."""

MIN_TICK: Final = 1e-6
MAX_TICK: Final = 86_400.0

_NS_PER_MS: Final = 1_000_000
# asyncio's selector caps its sleep at 24 hours anyway, and libuv's arithmetic stays far from its limits.
_LONGEST_SLEEP_NS: Final = 86_400 * 1_000_000_000
_RESOLUTION: Final = time.get_clock_info("monotonic").resolution


class Cancellable(Protocol):
    """A wakeup that can be cancelled; `Clock.call_at_ns` returns it."""

    def cancel(self) -> None:
        """Cancel the wakeup; does nothing after it has happened."""


@runtime_checkable
class Clock(Protocol):
    """A source of time and wakeups for a `Timer`.

    A clock with the attribute ``needs_loop = False`` calls back without an event loop, as
    `purgatory_async.testing.ManualClock` does; timers on it work without one.
    """

    def time_ns(self) -> int:
        """The present in integer nanoseconds since a fixed origin; it must never go back."""
        ...

    def call_at_ns(self, when_ns: int, callback: Callable[[], object]) -> Cancellable:
        """Call ``callback()`` once, at about ``when_ns`` nanoseconds of this clock; the caller re-reads the time.

        Returns:
            A handle whose ``cancel()`` cancels the wakeup.
        """
        ...


class MonotonicClock:
    """The system's monotonic clock; wakeups come from the running event loop.

    Time spent suspended does not count (`time.monotonic` stops on Linux while the machine sleeps).
    """

    __slots__ = ("__weakref__",)

    # Bound once, and read for deadlines and for what is left until them. Tools that freeze the time in a test replace
    # the functions of modules, and would freeze only one of the two. An import during a freeze reads the clock by its
    # number, which they leave alone.
    time_ns = staticmethod(
        time.monotonic_ns
        if isinstance(time.monotonic_ns, BuiltinFunctionType) or not hasattr(time, "clock_gettime_ns")
        else partial(time.clock_gettime_ns, time.CLOCK_MONOTONIC)
    )

    def call_at_ns(self, when_ns: int, callback: Callable[[], object]) -> Cancellable:
        """Schedule a wakeup on the running loop at ``when_ns``, in an empty context; returns the loop's handle.

        An asyncio loop gets the exact remainder plus the clock's resolution, by which it may fire early. Other
        loops get whole milliseconds, rounded up: uvloop counts in milliseconds and may fire up to 1.2 ms early;
        given the exact remainder it would spin, some 200 wakeups per timer.

        Raises:
            RuntimeError: No event loop is running.
        """
        loop = asyncio.get_running_loop()
        if isinstance(loop, asyncio.BaseEventLoop):
            # The loop's clock first: if the process loses the processor before ours, the wakeup is early and not late.
            loop_time = loop.time()
            due = loop_time + _sleep_ns(when_ns, self.time_ns()) / 1e9 + _RESOLUTION
            return loop.call_at(due, callback, context=contextvars.Context())
        now_ns = self.time_ns()
        handle = _call_in_ms(loop, when_ns, now_ns, callback)
        armed_ns = self.time_ns()
        if armed_ns // _NS_PER_MS == now_ns // _NS_PER_MS:
            return handle
        handle.cancel()  # a millisecond began in between; the loop counts from it, so it would wake one late
        return _call_in_ms(loop, when_ns, armed_ns, callback)


def monotonic() -> float:
    """The present of `MonotonicClock` in seconds: the only clock for time differences outside a loop's or a timer's."""
    return MonotonicClock.time_ns() / 1e9


def _call_in_ms(
    loop: asyncio.AbstractEventLoop, when_ns: int, now_ns: int, callback: Callable[[], object]
) -> Cancellable:
    delay = -(-_sleep_ns(when_ns, now_ns) // _NS_PER_MS) / 1000
    return loop.call_later(delay, callback, context=contextvars.Context())


def _sleep_ns(when_ns: int, now_ns: int) -> int:
    return min(max(when_ns - now_ns, 0), _LONGEST_SLEEP_NS)


class TickScale:
    """Convert nanoseconds of one clock to ticks of one timer.

    Tick ``now_tick`` starts at the last multiple of ``tick_ns`` at or before ``now_ns``: ticks of different
    timers start at the same instants, and their numbers stay small.
    """

    __slots__ = ("origin_ns", "tick_ns")

    def __init__(self, tick_ns: int, now_ns: int, now_tick: int = 0) -> None:
        self.tick_ns = tick_ns
        self.origin_ns = now_ns - now_ns % tick_ns - now_tick * tick_ns

    def deadline_tick(self, deadline_ns: int) -> int:
        """The first tick at or after ``deadline_ns``: a timer that fires on it is never early."""
        return -((self.origin_ns - deadline_ns) // self.tick_ns)

    def elapsed_ticks(self, now_ns: int) -> int:
        """The last tick that has started at ``now_ns``."""
        return (now_ns - self.origin_ns) // self.tick_ns

    def tick_start_ns(self, tick: int) -> int:
        """The start of ``tick``, in nanoseconds."""
        return self.origin_ns + tick * self.tick_ns


def delay_to_ns(name: str, delay: float) -> int | None:
    """Validate a delay and convert it to nanoseconds: at least one if it is positive, None if it is infinite.

    Raises:
        TypeError, ValueError: As `check_delay`.
    """
    if type(delay) in NUMBERS and 0 < delay <= MAX_TIMEOUT:
        return round(delay * 1e9) or 1
    delay = check_delay(name, delay)
    if delay == inf:
        return None
    delay_ns = seconds_to_ns(max(delay, -MAX_TIMEOUT))
    return max(1, delay_ns) if delay > 0 else delay_ns


def seconds_to_ns(seconds: float) -> int:
    """Convert finite seconds to the nearest whole nanosecond."""
    return round(seconds * 1e9)


def check_timeout(timeout: float | None) -> float | None:
    """Validate a timeout in seconds and return it, a number of another type than ``int`` and ``float`` as a float.

    ``None`` and ``inf`` mean no deadline; zero and less mean the next loop turn.

    Raises:
        TypeError: It is neither ``None`` nor a `numbers.Real` (a ``bool`` is refused).
        ValueError: It is NaN, ``-inf``, or above 100 years.
    """
    if timeout is None or (type(timeout) in NUMBERS and 0 <= timeout <= MAX_TIMEOUT):
        return timeout
    return _check_number("timeout", timeout, "None or a number of seconds")


def check_delay(name: str, delay: float) -> float:
    """Validate a delay like `check_timeout`, except that ``None`` is a `TypeError` too."""
    return _check_number(name, delay, "a number of seconds")


def delay_until_ns(when: float, now_ns: int) -> int | None:
    """Return the nanoseconds from ``now_ns`` until ``when`` seconds; 0 or less if it is past, None for ``inf``.

    Raises:
        TypeError: ``when`` is no number.
        ValueError: It is NaN, ``-inf``, or more than 100 years away.
    """
    when = as_number("when", when, "a number of seconds")
    if when == inf:
        return None
    # An int may be too large to subtract from; on any clock it is more than 100 years away.
    distance = when - now_ns / 1e9 if -MAX_TIMEOUT < when < MAX_TIMEOUT * _NS_PER_MS else when
    _check_number("when, from now,", distance, "a number of seconds")
    delay_ns = seconds_to_ns(max(when, -MAX_TIMEOUT)) - now_ns
    return max(1, delay_ns) if distance > 0 else min(0, delay_ns)


def check_tick(tick: float) -> int:
    """Validate a tick in seconds and return it in nanoseconds.

    Raises:
        TypeError: It is no number.
        ValueError: It is not from a microsecond to a day.
    """
    tick = as_number("tick", tick, "a number of seconds")
    if not MIN_TICK <= tick <= MAX_TICK:
        raise ValueError(f"tick must be from {MIN_TICK} to {MAX_TICK} seconds, got {describe(tick)}")
    return seconds_to_ns(tick)


def describe(number: float) -> str:
    """Print a number for an error message; an integer too long to print by its bit length."""
    if isinstance(number, int) and number.bit_length() > 256:  # noqa: PLR2004 - a line's worth of digits
        return f"an integer of {number.bit_length()} bits"
    return repr(number)


def as_number(name: str, value: object, wanted: str = "a number") -> float:
    """Return a number as it is if it is an ``int`` or ``float``, else as a float: numpy's, a fraction.

    Raises:
        TypeError: It is no `numbers.Real`, or a ``bool``.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be {wanted}, got {type(value).__name__}")
    try:
        return float(value)
    except OverflowError:
        return trunc(value)  # type: ignore[return-value]  # an integer out of every bound


def _check_number(name: str, value: object, wanted: str) -> float:
    value = as_number(name, value, wanted)
    if value != value or value == -inf or MAX_TIMEOUT < value < inf:  # noqa: PLR0124 - only NaN differs from itself
        raise ValueError(
            f"{name} must be finite and at most {MAX_TIMEOUT:.0f} seconds (100 years), or inf for no deadline, "
            f"got {describe(value)}"
        )
    return value
