"""The bytes of answers that clients have not taken, over all connections of a process.

A write adds its bytes to an estimate, which never falls short: what the system takes later is seen only by looking at
the connections again. That is done once the estimate is beyond the limit, but not in every request.
"""

from typing import Final, Protocol

from purgatory_async import Timer
from purgatory_async.durable.documents import problems

PAUSE: Final = 0.02  # seconds between two looks at all connections


class Sender(Protocol):
    """A connection."""

    @property
    def unsent(self) -> int:
        """The bytes that were written and not yet taken by the system."""
        ...


class Unsent:
    """The budget of unsent bytes.

    Args:
        limit: The most bytes; beyond it requests are refused.
        timer: Whose clock tells when to look again.

    Attributes:
        limit: The most bytes.
        cut: How many connections were cut because their clients took nothing.
    """

    def __init__(self, limit: int, timer: Timer) -> None:
        self.limit: Final = limit
        self.cut = 0
        self._timer: Final = timer
        self._estimate = 0
        self._senders: set[Sender] = set()
        self._looked = 0.0

    def __repr__(self) -> str:
        return f"<Unsent estimate={self._estimate} limit={self.limit}>"

    def note(self, sender: Sender, size: int) -> None:
        """Note bytes that a connection was given to send. O(1)."""
        self._senders.add(sender)
        self._estimate += size
        if self._estimate > self.limit:
            self._look()

    def forget(self, sender: Sender) -> None:
        """Note that a connection is lost. O(1)."""
        self._senders.discard(sender)

    @property
    def used(self) -> int:
        """How many bytes are unsent. O(connections that wrote since the last look)."""
        self._senders = {sender for sender in self._senders if sender.unsent}
        self._estimate = sum(sender.unsent for sender in self._senders)
        return self._estimate

    def check(self) -> None:
        """Check that answers may be written. O(1), amortised.

        Raises:
            Problem: ``overloaded``: clients have not taken too much.
        """
        if self._estimate > self.limit:
            self._look()
            if self._estimate > self.limit:
                raise problems.over_budget("max_unsent", self._estimate, self.limit)

    def _look(self) -> None:
        now = self._timer.time()
        if now - self._looked >= PAUSE:
            self._looked = now
            _ = self.used
