"""Simulates the outcomes of the same operations with another timeout, tick or wheel.

An operation ends when its condition holds, when it is cancelled, or at its deadline, whichever is first. The deadline
is submission plus timeout, rounded up to a tick as in the timer. So lateness here is only the cost of the tick; a
blocked event loop would add to it.

A timeout is tried for what an operation was submitted with. A deadline that was moved was meant for this operation: it
stands under every setting, unless the operation would have expired before it was moved.

``inserts`` counts how often an entry is put into a bucket: once at submission, and once more for each level that it
comes down. An entry goes to the finest level that reaches its deadline; level *l* has buckets of ``wheel_size ** l``
ticks. It comes down a level each time its bucket begins while it still waits. An entry that is due at the tick at which
its bucket begins also counts once for each level: this library's wheel puts it into the finest one, and hands it out
from there. Kafka's wheel hands it out directly, so a count by Kafka's rule is smaller by about one insertion for
``wheel_size`` expired entries: 2.4 % where nine of ten expire 50 ticks after submission from a wheel of 20.

In a wheel of two buckets, four ticks until the deadline are two levels up. Bucket 4-7 begins with tick 4: the first
operation has ended by then, and the other moves down twice and expires:

>>> waits = Waits.of(submit_ns=[0, 0], end_ns=[330, NEVER], completed=[True, False], last_ns=1000)
>>> (totals,) = simulate(waits, [Setting(timeout_ns=350, tick_ns=100, wheel_size=2)])
>>> totals.completed, totals.expired, totals.lateness_ns, totals.inserts
(1, 1, 50, 4)
"""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

NEVER: Final = 2**62
"""An infinite instant or duration; the sum of it and an instant still fits in 64 bits."""

_CHUNK: Final = 1 << 15  # operations; what is computed of them stays in the processor's cache
_HALF: Final = 32  # bits


@dataclass(frozen=True, slots=True)
class Setting:
    """One combination to try."""

    timeout_ns: int | None  # of every operation that has a timeout; None leaves each its own
    tick_ns: int  # of the timer
    wheel_size: int  # buckets of a level of its wheel


@dataclass(frozen=True, slots=True)
class Waits:
    """Operations, and their ends without a timeout."""

    submit_ns: Ints  # on a clock that is a multiple of the tick when the timer's tick begins
    timeout_ns: Ints  # its own timeout; `NEVER` for none
    end_ns: Ints  # when it completes, or is cancelled, fails or is closed; `NEVER` if nothing of that happens
    completed: Bools  # whether that end is a completion
    ended: Bools  # whether it was recorded to have ended before its deadline
    last_ns: Ints  # the last known instant of its node
    censored: Bools  # whether it was recorded to expire: what it waited for was not there until then
    moved_ns: Ints  # when it was rescheduled first; `NEVER` if it was not
    due_ns: Ints  # its last deadline, which counts only if it was rescheduled; `NEVER` for none

    @classmethod
    def of(
        cls,
        submit_ns: ArrayLike,
        end_ns: ArrayLike,
        completed: ArrayLike,
        last_ns: ArrayLike,
        *,
        timeout_ns: ArrayLike = 0,
        ended: ArrayLike = False,
        moved_ns: ArrayLike = NEVER,
        due_ns: ArrayLike = NEVER,
    ) -> "Waits":
        """Make them from anything that numpy takes for integers; one number stands for as many."""
        times = (submit_ns, timeout_ns, end_ns, last_ns, moved_ns, due_ns)
        instants = (np.asarray(each, np.int64) for each in times)
        flags = (np.asarray(each, np.bool_) for each in (completed, ended, False))
        submits, timeouts, ends, lasts, moved, due, *found = np.broadcast_arrays(*instants, *flags)
        completes, ended, censored = found
        return cls(submits, timeouts, ends, completes, ended, lasts, censored, moved, due)

    def only(self, rows: slice | Ints) -> "Waits":
        """Some of them, in the order of ``rows``; of a slice without copying."""
        return Waits(*(getattr(self, field.name)[rows] for field in fields(self)))


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals of operations under a setting; totals of parts add up to the whole's."""

    operations: int = 0
    completed: int = 0
    expired: int = 0  # reach their deadline
    pending: int = 0  # do neither before the last record
    pending_ns: int = 0  # the sum of their times pending
    lateness_ns: int = 0  # the sum of the delays of expired ones after their deadline
    inserts: int = 0  # into the wheel, cascades included
    # Expire here, and were recorded to have ended otherwise at or after their own deadline: the timer was late.
    decided_by_lateness: int = 0
    # Were recorded to expire with a shorter timeout of their own: how they end here is partly a guess.
    guessed: int = 0

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(*(one + another for one, another in zip(astuple(self), astuple(other), strict=True)))


