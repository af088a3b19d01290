"""Counts the events and delays of the last minute, and summarises them on request.

Each second has a row of counts. So rates cover whole seconds and are the same for every reader.
"""

import datetime as dt
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate
from math import ceil
from typing import Final

from purgatory_async import Outcome, Timer
from purgatory_async.durable.stats.messages import Delay, Delays, History, Rates
from purgatory_async.events import Handlers, Handling, KeySignalled, OperationEnded, OperationSubmitted

WINDOW: Final = 60
"""Seconds that a `Window` covers; at least 55 of them, as the last slot fills and the first leaves whole."""

_SLOT_NS: Final = 5_000_000_000
_SLOTS: Final = WINDOW * 1_000_000_000 // _SLOT_NS
_STEP: Final = 2 ** (1 / 8)
_LEAST: Final = 1e-5
_BOUNDS: Final = tuple(_LEAST * _STEP**number for number in range(386))
RATE_SECONDS: Final = 10
_SECOND_NS: Final = 1_000_000_000
_COLUMNS: Final = ("submitted", "signals", *(outcome.value for outcome in Outcome))
_COLUMN_OF: Final = {outcome: _COLUMNS.index(outcome.value) for outcome in Outcome}

_Row = list[int]


@dataclass(slots=True)
class _Slot:
    number: int
    counts: list[int] = field(default_factory=lambda: [0] * (len(_BOUNDS) + 1))
    longest: float = 0.0


class Window:
    """Quantiles of the delays of the last minute, so a slow start is forgotten.

    Each bucket is 9 % wider than the one before (as in HdrHistogram), so a quantile is at most 4.5 % off from ten
    microseconds to a hundred years; the maximum is exact. The minute has twelve slots of five seconds; a call drops the
    old ones, so no timer is needed.

    >>> window = Window()
    >>> for milliseconds in range(1, 101):
    ...     window.observe(milliseconds / 1000, now_ns=0)
    >>> window.delay(now_ns=0)
    Delay(count=100, p50=0.050866496, p99=0.1, max=0.1)
    """

    __slots__ = ("_slots",)

    def __init__(self) -> None:
        self._slots: deque[_Slot] = deque([_Slot(0)], maxlen=_SLOTS)

    def observe(self, seconds: float, now_ns: int) -> None:
        """Count a delay; ``now_ns`` never decreases between calls. O(log buckets)."""
        number = now_ns // _SLOT_NS
        slot = self._slots[-1]
        if slot.number != number:
            slot = _Slot(number)
            self._slots.append(slot)
        slot.counts[bisect_left(_BOUNDS, seconds)] += 1
        if seconds > slot.longest:  # noqa: PLR1730 - max() would cost as much as the rest
            slot.longest = seconds

    @staticmethod
    def seconds(now_ns: int) -> float:
        """Return the seconds that a window covers at a time."""
        return WINDOW - (_SLOT_NS - now_ns % _SLOT_NS) / 1e9

    def delay(self, now_ns: int) -> Delay:
        """Return the count, quantiles and maximum. O(buckets)."""
        oldest = now_ns // _SLOT_NS - _SLOTS + 1
        slots = [slot for slot in self._slots if slot.number >= oldest]
        below = list(accumulate(map(sum, zip(*(slot.counts for slot in slots), strict=True))))
        if not below or not below[-1]:
            return Delay(0, None, None, None)
        longest = max(slot.longest for slot in slots)
        return Delay(
            below[-1], _quantile(below, 0.5, longest), _quantile(below, 0.99, longest), round(longest, 9)
        )


def _quantile(below: list[int], share: float, longest: float) -> float:
    """Return the geometric mean of the quantile's bucket, at most the maximum."""
    place = bisect_left(below, ceil(share * below[-1]))
    middle = _LEAST if place == 0 else _LEAST * _STEP ** (place - 0.5)
    return round(min(middle, longest), 9)


