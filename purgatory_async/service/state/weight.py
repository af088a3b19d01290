"""How much ended operations keep: the bytes of their attachments and of their signals' values."""

from collections import Counter
from typing import Protocol

from msgspec import UNSET

from purgatory_async.service.messages import Attached, SignalView

__all__ = ["Weight"]


class Weighed(Protocol):
    """An ended operation."""

    data: Attached

    @property
    def result(self) -> Attached | None:
        """What completed it by hand; None for nothing."""
        ...

    @property
    def signals(self) -> tuple[SignalView, ...]:
        """The signals that it shows."""
        ...


class Weight:
    """Sums the bytes of attachments that ended operations keep alive.

    All operations that a signal completed share its value, so it counts once, until the last of them is forgotten.
    """

    __slots__ = ("_shared", "total")

    total: int
    """Bytes of JSON text."""

    def __init__(self) -> None:
        self.total = 0
        self._shared: Counter[int] = Counter()  # operations with the signal, by its index

    def __repr__(self) -> str:
        return f"<Weight total={self.total} signals={len(self._shared)}>"

    def put_on(self, operation: Weighed) -> None:
        """Add an ended operation. O(its signals)."""
        self.total += _own(operation)
        for signal in operation.signals:
            if signal.value is not UNSET:
                self._shared[signal.index] += 1
                if self._shared[signal.index] == 1:
                    self.total += len(signal.value)

    def take_off(self, operation: Weighed) -> None:
        """Subtract an operation. O(its signals)."""
        self.total -= _own(operation)
        for signal in operation.signals:
            if signal.value is not UNSET:
                self._shared[signal.index] -= 1
                if not self._shared[signal.index]:
                    del self._shared[signal.index]
                    self.total -= len(signal.value)


def _own(operation: Weighed) -> int:
    data, result = operation.data, operation.result
    size = 0 if data is UNSET else len(data)
    return size if result is None or result is UNSET else size + len(result)
