"""A signal, and the latest ones that an operation shows.

A signal's index is its position in the log, so an idle key can be dropped and its index never goes back.
"""

from collections.abc import Iterable
from typing import Final, Protocol

from msgspec import Struct

from purgatory_async.service.messages import SignalView

LEDGER_SIZE: Final = 64


class Signal(Struct, frozen=True):
    """A signal: its public view, its amount, and its log time in microseconds."""

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
