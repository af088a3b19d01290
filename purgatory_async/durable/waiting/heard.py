"""The bytes that a process keeps for its one-shot waits: signals, which the state may have dropped, and voters."""

from typing import Final

from purgatory_async.durable.fold.kept_bytes import KeptBytes
from purgatory_async.durable.fold.signals import Signal


class Heard(KeptBytes):
    """Counts a signal once however many conditions show it, and apart from the state, which is equal at all workers."""

    __slots__ = ("_holders",)

    def __init__(self) -> None:
        super().__init__()
        self._holders: Final[dict[int, int]] = {}  # how many conditions show a signal, by its index

    def show(self, signal: Signal) -> None:
        """Note one more condition that shows a signal. O(1)."""
        holders = self._holders.get(signal.view.index, 0)
        if not holders:
            self.used += signal.size
        self._holders[signal.view.index] = holders + 1

    def unpin(self, signal: Signal) -> None:
        """Do nothing: no history is kept here."""

    def let_go(self, signal: Signal) -> None:
        """Note that a condition no longer shows a signal. O(1)."""
        index = signal.view.index
        self._holders[index] -= 1
        if not self._holders[index]:
            del self._holders[index]
            self.used -= signal.size