class Recent(Handling):
    """Observes a purgatory: counts its events by the second, and their delays.

    Args:
        timer: For the time since the start.
        time_ns: The clock of the events, if it is not the timer's.
    """

    def __init__(self, timer: Timer, time_ns: Callable[[], int] | None = None) -> None:
        self._timer: Final = timer
        self._began_ns: Final = timer.time_ns()
        self._time_ns: Final = timer.time_ns if time_ns is None else time_ns
        self._waits: Final = Window()
        self._lateness: Final = Window()
        self._loop_lag: Final = Window()
        self._second = -1
        self._row: _Row = []
        # Only seconds with events, including the present one, which is incomplete.
        self._rows: deque[tuple[int, _Row]] = deque(maxlen=WINDOW + 1)

    def __repr__(self) -> str:
        return f"<Recent busy_seconds={len(self._rows)}>"

    @property
    def uptime(self) -> float:
        """Seconds since the start."""
        return (self._timer.time_ns() - self._began_ns) / _SECOND_NS

    def handlers(self) -> Handlers:
        """Count events. O(1)."""
        return {
            OperationSubmitted: self._submitted,
            KeySignalled: self._signalled,
            OperationEnded: self._ended,
        }

    def _submitted(self, event: OperationSubmitted) -> None:
        self._row_at(event.at_ns)[0] += 1

    def _signalled(self, event: KeySignalled) -> None:
        self._row_at(event.at_ns)[1] += 1

    def _ended(self, event: OperationEnded) -> None:
        at_ns, outcome = event.at_ns, event.outcome
        self._row_at(at_ns)[_COLUMN_OF[outcome]] += 1
        self._waits.observe((at_ns - event.submitted_ns) / _SECOND_NS, at_ns)
        if outcome is Outcome.EXPIRED and event.deadline_ns is not None:
            self._lateness.observe((at_ns - event.deadline_ns) / _SECOND_NS, at_ns)

    def _row_at(self, at_ns: int) -> _Row:
        second = at_ns // _SECOND_NS
        if second != self._second:
            self._second = second
            self._row = [0] * len(_COLUMNS)
            self._rows.append((second, self._row))
        return self._row

    def note_lag(self, seconds: float) -> None:
        """Count a delay of the event loop. O(log buckets)."""
        self._loop_lag.observe(seconds, self._time_ns())

    def rates(self) -> Rates:
        """Return the rates per second, over the last ten whole seconds."""
        rows = self._whole_seconds()[-RATE_SECONDS:]
        sums = {name: sum(column) for name, column in _by_name(rows).items()}
        return Rates(len(rows), **{name: round(total / max(len(rows), 1), 3) for name, total in sums.items()})

    def history(self, pending: int, now: dt.datetime) -> History:
        """Return the counts of each of the last whole seconds, at most 60.

        Args:
            pending: How many operations are pending now.
            now: The wall clock's time.
        """
        now_ns = self._time_ns()
        rows = self._whole_seconds()
        # From the number pending now, undo the changes second by second.
        under_way = [row for second, row in self._rows if second >= now_ns // _SECOND_NS]
        grown = [_growth(row) for row in rows[1:]] + [sum(map(_growth, under_way))]
        ends = list(accumulate(reversed(grown), lambda after, growth: after - growth, initial=pending))[1:]
        columns = _by_name(rows)
        until = now - dt.timedelta(microseconds=now_ns % _SECOND_NS // 1000)
        return History(until, pending=ends[::-1] if rows else [], **columns)

    def delays(self) -> Delays:
        """Return the delays of the last minute."""
        now_ns = self._time_ns()
        return Delays(
            round(min(self.uptime, Window.seconds(now_ns)), 3),
            wait=self._waits.delay(now_ns),
            lateness=self._lateness.delay(now_ns),
            loop_lag=self._loop_lag.delay(now_ns),
        )

    def _whole_seconds(self) -> list[_Row]:
        """Return the rows of the last 60 complete seconds since the start, oldest first."""
        now_ns = self._time_ns()
        now, began_ns = now_ns // _SECOND_NS, now_ns - round(self.uptime * _SECOND_NS)
        first = max(-(-began_ns // _SECOND_NS), now - WINDOW)
        rows = [[0] * len(_COLUMNS) for _ in range(first, now)]
        for second, row in self._rows:
            if first <= second < now:
                rows[second - first] = row
        return rows


def _growth(row: _Row) -> int:
    """Return by how much the number pending grew in that second."""
    return row[0] - sum(row[2:])


def _by_name(rows: list[_Row]) -> dict[str, list[int]]:
    return {name: [row[place] for row in rows] for place, name in enumerate(_COLUMNS)}


class Probe:
    """Calls a function periodically with the delay of the event loop, in seconds, until the timer closes.

    The delay distinguishes a slow service from a quiet one; a stall shorter than the period may fall between two calls.
    """

    def __init__(self, timer: Timer, period: float, note: Callable[[float], object]) -> None:
        self._timer: Final = timer
        self._period: Final = period
        self._note: Final = note

    def start(self) -> None:
        """Schedule the next call."""
        self._timer.call_later(self._period, self._run, self._timer.time() + self._period)

    def _run(self, due: float) -> None:
        self._note(max(0.0, self._timer.time() - due))  # a float may be off by a hair
        self.start()
