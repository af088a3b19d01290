"""The least work to keep operations: put each into a dict, and take it out again.

What this costs more with a million operations than with a thousand, it costs because memory is far away. No purgatory
can be flatter.
"""

from collections.abc import Hashable, Sequence
from typing import ClassVar, cast

from bench.designs.interface import Design, Operation, Traits
from bench.designs.keyed import PlainOperation
from purgatory_async.clock import Clock

__all__ = ["Floor"]


class KeptOperation(PlainOperation):
    """Is in the dict or is not; has no timeout."""

    __slots__ = ("home",)

    home: "Floor"

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self.done = False

    def force_complete(self) -> bool:
        """Take it out of the dict."""
        if self.done:
            return False
        self.done = True
        del self.home.waiting[self]
        self.on_complete()
        return True


class Floor(Design):
    """A dict of operations, in order, whatever their keys."""

    name = "floor"
    operation: ClassVar[type[Operation]] = KeptOperation
    traits = Traits()

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.waiting: dict[KeptOperation, None] = {}

    def watch(self, operation: Operation, keys: Sequence[Hashable]) -> bool:
        """Keep it; the keys are not looked at."""
        del keys
        waiting = cast("KeptOperation", operation)
        if waiting.try_complete():
            return True
        waiting.home = self
        self.waiting[waiting] = None
        return False

    def check(self, key: Hashable) -> int:
        """Ask every operation."""
        del key
        return sum(waiting.try_complete() for waiting in tuple(self.waiting))

    def close(self) -> None:
        """Nothing is armed."""

    @property
    def pending(self) -> int:
        """Exact."""
        return len(self.waiting)

    @property
    def kept(self) -> int:
        """The same."""
        return len(self.waiting)