def simulate(waits: Waits, settings: Sequence[Setting]) -> list[Totals]:
    """Simulate operations under each setting; returns its totals, in the same order.

    O(operations) for each setting, and again for each level of its wheel above the finest. Those that differ only in
    the wheel share most of the work.
    """
    groups = simulate_groups(waits, np.zeros(len(waits.submit_ns), np.int64), settings)
    return [found.get(0, Totals()) for found in groups]


def simulate_groups(waits: Waits, group: Ints, settings: Sequence[Setting]) -> list[Mapping[int, Totals]]:
    """Simulate operations as `simulate` does; returns for each setting the totals of each group.

    Args:
        waits: The operations, in the order of their groups.
        group: The number of each one's group, ascending.
        settings: What to try.
    """
    totals: list[dict[int, Totals]] = [{} for _ in settings]
    for begin in range(0, len(group), _CHUNK):
        rows = slice(begin, begin + _CHUNK)
        numbers, starts = np.unique(group[rows], return_index=True)
        for found, more in zip(totals, _simulate(waits.only(rows), starts, settings), strict=True):
            for number, part in zip(numbers.tolist(), more, strict=True):
                found[number] = found.get(number, Totals()) + part
    return list(totals)


def _simulate(waits: Waits, starts: Ints, settings: Sequence[Setting]) -> list[list[Totals]]:
    runs: dict[tuple[int | None, int], _Run] = {}
    totals = []
    for setting in settings:
        timing = (setting.timeout_ns, setting.tick_ns)
        if timing not in runs:
            runs[timing] = _Run(waits, starts, *timing)
        totals.append(runs[timing].totals(setting.wheel_size))
    return totals


