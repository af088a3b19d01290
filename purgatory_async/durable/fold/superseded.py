"""The order in which kept signals make room: those that a newer one of their key superseded, the first such first.

Each turn in the queue stands for the oldest signal of a key that has not had its turn. A signal that left before its
turn leaves a stale turn behind, so nothing is searched for; stale turns are swept once they are half of all.
"""

from collections import deque
from typing import Final

from purgatory_async.durable.fold.signals import Signal

__all__ = ["Key", "Superseded"]

_FEW: Final = 64  # turns that are not worth sweeping


class Key:
    """The last signals of a key.

    Attributes:
        signals: Oldest first and never empty, but for a key that was dropped.
        floor: The index above which none was dropped.
        stale: How many turns in `Superseded` are of signals that left.
    """

    __slots__ = ("floor", "signals", "stale")

    def __init__(self, signals: list[Signal], floor: int) -> None:
        self.signals = signals
        self.floor = floor
        self.stale = 0

    def __repr__(self) -> str:
        return f"<Key signals={len(self.signals)} floor={self.floor}>"


class Superseded:
    """The turns of all keys."""

    __slots__ = ("_stale", "_turns")

    def __init__(self) -> None:
        self._turns: deque[Key] = deque()
        self._stale = 0

    def __repr__(self) -> str:
        return f"<Superseded turns={len(self._turns)} stale={self._stale}>"

    def add(self, key: Key) -> None:
        """Give a turn to the signal of a key that a newer one has just superseded. O(1)."""
        self._turns.append(key)

    def left(self, key: Key, count: int) -> None:
        """Note that the oldest superseded signals of a key have left. O(1), amortised."""
        key.stale += count
        self._stale += count
        if self._stale > _FEW and self._stale * 2 > len(self._turns):
            self._turns = deque(each for each in self._turns if not self._pass(each))

    def next(self) -> Key | None:
        """Take the next turn: a key whose oldest signal must leave now; None if there is none. O(1), amortised."""
        while self._turns:
            key = self._turns.popleft()
            if not self._pass(key):
                return key
        return None

    def _pass(self, key: Key) -> bool:
        """Use up a stale turn of a key, if it has one."""
        if not key.stale:
            return False
        key.stale -= 1
        self._stale -= 1
        return True
