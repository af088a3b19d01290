"""The protocol of the structures that order a timer's deadlines."""

from typing import Protocol

from purgatory_async.errors import as_integer
from purgatory_async.timing._entry import TimerNode


class TimerQueue(Protocol):
    """Orders deadlines in integer ticks, without a clock or callbacks.

    `advance` sets the time. An entry is in at most one queue. Your own queue must set an entry's ``_next`` to a
    value other than None while it holds the entry, and set ``_next`` and ``_prev`` to None when the entry leaves:
    `TimerEntry.scheduled` and the timer rely on it.
    """

    now_tick: int
    """The latest tick given to `advance`; it never goes back."""

    @property
    def next_tick(self) -> int | None:
        """When `advance` next has something to do: never after the earliest deadline; None when empty."""
        ...

    def schedule(self, entry: TimerNode) -> bool:
        """Add an entry that is in no queue. O(1).

        Returns:
            False, and nothing is added, if it is due already (``deadline_tick <= now_tick``).

        Raises:
            ValueError: It is scheduled already.
        """
        ...

    def cancel(self, entry: TimerNode) -> bool:
        """Remove an entry that is in this queue or in none; returns whether it was scheduled. O(1)."""
        ...

    def advance(self, now_tick: int, limit: int | None = None) -> list[TimerNode]:
        """Move time forward and return due entries.

        Args:
            now_tick: The present. An earlier one than before leaves `now_tick` as it is.
            limit: How many entries may be handled in this call, those only moved between levels included.
                The others stay scheduled and cancellable until a later call.

        Returns:
            The due entries in order of deadline, equal deadlines in the order they were scheduled. An empty
            list does not mean done: more is due while ``next_tick <= now_tick``.

        Raises:
            ValueError: ``limit`` is below 1.
        """
        ...

    def __len__(self) -> int:
        """How many entries are scheduled. O(1) or O(n)."""
        ...

    def check_invariants(self) -> None:
        """Assert that the structure is sound. O(n), for tests."""


def check_limit(limit: int | None) -> int:
    """Return the budget of one `TimerQueue.advance`: the limit, or -1 for none.

    Raises:
        TypeError: ``limit`` is neither ``None`` nor an integer.
        ValueError: It is below 1: such a call could never make progress.
    """
    if limit is None:
        return -1
    limit = as_integer("limit", limit, "None or an integer")
    if limit < 1:
        raise ValueError(f"limit must be at least 1, or None for no limit, got {limit!r}")
    return limit


def check_wheel_size(wheel_size: int) -> int:
    """Validate a wheel's size and return it as an ``int``.

    Raises:
        TypeError: ``wheel_size`` is no integer.
        ValueError: It is below 2.
    """
    wheel_size = as_integer("wheel_size", wheel_size)
    if wheel_size < 2:  # noqa: PLR2004 - a wheel of one bucket has no overflow to cascade from
        raise ValueError(f"wheel_size must be at least 2 buckets, got {wheel_size}")
    return wheel_size


def already_scheduled(entry: TimerNode) -> ValueError:
    """The error for scheduling an entry twice."""
    return ValueError(
        f"entry for tick {entry.deadline_tick} is scheduled already; cancel it before scheduling again"
    )