@dataclass(frozen=True, slots=True)
class _Stay:
    """Operations in a wheel, each with one deadline."""

    deadline_tick: Ints
    end_tick: Ints  # when each leaves
    ticks: Ints  # from its coming to its deadline; 0 if it never comes

    @classmethod
    def of(cls, since_ns: Ints, deadline_ns: Ints, until_ns: Ints, tick_ns: int, comes: Bools) -> "_Stay":
        """Operations with a deadline on a tick, of which some come into the wheel."""
        deadline_tick = deadline_ns // tick_ns
        ticks = np.where(comes, deadline_tick - since_ns // tick_ns, 0)
        return cls(deadline_tick, until_ns // tick_ns, ticks)

    def inserts(self, wheel_size: int) -> Ints:
        """How often each is put into a bucket."""
        inserts = (self.ticks > 0).astype(np.int64)
        farthest = int(self.ticks.max(initial=0))
        width = wheel_size
        while width <= farthest:
            bucket_tick = self.deadline_tick - self.deadline_tick % width
            inserts += (self.ticks >= width) & (bucket_tick <= self.end_tick)
            width *= wheel_size
        return inserts


def _rounded_up(instants_ns: Ints, tick_ns: int) -> Ints:
    return -(-instants_ns // tick_ns) * tick_ns


class _Run:
    """Operations under a timeout and a tick, in groups of which each begins at one of ``starts``."""

    def __init__(self, waits: Waits, starts: Ints, timeout_ns: int | None, tick_ns: int) -> None:
        timed = waits.timeout_ns < NEVER
        timeout = waits.timeout_ns if timeout_ns is None else np.where(timed, timeout_ns, NEVER)
        due_ns = waits.submit_ns + timeout
        deadline_ns = np.where(timed, _rounded_up(due_ns, tick_ns), NEVER)
        # What came true in the first check is no matter of time.
        at_once = waits.completed & (waits.end_ns <= waits.submit_ns)
        since_ns = waits.submit_ns
        self.earlier: _Stay | None = None  # in the wheel, until it was rescheduled
        moved = waits.moved_ns < deadline_ns
        if moved.any():
            self.earlier = _Stay.of(since_ns, deadline_ns, waits.moved_ns, tick_ns, timed & moved)
            timed = np.where(moved, waits.due_ns < NEVER, timed)
            due_ns = np.where(moved, waits.due_ns, due_ns)
            deadline_ns = np.where(timed, _rounded_up(due_ns, tick_ns), NEVER)
            since_ns = np.where(moved, waits.moved_ns, since_ns)
        by_itself = (
            (waits.end_ns < deadline_ns) | at_once | (~waits.completed & (waits.end_ns == deadline_ns))
        )
        end_ns = np.where(by_itself, waits.end_ns, deadline_ns)
        self.ended = end_ns <= waits.last_ns
        self.expired = self.ended & ~by_itself
        self.by_itself = self.ended & by_itself
        self.lateness_ns = deadline_ns - due_ns
        self.guessed = waits.censored & (timeout > waits.timeout_ns) & (waits.moved_ns == NEVER)
        self.waits, self.starts = waits, starts
        self.until_ns = np.minimum(end_ns, waits.last_ns)
        self.stay = _Stay.of(since_ns, deadline_ns, self.until_ns, tick_ns, timed & ~at_once)
        own_ns = _rounded_up(waits.submit_ns + waits.timeout_ns, tick_ns)
        own_moved = waits.moved_ns < own_ns
        self.own_deadline_ns = np.where(own_moved, _rounded_up(waits.due_ns, tick_ns), own_ns)

    def totals(self, wheel_size: int) -> list[Totals]:
        """The totals of each group with a wheel."""
        waits = self.waits
        late = self.expired & waits.ended & (waits.end_ns >= self.own_deadline_ns)
        sums = (
            self._counts(np.ones(len(late), np.bool_)),
            self._counts(self.by_itself & waits.completed),
            self._counts(self.expired),
            self._counts(~self.ended),
            self._sums(self.until_ns - waits.submit_ns),
            self._sums(np.where(self.expired, self.lateness_ns, 0)),
            self._inserts(wheel_size).tolist(),
            self._counts(late),
            self._counts(self.guessed),
        )
        return [Totals(*each) for each in zip(*sums, strict=True)]

    def _inserts(self, wheel_size: int) -> Ints:
        """Insertions into the wheel; an operation that is due at submission has none."""
        inserts = self.stay.inserts(wheel_size)
        if self.earlier is not None:
            inserts += self.earlier.inserts(wheel_size)
        return np.add.reduceat(inserts, self.starts)

    def _counts(self, flags: Bools) -> list[int]:
        counts: list[int] = np.add.reduceat(flags, self.starts, dtype=np.int64).tolist()
        return counts

    def _sums(self, durations_ns: Ints) -> list[int]:
        """Sum durations in two halves: 32 768 operations that are pending for four days exceed 64 bits."""
        high, low = (
            np.add.reduceat(half, self.starts).tolist()
            for half in (durations_ns >> _HALF, durations_ns & ((1 << _HALF) - 1))
        )
        return [(more << _HALF) + less for more, less in zip(high, low, strict=True)]
