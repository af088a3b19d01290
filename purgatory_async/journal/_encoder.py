"""Encodes events as lines; runs outside the event loop, so it reads only what no longer changes."""

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, get_args

from msgspec import UNSET, UnsetType

from purgatory_async.clock import MonotonicClock
from purgatory_async.errors import as_integer
from purgatory_async.events import (
    Event,
    KeySignalled,
    OperationEnded,
    OperationRescheduled,
    OperationSubmitted,
)
from purgatory_async.journal.lines import encode_record
from purgatory_async.journal.schema import (
    INT_MAX,
    NO_SUM,
    RESCHEDULE_VERSION,
    SCHEMA_VERSION,
    AnswerWord,
    Outcome,
    Record,
    Reschedule,
    Signal,
    Stats,
    Submit,
)
from purgatory_async.timing import TimerQueue, TimingWheel

_ANSWERS: Final[tuple[AnswerWord, ...]] = get_args(AnswerWord)
_MOVED: Final = -1  # instead of the tick at which an operation entered the queue
SET_NS: Final = 1_000_000_000  # less than that is no set clock, but a thread that waited between two readings


@dataclass(frozen=True, slots=True)
class Sample:
    """Sizes of the purgatory at one instant, see `schema.Stats`."""

    at_ns: int
    pending: int
    watched: int
    timer_buckets: int


Entry = tuple[Event, int | Exception] | Sample
"""An event, with the queue's tick when it happened; a signal's is its weight, or the error of weighing it."""


class Encoder:
    """Numbers and encodes the records of one run.

    Args:
        run_id: The id of this start.
        node: Where it runs.
        origin_ns: The timer's time that is 0 in ``mono_ns``.
        wall_ns: Wall time minus the timer's time.
        tick_ns: The timer's tick.
        queue: The timer's queue.
    """

    def __init__(
        self, run_id: str, node: str, *, origin_ns: int, wall_ns: int, tick_ns: int, queue: TimerQueue
    ) -> None:
        self.seq = 0
        self.wall_ns = wall_ns
        self._run_id: Final = run_id
        self._node: Final = node
        self._origin_ns: Final = origin_ns
        self._tick_ns: Final = tick_ns
        self._queue: Final = queue
        self._wheel_size: Final[int] = getattr(queue, "wheel_size", 1)
        # The tick at which each pending operation entered the queue, for `inserts`.
        self._entered: dict[int, int] = {}

    def encode(self, entry: Entry, into: bytearray) -> None:
        """Append an entry's line to a buffer. O(keys).

        Raises:
            Exception: It cannot be encoded; its number stays unused.
        """
        self.seq += 1
        encode_record(self._record(entry), into)

    def skip(self, count: int) -> None:
        """Skip the numbers of dropped records, so that a reader sees the gap."""
        self.seq += count
        # An operation whose end was dropped would stay in here for ever.
        self._entered.clear()

    # Each kind repeats the common fields: passed as ``**common``, a record costs 1.7 us
    # instead of 0.3 (python -m bench.journal --only encoding).

    def _record(self, entry: Entry) -> Record:
        if isinstance(entry, Sample):
            return self._stats(entry)
        event, extra = entry
        if isinstance(event, KeySignalled):
            return self._signal(event, extra)
        if isinstance(extra, Exception):
            raise extra
        if isinstance(event, OperationSubmitted):
            return self._submit(event, extra)
        if isinstance(event, OperationEnded):
            return self._outcome(event, extra)
        return self._reschedule(event)

    def _signal(self, event: KeySignalled, weight: object) -> Signal:
        return Signal(
            schema_version=SCHEMA_VERSION,
            run_id=self._run_id,
            node=self._node,
            seq=self.seq,
            wall_ns=event.at_ns + self.wall_ns,
            mono_ns=event.at_ns - self._origin_ns,
            key=as_text(event.key),
            n=weight if type(weight) is int and 0 <= weight <= INT_MAX else checked_weight(weight),
        )

    def _submit(self, event: OperationSubmitted, entered_tick: int) -> Submit:
        self._entered[event.operation_id] = entered_tick
        return Submit(
            schema_version=SCHEMA_VERSION,
            run_id=self._run_id,
            node=self._node,
            seq=self.seq,
            wall_ns=event.at_ns + self.wall_ns,
            mono_ns=event.at_ns - self._origin_ns,
            op_id=str(event.operation_id),
            keys=[as_text(key) for key in event.keys],
            needed=needed_by(event.operation),
            timeout_ns=event.timeout_ns,
        )

    def _reschedule(self, event: OperationRescheduled) -> Reschedule:
        self._entered[event.operation_id] = _MOVED
        return Reschedule(
            schema_version=RESCHEDULE_VERSION,
            run_id=self._run_id,
            node=self._node,
            seq=self.seq,
            wall_ns=event.at_ns + self.wall_ns,
            mono_ns=event.at_ns - self._origin_ns,
            op_id=str(event.operation_id),
            timeout_ns=event.timeout_ns,
        )

    def _outcome(self, event: OperationEnded, left_tick: int) -> Outcome:
        entered_tick = self._entered.pop(event.operation_id, None)
        deadline_ns = event.deadline_ns if event.outcome == "expired" else None
        return Outcome(
            schema_version=SCHEMA_VERSION,
            run_id=self._run_id,
            node=self._node,
            seq=self.seq,
            wall_ns=event.at_ns + self.wall_ns,
            mono_ns=event.at_ns - self._origin_ns,
            op_id=str(event.operation_id),
            keys=[as_text(key) for key in event.keys],
            outcome=event.outcome._value_,
            latency_ns=event.at_ns - event.submitted_ns,
            lateness_ns=None if deadline_ns is None else event.at_ns - deadline_ns,
            checks=event.checks,
            inserts=self._inserts(event, entered_tick, left_tick),
            how=ended_how(event.operation),
            by=ended_by(event.operation),
        )

    def _inserts(self, event: OperationEnded, entered_tick: int | None, left_tick: int) -> int | None:
        """How often the queue put the operation into a bucket; None if its `Submit` was dropped, or it was moved."""
        if entered_tick == _MOVED:
            return None  # where it was before is not known any more
        if event.deadline_ns is None or event.deadline_ns <= event.submitted_ns:
            return 0  # fired on the loop's next turn, without the queue
        deadline_tick: int | None = getattr(event.operation, "deadline_tick", None)
        if deadline_tick is None:
            return 0  # completed in its first check
        if entered_tick is None:
            return None
        if not isinstance(self._queue, TimingWheel):
            return 1
        return self._queue.insertions(deadline_tick, entered_tick, left_tick)

    def _stats(self, sample: Sample) -> Stats:
        return Stats(
            schema_version=SCHEMA_VERSION,
            run_id=self._run_id,
            node=self._node,
            seq=self.seq,
            wall_ns=sample.at_ns + self.wall_ns,
            mono_ns=sample.at_ns - self._origin_ns,
            pending=sample.pending,
            watched=sample.watched,
            timer_buckets=sample.timer_buckets,
            purged=0,
            tick_ns=self._tick_ns,
            wheel_size=self._wheel_size,
        )


