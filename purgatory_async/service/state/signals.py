"""Signals on keys, numbered process-wide.

One index counts the signals of all keys, so an idle key can be dropped and its index never goes back. A restart begins
a new epoch.
"""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from msgspec import Struct, UnsetType

from purgatory_async import Timer, TimerHandle
from purgatory_async.service.messages import Attached, SignalView

LEDGER_SIZE: Final = 64


class Signal(Struct, frozen=True):
    """A signal: its public view, its amount, and its log time in microseconds (0 without a log)."""

    view: SignalView
    amount: int
    at_us: int = 0


class Newest(Protocol):
    """The newest signal of all, as operations read it in their check."""

    newest: Signal | None
    index: int


class Ledger:
    """The latest signal of each key and voter, at most 64 of them, in the order of their indexes.

    Args:
        views: Those that it had when it was saved, in that order.
    """

    __slots__ = ("_latest",)

    def __init__(self, views: Iterable[SignalView] = ()) -> None:
        self._latest: dict[tuple[str, object], SignalView] = {}
        for view in views:
            self._latest[view.key, view.voter] = view

    def note(self, view: SignalView) -> None:
        """Add a signal; drop the oldest above 64. O(1)."""
        slot = (view.key, view.voter)
        self._latest.pop(slot, None)  # so that the dict's order is the order of the indexes
        self._latest[slot] = view
        if len(self._latest) > LEDGER_SIZE:
            del self._latest[next(iter(self._latest))]

    def views(self) -> tuple[SignalView, ...]:
        """The kept signals, oldest first."""
        return tuple(self._latest.values())


@dataclass(slots=True)
class _Key:
    view: SignalView
    forget: TimerHandle


class Board:
    """The latest signal of each key that is not idle, and of all keys.

    Args:
        timer: Schedules the removal of idle keys.
        retention: Seconds from a key's last signal to its removal.
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
        """Number a signal and make it the newest of its key and of all keys. O(1)."""
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
        """The key's newest signal; None if it has none or was dropped. O(1)."""
        known = self._keys.get(key)
        return None if known is None else known.view
