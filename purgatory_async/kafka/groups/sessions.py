"""A member's session: the time that it may stay silent."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from purgatory_async import Timer

__all__ = ["Session"]


class Session:
    """Expires a member that sends nothing for too long.

    Kafka keeps one delayed operation per heartbeat. Here it is one timer handle per member, and a heartbeat
    reschedules it, which is O(1).

    Args:
        timer: Runs it.
        timeout_s: Seconds of silence.
        expire: Called once the session has expired.

    Raises:
        PurgatoryFull, PurgatoryClosed: As `Timer.call_later`.
    """

    __slots__ = ("_expire", "_handle", "_held", "_timer", "timeout_s")

    def __init__(self, timer: Timer, timeout_s: float, expire: Callable[[], object]) -> None:
        self.timeout_s = timeout_s
        self._timer = timer
        self._expire: Callable[[], object] | None = expire
        self._held = 0
        self._handle = timer.call_later(timeout_s, self.expire)

    @property
    def is_held(self) -> bool:
        """Whether a request of the member is held."""
        return self._held > 0

    def renew(self) -> None:
        """Start the timeout again, unless a request is held or the session has ended. O(1)."""
        if self._expire is not None and not self._held and not self._handle.reschedule(self.timeout_s):
            self._handle = self._timer.call_later(self.timeout_s, self.expire)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the session while one of the member's requests is held; it cannot send a heartbeat then."""
        self._held += 1
        self._handle.cancel()
        try:
            yield
        finally:
            self._held -= 1
            self.renew()

    def expire(self) -> None:
        """End the session now, as if its timeout had passed; ending it again does nothing."""
        expire = self._expire
        self.end()
        if expire is not None:
            expire()

    def end(self) -> None:
        """Stop the timeout for good, without calling ``expire``."""
        self._expire = None
        self._handle.cancel()
