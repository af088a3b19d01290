"""What people write who have no purgatory: a timer of the loop for each operation, and operations in a dict by key."""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from typing import ClassVar, Protocol, cast

from bench.designs.interface import NS_PER_MS, Operation, Traits
from bench.designs.keyed import KeyedDesign, PlainOperation
from purgatory_async.clock import Cancellable, Clock, MonotonicClock

__all__ = ["ByHandPurgatory", "HandOperation"]

_MS_PER_SECOND = 1000


class _CallLater(Protocol):
    def __call__(self, delay: float, callback: Callable[..., object], *args: object) -> Cancellable: ...


class HandOperation(PlainOperation):
    """An operation with the loop's handle in it."""

    __slots__ = ("handle", "home", "keys")

    keys: Sequence[Hashable]
    home: "ByHandPurgatory"

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self.done = False
        self.handle: Cancellable | None = None

    def force_complete(self) -> bool:
        """Complete it: cancel the handle, leave the dict, tell."""
        if self.done:
            return False
        self.done = True
        if self.handle is not None:
            self.handle.cancel()
            self.handle = None
            self.home.let_go(self)
        self.on_complete()
        return True


class ByHandPurgatory(KeyedDesign):
    """A dict of dicts, and ``loop.call_later``.

    Args:
        clock: With the monotonic one the running loop's own ``call_later`` is used, as one would.
    """

    name = "call_later"
    operation: ClassVar[type[Operation]] = HandOperation
    # asyncio's own timers are never early by more than its clock's resolution; uvloop's are, by up to 1.2 ms.
    traits = Traits(late_ms=2)

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._call_later: _CallLater = (
            asyncio.get_running_loop().call_later if isinstance(clock, MonotonicClock) else self._by_clock
        )
        self._watchers: dict[Hashable, dict[HandOperation, None]] = {}
        self._pending = 0

    def watch(self, operation: Operation, keys: Sequence[Hashable]) -> bool:
        """Ask, enter it under each key, and start its timer."""
        waiting = cast("HandOperation", operation)
        if waiting.try_complete():
            return True
        if waiting.done:
            return False
        self._enter(waiting, keys)
        waiting.handle = self._call_later(waiting.timeout_ms / _MS_PER_SECOND, self._expire, waiting)
        return False

    def close(self) -> None:
        """Cancel every timer."""
        for found in self._watchers.values():
            for waiting in found:
                if waiting.handle is not None:
                    waiting.handle.cancel()

    @staticmethod
    def _expire(waiting: HandOperation) -> None:
        if waiting.force_complete():
            waiting.on_expiration()

    def _by_clock(self, delay: float, callback: Callable[..., object], *args: object) -> Cancellable:
        when_ns = self._clock.time_ns() + round(delay * _MS_PER_SECOND) * NS_PER_MS
        return self._clock.call_at_ns(when_ns, lambda: callback(*args))
