"""A signal, and the latest ones that an operation shows.

A signal's index is its position in the log, so an idle key can be dropped and its index never goes back.
"""

from typing import Final, Protocol

from msgspec import Struct

from purgatory_async.durable.documents import SignalView

LEDGER_SIZE: Final = 64


class Signal(Struct, eq=False):
    """A signal.

    Attributes:
        view: Its public view.
        amount: Its amount.
        at_us: Its log time in microseconds.
        size: The bytes that it counts in the state.
        owner: Who signalled; None without tokens.
        refs, pins: How many refer to it, and how many of them keep it from making room; see `fold.kept_bytes`.
    """

    view: SignalView
    amount: int
    at_us: int = 0
    size: int = 0
    refs: int = 0
    pins: int = 0
    owner: str | None = None


class Newest(Protocol):
    """The newest signal of all, as operations read it in their check."""

    newest: Signal | None
    index: int


class Ledger:
    """The latest signal of each key and voter, at most 64 of them, in the order of their indexes."""

    __slots__ = ("latest",)

    def __init__(self) -> None:
        self.latest: dict[tuple[str, object], Signal] = {}

    def note(self, signal: Signal) -> Signal | None:
        """Add a signal; return the one that it replaces, or the oldest if there would be more than 64. O(1)."""
        latest, view = self.latest, signal.view
        slot = (view.key, view.voter)
        replaced = latest.pop(slot, None)  # so that the dict's order is the order of the indexes
        latest[slot] = signal
        return latest.pop(next(iter(latest))) if len(latest) > LEDGER_SIZE else replaced

    def views(self) -> tuple[SignalView, ...]:
        """The kept signals, oldest first."""
        return tuple([signal.view for signal in self.latest.values()])