def wall_offset_ns(time_ns: Callable[[], int]) -> int:
    """Wall time minus the time of another clock, now."""
    return time.time_ns() - time_ns()


class WallTime:
    """The wall time of another clock's instants.

    A test's clock goes its own way, so the wall clock is not read anew until it has been set.

    Args:
        time_ns: Reads the other clock.
    """

    def __init__(self, time_ns: Callable[[], int]) -> None:
        self._time_ns: Final = time_ns
        self._read()

    def _read(self) -> None:
        self._system_ns = wall_offset_ns(MonotonicClock.time_ns)
        self._offset_ns = wall_offset_ns(self._time_ns)

    def offset_ns(self) -> int:
        """Wall time minus the other clock's."""
        if abs(wall_offset_ns(MonotonicClock.time_ns) - self._system_ns) >= SET_NS:
            self._read()
        return self._offset_ns


def needed_by(operation: object) -> int:
    """The operation's attribute ``needed``; `NO_SUM` if it is missing, not an int or out of bounds."""
    needed = getattr(operation, "needed", NO_SUM)
    return needed if type(needed) is int and -NO_SUM < needed < NO_SUM else NO_SUM


def ended_how(operation: object) -> AnswerWord | UnsetType:
    """With which kind of answer a client ended the operation: the attribute ``how`` of its attribute ``ending``."""
    how = getattr(getattr(operation, "ending", None), "how", None)
    return next((word for word in _ANSWERS if word == how), UNSET)


def ended_by(operation: object) -> str | UnsetType:
    """Who did: the attribute ``by`` of its attribute ``ending``."""
    by = getattr(getattr(operation, "ending", None), "by", None)
    return as_text(by) if isinstance(by, str) else UNSET


def checked_weight(weight: object) -> int:
    """How much a signal counts, cut to the column's largest value; raises if it is no count."""
    if isinstance(weight, Exception):
        raise weight
    if isinstance(weight, bool) or not hasattr(weight, "__index__"):
        raise TypeError(f"weigh must return an integer, got {weight!r}")
    weight = as_integer("weight", weight)
    if weight < 0:
        raise ValueError(f"weigh must return an integer of at least 0, got {weight}")
    return min(weight, INT_MAX)


def as_text(key: Hashable) -> str:
    r"""A watch key as a string: itself if it is a string, else its repr; lone surrogates are escaped.

    >>> as_text("door"), as_text(("door", 1)), as_text("\ud800")
    ('door', "('door', 1)", '\\ud800')
    """
    # A StrEnum member and its value are equal, so they are one key and need one text.
    text = str.__str__(key) if isinstance(key, str) else repr(key)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
