"""A deadline that moves with every request and is hardly ever reached.

To move it is to write a number down: the entry in the timer stays where it is, and looks at the number when it is
due. So a connection that serves a thousand requests a second touches the timer once a minute, and one that is
held has no entry left once the last one has come to nothing.
"""

from collections.abc import Callable
from typing import Any, ClassVar

from purgatory_async import TimerHandle
from purgatory_async.service.front import ServerContext

__all__ = ["Allowed", "Watched"]

Allowed = tuple[float, Callable[[Any], None]] | None


class Watched:
    """Something that is in one state or another, and not in all of them for as long as it likes."""

    __slots__ = ("_entry", "_until")

    front: ClassVar[ServerContext]
    _entry: TimerHandle | None

    def __init__(self) -> None:
        self._entry = None
        self._until = 0.0

    def _allowed(self) -> Allowed:
        """Return how many seconds the present state may last, and what ends it; None for as long as it takes."""
        raise NotImplementedError

    def cut(self) -> None:
        """End, for there is no timer any longer that could."""
        raise NotImplementedError

    def _watch(self) -> None:
        """Let the time of the present state begin now, and that of the one before be over. O(1)."""
        allowed = self._allowed()
        if allowed is None:
            return  # and if the entry is due meanwhile, it is gone
        timer, delay = self.front.timer, allowed[0]
        self._until = timer.time() + delay
        if timer.closed:
            self.cut()
        elif self._entry is None:
            self._entry = timer.call_later(delay, Watched._look, self)
        elif self._entry.when > self._until:
            self._entry.reschedule(delay)

    def _look(self) -> None:
        """See whether the time is up, now that it may be."""
        self._entry = None
        allowed = self._allowed()
        if allowed is None:
            return
        timer = self.front.timer
        left = self._until - timer.time()
        if left > 0:
            self._entry = timer.call_later(left, Watched._look, self)
        else:
            allowed[1](self)

    def _unwatch(self) -> None:
        """Leave nothing in the timer."""
        if self._entry is not None:
            self._entry.cancel()
            self._entry = None
