"""Signals: what clients say happened on a key, numbered process-wide.

The index grows by one per signal whatever its key, so a key that was idle for the retention time can be
dropped without its index ever going back. A service that starts again starts another epoch.
"""

import secrets
from dataclasses import dataclass
from typing import Final

from msgspec import UnsetType

from purgatory_async import Timer, TimerHandle
from purgatory_async.service.messages import Attached, SignalView

LEDGER_SIZE: Final = 64


@dataclass(frozen=True, slots=True)
class Signal:
    """One signal: what is shown of it, and how much it counts."""

    view: SignalView
    amount: int


class Ledger:
    """The latest signal of each key and voter, at most 64 of them, in the order of their indexes."""

    __slots__ = ("_latest",)

    def __init__(self) -> None:
        self._latest: dict[tuple[str, object], SignalView] = {}

    def note(self, view: SignalView) -> None:
        """Take a signal in; the oldest leaves when there are too many. O(1)."""
        slot = (view.key, view.voter)
        self._latest.pop(slot, None)  # so that the dict's order is the order of the indexes
        self._latest[slot] = view
        if len(self._latest) > LEDGER_SIZE:
            del self._latest[next(iter(self._latest))]

    def views(self) -> tuple[SignalView, ...]:
        """What is kept, oldest first."""
        return tuple(self._latest.values())


@dataclass(slots=True)
class _Key:
    view: SignalView
    forget: TimerHandle


class Board:
    """The latest signal of every key that is not idle, and of all.

    Args:
        timer: Forgets idle keys.
        retention: Seconds after its last signal until a key is forgotten.
    """

    def __init__(self, timer: Timer, retention: float) -> None:
        self.epoch: Final = secrets.token_hex(8)
        self.newest: Signal | None = None
        self.index = 0
        self._timer = timer
        self._retention = retention
        self._keys: dict[str, _Key] = {}

    def __repr__(self) -> str:
        return f"<Board epoch={self.epoch} index={self.index} keys={len(self._keys)}>"

    def note(self, key: str, value: Attached, amount: int, voter: str | UnsetType) -> Signal:
        """Number a signal and make it the newest of its key and of all. O(1).

        Args:
            key: What it happened on.
            value: What it carries, or `UNSET`.
            amount: How much it counts.
            voter: Whose vote it is, or `UNSET`.

        Returns:
            The signal.
        """
        self.index += 1
        view = SignalView(key, self.index, value, voter)
        self.newest = Signal(view, amount)
        known = self._keys.get(key)
        if known is not None and known.forget.reschedule(self._retention):
            known.view = view
        else:
            self._keys[key] = _Key(view, self._timer.call_later(self._retention, self._keys.pop, key, None))
        return self.newest

    def latest(self, key: str) -> SignalView | None:
        """The key's newest signal; None if it never had one or is forgotten. O(1)."""
        known = self._keys.get(key)
        return None if known is None else known.view
