"""What all parts of the fold share: the limits, the step that is being applied, and what it has caused."""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from purgatory_async import Timer
from purgatory_async.clock import MAX_TIMEOUT
from purgatory_async.durable.documents import State
from purgatory_async.durable.fold.entries import Duration, Keeping, SetLimits, json_name
from purgatory_async.durable.fold.kept_bytes import KeptBytes
from purgatory_async.durable.fold.log_clock import LogClock
from purgatory_async.durable.fold.results import OVER_BUDGET, Refused

T = TypeVar("T")
Work = Generator[None, None, T]
"""Work that may take long and has breaks before its result."""
SECOND: Final = 1_000_000
"""Microseconds."""
LONGEST_US: Final = 3_155_760_000 * SECOND
"""100 years."""
EXACT_US: Final = 2**42
"""50 days: up to here, seconds in a float are exact to the nanosecond."""
MOST_OF_ENTRY: Final = 2 << 20
"""More bytes than any entry has pinned: its text, at most 1.5 MiB, and 128 for each of up to 1,000 pieces."""
NO_LIMIT: Final = 2**62
NEVER_US: Final = 2**62
"""A log time that never comes."""
AT_ONCE: Final = 64
"""How much is forgotten, dropped or moved between two breaks."""


class Effect(Struct, frozen=True, eq=False):
    """What a step has done that concerns requests and readers outside of the fold.

    Its attributes are live parts of the state, for reading only.
    """

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {' '.join(map(str, self.fact))}>"

    @property
    def fact(self) -> tuple[str | int, ...]:
        """The effect as plain data, for the running digest."""
        raise NotImplementedError(f"{type(self).__name__} must say what it is as plain data")


class Limits(Struct, forbid_unknown_fields=True, rename=json_name):
    """The settings of the fold, equal at every replica.

    Attributes:
        max_pending: The most pending operations.
        max_items: The most items of a queue, kept or leased.
        retention_us: How long ended operations, their ids after that, answers of an Idempotency-Key, ended leases and
            the newest value of an idle key are kept.
        keep_signals: The most signals kept of a key.
        keep_for_us: How long they are kept at least, up to that number.
        max_lease_us: The longest lease; longer ones are shortened.
        max_kept: The most bytes of all that is kept; see `kept_bytes`.
    """

    max_pending: int = 100_000
    max_items: int = 100_000
    retention_us: Duration = 60 * SECOND
    keep_signals: int = 64
    keep_for_us: Duration = 600 * SECOND
    max_lease_us: Duration = 43_200 * SECOND
    max_kept: int = 256 << 20

    def would_change(self, entry: SetLimits) -> bool:
        """Whether an entry names a limit that has another value now."""
        return any(
            getattr(entry, name) not in {UNSET, getattr(self, name)} for name in self.__struct_fields__
        )

    def change(self, entry: SetLimits) -> None:
        """Take over the limits that an entry names."""
        for name in self.__struct_fields__:
            value = getattr(entry, name)
            if value is not UNSET:
                setattr(self, name, value)


class Totals(Struct):
    """What has been counted since the log began; operations that have ended by their state."""

    submitted: int = 0
    ended: dict[State, int] = msgspec.field(
        default_factory=lambda: {"completed": 0, "expired": 0, "cancelled": 0}
    )
    signals: int = 0
    items: int = 0
    leases: int = msgspec.field(default=0, name="loans")
    acknowledged: int = 0
    dropped: int = 0


@dataclass(slots=True)
class Shared:
    """The state that all parts use, and the step's position and effects.

    ``before_us`` is log time before the pass: what new limits make due in the past happens then. Before
    ``forget_from_us``, in whole milliseconds, nothing can be forgotten; it is 0 if the limits changed.
    """

    clock: LogClock
    timer: Timer
    position: int = 0
    before_us: int = 0
    forget_from_us: int = 0
    limits: Limits = field(default_factory=Limits)
    totals: Totals = field(default_factory=Totals)
    kept: KeptBytes = field(default_factory=KeptBytes)
    effects: list[Effect] = field(default_factory=list[Effect])

    def forget_by(self, until_us: int) -> None:
        """Note that something is kept until a log time. O(1)."""
        self.forget_from_us = min(self.forget_from_us, whole_ms(until_us))

    @property
    def bytes_left(self) -> int:
        """How many more bytes can be kept before history makes room. O(1)."""
        return self.limits.max_kept - self.kept.used

    def fits(self, size: int) -> bool:
        """Whether so many more bytes fit, once all history has made room. O(1)."""
        return self.kept.pinned + size <= self.limits.max_kept

    def fits_any(self, entry: Keeping) -> bool:
        """Whether any entry of this owner fits, so that its bytes need not be counted. O(1)."""
        return entry.quota is UNSET and self.kept.pinned + MOST_OF_ENTRY <= self.limits.max_kept

    def refusal(self, entry: Keeping, size: int, own: int) -> Refused | None:
        """Return why an entry's bytes cannot be kept; None if they can. O(1).

        Args:
            entry: Names its owner, and the owner's quota.
            size: How many more bytes it pins.
            own: How many of these count for its owner.
        """
        if not self.fits(size):
            return OVER_BUDGET
        if isinstance(entry.quota, UnsetType):
            return None
        pinned = self.kept.pinned_of.get(entry.owner or "", 0)
        return Refused("limited-bytes") if pinned + own > entry.quota else None

    def seconds_until(self, due_us: int) -> float:
        """Return a delay for the timer that ends in the first whole millisecond at or after a log time.

        The timer rounds up to that millisecond by itself, so the delay is the exact one where a float of seconds can
        hold it. One of months aims half a millisecond early, at the same millisecond.

        Args:
            due_us: A log time in the future; or in the past, if its millisecond is not over yet.
        """
        now_us = self.clock.now_us
        left_us = due_us - now_us
        if left_us <= 0:
            left_us = whole_ms(due_us) - now_us
        elif left_us > EXACT_US:
            left_us = whole_ms(due_us) - now_us - 500
        return min(left_us / SECOND, MAX_TIMEOUT)


def done(work: Work[T]) -> T:
    """Do work without breaks, and return its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


def whole_ms(time_us: int) -> int:
    """Round a time in microseconds up to whole milliseconds, as all that is due is."""
    return -(-time_us // 1000) * 1000


def microseconds(seconds: float) -> int:
    """Return a duration in whole microseconds, at most 100 years, and at least one if it is not 0."""
    if not seconds:
        return 0
    rounded = round(seconds * SECOND)
    return rounded if 0 < rounded <= LONGEST_US else max(1, min(rounded, LONGEST_US))
