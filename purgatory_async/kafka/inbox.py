"""The memory of requests that are being received, or that wait behind a held one: of all connections, with a bound.

Beyond the bound a connection reads no further, so its client is slowed down by its own socket. One connection at a
time may go beyond it, by one request, so that there is always one that comes to an end; one that stands still
meanwhile is closed, for others wait behind it.
"""

from typing import Final, Protocol

from purgatory_async import Timer, TimerHandle

__all__ = ["STALL_S", "Inbox", "Receiver"]

STALL_S: Final = 5.0  # how long the receiver that exceeds the bound may send nothing while others wait


class Receiver(Protocol):
    """Receives one request after the other."""

    @property
    def received_bytes(self) -> int:
        """Of the present request."""
        ...

    def go_on(self) -> None:
        """Ask for memory again."""

    def cut(self) -> None:
        """Close the connection."""


class Inbox:
    """Counts the bytes of requests that are not served yet.

    Args:
        max_bytes: At most; and one request more.
        timer: Finds who stands still.
    """

    def __init__(self, max_bytes: int, timer: Timer) -> None:
        self.used_bytes = 0
        self._max_bytes: Final = max_bytes
        self._timer: Final = timer
        self._favoured: Receiver | None = None
        self._look: TimerHandle | None = None  # at the favoured one
        self._waiting: Final[dict[Receiver, None]] = {}

    def __repr__(self) -> str:
        return f"<Inbox {self.used_bytes} of {self._max_bytes} bytes, waiting={len(self._waiting)}>"

    @property
    def has_room(self) -> bool:
        """Whether less than the bound is used."""
        return self.used_bytes < self._max_bytes

    def take(self, size_bytes: int, receiver: Receiver) -> bool:
        """Count memory for a request; False if there is none, until `Receiver.go_on`. O(1)."""
        if self.used_bytes + size_bytes > self._max_bytes and receiver is not self._favoured:
            if self._favoured is not None:
                self._waiting[receiver] = None
                return False
            self._favour(receiver)
        self.used_bytes += size_bytes
        return True

    def add(self, size_bytes: int) -> None:
        """Count what was received already. O(1)."""
        self.used_bytes += size_bytes

    def give(self, size_bytes: int) -> None:
        """Count memory as free, and let others go on. O(those who can)."""
        self.used_bytes -= size_bytes
        if self._waiting:
            self._wake()

    def leave(self, receiver: Receiver) -> None:
        """Note that a receiver has its whole request, or is gone. O(1) if it did not wait."""
        self._waiting.pop(receiver, None)
        if self._favoured is receiver:
            self._favoured = None
            if self._look is not None:
                self._look.cancel()
            self._wake()

    def _wake(self) -> None:
        for receiver in tuple(self._waiting):
            if self._favoured is not None and not self.has_room:
                return
            del self._waiting[receiver]
            receiver.go_on()
            if receiver in self._waiting:  # what is free is too little for it
                return

    def _favour(self, receiver: Receiver) -> None:
        self._favoured = receiver
        self._look = self._timer.call_later(STALL_S, self._check, receiver, receiver.received_bytes)

    def _check(self, receiver: Receiver, received_bytes: int) -> None:
        if self._waiting and receiver.received_bytes == received_bytes:
            receiver.cut()
        else:
            self._favour(receiver)
