"""Periodic work: each run schedules the next when it ends, so runs never overlap.

A period counts from the end of a run (``fixed_delay``) or from its due time (``fixed_rate``). For runs missed at a
fixed rate, ``skip``, ``burst`` and ``delay`` mean what they mean in tokio (`MissedTickBehavior`).
"""

from collections.abc import Callable
from math import ceil, inf
from typing import Final, Literal, Self, get_args

from purgatory_async import Timer
from purgatory_async.errors import refuse_again
from purgatory_async.patterns._arguments import check_function, check_number, check_word
from purgatory_async.patterns._job import Job

__all__ = ["Missed", "Mode", "Periodic"]

Mode = Literal["fixed_delay", "fixed_rate"]
Missed = Literal["skip", "burst", "delay"]

_HALF_NS: Final = 0.5e-9  # clocks count nanoseconds: a float sum off by less is not late


class Periodic:
    """Runs a function every period, first one period after construction.

    It holds one timer entry until it is closed, also during a run, so a timer that fills up does not end it. Each run
    begins in a copy of the constructor's context. As an async context manager it closes itself.

    Args:
        timer: Starts each run.
        period: Seconds, at least a microsecond.
        work: A plain or async function without arguments. Its exceptions go to the loop's exception handler and do
            not stop later runs.
        mode: ``"fixed_delay"``: a period passes between the end of a run and the beginning of the next.
            ``"fixed_rate"``: runs are due at whole periods from the beginning, without drift.
        missed: At a fixed rate, what happens to runs that fell due during another run or while the loop was blocked.
            ``"skip"``: they are left out and counted in `skipped`. ``"burst"``: they run at once, one after the
            other. ``"delay"``: the next run comes a period from now, and later ones count from it.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: ``period``, ``mode`` or ``missed`` is out of bounds.
        PurgatoryClosed, PurgatoryFull, PurgatoryError: As `Timer.call_later`.

    >>> from purgatory_async.testing import ManualClock
    >>> clock = ManualClock()
    >>> beat = Periodic(Timer(clock=clock), 20, lambda: print(f"at {clock.time():g} s"))
    >>> clock.advance(50)
    at 20 s
    at 40 s
    >>> beat.close()
    """

    __slots__ = (
        "__weakref__",
        "_first",
        "_handle",
        "_job",
        "_missed",
        "_mode",
        "_period",
        "_timer",
        "_turn",
        "runs",
        "skipped",
    )

    runs: int
    """How many runs have begun."""
    skipped: int
    """How many runs were left out because they fell due during another or while the loop was blocked."""

    def __init__(
        self,
        timer: Timer,
        period: float,
        work: Callable[[], object],
        *,
        mode: Mode = "fixed_delay",
        missed: Missed = "skip",
    ) -> None:
        refuse_again(self, "_timer")
        if not isinstance(timer, Timer):
            raise TypeError(f"timer must be a Timer, got {timer!r}")
        period = check_number("period", period, least=1e-6)
        check_function("work", work)
        check_word("mode", mode, get_args(Mode))
        check_word("missed", missed, get_args(Missed))
        self._timer = timer
        self._period = period
        self._mode = mode
        self._missed = missed
        self._job = Job()
        self.runs = 0
        self.skipped = 0
        self._handle = timer.call_later(period, self._run, work)
        self._first = self._handle.when
        self._turn = 0  # runs are due at _first + _turn * period: a product does not drift

    def __repr__(self) -> str:
        state = (
            "closed" if self.closed else "running" if self._job.running else f"next at {self._handle.when} s"
        )
        return f"<Periodic {self._mode} every {self._period} s, {state}, runs={self.runs}>"

    @property
    def closed(self) -> bool:
        """Whether there will be no further run."""
        return self._handle.cancelled or self._handle.fired

    def close(self) -> None:
        """Begin no further run; the current one continues to its end. The work may call this."""
        self._handle.cancel()

    async def aclose(self) -> None:
        """Begin no further run, cancel the current one and wait for its end."""
        self.close()
        await self._job.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()

    def _run(self, work: Callable[[], object]) -> None:
        # Keeps its place in the timer and the first context during the run. Only the handle refers to work, so that
        # cancelling it in any way frees work.
        self._handle = self._timer.call_later(inf, self._run, work)
        self.runs += 1
        self._job.run(work, self, self._rest)

    def _rest(self) -> None:
        """Schedule the next run when one has ended."""
        if not self.closed:
            self._handle.reschedule(self._pause())

    def _pause(self) -> float:
        if self._mode == "fixed_delay":
            return self._period
        self._turn += 1
        now = self._timer.time()
        behind = now - self._due() - _HALF_NS
        if behind > 0 and self._missed == "delay":
            self._first, self._turn = now + self._period, 0
        elif behind > 0 and self._missed == "skip":
            left_out = ceil(behind / self._period)
            self.skipped += left_out
            self._turn += left_out
        return round(self._due() - now, 9)

    def _due(self) -> float:
        return self._first + self._turn * self._period
