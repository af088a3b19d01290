"""The library behind the face that the older designs share."""

from collections.abc import Callable, Hashable, Sequence
from typing import ClassVar, cast

from bench.designs.interface import Design, Operation, Traits
from purgatory_async import DelayedOperation, Purgatory, Timer
from purgatory_async.clock import Clock
from purgatory_async.events import Observer
from purgatory_async.timing import TimingWheel

__all__ = ["OurOperation", "OurPurgatory"]


class OurOperation(DelayedOperation[None]):
    """A delayed operation."""

    __slots__ = ()

    @property
    def timeout_ms(self) -> int:
        """From watching to its deadline."""
        return round(1000 * (self.timeout or 0))

    @property
    def ended(self) -> bool:
        """Whether it completed or expired."""
        return self.outcome is not None


class OurPurgatory(Design):
    """A `Purgatory`, as it comes.

    Args:
        clock: What time it is, and who wakes the timer.
        wheel_size: Buckets of a level.
        observed_by: Makes the purgatory's observer, given its timer; None for none.
    """

    name = "purgatory_async"
    operation: ClassVar[type[Operation]] = cast("type[Operation]", OurOperation)
    traits = Traits()

    def __init__(
        self,
        clock: Clock,
        wheel_size: int = 256,
        *,
        observed_by: Callable[[Timer], Observer] | None = None,
    ) -> None:
        self._timer = Timer(clock=clock, queue=TimingWheel(wheel_size))
        observer = None if observed_by is None else observed_by(self._timer)
        self._purgatory = Purgatory("ours", timer=self._timer, observer=observer)
        # Called as its users call it, without a method in between.
        setattr(self, "watch", self._purgatory.try_complete_else_watch)  # noqa: B010 - a method to type checkers

    @staticmethod
    def timeout(milliseconds: int) -> float:
        """In seconds."""
        return milliseconds / 1000

    def watch(self, operation: Operation, keys: Sequence[Hashable]) -> bool:
        """`Purgatory.try_complete_else_watch`."""
        raise NotImplementedError(f"made in __init__, for {operation!r} on {keys!r}")

    def check(self, key: Hashable) -> int:
        """`Purgatory.check_and_complete`."""
        return self._purgatory.check_and_complete(key)

    def close(self) -> None:
        """Close purgatory and timer."""
        self._purgatory.close()
        self._timer.close()

    @property
    def pending(self) -> int:
        """Exact."""
        return self._purgatory.pending

    @property
    def kept(self) -> int:
        """Exact, and O(1)."""
        return self._purgatory.watched
