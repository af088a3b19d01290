"""One face for every purgatory that is compared, and what each does differently by design.

An operation is a subclass of the design's own `Design.operation`, as it was for the users of each: made with a
timeout, checked by `try_complete`, ended by `on_complete` and `on_expiration`. Times are integer milliseconds, as all
of the older designs count. The clock is the library's protocol, so that one suite in virtual time holds for all
(``tests/bench/designs``).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from purgatory_async.clock import Cancellable, Clock

__all__ = ["Design", "Operation", "Reaper", "Traits", "now_ms"]

NS_PER_MS = 1_000_000
REAPER_MS = 200  # how long Kafka's reaper waits at most


class Operation(Protocol):
    """What waits."""

    @property
    def timeout_ms(self) -> int:
        """From watching to its deadline."""

    @property
    def ended(self) -> bool:
        """Whether it has completed or expired."""

    def __init__(self, timeout: Any) -> None:
        """Make one that waits so long, in the unit of its design: see `Design.timeout`."""

    def try_complete(self) -> bool:
        """Ask whether it is time; calls `force_complete` then and returns what that returned."""

    def force_complete(self) -> bool:
        """End it now; True for exactly one caller."""

    def on_complete(self) -> None:
        """Called once, when it completes or expires."""

    def on_expiration(self) -> None:
        """Called once more, if it expired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Where a design may differ from the others; the suite says so instead of failing.

    Attributes:
        early_ms: It may expire so much too early.
        late_ms: It may expire so much too late on an idle loop.
        purge_interval: Ended operations stay in its lists, until so many have gathered; None: they leave at once.
        keeps_timers: The timer too keeps ended operations, until their deadline or a purge.
        checks_per_watch: How often watching two keys asks an operation whose condition does not hold.
    """

    early_ms: int = 0
    late_ms: int = 1
    purge_interval: int | None = None
    keeps_timers: bool = False
    checks_per_watch: int = 1


class Design(ABC):
    """A purgatory on one event loop.

    Args:
        clock: What time it is, and who wakes it.
    """

    name: ClassVar[str]
    traits: ClassVar[Traits]
    operation: ClassVar[type[Operation]]

    @abstractmethod
    def __init__(self, clock: Clock) -> None: ...

    @staticmethod
    def timeout(milliseconds: int) -> Any:
        """What its operations are made with: its users have their timeouts in its unit in the first place."""
        return milliseconds

    @abstractmethod
    def watch(self, operation: Operation, keys: Sequence[Hashable]) -> bool:
        """Complete an operation now if its condition holds, else keep it; True if this completed it."""

    @abstractmethod
    def check(self, key: Hashable) -> int:
        """Ask every operation that watches a key; returns how many completed."""

    @abstractmethod
    def close(self) -> None:
        """Arm no wakeup any more."""

    @property
    @abstractmethod
    def pending(self) -> int:
        """How many operations wait, as far as the design knows."""

    @property
    @abstractmethod
    def kept(self) -> int:
        """How many entries stand in watch lists, including ended operations. O(all)."""


def now_ms(clock: Clock) -> int:
    """The present in whole milliseconds, rounded down as Kafka does."""
    return clock.time_ns() // NS_PER_MS


class Reaper:
    """Kafka's reaper without its thread: calls back when something is due, and every 200 ms while there is anything.

    Args:
        clock: Who wakes it.
        reap: Does what is due; returns when it is to be called next, in milliseconds, or None for never.
    """

    def __init__(self, clock: Clock, reap: Callable[[int], int | None]) -> None:
        self._clock = clock
        self._reap = reap
        self._wakeup_ms: int | None = None
        self._wakeup: Cancellable | None = None

    def expect(self, when_ms: int) -> None:
        """Be called at a time, or earlier."""
        when_ms = min(when_ms, now_ms(self._clock) + REAPER_MS)
        if self._wakeup_ms is None or when_ms < self._wakeup_ms:
            self.stop()
            self._wakeup_ms = when_ms
            self._wakeup = self._clock.call_at_ns(when_ms * NS_PER_MS, self._wake)

    def stop(self) -> None:
        """Be called no more."""
        if self._wakeup is not None:
            self._wakeup.cancel()
        self._wakeup = self._wakeup_ms = None

    def _wake(self) -> None:
        self._wakeup = self._wakeup_ms = None
        next_ms = self._reap(now_ms(self._clock))
        if next_ms is not None:
            self.expect(next_ms)
